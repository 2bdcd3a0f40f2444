//! Lists: every page of them, and an end even where the server has none.

use std::collections::HashSet;

use futures_util::FutureExt as _;
use serde::Serialize;
use serde_json::json;
use wharf_protocol::{Fields, Item, Json, Listed, Prompt, Resource, ResourceTemplate, Tool};

use super::{CallOptions, Live, Session};
use crate::wire::Asked;
use crate::{CallError, CallErrorKind, LogLevel};

impl Session {
    /// All tools of the server. Calls are checked against the schemas of the last list.
    pub async fn list_tools(&self) -> Result<Listed<Tool>, CallError> {
        self.reading(|live| async move { self.list_tools_of(&live).await }.boxed()).await
    }

    pub(super) async fn list_tools_of(&self, live: &Live) -> Result<Listed<Tool>, CallError> {
        let age = live.tools.age();
        let listed = self.list(live, "tools/list", "tools").await?;
        live.tools.keep(&listed, age);
        Ok(listed)
    }

    /// All prompts of the server.
    pub async fn list_prompts(&self) -> Result<Listed<Prompt>, CallError> {
        self.reading(|live| async move { self.list(&live, "prompts/list", "prompts").await }.boxed()).await
    }

    /// All resources of the server.
    pub async fn list_resources(&self) -> Result<Listed<Resource>, CallError> {
        self.reading(|live| async move { self.list(&live, "resources/list", "resources").await }.boxed()).await
    }

    /// All resource templates of the server.
    pub async fn list_resource_templates(&self) -> Result<Listed<ResourceTemplate>, CallError> {
        self.reading(|live| {
            async move { self.list(&live, "resources/templates/list", "resourceTemplates").await }.boxed()
        })
        .await
    }

    /// A prompt, filled in; the result has the protocol's own shape.
    pub async fn get_prompt(&self, name: &str, arguments: &Json) -> Result<Json, CallError> {
        #[derive(Serialize)]
        struct Params<'a> {
            name: &'a str,
            arguments: &'a Json,
        }
        self.request("prompts/get", &Params { name, arguments }).await
    }

    /// The content of a resource; the result has the protocol's own shape.
    pub async fn read_resource(&self, uri: &str) -> Result<Json, CallError> {
        self.request("resources/read", &json!({ "uri": uri })).await
    }

    /// Tells the server how much to log.
    pub async fn set_log_level(&self, level: LogLevel) -> Result<(), CallError> {
        self.request("logging/setLevel", &json!({ "level": level })).await.map(drop)
    }

    /// Reads page after page. A cursor that comes twice, or too many pages, end the list with a note, not an error:
    /// what came until then is good.
    async fn list<T: Item>(&self, live: &Live, method: &'static str, key: &str) -> Result<Listed<T>, CallError> {
        let limits = self.inner.limits(&CallOptions::default());
        let fail = |kind| self.inner.call_error(live, kind);
        let (mut listed, mut cursors, mut cursor) = (Listed::default(), HashSet::new(), None::<String>);
        for _ in 0..self.inner.options.most_pages {
            let params = cursor.as_ref().map_or_else(|| json!({}), |cursor| json!({ "cursor": cursor }));
            let page = live.wire.request(Asked::new(method, limits), |_| params).await.map_err(fail)?;
            let malformed = |reason| fail(CallErrorKind::Malformed(format!("the list {reason}")));
            let fields = Fields::of(&page).map_err(malformed)?;
            let items = fields.items(key).map_err(malformed)?;
            listed.add_page(&items.ok_or_else(|| malformed(format!("has no `{key}`")))?);
            let Some(next) = fields.text("nextCursor").map_err(malformed)? else { return Ok(listed) };
            if !cursors.insert(next.clone()) {
                listed.notes.push(format!("the server repeated the cursor {next:?}; the list ends there"));
                return Ok(listed);
            }
            cursor = Some(next);
        }
        let most = self.inner.options.most_pages;
        listed.notes.push(format!("the list has more than {most} pages; the rest was not read"));
        Ok(listed)
    }
}
