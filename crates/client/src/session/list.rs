//! Lists of tools, prompts and resources, read page by page, and resource contents.

use std::collections::HashSet;
use std::sync::Arc;

use futures_util::FutureExt as _;
use serde::Serialize;
use serde_json::json;
use wharf_protocol::{Fields, Item, Json, Listed, Prompt, Resource, ResourceTemplate, Tool};

use super::budget::Budget;
use super::cache::{CacheEpoch, CacheKey, CachePartition, CachePolicy};
use super::param_headers::ParamHeaders;
use super::round::ResultKind;
use super::sender::Request;
use super::{CallOptions, Live, Session};
use crate::{CallError, CallErrorKind};

/// A list method, and the field of its result that holds the items.
#[derive(Clone, Copy)]
struct ListMethod {
    method: &'static str,
    key: &'static str,
}

const TOOLS: ListMethod = ListMethod { method: "tools/list", key: "tools" };
const PROMPTS: ListMethod = ListMethod { method: "prompts/list", key: "prompts" };
const RESOURCES: ListMethod = ListMethod { method: "resources/list", key: "resources" };
const TEMPLATES: ListMethod = ListMethod { method: "resources/templates/list", key: "resourceTemplates" };

impl Session {
    /// Lists the server's tools. Later calls are checked against the schemas of this list.
    pub async fn list_tools(&self) -> Result<Listed<Tool>, CallError> {
        self.read_with_retries(|live| async move { self.list_tools_of(&live).await }.boxed()).await
    }

    pub(super) async fn list_tools_of(&self, live: &Live) -> Result<Listed<Tool>, CallError> {
        let age = live.cache.tools.age();
        let finish = |listed: &mut Listed<Tool>| {
            if let Some(limit) = self.inner.options.max_description_chars {
                listed.cut_descriptions(limit);
            }
            if live.sender.is_modern() && live.wire.supports_headers() {
                quarantine_invalid_headers(listed);
            }
        };
        let listed = self.list(live, TOOLS, finish).await?;
        live.cache.tools.store(&listed, age);
        Ok((*listed).clone())
    }

    /// Lists the server's prompts.
    pub async fn list_prompts(&self) -> Result<Listed<Prompt>, CallError> {
        self.read_with_retries(|live| async move { self.list_all(&live, PROMPTS).await }.boxed()).await
    }

    /// Lists the server's resources.
    pub async fn list_resources(&self) -> Result<Listed<Resource>, CallError> {
        self.read_with_retries(|live| async move { self.list_all(&live, RESOURCES).await }.boxed()).await
    }

    /// Lists the server's resource templates.
    pub async fn list_resource_templates(&self) -> Result<Listed<ResourceTemplate>, CallError> {
        self.read_with_retries(|live| async move { self.list_all(&live, TEMPLATES).await }.boxed()).await
    }

