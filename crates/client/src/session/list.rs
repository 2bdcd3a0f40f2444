//! Lists: every page of them, and an end even where the server has none.

use std::collections::HashSet;
use std::sync::Arc;

use futures_util::FutureExt as _;
use serde::Serialize;
use serde_json::json;
use wharf_protocol::{Fields, Item, Json, Listed, Prompt, Resource, ResourceTemplate, Tool};

use super::cache::{Shelf, Terms, Ticket};
use super::headers::Marked;
use super::manner::Request;
use super::rounds::{Budget, Came};
use super::{CallOptions, Live, Session};
use crate::{CallError, CallErrorKind};

impl Session {
    /// All tools of the server. Calls are checked against the schemas of the last list.
    pub async fn list_tools(&self) -> Result<Listed<Tool>, CallError> {
        self.reading(|live| async move { self.list_tools_of(&live).await }.boxed()).await
    }

    pub(super) async fn list_tools_of(&self, live: &Live) -> Result<Listed<Tool>, CallError> {
        let age = live.beliefs.tools.age();
        let finish = |listed: &mut Listed<Tool>| {
            if let Some(limit) = self.inner.options.longest_description {
                listed.cut_descriptions(limit);
            }
            if live.speaker.is_modern() && live.wire.takes_headers() {
                set_aside(listed);
            }
        };
        let listed = self.list(live, ("tools/list", "tools"), finish).await?;
        live.beliefs.tools.keep(&listed, age);
        Ok((*listed).clone())
    }

    /// All prompts of the server.
    pub async fn list_prompts(&self) -> Result<Listed<Prompt>, CallError> {
        self.reading(|live| async move { self.list_all(&live, "prompts/list", "prompts").await }.boxed()).await
    }

    /// All resources of the server.
    pub async fn list_resources(&self) -> Result<Listed<Resource>, CallError> {
        self.reading(|live| async move { self.list_all(&live, "resources/list", "resources").await }.boxed()).await
    }

