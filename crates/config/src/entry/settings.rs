//! What can be set for a server besides how it is reached.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::Value;
use wharf_client::ProtocolMode;

use super::super::server::{Settings, ToolChoice};
use super::super::text::{At, Kind};
use super::Reading;
use crate::pattern::Pattern;
use wharf_protocol::nearest;

/// Below this a time in milliseconds was meant in seconds.
const SHORTEST: u64 = 1000;

pub(super) fn read(reading: &mut Reading<'_>) -> Settings {
    Settings {
        enabled: enabled(reading),
        required: reading.switch("required").unwrap_or(false),
        timeout: milliseconds(reading, reading.at.field("timeout")),
        connect_timeout: milliseconds(reading, reading.at.field("connectTimeout")),
        protocol: protocol(reading),
        tools: tools(reading),
        bindings: bindings(reading),
        max_output_tokens: count(reading, "maxOutputTokens"),
        display_name: words(reading, "displayName").or_else(|| words(reading, "title")),
    }
}

fn enabled(reading: &mut Reading<'_>) -> bool {
    let (enabled, disabled) = (reading.switch("enabled"), reading.switch("disabled"));
    if let (Some(_), Some(_), Some(at)) = (enabled, disabled, reading.at.field("disabled")) {
        reading.error(&at, "stands beside `enabled`", "keep one of them");
    }
    enabled.unwrap_or(true) && !disabled.unwrap_or(false)
}

/// A time in milliseconds, which is not so short that seconds were meant.
pub(super) fn milliseconds<'a>(reading: &mut Reading<'a>, at: Option<At<'a>>) -> Option<Duration> {
    let at = at?;
    let Some(milliseconds) = whole(&at) else {
        reading.problems.push(at.wrong_type("a whole number of milliseconds"));
        return None;
    };
    if milliseconds == 0 {
        reading.error(&at, "0 is no time", "leave it out for the usual limit");
        return None;
    }
    if milliseconds < SHORTEST {
        let meant = milliseconds * 1000;
        reading.error(&at, format!("{milliseconds} is under 1000 milliseconds"), format!("did you mean {meant}?"));
        return None;
    }
    Some(Duration::from_millis(milliseconds))
}

/// A whole number; `30000.0` is one as well.
pub(super) fn whole(at: &At<'_>) -> Option<u64> {
    let Kind::Number(number) = &at.node.kind else { return None };
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "only whole numbers that a double holds exactly are taken"
    )]
    let from_double = |double: f64| (double.fract() == 0.0 && (0.0..9e15).contains(&double)).then_some(double as u64);
    number.as_u64().or_else(|| number.as_f64().and_then(from_double))
}

fn count(reading: &mut Reading<'_>, key: &str) -> Option<usize> {
    let at = reading.at.field(key)?;
    let count = whole(&at).filter(|count| *count > 0).and_then(|count| usize::try_from(count).ok());
    if count.is_none() {
        reading.problems.push(at.error(format!("{} is no positive whole number", at.node.to_value())));
    }
    count
}

fn words(reading: &mut Reading<'_>, key: &str) -> Option<String> {
    let at = reading.at.field(key)?;
    reading.text(&at).map(str::to_owned)
}

fn protocol(reading: &mut Reading<'_>) -> ProtocolMode {
    let Some(at) = reading.at.field("protocol") else { return ProtocolMode::Auto };
    let Some(name) = reading.text(&at) else { return ProtocolMode::Auto };
    match name.parse() {
        Ok(protocol) => protocol,
        Err(error) => {
            let problem = at.error(error.to_string());
            reading.problems.push(match nearest(name, ProtocolMode::NAMES) {
                Some(known) => problem.with_hint(format!("did you mean `{known}`?")),
                None => problem,
            });
            ProtocolMode::Auto
        }
    }
}

fn tools(reading: &mut Reading<'_>) -> ToolChoice {
    let mut choice = ToolChoice::default();
    if let Some(at) = reading.at.field("tools") {
        if at.is_list() {
            choice.allowed = Some(names(reading, &at));
        } else {
            from_object(reading, &at, &mut choice);
        }
    }
    if let Some(at) = reading.at.field("includeTools") {
        if choice.allowed.is_some() {
            reading.error(&at, "stands beside the tools that `tools` allows", "keep one of them");
        }
        choice.allowed = Some(names(reading, &at));
    }
    if let Some(at) = reading.at.field("excludeTools") {
        choice.rejected.extend(names(reading, &at));
    }
    choice
}

fn from_object<'a>(reading: &mut Reading<'a>, at: &At<'a>, choice: &mut ToolChoice) {
    const KEYS: [&str; 3] = ["allow", "deny", "descriptions"];
    reading.object(at);
    for (key, value) in at.fields() {
        match key {
            "allow" if !matches!(value.node.kind, Kind::Null) => choice.allowed = Some(names(reading, &value)),
            "allow" => {}
            "deny" => choice.rejected = names(reading, &value),
            "descriptions" => {
                let texts = reading.named_texts(&value);
                choice.descriptions =
                    texts.into_iter().map(|(tool, _, text)| (tool.to_owned(), text.to_owned())).collect();
            }
            // A rule about tools that is not understood must not be passed over: it may be the one that forbids.
            _ => {
                let problem = value.error(format!("`{key}` is none of `allow`, `deny` and `descriptions`"));
                reading.problems.push(match nearest(key, KEYS) {
                    Some(known) => problem.with_hint(format!("did you mean `{known}`?")),
                    None => problem,
                });
            }
        }
    }
}

/// A filter that cannot be read costs the server: the tool it is about may be one that must not be used.
fn names<'a>(reading: &mut Reading<'a>, at: &At<'a>) -> Vec<Pattern> {
    let mut names = Vec::new();
    for (at, name) in reading.texts(at) {
        match Pattern::read(name) {
            Ok(name) => names.push(name),
            Err(error) => reading.problems.push(at.error(error.to_string())),
        }
    }
    names
}

fn bindings(reading: &mut Reading<'_>) -> BTreeMap<String, serde_json::Map<String, Value>> {
    let Some(at) = reading.at.field("bindings") else { return BTreeMap::new() };
    reading.object(&at);
    let mut bindings = BTreeMap::new();
    for (tool, arguments) in at.fields() {
        match arguments.node.to_value() {
            Value::Object(arguments) => {
                bindings.insert(tool.to_owned(), arguments);
            }
            _ => reading.problems.push(arguments.wrong_type("an object of arguments")),
        }
    }
    bindings
}
