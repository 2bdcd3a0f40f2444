//! The notation of templates in files.

use crate::shape::{
    Bound, COUNT, Content, FILLED_TEXT, Format, Key, MAX_ITEMS, Object, REGEX, SHORT_TEXT, Shape, TEXT, Variant,
    Variants,
};

use super::date::{DateFormat, DateTime};

/// A template.
pub(crate) static TEMPLATE: Object = Object {
    name: "template",
    doc: "The fields that the judge extracts from an answer, and the rule that decides whether it passed.",
    keys: &[
        Key::required("fields", Shape::List { items: &Shape::Object(&FIELD), min: 1, max: MAX_FIELDS }, "The fields."),
        Key::optional("pass", Shape::Variants(&STRATEGY), "Which fields must pass. Without it, all of them."),
    ],
    exactly_one: &[],
};

/// The maximum number of fields of a template.
const MAX_FIELDS: usize = 200;

/// A field of a template.
pub(crate) static FIELD: Object = Object {
    name: "field",
    doc: "A value that the judge extracts, and its check.",
    keys: &[
        Key::required("name", Shape::Formatted(&FIELD_NAME), "Name of the field, unique in its template."),
        Key::optional(
            "type",
            Shape::Variants(&FIELD_TYPE),
            "Type of the value. Required, except for checks of the response itself.",
        ),
        Key::optional(
            "description",
            TEXT,
            "What the value is, for the judge. Required, except for checks of the response itself.",
        ),
        Key::optional("extraction_hint", FILLED_TEXT, "How to find or write the value, for the judge."),
        Key::optional(
            "truth",
            Shape::Any,
            "The expected value. The judge never sees it. Checks of the response expect `true`, unless it is `false`.",
        ),
        Key::required("check", Shape::Variants(&CHECK), "How the value is compared."),
        Key::with_default(
            "weight",
            Shape::Number(Bound::NotNegative),
            "1",
            "Share of the field in the granular score.",
        ),
    ],
    exactly_one: &[],
};

static FIELD_NAME: Format = Format {
    what: "field name",
    pattern: Some("^[A-Za-z_][A-Za-z0-9_]{0,63}$"),
    check: |name| {
        let is_valid = super::validate::is_identifier(name);
        if is_valid {
            Ok(())
        } else {
            Err("use up to 64 letters, digits and `_`, and start with a letter or `_`".to_owned())
        }
    },
};

/// The types of fields.
pub(crate) static FIELD_TYPE: Variants = Variants {
    name: "field_type",
    what: "type",
    cases: &[
        Variant { name: "bool", doc: "`true` or `false`.", content: Content::None },
        Variant { name: "str", doc: "A text.", content: Content::None },
        Variant { name: "int", doc: "An integer.", content: Content::None },
        Variant { name: "float", doc: "A number.", content: Content::None },
        Variant { name: "list_str", doc: "A list of texts.", content: Content::None },
        Variant { name: "date", doc: "A date.", content: Content::None },
        Variant {
            name: "literal",
            doc: "One of the given texts.",
            content: Content::Value(&Shape::List { items: &SHORT_TEXT, min: 2, max: MAX_ITEMS }),
        },
    ],
    texts_are_names: false,
};

/// Strategies.
pub(crate) static STRATEGY: Variants = Variants {
    name: "strategy",
    what: "strategy",
    cases: &[
        Variant { name: "all_of", doc: "All of them pass.", content: Content::Value(&STRATEGIES) },
        Variant { name: "any_of", doc: "At least one of them passes.", content: Content::Value(&STRATEGIES) },
        Variant {
            name: "at_least_n",
            doc: "At least `n` of them pass.",
            content: Content::Keys(&[
                Key::required("n", Shape::Integer { min: 1, max: 200 }, "The minimum number."),
                Key::required("of", Shape::List { items: &ONE_STRATEGY, min: 1, max: MAX_FIELDS }, "The candidates."),
            ]),
        },
    ],
    texts_are_names: true,
};

// Statics, because the notation contains itself.
static ONE_STRATEGY: Shape = Shape::Variants(&STRATEGY);
static STRATEGIES: Shape = Shape::List { items: &ONE_STRATEGY, min: 1, max: MAX_FIELDS };

/// Normalizers.
pub(crate) static NORMALIZER: Variants = Variants {
    name: "normalizer",
    what: "normalizer",
    cases: &[
        Variant { name: "lowercase", doc: "All letters become lowercase.", content: Content::None },
        Variant { name: "strip", doc: "White space at both ends is removed.", content: Content::None },
        Variant { name: "remove_punctuation", doc: "ASCII punctuation is removed.", content: Content::None },
        Variant {
            name: "collapse_whitespace",
            doc: "Each run of white space becomes one space; white space at both ends is removed.",
            content: Content::None,
        },
        Variant {
            name: "synonyms",
            doc: "A text that is a key of the map becomes its value.",
            content: Content::Value(&Shape::Map { names: None, values: &TEXT }),
        },
    ],
    texts_are_names: false,
};

