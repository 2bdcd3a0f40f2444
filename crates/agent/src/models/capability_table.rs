//! The table of capabilities in the guide, generated from the models.

use std::fmt::Write as _;
use std::sync::Arc;

use wharf_io::{HttpClient, HttpSettings};

use super::{Interface, ModelSpec, ProviderTimeouts, Providers};
use crate::{Capabilities, Manual, Model, Scripted};

/// Creates a model of an interface, to read its capabilities.
fn example(interface: Interface) -> Option<Arc<dyn Model>> {
    let http = |_: &str| HttpClient::new(HttpSettings::default()).map_err(|error| error.to_string());
    let variable = |name: &str| name.ends_with("_KEY").then(|| "made-up".to_owned());
    let timeouts = ProviderTimeouts::default();
    let providers = Providers { variable: &variable, http: &http, emulate_tools: false, timeouts };
    let base_url = (interface.as_str() == "openai-endpoint").then(|| "http://127.0.0.1:8000/v1".to_owned());
    match interface {
        Interface::Scripted => Some(Arc::new(Scripted::parse("turns.yaml", "- text: hello").ok()?)),
        Interface::Manual => Some(Arc::new(Manual::parse("traces.json", "{}").ok()?)),
        _ => providers.make(&ModelSpec { interface, name: "example".to_owned(), base_url }).ok(),
    }
}

fn table() -> String {
    let mut rows =
        "| interface | tools | streaming | structured output | reasoning | images in results | prompt caching |\n\
                    |---|---|---|---|---|---|---|\n"
            .to_owned();
    for interface in Interface::ALL {
        let name = interface.as_str();
        let Some(model) = example(interface) else {
            let _ = writeln!(rows, "| `{name}` | not implemented | | | | | |");
            continue;
        };
        let Capabilities { tools, streaming, structured_output, thinking, result_images, prompt_caching, .. } =
            model.capabilities();
        let marks = [tools, streaming, structured_output, thinking, result_images, prompt_caching];
        let _ = writeln!(rows, "| `{name}` | {} |", marks.map(|has| if has { "yes" } else { "no" }).join(" | "));
    }
    rows
}

#[test]
fn the_guide_shows_the_capabilities_of_each_interface() {
    let guide = include_str!("../../../../docs/running.md");
    assert!(guide.contains(&table()), "docs/running.md needs this table:\n{}", table());
}
