//! Small complete programs that use Wharf. Each is a file in `src/bin`, and the tests run all of them.

pub mod conformance;

use serde_json::json;
use wharf::server::{Reply, Toolbox};

/// Creates a server with one tool, for the examples that include a server.
pub fn calculator() -> Toolbox {
    let number = json!({"type": "number"});
    Toolbox::new("calculator", "1.0").tool(
        json!({"name": "add", "description": "Adds two numbers", "inputSchema":
            {"type": "object", "required": ["x", "y"], "properties": {"x": number, "y": number}}}),
        |call| async move { Ok(Reply::Text((call.number("x")? + call.number("y")?).to_string())) },
    )
}
