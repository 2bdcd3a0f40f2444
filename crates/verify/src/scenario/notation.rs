//! The notation of scenarios in files.

use super::END;
use super::prompt::PromptText;
use crate::assertion::notation::ASSERTION;
use crate::shape::{COUNT, Content, Format, Key, MAX_ITEMS, Object, REGEX, SHORT_TEXT, Shape, Variant, Variants};
use crate::template::is_identifier;
use crate::template::notation::{CHECK, TEMPLATE};

/// The maximum number of turns of a scenario, and of a conversation.
const MAX_TURNS: usize = 100;
/// A number of turns, up to the maximum.
const TURN_COUNT: Shape = Shape::Integer { min: 1, max: 100 };
/// The maximum number of branches of a turn.
const MAX_BRANCHES: usize = 50;
/// The maximum number of criteria.
const MAX_CRITERIA: usize = 100;

/// A scenario.
pub(crate) static SCENARIO: Object = Object {
    name: "scenario",
    doc: "A conversation of several turns.",
    keys: &[
        Key::with_default(
            "max_turns",
            TURN_COUNT,
            "20",
            "The maximum number of turns of a conversation. One that would be longer fails.",
        ),
        Key::optional(
            "state",
            Shape::Map { names: Some(&VARIABLE), values: &Shape::Any },
            "Variables with their first values: texts, numbers, booleans or lists of texts.",
        ),
        Key::optional(
            "start",
            Shape::Formatted(&TURN_NAME),
            "Name of the first turn. Without it, the first of the list.",
        ),
        Key::required("turns", Shape::List { items: &Shape::Object(&TURN), min: 1, max: MAX_TURNS }, "The turns."),
        Key::optional(
            "outcome",
            Shape::List { items: &Shape::Object(&CRITERION), min: 0, max: MAX_CRITERIA },
            "What must hold at the end. Without it, every turn must pass.",
        ),
    ],
    exactly_one: &[],
};

/// A turn.
pub(crate) static TURN: Object = Object {
    name: "turn",
    doc: "A message to the model, and what its answer leads to.",
    keys: &[
        Key::required("name", Shape::Formatted(&TURN_NAME), "Name of the turn, unique in its scenario."),
        Key::required(
            "prompt",
            Shape::Formatted(&PROMPT),
            "The message to the model. `{{name}}` stands for the value of a variable, `\\{{` for two braces.",
        ),
        Key::optional("template", Shape::Object(&TEMPLATE), "The fields of a correct answer."),
        Key::optional(
            "trace",
            Shape::List { items: &Shape::Object(&ASSERTION), min: 0, max: MAX_ITEMS },
            "Requirements on the tool calls of the turn.",
        ),
        Key::optional(
            "set",
            Shape::Map { names: Some(&VARIABLE), values: &Shape::Variants(&UPDATE) },
            "Variables that the answer changes.",
        ),
        Key::optional(
            "branches",
            Shape::List { items: &Shape::Object(&BRANCH), min: 0, max: MAX_BRANCHES },
            "Turns that follow under a condition. The first condition that holds decides.",
        ),
        Key::optional(
            "next",
            Shape::Formatted(&TURN_NAME),
            "The turn that follows if no branch does. Without it, the scenario ends.",
        ),
        Key::optional(
            "max_visits",
            TURN_COUNT,
            "How often the turn may be taken. Branches to it are skipped after that.",
        ),
    ],
    exactly_one: &[],
};

/// A branch.
pub(crate) static BRANCH: Object = Object {
    name: "branch",
    doc: "A turn that follows under a condition.",
    keys: &[
        Key::required("when", Shape::Object(&CONDITION), "The condition."),
        Key::required("to", Shape::Formatted(&TURN_NAME), "Name of the turn, or `end`."),
    ],
    exactly_one: &[],
};

/// A criterion.
pub(crate) static CRITERION: Object = Object {
    name: "criterion",
    doc: "A requirement on the whole conversation.",
    keys: &[
        Key::required("name", SHORT_TEXT, "Name of the criterion, unique in its scenario."),
        Key::required("when", Shape::Object(&CONDITION), "What must hold at the end."),
    ],
    exactly_one: &[],
};

