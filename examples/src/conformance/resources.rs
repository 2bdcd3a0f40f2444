//! The resources and the resource template.

use serde_json::json;
use wharf::server::rmcp::ErrorData;
use wharf::server::rmcp::model::{ReadResourceResult, Resource, ResourceTemplate};

use super::{parse, plain};

pub(super) fn list() -> Vec<Resource> {
    let resource = |name: &str, kind: &str| {
        let uri = format!("test://{name}");
        let description = format!("The fixture `{name}` of the conformance suite");
        json!({ "uri": uri, "name": name, "description": description, "mimeType": kind })
    };
    parse(json!([
        resource("static-text", "text/plain"),
        resource("static-binary", "image/png"),
        resource("watched-resource", "text/plain"),
    ]))
}

pub(super) fn templates() -> Vec<ResourceTemplate> {
    let description = "The template of the conformance suite";
    let uri = "test://template/{id}/data";
    parse(json!([
        { "uriTemplate": uri, "name": "template", "description": description, "mimeType": "application/json" },
    ]))
}

pub(super) fn read(uri: &str) -> Result<ReadResourceResult, ErrorData> {
    let content = match uri {
        "test://static-text" => {
            json!({ "mimeType": "text/plain", "text": "This is the content of the static text resource." })
        }
        "test://static-binary" => json!({ "mimeType": "image/png", "blob": plain::PNG }),
        "test://watched-resource" => json!({ "mimeType": "text/plain", "text": "This never changes." }),
        _ => {
            let id = uri.strip_prefix("test://template/").and_then(|rest| rest.strip_suffix("/data"));
            let Some(id) = id else {
                return Err(ErrorData::resource_not_found("Resource not found", Some(json!({ "uri": uri }))));
            };
            let data = json!({ "id": id, "templateTest": true, "data": format!("Data for ID: {id}") });
            json!({ "mimeType": "application/json", "text": data.to_string() })
        }
    };
    let mut content = content;
    content["uri"] = uri.into();
    Ok(ReadResourceResult::new(parse(json!([content]))))
}
