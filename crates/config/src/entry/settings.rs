//! Reads the settings of a server that do not concern its transport.

use std::collections::BTreeMap;

use serde_json::{Map, Value};
use wharf_client::ProtocolMode;

use super::report::Report;
use super::values::{boolean, check_object, milliseconds, named_strings, string, strings, whole_number};
use crate::cursor::{Cursor, Kind};
use crate::pattern::Pattern;
use crate::server::{AlwaysLoad, Settings, ToolChoice};
use crate::suggest::{brief, suggest};

/// The keys of `tools`.
const TOOLS_KEYS: [&str; 3] = ["allow", "deny", "descriptions"];

pub(super) fn read(entry: &Cursor<'_>, report: &mut Report) -> Settings {
    Settings {
        enabled: read_enabled(entry, report),
        required: entry.field("required").and_then(|at| boolean(&at, report)).unwrap_or(false),
        timeout: entry.field("timeout").and_then(|at| milliseconds(&at, report)),
        connect_timeout: entry.field("connectTimeout").and_then(|at| milliseconds(&at, report)),
        protocol: entry.field("protocol").and_then(|at| read_protocol(&at, report)).unwrap_or(ProtocolMode::Auto),
        tools: read_tools(entry, report),
        bindings: entry.field("bindings").map(|at| read_bindings(&at, report)).unwrap_or_default(),
        max_output_tokens: entry.field("maxOutputTokens").and_then(|at| positive_number(&at, report)),
        max_tool_bytes: entry.field("maxToolBytes").and_then(|at| positive_number(&at, report)),
        always_load: entry.field("alwaysLoad").map(|at| read_always_load(&at, report)).unwrap_or_default(),
        instructions: entry.field("instructions").and_then(|at| boolean(&at, report)).unwrap_or(true),
        display_name: ["displayName", "title"].iter().find_map(|key| {
            let at = entry.field(key)?;
            string(&at, report).map(str::to_owned)
        }),
    }
}

fn read_enabled(entry: &Cursor<'_>, report: &mut Report) -> bool {
    let enabled = entry.field("enabled").and_then(|at| boolean(&at, report));
    let disabled = entry.field("disabled").and_then(|at| boolean(&at, report));
    if let (Some(_), Some(_), Some(at)) = (enabled, disabled, entry.field("disabled")) {
        report.error(&at, "`disabled` and `enabled` are mutually exclusive", "keep one of them");
    }
    enabled.unwrap_or(true) && !disabled.unwrap_or(false)
}

fn positive_number(at: &Cursor<'_>, report: &mut Report) -> Option<usize> {
    let number = whole_number(at).filter(|number| *number > 0).and_then(|number| usize::try_from(number).ok());
    if number.is_none() {
        report.push(at.error(format!("expected a positive whole number, found {}", at.node.to_value())));
    }
    number
}

fn read_always_load(at: &Cursor<'_>, report: &mut Report) -> AlwaysLoad {
    if at.is_list() {
        return AlwaysLoad::Tools(read_patterns(at, report));
    }
    match boolean(at, report) {
        Some(true) => AlwaysLoad::All,
        Some(false) => AlwaysLoad::None,
        None => AlwaysLoad::AsRequested,
    }
}

fn read_protocol(at: &Cursor<'_>, report: &mut Report) -> Option<ProtocolMode> {
    let name = string(at, report)?;
    match name.parse::<ProtocolMode>() {
        Ok(protocol) => Some(protocol),
        Err(error) => {
            report.push(suggest(at.error(error.to_string()), name, &ProtocolMode::NAMES));
            None
        }
    }
}

fn read_tools(entry: &Cursor<'_>, report: &mut Report) -> ToolChoice {
    let mut choice = match entry.field("tools") {
        Some(at) if at.is_list() => ToolChoice { allowed: Some(read_patterns(&at, report)), ..ToolChoice::default() },
        Some(at) => read_tools_object(&at, report),
        None => ToolChoice::default(),
    };
    if let Some(at) = entry.field("includeTools") {
        if choice.allowed.is_some() {
            let message = "`includeTools` and the allowed tools of `tools` are mutually exclusive";
            report.error(&at, message, "keep one of them");
        }
        choice.allowed = Some(read_patterns(&at, report));
    }
    if let Some(at) = entry.field("excludeTools") {
        choice.rejected.extend(read_patterns(&at, report));
    }
    choice
}

fn read_tools_object(object: &Cursor<'_>, report: &mut Report) -> ToolChoice {
    check_object(object, report);
    let mut choice = ToolChoice::default();
    for (key, at) in object.fields() {
        match key {
            "allow" if matches!(at.node.kind, Kind::Null) => {}
            "allow" => choice.allowed = Some(read_patterns(&at, report)),
            "deny" => choice.rejected = read_patterns(&at, report),
            "descriptions" => {
                let descriptions = named_strings(&at, report).into_iter();
                choice.descriptions =
                    descriptions.map(|described| (described.name.to_owned(), described.text.to_owned())).collect();
            }
            // An unknown rule about tools must not be ignored: it may be the one that denies.
            _ => {
                let expected = "expected `allow`, `deny` or `descriptions`";
                let problem = at.error(format!("unknown `tools` key `{}`: {expected}", brief(key)));
                report.push(suggest(problem, key, &TOOLS_KEYS));
            }
        }
    }
    choice
}

/// Reads patterns. An invalid one makes the server unusable: the tool it should match may be one that must not be used.
fn read_patterns(at: &Cursor<'_>, report: &mut Report) -> Vec<Pattern> {
    let mut patterns = Vec::new();
    for (at, text) in strings(at, report) {
        match Pattern::read(text) {
            Ok(pattern) => patterns.push(pattern),
            Err(error) => report.push(at.error(error.to_string())),
        }
    }
    patterns
}

fn read_bindings(object: &Cursor<'_>, report: &mut Report) -> BTreeMap<String, Map<String, Value>> {
    check_object(object, report);
    let mut bindings = BTreeMap::new();
    for (tool, at) in object.fields() {
        match at.node.to_value() {
            Value::Object(arguments) => {
                bindings.insert(tool.to_owned(), arguments);
            }
            _ => report.push(at.wrong_type("an object of arguments")),
        }
    }
    bindings
}