/// A condition.
pub(crate) static CONDITION: Object = Object {
    name: "condition",
    doc: "A condition over the turns so far.",
    keys: &[
        Key::optional("passed", Shape::Bool, "Whether the checks of a turn passed."),
        Key::optional("field", SHORT_TEXT, "The value of a field in the template of a turn, compared with `truth`."),
        Key::optional("state", Shape::Formatted(&VARIABLE), "The value of a variable, compared with `truth`."),
        Key::optional(
            "response",
            Shape::Variants(&CHECK),
            "A check of the answer itself: `trace_contains`, `trace_regex` or `trace_length`.",
        ),
        Key::optional("trace", Shape::Object(&ASSERTION), "An assertion on the tool calls of a turn."),
        Key::optional("visits", Shape::Object(&VISITS), "The number of turns, or of visits of one turn."),
        Key::optional(
            "path",
            Shape::List { items: &Shape::Formatted(&TURN_NAME), min: 1, max: MAX_TURNS },
            "The names of all turns, in order.",
        ),
        Key::optional(
            "all_of",
            Shape::List { items: &ONE_CONDITION, min: 1, max: MAX_CRITERIA },
            "All conditions hold.",
        ),
        Key::optional(
            "any_of",
            Shape::List { items: &ONE_CONDITION, min: 1, max: MAX_CRITERIA },
            "At least one condition holds.",
        ),
        Key::optional("not", Shape::Object(&CONDITION), "The condition does not hold."),
        Key::optional("truth", Shape::Any, "The value that `field` or `state` is compared with."),
        Key::optional(
            "check",
            Shape::Variants(&CHECK),
            "How `field` or `state` is compared. Without it, for equality by the type of `truth`.",
        ),
        Key::optional(
            "turn",
            Shape::Formatted(&TURN_NAME),
            "The turn that `passed`, `field`, `response` or `trace` looks at. Without it, all turns.",
        ),
        Key::with_default(
            "visit",
            Shape::Choice(&["first", "last", "any", "all"]),
            "last",
            "Which of these turns: in a branch, the last one is the turn itself.",
        ),
    ],
    exactly_one: &["passed", "field", "state", "response", "trace", "visits", "path", "all_of", "any_of", "not"],
};

// A static, because the notation contains itself.
static ONE_CONDITION: Shape = Shape::Object(&CONDITION);

/// `visits`.
pub(crate) static VISITS: Object = Object {
    name: "visits",
    doc: "A number of turns: `exactly`, or `at_least`, `at_most` or both.",
    keys: &[
        Key::optional("turn", Shape::Formatted(&TURN_NAME), "The turn. Without it, all turns count."),
        Key::optional("exactly", COUNT, "The number."),
        Key::optional("at_least", COUNT, "The minimum."),
        Key::optional("at_most", COUNT, "The maximum."),
    ],
    exactly_one: &[],
};

/// The new value of a variable.
pub(crate) static UPDATE: Variants = Variants {
    name: "update",
    what: "update",
    cases: &[
        Variant {
            name: "field",
            doc: "The value of a field in the template of the turn.",
            content: Content::Value(&SHORT_TEXT),
        },
        Variant {
            name: "match",
            doc: "What an expression matches in the answer: its first group, or else the whole match.",
            content: Content::Value(&Shape::Formatted(&REGEX)),
        },
        Variant { name: "value", doc: "A fixed value.", content: Content::Value(&Shape::Any) },
    ],
    texts_are_names: false,
};

static TURN_NAME: Format = Format {
    what: "turn name",
    pattern: Some("^[A-Za-z0-9_.-]{1,64}$"),
    check: |name| {
        if is_turn_name(name) { Ok(()) } else { Err("use 1 to 64 letters, digits, `_`, `.` and `-`".to_owned()) }
    },
};

/// Returns whether a text can be the name of a turn, or `end`.
pub(crate) fn is_turn_name(name: &str) -> bool {
    let is_valid = |c: char| c.is_ascii_alphanumeric() || "_.-".contains(c);
    debug_assert!(END.chars().all(is_valid));
    (1..=64).contains(&name.len()) && name.chars().all(is_valid)
}

static VARIABLE: Format = Format {
    what: "variable",
    pattern: Some("^[A-Za-z_][A-Za-z0-9_]{0,63}$"),
    check: |name| {
        let expected = "use up to 64 letters, digits and `_`, and start with a letter or `_`";
        if is_identifier(name) { Ok(()) } else { Err(expected.to_owned()) }
    },
};

static PROMPT: Format = Format {
    what: "prompt",
    pattern: None,
    check: |text| {
        if text.trim().is_empty() {
            return Err("the text must not be empty".to_owned());
        }
        if text.chars().count() > crate::shape::MAX_TEXT_CHARS {
            return Err(format!("the text must have at most {} characters", crate::shape::MAX_TEXT_CHARS));
        }
        PromptText::new(text).map(drop).map_err(|invalid| invalid.to_string())
    },
};
