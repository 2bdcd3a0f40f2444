//! Lists from servers: each item is parsed separately, and unusable items are quarantined with the reason.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use serde::Serialize;

use crate::{Fields, Json};

/// An item of a server's list.
pub trait Item: Sized {
    /// Parses one item, or returns why it cannot be used.
    fn from_json(json: &Json) -> Result<Self, String>;

    /// Returns the key of the item: its name or URI. Keys are unique in a list.
    fn key(&self) -> &str;

    /// Adopts what makes another item of the same key stricter. The other one is not used.
    fn restrict(&mut self, _other: &Self) {}

    /// Limits the text for models to `limit` characters, for items that have such text.
    #[must_use]
    fn shortened(self, _limit: usize) -> Self {
        self
    }
}

/// All items of a list, over all its pages.
#[derive(Clone, Debug)]
pub struct Listed<T> {
    /// The usable items, in the server's order.
    pub items: Vec<Arc<T>>,
    /// The unusable ones.
    pub quarantined: Vec<Quarantined>,
    /// Other oddities of the list, for example a cursor that was sent twice.
    pub notes: Vec<String>,
}

/// An unusable item and the reason.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Quarantined {
    /// Its position, from 0, over all pages of a list or over the blocks of a result.
    pub position: usize,
    /// Its name, if readable.
    pub name: Option<String>,
    /// Why it cannot be used.
    pub reason: String,
    /// The item as received.
    pub raw: Json,
}

impl<T> Default for Listed<T> {
    fn default() -> Self {
        Self { items: Vec::new(), quarantined: Vec::new(), notes: Vec::new() }
    }
}

impl<T> Listed<T> {
    /// Quarantines items for a reason of the caller. `fault` returns the reason and the item as received.
    pub fn quarantine(&mut self, fault: impl Fn(&T) -> Option<(String, Json)>) {
        let taken: HashSet<usize> = self.quarantined.iter().map(|item| item.position).collect();
        let positions = (0..).filter(|position| !taken.contains(position));
        let items = std::mem::take(&mut self.items);
        for (position, item) in positions.zip(items) {
            match fault(&item) {
                None => self.items.push(item),
                Some((reason, raw)) => self.quarantined.push(Quarantined::new(position, reason, &raw)),
            }
        }
    }
}

impl<T: Item> Listed<T> {
    /// Adds the items of one page.
    pub fn add_page(&mut self, page: &[Json]) {
        self.add_page_shortened(page, usize::MAX);
    }

    /// Adds the items of one page, and shortens each item before the next one is parsed, which bounds memory use.
    pub fn add_page_shortened(&mut self, page: &[Json], limit: usize) {
        let indexed = self.items.iter().enumerate();
        let mut seen: HashMap<String, usize> = indexed.map(|(index, item)| (item.key().to_owned(), index)).collect();
        for json in page {
            let position = self.items.len() + self.quarantined.len();
            let read = T::from_json(json).and_then(|item| match seen.get(item.key()) {
                None => Ok(item),
                Some(first) => {
                    // No list under construction is shared.
                    if let Some(first) = self.items.get_mut(*first).and_then(Arc::get_mut) {
                        first.restrict(&item);
                    }
                    Err("is listed a second time".to_owned())
                }
            });
            match read {
                Ok(item) => {
                    seen.insert(item.key().to_owned(), self.items.len());
                    self.items.push(Arc::new(item.shortened(limit)));
                }
                Err(reason) => self.quarantined.push(Quarantined::new(position, reason, json)),
            }
        }
    }
}

impl Quarantined {
    pub(crate) fn new(position: usize, reason: String, json: &Json) -> Self {
        let name = Fields::of(json).ok().and_then(|fields| fields.text("name").ok().flatten());
        Self { position, name, reason, raw: json.detached() }
    }
}

/// A prompt of a server.
#[derive(Clone, Debug)]
pub struct Prompt {
    /// Name of the prompt on its server.
    pub name: String,
    /// Description for users.
    pub description: Option<String>,
    /// The prompt as received, with its arguments.
    pub raw: Json,
}

/// A resource of a server.
#[derive(Clone, Debug)]
pub struct Resource {
    /// URI of the resource.
    pub uri: String,
    /// Its name, or its URI if it has none.
    pub name: String,
    /// MIME type of its content.
    pub mime_type: Option<String>,
    /// The resource as received.
    pub raw: Json,
}

/// A family of resources whose URIs follow a template.
#[derive(Clone, Debug)]
pub struct ResourceTemplate {
    /// The URI template (RFC 6570).
    pub uri_template: String,
    /// Its name, or its URI template if it has none.
    pub name: String,
    /// The template as received.
    pub raw: Json,
}

impl Item for Prompt {
    fn from_json(json: &Json) -> Result<Self, String> {
        let json = json.detached();
        let fields = Fields::of(&json)?;
        let name = nonempty(&fields, "name")?;
        Ok(Self { name, description: fields.text("description").unwrap_or_default(), raw: json.clone() })
    }

    fn key(&self) -> &str {
        &self.name
    }
}

impl Item for Resource {
    fn from_json(json: &Json) -> Result<Self, String> {
        let json = json.detached();
        let fields = Fields::of(&json)?;
        let uri = nonempty(&fields, "uri")?;
        let name = fields.text("name").ok().flatten().unwrap_or_else(|| uri.clone());
        Ok(Self { uri, name, mime_type: fields.text("mimeType").unwrap_or_default(), raw: json.clone() })
    }

    fn key(&self) -> &str {
        &self.uri
    }
}

impl Item for ResourceTemplate {
    fn from_json(json: &Json) -> Result<Self, String> {
        let json = json.detached();
        let fields = Fields::of(&json)?;
        let uri_template = nonempty(&fields, "uriTemplate")?;
        let name = fields.text("name").ok().flatten().unwrap_or_else(|| uri_template.clone());
        Ok(Self { uri_template, name, raw: json.clone() })
    }

    fn key(&self) -> &str {
        &self.uri_template
    }
}

pub(crate) fn nonempty(fields: &Fields<'_>, key: &str) -> Result<String, String> {
    match fields.required_text(key)? {
        text if text.is_empty() => Err(format!("has an empty `{key}`")),
        text => Ok(text),
    }
}
