//! The notation of benchmark files, their JSON Schema, and the tables of their documentation.

use serde_json::Value;
use wharf_protocol::ServerName;

use super::read::MAX_QUESTIONS;
use crate::assertion::notation::{ASSERTION, CALL_COUNT, EFFICIENCY, OUTPUT, SUCCESS_RATE};
use crate::ids::QuestionId;
use crate::scenario::notation::{BRANCH, CONDITION, CRITERION, SCENARIO, TURN, UPDATE, VISITS};
use crate::shape::json_schema as schema;
use crate::shape::markdown::{keys_table, tagged_table, variants_table};
use crate::shape::{
    Bound, Content, FILLED_TEXT, Format, Key, MAX_ITEMS, Object, REGEX, SHORT_TEXT, Shape, TEXT, Tagged, Variant,
};
use crate::template::notation::{CHECK, FIELD, FIELD_TYPE, NORMALIZER, STRATEGY, TEMPLATE};

/// Returns the JSON Schema of benchmark files.
pub fn json_schema() -> Value {
    schema::json_schema(&BENCHMARK, "Wharf benchmark")
}

/// Returns the tables of the reference documentation, by name.
#[doc(hidden)]
pub fn reference_tables() -> Vec<(&'static str, String)> {
    vec![
        ("benchmark", keys_table(BENCHMARK.keys)),
        ("defaults", keys_table(DEFAULTS.keys)),
        ("question", keys_table(QUESTION.keys)),
        ("template", keys_table(TEMPLATE.keys)),
        ("field", keys_table(FIELD.keys)),
        ("type", variants_table(&FIELD_TYPE)),
        ("check", variants_table(&CHECK)),
        ("normalizer", variants_table(&NORMALIZER)),
        ("strategy", variants_table(&STRATEGY)),
        ("scenario", keys_table(SCENARIO.keys)),
        ("turn", keys_table(TURN.keys)),
        ("branch", keys_table(BRANCH.keys)),
        ("update", variants_table(&UPDATE)),
        ("condition", keys_table(CONDITION.keys)),
        ("visits", keys_table(VISITS.keys)),
        ("criterion", keys_table(CRITERION.keys)),
        ("assertion", keys_table(ASSERTION.keys)),
        ("count", keys_table(CALL_COUNT.keys)),
        ("success_rate", keys_table(SUCCESS_RATE.keys)),
        ("output_matches", keys_table(OUTPUT.keys)),
        ("path_efficiency", keys_table(EFFICIENCY.keys)),
        ("trait", keys_table(TRAIT.common)),
        ("trait kind", tagged_table(&TRAIT)),
        ("class", keys_table(CLASS.keys)),
        ("deep_judgment", keys_table(DEEP_JUDGMENT.keys)),
    ]
}

/// A benchmark file.
pub(super) static BENCHMARK: Object = Object {
    name: "benchmark",
    doc: "Questions, the servers they need, and what a correct answer is.",
    keys: &[
        NAME,
        DESCRIPTION,
        BENCHMARK_SERVERS,
        DEFAULTS_KEY,
        Key::required(
            "questions",
            Shape::List { items: &Shape::Object(&QUESTION), min: 1, max: MAX_QUESTIONS },
            "The questions.",
        ),
        RUBRIC,
        METADATA,
    ],
    exactly_one: &[],
};

/// The first line of a file with one question per line: a benchmark without its questions.
pub(super) static HEADER: Object = Object {
    name: "header",
    doc: "A benchmark without its questions.",
    keys: &[NAME, DESCRIPTION, BENCHMARK_SERVERS, DEFAULTS_KEY, RUBRIC, METADATA],
    exactly_one: &[],
};

const NAME: Key = Key::optional("name", SHORT_TEXT, "Name of the benchmark. Without it, the name of the file.");
const DESCRIPTION: Key = Key::optional("description", TEXT, "What the benchmark measures.");
const BENCHMARK_SERVERS: Key =
    Key::optional("servers", SERVERS, "MCP servers of all questions: a URL, a command line or a complete entry.");
const DEFAULTS_KEY: Key = Key::optional("defaults", Shape::Object(&DEFAULTS), "Settings of all questions.");
const RUBRIC: Key = Key::optional(
    "rubric",
    Shape::Map { names: Some(&TRAIT_NAME), values: &ONE_TRAIT },
    "Traits that `defaults` and questions refer to.",
);

const METADATA: Key = Key::optional(
    "metadata",
    Shape::Map { names: None, values: &Shape::Any },
    "Further data for readers and other tools. No model and no judge sees it.",
);

const SERVERS: Shape = Shape::Map { names: Some(&SERVER_NAME), values: &Shape::TextOrMapping };
const REQUIRED_SERVERS: Shape = Shape::List { items: &Shape::Formatted(&SERVER_NAME), min: 0, max: MAX_ITEMS };

