//! What servers list: each item read for itself, the unreadable ones set aside with their reason.

use std::collections::HashSet;
use std::sync::Arc;

use serde::Serialize;

use crate::{Fields, Json};

/// Something a server lists.
pub trait Item: Sized {
    /// Reads one item, or says why it cannot be used.
    fn from_json(json: &Json) -> Result<Self, String>;

    /// What the item is called by; no two items of a list may share it.
    fn key(&self) -> &str;

    /// The same with no text for models longer than `limit` characters, where there is such a text.
    #[must_use]
    fn shortened(self, _limit: usize) -> Self {
        self
    }
}

/// The items of a whole list, over all its pages.
#[derive(Clone, Debug)]
pub struct Listed<T> {
    /// The usable items, in the server's order.
    pub items: Vec<Arc<T>>,
    /// The unusable ones.
    pub quarantined: Vec<Quarantined>,
    /// What else was odd about the list, for example a cursor that came twice.
    pub notes: Vec<String>,
}

/// An item that was set aside, and why.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Quarantined {
    /// Where it stood, counted from 0 over all pages or over the blocks of a result.
    pub position: usize,
    /// Its name, if it has one that can be read.
    pub name: Option<String>,
    /// What is wrong with it.
    pub reason: String,
    /// The item as it was sent.
    pub raw: Json,
}

impl<T> Default for Listed<T> {
    fn default() -> Self {
        Self { items: Vec::new(), quarantined: Vec::new(), notes: Vec::new() }
    }
}

impl<T> Listed<T> {
    /// Sets items aside that cannot be used for a reason of ours; it is told with the item as it was sent.
    pub fn set_aside(&mut self, fault: impl Fn(&T) -> Option<(String, Json)>) {
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

    /// The same, with each item shortened before the next one is read: what is thrown away of one makes room for the other.
    pub fn add_page_shortened(&mut self, page: &[Json], limit: usize) {
        let mut seen: HashSet<String> = self.items.iter().map(|item| item.key().to_owned()).collect();
        for json in page {
            let position = self.items.len() + self.quarantined.len();
            let read = T::from_json(json).and_then(|item| {
                if seen.insert(item.key().to_owned()) { Ok(item) } else { Err("is listed a second time".to_owned()) }
            });
            match read {
                Ok(item) => self.items.push(Arc::new(item.shortened(limit))),
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

/// A prompt that a server offers.
#[derive(Clone, Debug)]
pub struct Prompt {
    /// Its name.
    pub name: String,
    /// What it is for.
    pub description: Option<String>,
    /// The prompt as it was sent, with its arguments.
    pub raw: Json,
}

/// A resource that a server offers.
#[derive(Clone, Debug)]
pub struct Resource {
    /// Its address.
    pub uri: String,
    /// Its name, or its address where it has none.
    pub name: String,
    /// The type of its content.
    pub mime_type: Option<String>,
    /// The resource as it was sent.
    pub raw: Json,
}

/// A family of resources whose addresses follow a pattern.
#[derive(Clone, Debug)]
pub struct ResourceTemplate {
    /// The pattern, after RFC 6570.
    pub uri_template: String,
    /// Its name, or its pattern where it has none.
    pub name: String,
    /// The template as it was sent.
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
