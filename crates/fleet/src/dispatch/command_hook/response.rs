//! The response of a hook command, in the formats of other hosts.
//!
//! A hook guards calls, so a response that is not understood is an error: a misspelled refusal must not allow the call.

use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::Value;
use wharf_protocol::{Content, Json, ToolOutput};

use crate::dispatch::hooks::{AfterCall, BeforeCall, CallChanges};

/// The parsed response of a hook command.
pub(super) struct HookResponse {
    decision: Option<Decision>,
    changes: CallChanges,
    updated_tool_output: Option<Json>,
}

/// What a response decides. Of several decisions, the strictest counts.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Decision {
    Allow,
    Ask(Option<String>),
    Block(String),
}

/// The known fields, at the top level or in `hookSpecificOutput`.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
struct ResponseFields {
    decision: Option<String>,
    reason: Option<String>,
    r#continue: Option<bool>,
    stop_reason: Option<String>,
    permission_decision: Option<String>,
    permission_decision_reason: Option<String>,
    updated_input: Option<Json>,
    additional_context: Option<String>,
    #[serde(alias = "updatedMCPToolOutput")]
    updated_tool_output: Option<Json>,
    hook_specific_output: Option<Json>,
    // Fields of other hosts that decide nothing.
    #[serde(rename = "hookEventName")]
    _hook_event_name: IgnoredAny,
    #[serde(rename = "suppressOutput")]
    _suppress_output: IgnoredAny,
    #[serde(rename = "systemMessage")]
    _system_message: IgnoredAny,
}

impl HookResponse {
    /// Parses the stdout of a command.
    pub(super) fn parse(stdout: &[u8]) -> Result<Self, String> {
        let text = std::str::from_utf8(stdout).map_err(|_| "its response is not UTF-8")?.trim();
        let outer = if text.is_empty() { ResponseFields::default() } else { ResponseFields::parse(text)? };
        let inner = match &outer.hook_specific_output {
            Some(inner) => {
                ResponseFields::parse(inner.as_str()).map_err(|error| format!("{error} (hookSpecificOutput)"))?
            }
            None => ResponseFields::default(),
        };
        if inner.hook_specific_output.is_some() {
            return Err("its response is invalid: `hookSpecificOutput` inside of itself".to_owned());
        }
        Ok(Self {
            decision: stricter(outer.strictest_decision()?, inner.strictest_decision()?),
            changes: CallChanges {
                arguments: inner.updated_input.or(outer.updated_input),
                context: inner.additional_context.or(outer.additional_context),
            },
            updated_tool_output: inner.updated_tool_output.or(outer.updated_tool_output),
        })
    }

    /// The response of a command that exited with the blocking status.
    pub(super) fn blocked(reason: String) -> Self {
        Self { decision: Some(Decision::Block(reason)), changes: CallChanges::default(), updated_tool_output: None }
    }

    pub(super) fn before(self) -> BeforeCall {
        match self.decision {
            None => BeforeCall::Proceed(self.changes),
            Some(Decision::Allow) => BeforeCall::Allow(self.changes),
            Some(Decision::Ask(reason)) => {
                BeforeCall::Ask(reason.unwrap_or_else(|| "a hook requires approval".to_owned()), self.changes)
            }
            Some(Decision::Block(reason)) => BeforeCall::Block(reason),
        }
    }

    pub(super) fn after(self, output: &ToolOutput) -> Result<AfterCall, String> {
        match self.decision {
            None | Some(Decision::Allow) => {}
            // It is too late to ask.
            Some(Decision::Ask(reason)) => return Ok(AfterCall::Block(reason.unwrap_or_else(no_reason))),
            Some(Decision::Block(reason)) => return Ok(AfterCall::Block(reason)),
        }
        match (self.updated_tool_output, self.changes.context) {
            (None, None) => Ok(AfterCall::Keep),
            (None, Some(context)) => Ok(AfterCall::Annotate(context)),
            (Some(updated), context) => {
                let mut replaced = as_output(&updated, output)?;
                replaced.content.extend(context.map(Content::text));
                Ok(AfterCall::Replace(replaced.rebuilt()))
            }
        }
    }
}

impl ResponseFields {
    fn parse(text: &str) -> Result<Self, String> {
        // Serde would accept an array as the fields in their order.
        if !text.starts_with('{') {
            return Err("its response is not a JSON object".to_owned());
        }
        serde_json::from_str(text).map_err(|error| format!("its response is invalid: {error}"))
    }

    /// Returns the strictest of the decisions.
    fn strictest_decision(&self) -> Result<Option<Decision>, String> {
        let general = decision(self.decision.as_deref(), self.reason.as_deref())?;
        let reason = self.permission_decision_reason.as_deref().or(self.reason.as_deref());
        let permission = decision(self.permission_decision.as_deref(), reason)?;
        let stop = (self.r#continue == Some(false)).then(|| block(self.stop_reason.as_deref()));
        Ok(stricter(stricter(general, permission), stop))
    }
}

fn decision(word: Option<&str>, reason: Option<&str>) -> Result<Option<Decision>, String> {
    match word {
        None => Ok(None),
        Some("allow" | "approve") => Ok(Some(Decision::Allow)),
        Some("ask") => Ok(Some(Decision::Ask(reason.map(str::to_owned)))),
        Some("deny" | "block") => Ok(Some(block(reason))),
        Some(other) => Err(format!("unknown decision `{other}`: expected allow, deny, ask or block")),
    }
}

/// Returns the stricter of two decisions; of equal ones the first.
fn stricter(first: Option<Decision>, second: Option<Decision>) -> Option<Decision> {
    let strictness = |decision: &Option<Decision>| match decision {
        None => 0,
        Some(Decision::Allow) => 1,
        Some(Decision::Ask(_)) => 2,
        Some(Decision::Block(_)) => 3,
    };
    if strictness(&second) > strictness(&first) { second } else { first }
}

fn block(reason: Option<&str>) -> Decision {
    Decision::Block(reason.map_or_else(no_reason, str::to_owned))
}

/// Reads a replaced output: a whole result, a text, or any other value.
fn as_output(updated: &Json, output: &ToolOutput) -> Result<ToolOutput, String> {
    match updated.to_value().map_err(|error| format!("its output cannot be parsed: {error}"))? {
        Value::String(text) => Ok(ToolOutput { is_error: output.is_error, ..ToolOutput::said(text) }),
        Value::Object(fields) if fields.contains_key("content") || fields.contains_key("structuredContent") => {
            ToolOutput::from_json(updated).map_err(|reason| format!("its output {reason}"))
        }
        other => Ok(ToolOutput { is_error: output.is_error, ..ToolOutput::said(other.to_string()) }),
    }
}

fn no_reason() -> String {
    "no reason given".to_owned()
}
