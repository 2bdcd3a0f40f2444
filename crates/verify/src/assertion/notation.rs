//! The notation of assertions in files.

use crate::shape::{Bound, COUNT, FILLED_TEXT, Key, MAX_ITEMS, Object, REGEX, SHORT_TEXT, Shape};

use super::Assertion;
use super::raw::InvalidAssertion;

const TOOL: Key = Key::with_default("tool", SHORT_TEXT, "*", "The tool.");
const AT_LEAST_FRACTION: Key = Key::required("at_least", Shape::Number(Bound::Fraction), "The minimum.");

/// An assertion.
pub(crate) static ASSERTION: Object = Object {
    name: "assertion",
    doc: "A requirement on the tool calls of a run.",
    keys: &[
        Key::optional("called", SHORT_TEXT, "The tool was called at least once, with the given arguments if any."),
        Key::optional("not_called", SHORT_TEXT, "The tool was not called, or not with the given arguments."),
        Key::optional(
            "with",
            Shape::Map { names: None, values: &Shape::Any },
            "Arguments of `called` or `not_called`. Other arguments of the call do not matter; in nested objects only the given keys are compared.",
        ),
        Key::optional(
            "with_regex",
            Shape::Map { names: None, values: &Shape::Formatted(&REGEX) },
            "Regular expressions for arguments of `called` or `not_called`. A path such as `filter.name` leads into nested objects.",
        ),
        Key::optional("max_calls", COUNT, "The model made at most this many tool calls."),
        Key::optional("min_calls", COUNT, "The model made at least this many tool calls."),
        Key::optional("count", Shape::Object(&CALL_COUNT), "The number of calls of a tool."),
        Key::optional(
            "order",
            Shape::List { items: &SHORT_TEXT, min: 2, max: MAX_ITEMS },
            "The tools were called in this order; other calls may come in between.",
        ),
        Key::with_default("strict", Shape::Bool, "false", "For `order`: no other call comes in between."),
        Key::optional(
            "success_rate",
            Shape::Object(&SUCCESS_RATE),
            "The share of calls without an error. Holds if there was no call.",
        ),
        Key::optional("output_matches", Shape::Object(&OUTPUT), "At least one output of the tool matches."),
        Key::optional(
            "path_efficiency",
            Shape::Object(&EFFICIENCY),
            "The optimal number of calls divided by the number of calls, at most 1. Fails if there was no call.",
        ),
    ],
    exactly_one: &[
        "called",
        "not_called",
        "max_calls",
        "min_calls",
        "count",
        "order",
        "success_rate",
        "output_matches",
        "path_efficiency",
    ],
};

/// `count`.
pub(crate) static CALL_COUNT: Object = Object {
    name: "call_count",
    doc: "A number of calls: `exactly`, or `at_least`, `at_most` or both.",
    keys: &[
        TOOL,
        Key::optional("exactly", COUNT, "The number."),
        Key::optional("at_least", COUNT, "The minimum."),
        Key::optional("at_most", COUNT, "The maximum."),
    ],
    exactly_one: &[],
};

/// `success_rate`.
pub(crate) static SUCCESS_RATE: Object = Object {
    name: "success_rate",
    doc: "A share of successful calls.",
    keys: &[TOOL, AT_LEAST_FRACTION],
    exactly_one: &[],
};

/// `output_matches`.
pub(crate) static OUTPUT: Object = Object {
    name: "output_matches",
    doc: "An output that contains a text or matches a regular expression.",
    keys: &[
        TOOL,
        Key::optional("regex", Shape::Formatted(&REGEX), "The expression. It may match anywhere in the output."),
        Key::optional("contains", FILLED_TEXT, "The text."),
    ],
    exactly_one: &["regex", "contains"],
};

/// `path_efficiency`.
pub(crate) static EFFICIENCY: Object = Object {
    name: "path_efficiency",
    doc: "How directly the model reached its answer.",
    keys: &[Key::required("optimal", COUNT, "The number of calls that suffice."), AT_LEAST_FRACTION],
    exactly_one: &[],
};

/// Returns the assertion of a value that has the shape of one.
pub(crate) fn parse(value: serde_json::Value) -> Result<Assertion, InvalidAssertion> {
    let raw: super::raw::RawAssertion =
        serde_json::from_value(value).map_err(|error| InvalidAssertion { key: None, message: error.to_string() })?;
    raw.try_into()
}
