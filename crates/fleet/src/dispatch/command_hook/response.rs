//! The response of a hook command, in the formats of other hosts.

use serde::Deserialize;
use serde_json::Value;
use wharf_protocol::{Content, Json, ToolOutput};

use crate::dispatch::hooks::{AfterCall, BeforeCall, CallChanges};

/// The parsed response of a hook command.
pub(super) struct HookResponse(ResponseFields);

/// The known fields, at the top level or in `hookSpecificOutput`. Others are ignored.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ResponseFields {
    decision: Option<String>,
    reason: Option<String>,
    r#continue: Option<bool>,
    stop_reason: Option<String>,
    permission_decision: Option<String>,
    permission_decision_reason: Option<String>,
    updated_input: Option<Json>,
    additional_context: Option<String>,
    updated_tool_output: Option<Json>,
    hook_specific_output: Option<Box<ResponseFields>>,
}

impl HookResponse {
    /// Parses the stdout of a command.
    pub(super) fn parse(stdout: &[u8]) -> Result<Self, String> {
        let text = std::str::from_utf8(stdout).map_err(|_| "its response is not UTF-8")?.trim();
        if text.is_empty() {
            return Ok(Self(ResponseFields::default()));
        }
        // Serde would accept an array as the fields in their order.
        if !text.starts_with('{') {
            return Err("its response is not a JSON object".to_owned());
        }
        let invalid = |error: serde_json::Error| format!("its response is invalid: {error}");
        let mut fields: ResponseFields = serde_json::from_str(text).map_err(invalid)?;
        if let Some(inner) = fields.hook_specific_output.take() {
            fields.permission_decision = inner.permission_decision.or(fields.permission_decision);
            fields.permission_decision_reason = inner.permission_decision_reason.or(fields.permission_decision_reason);
            fields.updated_input = inner.updated_input.or(fields.updated_input);
            fields.additional_context = inner.additional_context.or(fields.additional_context);
            fields.updated_tool_output = inner.updated_tool_output.or(fields.updated_tool_output);
        }
        Ok(Self(fields))
    }

    /// The response of a command that exited with the blocking status.
    pub(super) fn blocked(reason: String) -> Self {
        Self(ResponseFields { decision: Some("block".to_owned()), reason: Some(reason), ..ResponseFields::default() })
    }

    pub(super) fn before(self) -> Result<BeforeCall, String> {
        if let Some(reason) = self.block_reason()? {
            return Ok(BeforeCall::Block(reason));
        }
        let fields = self.0;
        let changes = CallChanges { arguments: fields.updated_input, context: fields.additional_context };
        let reason = fields.permission_decision_reason.or(fields.reason);
        match fields.permission_decision.as_deref().or(fields.decision.as_deref()) {
            None => Ok(BeforeCall::Proceed(changes)),
            Some("allow" | "approve") => Ok(BeforeCall::Allow(changes)),
            Some("ask") => {
                Ok(BeforeCall::Ask(reason.unwrap_or_else(|| "a hook requires approval".to_owned()), changes))
            }
            Some("deny") => Ok(BeforeCall::Block(reason.unwrap_or_else(no_reason))),
            Some(other) => Err(format!("unknown decision `{other}`: expected allow, deny, ask or block")),
        }
    }

    pub(super) fn after(self, output: &ToolOutput) -> Result<AfterCall, String> {
        if let Some(reason) = self.block_reason()? {
            return Ok(AfterCall::Block(reason));
        }
        let ResponseFields { updated_tool_output, additional_context, .. } = self.0;
        match (updated_tool_output, additional_context) {
            (None, None) => Ok(AfterCall::Keep),
            (None, Some(context)) => Ok(AfterCall::Annotate(context)),
            (Some(updated), context) => {
                let mut replaced = as_output(&updated, output)?;
                replaced.content.extend(context.map(Content::text));
                Ok(AfterCall::Replace(replaced.rebuilt()))
            }
        }
    }

    /// Returns the reason if the command blocks the call.
    fn block_reason(&self) -> Result<Option<String>, String> {
        let fields = &self.0;
        let reason = |text: &Option<String>| Some(text.clone().unwrap_or_else(no_reason));
        match fields.decision.as_deref() {
            Some("block") => return Ok(reason(&fields.reason)),
            None | Some("approve" | "allow" | "ask" | "deny") => {}
            Some(other) => return Err(format!("unknown decision `{other}`: expected block")),
        }
        if fields.r#continue == Some(false) { Ok(reason(&fields.stop_reason)) } else { Ok(None) }
    }
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