static SERVER_NAME: Format = Format {
    what: "server name",
    pattern: Some("^[A-Za-z0-9_.-]{1,64}$"),
    check: |name| match name.parse::<ServerName>() {
        Ok(_) => Ok(()),
        Err(_) => Err("use 1 to 64 letters, digits, `_`, `.` and `-`".to_owned()),
    },
};

static QUESTION_ID: Format = Format {
    what: "id",
    pattern: Some(r"^\S(.{0,126}\S)?$"),
    check: |id| id.parse::<QuestionId>().map(drop).map_err(|invalid| invalid.reason.to_owned()),
};

static TRAIT_NAME: Format = Format {
    what: "trait name",
    pattern: None,
    check: |name| {
        let is_valid = !name.trim().is_empty() && name.chars().count() <= 128 && !name.chars().any(char::is_control);
        if is_valid { Ok(()) } else { Err("use 1 to 128 visible characters".to_owned()) }
    },
};

/// Settings of all questions.
static DEFAULTS: Object = Object {
    name: "defaults",
    doc: "Settings of all questions.",
    keys: &[
        Key::with_default("replicates", Shape::Integer { min: 1, max: 1000 }, "1", "How often each question is asked."),
        Key::optional("required_servers", REQUIRED_SERVERS, "Servers without which a result is invalid."),
        Key::optional(
            "isolation",
            Shape::Choice(&["fresh", "shared"]),
            "Whether every trial starts its own servers. Without it, `shared` if all tools only read, else `fresh`.",
        ),
        Key::optional(
            "rubric",
            Shape::List { items: &SHORT_TEXT, min: 0, max: MAX_ITEMS },
            "Names of the traits that apply to every question.",
        ),
    ],
    exactly_one: &[],
};

/// A question.
pub(super) static QUESTION: Object = Object {
    name: "question",
    doc: "A question with its reference answer and checks.",
    keys: &[
        Key::required("id", Shape::Formatted(&QUESTION_ID), "Id of the question, unique in its benchmark."),
        Key::optional("question", FILLED_TEXT, "The text that the model gets. Required, unless there is a `scenario`."),
        Key::optional(
            "answer",
            TEXT,
            "The reference answer, for readers. A judge sees it only for traits with `include_ground_truth`.",
        ),
        Key::optional(
            "keywords",
            Shape::List { items: &SHORT_TEXT, min: 0, max: MAX_ITEMS },
            "Labels for selecting and grouping questions.",
        ),
        Key::optional("template", Shape::Object(&TEMPLATE), "The fields of a correct answer."),
        Key::optional(
            "scenario",
            Shape::Object(&SCENARIO),
            "A conversation of several turns, in place of `question` and `template`.",
        ),
        Key::optional(
            "trace",
            Shape::List { items: &Shape::Object(&ASSERTION), min: 0, max: MAX_ITEMS },
            "Requirements on the tool calls.",
        ),
        Key::optional(
            "rubric",
            Shape::List { items: &SHORT_TEXT, min: 0, max: MAX_ITEMS },
            "Names of the traits that apply.",
        ),
        Key::optional("servers", SERVERS, "Servers of this question only, beside those of the benchmark."),
        Key::optional("required_servers", REQUIRED_SERVERS, "Further servers without which a result is invalid."),
        METADATA,
    ],
    exactly_one: &["question", "scenario"],
};

const INCLUDE_TRUTH: Key =
    Key::with_default("include_ground_truth", Shape::Bool, "false", "Whether the judge sees the reference answer.");
const DEEP: Key = Key::optional("deep_judgment", Shape::Object(&DEEP_JUDGMENT), "Evidence that the judge must give.");
const MIN: Key = Key::with_default("min", SCORE, "1", "The lowest score.");
const MAX: Key = Key::with_default("max", SCORE, "5", "The highest score.");
const SCORE: Shape = Shape::Integer { min: -1_000_000, max: 1_000_000 };
const CLASSES: Shape = Shape::List { items: &Shape::Object(&CLASS), min: 2, max: 20 };
const SCHEMA: Shape = Shape::Map { names: None, values: &Shape::Any };
const INSTRUCTIONS: Shape = Shape::List { items: &FILLED_TEXT, min: 0, max: MAX_ITEMS };

static ONE_TRAIT: Shape = Shape::Tagged(&TRAIT);