const NORMALIZERS: Shape = Shape::List { items: &Shape::Variants(&NORMALIZER), min: 0, max: MAX_NORMALIZERS };
const MAX_NORMALIZERS: usize = 20;
const SUBSTRINGS: Shape = Shape::List { items: &FILLED_TEXT, min: 1, max: MAX_ITEMS };
const MODE: Shape = Shape::Choice(&["relative", "absolute"]);
const DECAY: Shape = Shape::Choice(&["linear", "quadratic"]);
const POSITIVE: Shape = Shape::Number(Bound::Positive);
const NUMBER: Shape = Shape::Number(Bound::None);
const POSITIVE_COUNT: Shape = Shape::Integer { min: 1, max: u32::MAX as i64 };

static DATE: Format = Format {
    what: "date",
    pattern: None,
    check: |text| DateTime::parse(text).map(drop).ok_or_else(|| "expected a form such as 2026-11-16".to_owned()),
};

static DATE_FORMAT: Format = Format {
    what: "date format",
    pattern: None,
    check: |text| DateFormat::try_from(text.to_owned()).map(drop).map_err(|error| error.reason),
};

const EXCLUSIVE_MIN: Key =
    Key::with_default("exclusive_min", Shape::Bool, "false", "Whether the minimum itself is outside.");
const EXCLUSIVE_MAX: Key =
    Key::with_default("exclusive_max", Shape::Bool, "false", "Whether the maximum itself is outside.");
const EXCLUSIVE: Key = Key::with_default("exclusive", Shape::Bool, "false", "Whether the truth itself fails.");
const NORMALIZE_BOTH: Key =
    Key::with_default("normalize", NORMALIZERS, "[lowercase, strip]", "Normalizers of both sides, in order.");
const NORMALIZE_NONE: Key =
    Key::with_default("normalize", NORMALIZERS, "[]", "Normalizers of the text and of the substrings, in order.");
const RELATIVE: Key =
    Key::with_default("mode", MODE, "relative", "Distances are fractions of the truth, or `absolute`.");
const DECAY_KEY: Key =
    Key::with_default("decay", DECAY, "linear", "How credit falls: `linear` (1 - r) or `quadratic` (1 - r²).");
const PATTERN: Key =
    Key::required("pattern", Shape::Formatted(&REGEX), "The expression. It may match anywhere in the text.");

