//! Tracing spans of a run: one for the run, for each model request and for each tool call. Their fields are named after
//! the OpenTelemetry conventions for generative AI. They contain no message content.

use tracing::Span;
use tracing::field::Empty;
use wharf_protocol::{CallFailed, ToolCall, ToolOutput};

use crate::{Model, ModelError, ModelResponse, Run};

pub(super) fn run(run: &Run, model: &dyn Model) -> Span {
    tracing::info_span!(
        "invoke_agent",
        gen_ai.operation.name = "invoke_agent",
        gen_ai.provider.name = model.interface(),
        gen_ai.request.model = model.name(),
        gen_ai.conversation.id = run.session_id(),
    )
}

pub(super) fn model_request(model: &dyn Model) -> Span {
    tracing::info_span!(
        "chat",
        gen_ai.operation.name = "chat",
        gen_ai.provider.name = model.interface(),
        gen_ai.request.model = model.name(),
        gen_ai.response.model = Empty,
        gen_ai.response.finish_reasons = Empty,
        gen_ai.usage.input_tokens = Empty,
        gen_ai.usage.output_tokens = Empty,
        gen_ai.usage.cache_read.input_tokens = Empty,
        gen_ai.usage.cache_creation.input_tokens = Empty,
        gen_ai.usage.reasoning.output_tokens = Empty,
        "error.type" = Empty,
    )
}

pub(super) fn model_response(span: &Span, result: &Result<ModelResponse, ModelError>) {
    if span.is_disabled() {
        return;
    }
    match result {
        Ok(answer) => {
            span.record("gen_ai.response.model", &*answer.model);
            span.record("gen_ai.response.finish_reasons", answer.stop.as_str());
            for (field, tokens) in [
                ("gen_ai.usage.input_tokens", answer.usage.input_tokens),
                ("gen_ai.usage.output_tokens", answer.usage.output_tokens),
                ("gen_ai.usage.cache_read.input_tokens", answer.usage.cache_read_tokens),
                ("gen_ai.usage.cache_creation.input_tokens", answer.usage.cache_write_tokens),
                ("gen_ai.usage.reasoning.output_tokens", answer.usage.reasoning_tokens),
            ] {
                span.record(field, tokens);
            }
        }
        Err(error) => {
            span.record("error.type", error.kind.as_str());
        }
    }
}

pub(super) fn tool_call(call: &ToolCall) -> Span {
    tracing::info_span!(
        "execute_tool",
        gen_ai.operation.name = "execute_tool",
        gen_ai.tool.name = &*call.name,
        gen_ai.tool.call.id = &*call.id,
        "error.type" = Empty,
    )
}

/// Records whether a call succeeded, returned a tool error, or failed.
pub(super) fn tool_result(span: &Span, result: &Result<ToolOutput, CallFailed>) {
    match result {
        Ok(output) if !output.is_error => {}
        Ok(_) => {
            span.record("error.type", "tool_result");
        }
        Err(_) => {
            span.record("error.type", "mcp_request");
        }
    }
}

/// Logs a stage of a run on its way to a result. The fleet logs the stages before these.
pub(super) fn step(step: &'static str) {
    tracing::debug!(target: "wharf::step", step);
}