/// A trait.
static TRAIT: Tagged = Tagged {
    name: "trait",
    tag: "kind",
    tag_doc: "How the trait is measured.",
    common: &[
        Key::optional("description", FILLED_TEXT, "What is measured, for the judge."),
        Key::optional("summary", SHORT_TEXT, "A short name of the concept, for `if_present`."),
        Key::with_default(
            "if_present",
            Shape::Bool,
            "false",
            "Whether the trait is evaluated only if its concept is present in the answer.",
        ),
        Key::optional(
            "higher_is_better",
            Shape::Bool,
            "Whether higher values, later classes or `true` are better. Without it, they are, except for metrics and objects, which have no direction.",
        ),
    ],
    variants: &[
        Variant { name: "llm_boolean", doc: "A judge says yes or no.", content: Content::Keys(&[INCLUDE_TRUTH, DEEP]) },
        Variant {
            name: "llm_score",
            doc: "A judge gives a score.",
            content: Content::Keys(&[MIN, MAX, INCLUDE_TRUTH, DEEP]),
        },
        Variant {
            name: "llm_literal",
            doc: "A judge chooses one of 2 to 20 classes.",
            content: Content::Keys(&[
                Key::required("classes", CLASSES, "The classes. The index of the chosen one is the result."),
                INCLUDE_TRUTH,
                DEEP,
            ]),
        },
        Variant {
            name: "llm_structured",
            doc: "A judge fills a JSON Schema.",
            content: Content::Keys(&[
                Key::required("schema", SCHEMA, "The JSON Schema of an object."),
                INCLUDE_TRUTH,
                DEEP,
            ]),
        },
        Variant {
            name: "regex",
            doc: "A regular expression matches the answer.",
            content: Content::Keys(&[
                Key::required(
                    "pattern",
                    Shape::Formatted(&REGEX),
                    "The expression. It may match anywhere in the answer.",
                ),
                Key::with_default("case_sensitive", Shape::Bool, "true", "Whether letters must have the same case."),
                Key::with_default("invert_result", Shape::Bool, "false", "Whether no match is the expected result."),
            ]),
        },
        Variant {
            name: "metric",
            doc: "A judge counts what is present and absent.",
            content: Content::Keys(&[
                Key::with_default(
                    "evaluation_mode",
                    Shape::Choice(&["tp_only", "full_matrix"]),
                    "tp_only",
                    "Whether what should be absent is described too.",
                ),
                Key::required(
                    "metrics",
                    Shape::List {
                        items: &Shape::Choice(&["precision", "recall", "f1", "specificity", "accuracy"]),
                        min: 1,
                        max: 5,
                    },
                    "The metrics. `specificity` and `accuracy` need `full_matrix`.",
                ),
                Key::required(
                    "tp_instructions",
                    Shape::List { items: &FILLED_TEXT, min: 1, max: MAX_ITEMS },
                    "What should be present.",
                ),
                Key::optional("tn_instructions", INSTRUCTIONS, "What should be absent, for `full_matrix`."),
                Key::with_default("repeated_extraction", Shape::Bool, "true", "Whether repeated items count once."),
            ]),
        },
        Variant {
            name: "agentic",
            doc: "An agent with tools investigates.",
            content: Content::Keys(&[
                Key::required(
                    "result",
                    Shape::Choice(&["boolean", "score", "literal", "structured"]),
                    "What the agent decides.",
                ),
                MIN,
                MAX,
                Key::optional("classes", CLASSES, "The classes of a `literal` result."),
                Key::optional("schema", SCHEMA, "The JSON Schema of a `structured` result."),
                Key::with_default(
                    "context_mode",
                    Shape::Choice(&["workspace_only", "trace_and_workspace", "trace_only"]),
                    "trace_and_workspace",
                    "What the agent sees.",
                ),
                Key::with_default("materialize_trace", Shape::Bool, "false", "Whether the trace is a file."),
                Key::with_default("persist_trace", Shape::Bool, "false", "Whether that file remains."),
                Key::with_default(
                    "max_turns",
                    Shape::Integer { min: 1, max: 1000 },
                    "15",
                    "The maximum number of turns.",
                ),
                Key::with_default(
                    "timeout_seconds",
                    Shape::Integer { min: 1, max: 86_400 },
                    "120",
                    "The maximum time in seconds.",
                ),
            ]),
        },
    ],
};

static CLASS: Object = Object {
    name: "class",
    doc: "One of several classes.",
    keys: &[
        Key::required("name", SHORT_TEXT, "Name of the class."),
        Key::required("description", FILLED_TEXT, "When it applies."),
    ],
    exactly_one: &[],
};

static DEEP_JUDGMENT: Object = Object {
    name: "deep_judgment",
    doc: "Evidence that a judge must give.",
    keys: &[
        Key::with_default("excerpts", Shape::Bool, "true", "Whether excerpts of the answer are required."),
        Key::optional("max_excerpts", Shape::Integer { min: 1, max: 100 }, "The maximum number of excerpts."),
        Key::optional("fuzzy_threshold", Shape::Number(Bound::Fraction), "The minimum similarity of an excerpt."),
        Key::optional("retries", Shape::Integer { min: 0, max: 100 }, "The number of further attempts."),
        Key::with_default("search", Shape::Bool, "false", "Whether excerpts are checked by a search."),
    ],
    exactly_one: &[],
};