/// The checks of fields.
pub(crate) static CHECK: Variants = Variants {
    name: "check",
    what: "check",
    cases: &[
        Variant { name: "boolean_match", doc: "Value and truth are the same boolean.", content: Content::None },
        Variant {
            name: "exact_match",
            doc: "Value and truth are the same text after normalization.",
            content: Content::Keys(&[NORMALIZE_BOTH]),
        },
        Variant {
            name: "contains_any",
            doc: "The value contains at least one of the substrings.",
            content: Content::Keys(&[
                Key::required("substrings", SUBSTRINGS, "The texts to look for."),
                NORMALIZE_NONE,
            ]),
        },
        Variant {
            name: "contains_all",
            doc: "The value contains all substrings.",
            content: Content::Keys(&[
                Key::required("substrings", SUBSTRINGS, "The texts to look for."),
                NORMALIZE_NONE,
            ]),
        },
        Variant {
            name: "regex_match",
            doc: "The value matches a regular expression.",
            content: Content::Keys(&[
                PATTERN,
                Key::with_default(
                    "flags",
                    Shape::List {
                        items: &Shape::Choice(&["ignore_case", "multiline", "dot_all", "verbose"]),
                        min: 0,
                        max: MAX_NORMALIZERS,
                    },
                    "[]",
                    "Flags: `ignore_case`, `multiline`, `dot_all` and `verbose`.",
                ),
            ]),
        },
        Variant {
            name: "semantic_match",
            doc: "Value and truth have a similar meaning. It needs an embedding model.",
            content: Content::Keys(&[Key::with_default(
                "threshold",
                Shape::Number(Bound::Fraction),
                "0.85",
                "The minimum cosine similarity.",
            )]),
        },
        Variant { name: "numeric_exact", doc: "Value and truth are the same number.", content: Content::None },
        Variant {
            name: "numeric_tolerance",
            doc: "The value is at most `tolerance` away from the truth.",
            content: Content::Keys(&[Key::required("tolerance", POSITIVE, "The maximum distance."), RELATIVE]),
        },
        Variant {
            name: "numeric_range",
            doc: "The value is in a range.",
            content: Content::Keys(&[
                Key::optional("min", NUMBER, "The minimum."),
                Key::optional("max", NUMBER, "The maximum."),
                EXCLUSIVE_MIN,
                EXCLUSIVE_MAX,
            ]),
        },
        Variant {
            name: "numeric_minimum",
            doc: "The value is at least the truth.",
            content: Content::Keys(&[EXCLUSIVE]),
        },
        Variant {
            name: "numeric_maximum",
            doc: "The value is at most the truth.",
            content: Content::Keys(&[EXCLUSIVE]),
        },
        Variant {
            name: "numeric_graded",
            doc: "The value is near the truth. The score falls with the distance.",
            content: Content::Keys(&[
                Key::required("cutoff", POSITIVE, "The distance at which the score is 0."),
                Key::optional(
                    "full_credit",
                    Shape::Number(Bound::NotNegative),
                    "The distance up to which the score is 1 and the check passes. Without it, the check passes up to the cutoff.",
                ),
                RELATIVE,
                DECAY_KEY,
            ]),
        },
        Variant {
            name: "numeric_range_graded",
            doc: "The value is in a range. The score falls outside of it.",
            content: Content::Keys(&[
                Key::required("min", NUMBER, "The minimum."),
                Key::required("max", NUMBER, "The maximum."),
                Key::required("margin", POSITIVE, "The distance from the range at which the score is 0."),
                Key::with_default("mode", MODE, "absolute", "`relative` margins are fractions of the range's width."),
                DECAY_KEY,
                EXCLUSIVE_MIN,
                EXCLUSIVE_MAX,
            ]),
        },
        Variant {
            name: "numeric_threshold_graded",
            doc: "The value is on the right side of the truth. The score falls on the other side.",
            content: Content::Keys(&[
                Key::required(
                    "direction",
                    Shape::Choice(&["max", "min"]),
                    "`max`: the truth is the maximum; `min`: it is the minimum.",
                ),
                Key::required("margin", POSITIVE, "The distance from the truth at which the score is 0."),
                RELATIVE,
                DECAY_KEY,
                EXCLUSIVE,
            ]),
        },
        Variant {
            name: "set_containment",
            doc: "The values, as a set, relate to the truth.",
            content: Content::Keys(&[
                Key::with_default(
                    "mode",
                    Shape::Choice(&["exact", "subset", "superset", "overlap"]),
                    "exact",
                    "`exact`: the same items; `subset`: all values are in the truth; `superset`: all of the truth was \
                     found; `overlap`: enough items are in both.",
                ),
                Key::optional(
                    "min_overlap",
                    POSITIVE_COUNT,
                    "The minimum number of common items for `overlap`; 1 if absent.",
                ),
            ]),
        },
        Variant {
            name: "ordered_match",
            doc: "Value and truth have the same items in the same order after normalization.",
            content: Content::Keys(&[NORMALIZE_BOTH]),
        },
        Variant { name: "literal_match", doc: "Value and truth are the same option.", content: Content::None },
        Variant {
            name: "date_match",
            doc: "Value and truth are the same day.",
            content: Content::Keys(&[Key::optional(
                "format",
                Shape::Formatted(&DATE_FORMAT),
                "The form of both, for example `%d/%m/%Y`. Without it, common forms are understood.",
            )]),
        },
        Variant {
            name: "date_tolerance",
            doc: "The value is at most `tolerance` away from the truth.",
            content: Content::Keys(&[
                Key::required("tolerance", POSITIVE_COUNT, "The maximum distance."),
                Key::with_default(
                    "unit",
                    Shape::Choice(&["days", "hours", "minutes"]),
                    "days",
                    "`days`, `hours` or `minutes`.",
                ),
            ]),
        },
        Variant {
            name: "date_range",
            doc: "The value is in a range.",
            content: Content::Keys(&[
                Key::optional("min", Shape::Formatted(&DATE), "The earliest time."),
                Key::optional("max", Shape::Formatted(&DATE), "The latest time."),
            ]),
        },
        Variant {
            name: "trace_regex",
            doc: "The response matches a regular expression.",
            content: Content::Keys(&[
                PATTERN,
                Key::with_default("count_min", POSITIVE_COUNT, "1", "The minimum number of matches."),
            ]),
        },
        Variant {
            name: "trace_contains",
            doc: "The response contains a text.",
            content: Content::Keys(&[Key::required("substring", FILLED_TEXT, "The text to look for.")]),
        },
        Variant {
            name: "trace_length",
            doc: "The response has a length in a range.",
            content: Content::Keys(&[
                Key::optional("min", COUNT, "The minimum length."),
                Key::optional("max", COUNT, "The maximum length."),
                Key::with_default("unit", Shape::Choice(&["chars", "words"]), "chars", "`chars` or `words`."),
            ]),
        },
    ],
    texts_are_names: false,
};