    /// Renders a prompt with arguments. Returns the `prompts/get` result as sent by the server.
    pub async fn get_prompt(&self, name: &str, arguments: &Json) -> Result<Json, CallError> {
        #[derive(Serialize)]
        struct Params<'a> {
            name: &'a str,
            arguments: &'a Json,
        }
        let params = Params { name, arguments };
        self.with_session(|live| {
            let params = &params;
            async move {
                let limits = self.inner.limits(&CallOptions::default());
                let mut request = Request::new("prompts/get", params, limits).about(name);
                let result = self.complete(&live, &mut request, &Budget::new(&live, limits)).await;
                result.map_err(|kind| self.inner.call_error(&live, kind))
            }
            .boxed()
        })
        .await
    }

    /// Reads a resource. Returns the `resources/read` result as sent by the server, or a cached one.
    pub async fn read_resource(&self, uri: &str) -> Result<Json, CallError> {
        self.with_session(|live| {
            async move {
                let key = CacheKey { method: "resources/read", params: uri };
                let epoch = self.cache_epoch(&live);
                let cached = epoch.as_ref().and_then(|epoch| live.cache.partition.get::<Json>(epoch, key));
                if let Some(cached) = cached {
                    return Ok((*cached).clone());
                }
                let params = json!({ "uri": uri });
                let limits = self.inner.limits(&CallOptions::default());
                let mut request = Request::new("resources/read", &params, limits).about(uri);
                let content = self.complete(&live, &mut request, &Budget::new(&live, limits)).await;
                let content = content.map_err(|kind| self.inner.call_error(&live, kind))?;
                let policy = CachePolicy::of(&content);
                // A result that used the host's input is not valid for everyone who requests the same.
                if let Some(epoch) = &epoch
                    && !request.begun
                    && policy.is_cacheable()
                {
                    live.cache.partition.insert(epoch, key, Arc::new(content.detached()), policy);
                }
                Ok(content)
            }
            .boxed()
        })
        .await
    }

    /// Clears what is cached about the server's tools, lists and resources, so that the next request reaches the server.
    /// In a shared [`ResultCache`](crate::ResultCache), this clears the server's entries for all sessions.
    pub fn clear_cache(&self) {
        match self.inner.up() {
            Some(live) => live.cache.clear(),
            None => CachePartition::new(Arc::clone(&self.inner.options.cache), &self.inner.endpoint).clear(),
        }
    }

    /// Returns the access to cached results, or `None` if the server's era has no caching.
    fn cache_epoch(&self, live: &Live) -> Option<CacheEpoch> {
        if !live.sender.is_modern() {
            return None;
        }
        // Without an audience, results are private to this session.
        let audience = self.inner.transport.audience().unwrap_or_else(|| self.inner.session_key.to_string());
        Some(live.cache.partition.epoch(&audience))
    }

    async fn list_all<T>(&self, live: &Live, list: ListMethod) -> Result<Listed<T>, CallError>
    where
        T: Item + Send + Sync + 'static,
        Listed<T>: Clone,
    {
        self.list(live, list, |_| ()).await.map(|listed| (*listed).clone())
    }

    /// Returns the cached list, or fetches it. `finish` is applied to a fetched list before it is cached.
    async fn list<T>(
        &self,
        live: &Live,
        list: ListMethod,
        finish: impl Fn(&mut Listed<T>),
    ) -> Result<Arc<Listed<T>>, CallError>
    where
        T: Item + Send + Sync + 'static,
        Listed<T>: Clone,
    {
        let key = CacheKey { method: list.method, params: "" };
        let epoch = self.cache_epoch(live);
        let cached = epoch.as_ref().and_then(|epoch| live.cache.partition.get::<Listed<T>>(epoch, key));
        if let Some(cached) = cached {
            return Ok(cached);
        }
        let (mut listed, policy) = self.fetch_list(live, list).await?;
        finish(&mut listed);
        let listed = Arc::new(listed);
        if let (Some(epoch), Some(policy)) = (&epoch, policy) {
            live.cache.partition.insert(epoch, key, Arc::clone(&listed), policy);
        }
        Ok(listed)
    }

    /// Reads page after page. Returns the list and its cache policy, or no policy for an incomplete list. A repeated
    /// cursor, or too many pages, end the list with a note instead of an error: the items until then are valid.
    async fn fetch_list<T: Item>(
        &self,
        live: &Live,
        list: ListMethod,
    ) -> Result<(Listed<T>, Option<CachePolicy>), CallError> {
        let ListMethod { method, key } = list;
        let limits = self.inner.limits(&CallOptions::default());
        let fail = |kind| self.inner.call_error(live, kind);
        let mut policy = None::<CachePolicy>;
        let mut listed = Listed::default();
        let mut cursors = HashSet::new();
        let mut cursor = None::<String>;
        for _ in 0..self.inner.options.max_pages {
            let params = cursor.as_ref().map_or_else(|| json!({}), |cursor| json!({ "cursor": cursor }));
            let mut request = Request::new(method, &params, limits);
            let page = live.sender.send(&mut request, None).await.map_err(fail)?;
            let page_policy = CachePolicy::of(&page);
            policy = Some(policy.map_or(page_policy, |policy| policy.and(page_policy)));
            let malformed = |reason| fail(CallErrorKind::Malformed(format!("the list {reason}")));
            if live.sender.is_modern() && !matches!(ResultKind::read(&page).map_err(malformed)?, ResultKind::Complete) {
                return Err(malformed("is not of the type `complete`".to_owned()));
            }
            let fields = Fields::of(&page).map_err(malformed)?;
            let items = fields.items(key).map_err(malformed)?;
            let max_chars = self.inner.options.max_description_chars.unwrap_or(usize::MAX);
            listed.add_page_shortened(&items.ok_or_else(|| malformed(format!("has no `{key}`")))?, max_chars);
            let Some(next) = fields.text("nextCursor").map_err(malformed)? else { return Ok((listed, policy)) };
            if !cursors.insert(next.clone()) {
                listed.notes.push(format!("the server repeated the cursor {next:?}; the list ends there"));
                return Ok((listed, None));
            }
            cursor = Some(next);
        }
        let max_pages = self.inner.options.max_pages;
        listed.notes.push(format!("the list has more than {max_pages} pages; the rest was not read"));
        Ok((listed, None))
    }
}

/// Quarantines tools whose header annotations are invalid: their calls could not send the required headers.
fn quarantine_invalid_headers(listed: &mut Listed<Tool>) {
    listed.quarantine(|tool| ParamHeaders::read(&tool.input_schema).err().map(|reason| (reason, tool.raw.clone())));
}