    /// All resource templates of the server.
    pub async fn list_resource_templates(&self) -> Result<Listed<ResourceTemplate>, CallError> {
        self.reading(|live| {
            async move { self.list_all(&live, "resources/templates/list", "resourceTemplates").await }.boxed()
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
        let params = Params { name, arguments };
        self.in_session(|live| {
            let params = &params;
            async move {
                let limits = self.inner.limits(&CallOptions::default());
                let mut request = Request::new("prompts/get", params, limits).about(name);
                let got = self.complete(&live, &mut request, &Budget::new(&live, limits)).await;
                got.map_err(|kind| self.inner.call_error(&live, kind))
            }
            .boxed()
        })
        .await
    }

    /// The content of a resource; the result has the protocol's own shape.
    pub async fn read_resource(&self, uri: &str) -> Result<Json, CallError> {
        self.in_session(|live| {
            async move {
                let ticket = self.ticket(&live);
                let kept = ticket.as_ref().and_then(|it| live.beliefs.shelf.get::<Json>(it, "resources/read", uri));
                if let Some(kept) = kept {
                    return Ok((*kept).clone());
                }
                let (params, limits) = (json!({ "uri": uri }), self.inner.limits(&CallOptions::default()));
                let mut request = Request::new("resources/read", &params, limits).about(uri);
                let content = self.complete(&live, &mut request, &Budget::new(&live, limits)).await;
                let content = content.map_err(|kind| self.inner.call_error(&live, kind))?;
                // What a person had a part in is not for everybody who asks for the same.
                let terms = Terms::of(&content);
                if let Some(ticket) = ticket.as_ref().filter(|_| !request.begun && terms.allow()) {
                    let kept = Arc::new(content.detached());
                    live.beliefs.shelf.keep(ticket, ("resources/read", uri), kept, terms);
                }
                Ok(content)
            }
            .boxed()
        })
        .await
    }

    /// Forgets what is known of the server's tools and what it has let us keep: what is asked for next comes from it. A
    /// cache that is shared forgets it for everybody.
    pub fn forget(&self) {
        match self.inner.up() {
            Some(live) => live.beliefs.forget(),
            None => Shelf::new(Arc::clone(&self.inner.options.cache), &self.inner.endpoint).clear(),
        }
    }

    /// What it takes to use what the server lets us keep; `None` where servers do not say.
    fn ticket(&self, live: &Live) -> Option<Ticket> {
        // Whoever does not say who they are is nobody else.
        let audience = || self.inner.transport.audience().unwrap_or_else(|| self.inner.own.to_string());
        live.speaker.is_modern().then(|| live.beliefs.shelf.ticket(&audience()))
    }

    async fn list_all<T>(&self, live: &Live, method: &'static str, key: &str) -> Result<Listed<T>, CallError>
    where
        T: Item + Send + Sync + 'static,
        Listed<T>: Clone,
    {
        self.list(live, (method, key), |_| ()).await.map(|listed| (*listed).clone())
    }

    /// A list, the very one that was kept if one was. What comes from the server is finished before it is kept.
    async fn list<T>(
        &self,
        live: &Live,
        (method, key): (&'static str, &str),
        finish: impl Fn(&mut Listed<T>),
    ) -> Result<Arc<Listed<T>>, CallError>
    where
        T: Item + Send + Sync + 'static,
        Listed<T>: Clone,
    {
        let ticket = self.ticket(live);
        let kept = ticket.as_ref().and_then(|ticket| live.beliefs.shelf.get::<Listed<T>>(ticket, method, ""));
        if let Some(kept) = kept {
            return Ok(kept);
        }
        let (mut listed, terms) = self.list_afresh(live, method, key).await?;
        finish(&mut listed);
        let listed = Arc::new(listed);
        if let (Some(ticket), Some(terms)) = (&ticket, terms) {
            live.beliefs.shelf.keep(ticket, (method, ""), Arc::clone(&listed), terms);
        }
        Ok(listed)
    }

    /// Reads page after page: the list, and for how long it is good; `None` for one that is not whole. A cursor that comes
    /// twice, or too many pages, end the list with a note, not an error: what came until then is good.
    async fn list_afresh<T: Item>(
        &self,
        live: &Live,
        method: &'static str,
        key: &str,
    ) -> Result<(Listed<T>, Option<Terms>), CallError> {
        let limits = self.inner.limits(&CallOptions::default());
        let mut terms = None::<Terms>;
        let fail = |kind| self.inner.call_error(live, kind);
        let (mut listed, mut cursors, mut cursor) = (Listed::default(), HashSet::new(), None::<String>);
        for _ in 0..self.inner.options.most_pages {
            let params = cursor.as_ref().map_or_else(|| json!({}), |cursor| json!({ "cursor": cursor }));
            let mut request = Request::new(method, &params, limits);
            let page = live.speaker.send(&mut request, None).await.map_err(fail)?;
            let good = Terms::of(&page);
            terms = Some(terms.map_or(good, |terms| terms.and(good)));
            let malformed = |reason| fail(CallErrorKind::Malformed(format!("the list {reason}")));
            if live.speaker.is_modern() && !matches!(Came::read(&page).map_err(malformed)?, Came::Complete) {
                return Err(malformed("is not complete, which lists have to be".to_owned()));
            }
            let fields = Fields::of(&page).map_err(malformed)?;
            let items = fields.items(key).map_err(malformed)?;
            let longest = self.inner.options.longest_description.unwrap_or(usize::MAX);
            listed.add_page_shortened(&items.ok_or_else(|| malformed(format!("has no `{key}`")))?, longest);
            let Some(next) = fields.text("nextCursor").map_err(malformed)? else { return Ok((listed, terms)) };
            if !cursors.insert(next.clone()) {
                listed.notes.push(format!("the server repeated the cursor {next:?}; the list ends there"));
                return Ok((listed, None));
            }
            cursor = Some(next);
        }
        let most = self.inner.options.most_pages;
        listed.notes.push(format!("the list has more than {most} pages; the rest was not read"));
        Ok((listed, None))
    }
}

/// Sets aside tools whose calls could not be made as they ask: their marks for headers make no sense.
fn set_aside(listed: &mut Listed<Tool>) {
    listed.quarantine(|tool| Marked::read(&tool.input_schema).err().map(|reason| (reason, tool.raw.clone())));
}
