//! Small whole programs that use Wharf; each is a file in `src/bin`, and each is run by the tests.

pub mod conformance;

use serde_json::json;
use wharf::server::{Reply, Toolbox};

/// A server with one tool, for the examples that bring their own.
pub fn calculator() -> Toolbox {
    let number = json!({"type": "number"});
    Toolbox::new("calculator", "1.0").tool(
        json!({"name": "add", "description": "Adds two numbers", "inputSchema":
            {"type": "object", "required": ["x", "y"], "properties": {"x": number, "y": number}}}),
        |call| async move { Ok(Reply::Text((call.number("x")? + call.number("y")?).to_string())) },
    )
}
