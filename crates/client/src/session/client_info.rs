//! What the client tells servers about itself: name, version and capabilities.

use serde_json::{Map, Value, json};
use wharf_protocol::Json;

use super::SessionOptions;
use crate::Host;

/// The extension by which servers answer a call with a task instead of a result.
const TASKS_EXTENSION: &str = "io.modelcontextprotocol/tasks";

/// The `_meta` fields that every request carries in the modern era, where no session remembers them.
#[derive(Debug)]
pub(super) struct ClientInfo {
    pub(super) revision: &'static str,
    pub(super) client: Json,
    pub(super) capabilities: Json,
}

impl ClientInfo {
    pub(super) fn new(revision: &'static str, host: &dyn Host, options: &SessionOptions) -> Self {
        let mut capabilities = capabilities(host, options);
        let extensions = capabilities.entry("extensions").or_insert_with(|| json!({}));
        if let Value::Object(extensions) = extensions {
            extensions.entry(TASKS_EXTENSION).or_insert_with(|| json!({}));
        }
        Self { revision, client: name_and_version(options).into(), capabilities: Value::Object(capabilities).into() }
    }
}

/// Returns the client capabilities of the protocol.
pub(super) fn capabilities(host: &dyn Host, options: &SessionOptions) -> Map<String, Value> {
    let offered = host.capabilities();
    let mut capabilities = Map::new();
    if offered.elicitation {
        capabilities.insert("elicitation".into(), json!({ "form": {}, "url": {} }));
    }
    if offered.sampling {
        capabilities.insert("sampling".into(), json!({}));
    }
    if offered.roots {
        capabilities.insert("roots".into(), json!({}));
    }
    if !options.extensions.is_empty() {
        capabilities.insert("extensions".into(), Value::Object(options.extensions.clone()));
    }
    capabilities
}

/// Returns the `clientInfo` of the protocol.
pub(super) fn name_and_version(options: &SessionOptions) -> Value {
    json!({ "name": options.client_name, "version": options.client_version })
}
