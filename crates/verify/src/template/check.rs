//! The checks of fields: 20 comparisons with the truth, and three checks of the response itself.

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value};

use super::FieldType;
use super::date::{DateFormat, DateTime};
use super::normalize::Normalizer;
use crate::expression::{Expression, InvalidExpression, RegexFlag};

/// A comparison of an extracted value with the truth, or a check of the response. Serialized under its name in snake case.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", remote = "Self")]
pub enum Check {
    /// Both are the same truth value.
    BooleanMatch,
    /// Both texts are equal after normalization.
    ExactMatch(ExactMatch),
    /// The text contains at least one of the substrings.
    ContainsAny(Contains),
    /// The text contains all substrings.
    ContainsAll(Contains),
    /// The text matches a regular expression.
    RegexMatch(RegexMatch),
    /// The texts have a similar meaning. Needs embeddings.
    SemanticMatch(SemanticMatch),
    /// Both numbers are equal.
    NumericExact,
    /// The number is at most a tolerance away from the truth.
    NumericTolerance(NumericTolerance),
    /// The number is in a range.
    NumericRange(NumericRange),
    /// The number is at least the truth.
    NumericMinimum(NumericBound),
    /// The number is at most the truth.
    NumericMaximum(NumericBound),
    /// The number is near the truth, with partial credit by distance.
    NumericGraded(NumericGraded),
    /// The number is in a range, with partial credit near it.
    NumericRangeGraded(NumericRangeGraded),
    /// The number is on the right side of the truth, with partial credit near it.
    NumericThresholdGraded(NumericThresholdGraded),
    /// The list, as a set, relates to the truth.
    SetContainment(SetContainment),
    /// Both lists are equal item by item after normalization.
    OrderedMatch(ExactMatch),
    /// Both are the same option.
    LiteralMatch,
    /// Both are the same day.
    DateMatch(DateMatch),
    /// The time is at most a tolerance away from the truth.
    DateTolerance(DateTolerance),
    /// The time is in a range.
    DateRange(DateRange),
    /// The response matches a regular expression.
    TraceRegex(TraceRegex),
    /// The response contains a text.
    TraceContains(TraceContains),
    /// The response has a length in a range.
    TraceLength(TraceLength),
}

/// Parameters of `exact_match` and `ordered_match`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ExactMatch {
    /// The normalizers of both sides, in order.
    pub normalize: Vec<Normalizer>,
}

impl Default for ExactMatch {
    fn default() -> Self {
        Self { normalize: vec![Normalizer::Lowercase, Normalizer::Strip] }
    }
}

/// Parameters of `contains_any` and `contains_all`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Contains {
    /// The texts to look for.
    pub substrings: Vec<String>,
    /// The normalizers of the text and of the substrings, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub normalize: Vec<Normalizer>,
}

/// Parameters of `regex_match`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "RawRegexMatch")]
pub struct RegexMatch {
    /// The expression. It may match anywhere in the text.
    pub pattern: Expression,
    /// Flags of the expression.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub flags: Vec<RegexFlag>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawRegexMatch {
    pattern: String,
    #[serde(default)]
    flags: Vec<RegexFlag>,
}

impl TryFrom<RawRegexMatch> for RegexMatch {
    type Error = InvalidExpression;

    fn try_from(raw: RawRegexMatch) -> Result<Self, InvalidExpression> {
        Ok(Self { pattern: Expression::with_flags(&raw.pattern, &raw.flags)?, flags: raw.flags })
    }
}

/// Parameters of `semantic_match`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SemanticMatch {
    /// The minimum cosine similarity.
    pub threshold: f64,
}

impl Default for SemanticMatch {
    fn default() -> Self {
        Self { threshold: 0.85 }
    }
}

/// How a distance is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DistanceMode {
    /// As a fraction of the truth, or of the width of a range.
    Relative,
    /// In the unit of the values.
    Absolute,
}

impl DistanceMode {
    fn relative() -> Self {
        Self::Relative
    }

    fn absolute() -> Self {
        Self::Absolute
    }
}

/// How partial credit falls with the distance.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Decay {
    /// `1 - r`.
    #[default]
    Linear,
    /// `1 - r²`.
    Quadratic,
}

/// Parameters of `numeric_tolerance`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NumericTolerance {
    /// The maximum distance.
    pub tolerance: f64,
    /// How the distance is measured.
    #[serde(default = "DistanceMode::relative")]
    pub mode: DistanceMode,
}

/// Parameters of `numeric_range`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct NumericRange {
    /// The minimum.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min: Option<f64>,
    /// The maximum.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max: Option<f64>,
    /// Whether the minimum itself is outside.
    pub exclusive_min: bool,
    /// Whether the maximum itself is outside.
    pub exclusive_max: bool,
}

/// Parameters of `numeric_minimum` and `numeric_maximum`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct NumericBound {
    /// Whether the truth itself fails.
    pub exclusive: bool,
}

/// Parameters of `numeric_graded`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NumericGraded {
    /// The distance at which the credit is 0.
    pub cutoff: f64,
    /// The distance up to which the credit is 1. If given, it is also the distance up to which the check passes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub full_credit: Option<f64>,
    /// How the distance is measured.
    #[serde(default = "DistanceMode::relative")]
    pub mode: DistanceMode,
    /// How the credit falls.
    #[serde(default)]
    pub decay: Decay,
}

/// Parameters of `numeric_range_graded`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NumericRangeGraded {
    /// The minimum.
    pub min: f64,
    /// The maximum.
    pub max: f64,
    /// The distance from the range at which the credit is 0.
    pub margin: f64,
    /// How the margin is measured.
    #[serde(default = "DistanceMode::absolute")]
    pub mode: DistanceMode,
    /// How the credit falls.
    #[serde(default)]
    pub decay: Decay,
    /// Whether the check fails at the minimum itself.
    #[serde(default)]
    pub exclusive_min: bool,
    /// Whether the check fails at the maximum itself.
    #[serde(default)]
    pub exclusive_max: bool,
}

/// The side of a threshold that is right.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Direction {
    /// The truth is the maximum.
    Max,
    /// The truth is the minimum.
    Min,
}

/// Parameters of `numeric_threshold_graded`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NumericThresholdGraded {
    /// The side that is right.
    pub direction: Direction,
    /// The distance from the truth at which the credit is 0.
    pub margin: f64,
    /// How the margin is measured.
    #[serde(default = "DistanceMode::relative")]
    pub mode: DistanceMode,
    /// How the credit falls.
    #[serde(default)]
    pub decay: Decay,
    /// Whether the check fails at the truth itself.
    #[serde(default)]
    pub exclusive: bool,
}

/// How two sets relate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SetMode {
    /// The same items.
    #[default]
    Exact,
    /// Every extracted item is in the truth.
    Subset,
    /// Every item of the truth was extracted.
    Superset,
    /// Enough items are in both.
    Overlap,
}

/// Parameters of `set_containment`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SetContainment {
    /// The required relation.
    pub mode: SetMode,
    /// The minimum number of common items, for `overlap`. `None` is 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_overlap: Option<usize>,
}

/// Parameters of `date_match`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct DateMatch {
    /// The form of both dates. `None` accepts common forms.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub format: Option<DateFormat>,
}

/// Units of time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TimeUnit {
    /// 24 hours.
    #[default]
    Days,
    /// 60 minutes.
    Hours,
    /// 60 seconds.
    Minutes,
}

/// Parameters of `date_tolerance`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DateTolerance {
    /// The maximum distance.
    pub tolerance: u32,
    /// Unit of the distance.
    #[serde(default)]
    pub unit: TimeUnit,
}

/// Parameters of `date_range`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct DateRange {
    /// The earliest time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min: Option<String>,
    /// The latest time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max: Option<String>,
}

/// Parameters of `trace_regex`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TraceRegex {
    /// The expression. It may match anywhere in the response.
    pub pattern: Expression,
    /// The minimum number of matches. `None` is 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub count_min: Option<usize>,
}

/// Parameters of `trace_contains`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TraceContains {
    /// The text to look for.
    pub substring: String,
}

/// Units of a text's length.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LengthUnit {
    /// Characters.
    #[default]
    Chars,
    /// Words between white space.
    Words,
}

/// Parameters of `trace_length`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TraceLength {
    /// The minimum length.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min: Option<usize>,
    /// The maximum length.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max: Option<usize>,
    /// Unit of the length.
    pub unit: LengthUnit,
}

/// Checks that have no parameters.
const WITHOUT_PARAMETERS: [&str; 3] = ["boolean_match", "numeric_exact", "literal_match"];

impl<'de> Deserialize<'de> for Check {
    /// Accepts the name alone for every check whose parameters have defaults, and a map from the name to the parameters.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let written = Value::deserialize(deserializer)?;
        let is_bare = |name: &str| WITHOUT_PARAMETERS.contains(&name);
        let normalized = match written {
            Value::String(name) if !is_bare(&name) => {
                Value::Object(Map::from_iter([(name, Value::Object(Map::new()))]))
            }
            Value::Object(fields) if fields.len() == 1 => match fields.into_iter().next() {
                Some((name, Value::Object(parameters))) if is_bare(&name) && parameters.is_empty() => name.into(),
                Some((name, parameters)) => Value::Object(Map::from_iter([(name, parameters)])),
                None => Value::Null,
            },
            other => other,
        };
        Self::deserialize(normalized).map_err(D::Error::custom)
    }
}

impl Serialize for Check {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        Self::serialize(self, serializer)
    }
}

impl Check {
    /// Returns the name of the check in files.
    pub fn name(&self) -> &'static str {
        match self {
            Self::BooleanMatch => "boolean_match",
            Self::ExactMatch(_) => "exact_match",
            Self::ContainsAny(_) => "contains_any",
            Self::ContainsAll(_) => "contains_all",
            Self::RegexMatch(_) => "regex_match",
            Self::SemanticMatch(_) => "semantic_match",
            Self::NumericExact => "numeric_exact",
            Self::NumericTolerance(_) => "numeric_tolerance",
            Self::NumericRange(_) => "numeric_range",
            Self::NumericMinimum(_) => "numeric_minimum",
            Self::NumericMaximum(_) => "numeric_maximum",
            Self::NumericGraded(_) => "numeric_graded",
            Self::NumericRangeGraded(_) => "numeric_range_graded",
            Self::NumericThresholdGraded(_) => "numeric_threshold_graded",
            Self::SetContainment(_) => "set_containment",
            Self::OrderedMatch(_) => "ordered_match",
            Self::LiteralMatch => "literal_match",
            Self::DateMatch(_) => "date_match",
            Self::DateTolerance(_) => "date_tolerance",
            Self::DateRange(_) => "date_range",
            Self::TraceRegex(_) => "trace_regex",
            Self::TraceContains(_) => "trace_contains",
            Self::TraceLength(_) => "trace_length",
        }
    }

    /// Returns whether the response itself is checked, without the judge.
    pub fn is_on_response(&self) -> bool {
        matches!(self, Self::TraceRegex(_) | Self::TraceContains(_) | Self::TraceLength(_))
    }

    /// Returns whether the check compares with the field's truth; other checks have all they need in their parameters.
    pub fn needs_truth(&self) -> bool {
        !self.is_on_response()
            && !matches!(
                self,
                Self::ContainsAny(_)
                    | Self::ContainsAll(_)
                    | Self::RegexMatch(_)
                    | Self::NumericRange(_)
                    | Self::NumericRangeGraded(_)
                    | Self::DateRange(_)
            )
    }

    /// Returns the names of the field types that the check can compare.
    pub fn field_types(&self) -> &'static [&'static str] {
        match self {
            Self::BooleanMatch | Self::TraceRegex(_) | Self::TraceContains(_) | Self::TraceLength(_) => &["bool"],
            Self::ExactMatch(_)
            | Self::ContainsAny(_)
            | Self::ContainsAll(_)
            | Self::RegexMatch(_)
            | Self::SemanticMatch(_) => &["str", "literal", "date"],
            Self::NumericExact
            | Self::NumericTolerance(_)
            | Self::NumericRange(_)
            | Self::NumericMinimum(_)
            | Self::NumericMaximum(_)
            | Self::NumericGraded(_)
            | Self::NumericRangeGraded(_)
            | Self::NumericThresholdGraded(_) => &["int", "float"],
            Self::SetContainment(_) | Self::OrderedMatch(_) => &["list_str"],
            Self::LiteralMatch => &["literal", "str"],
            Self::DateMatch(_) | Self::DateTolerance(_) | Self::DateRange(_) => &["date", "str"],
        }
    }

    /// Parses a date in the form that the check expects.
    pub(super) fn parse_date(&self, text: &str) -> Option<DateTime> {
        match self {
            Self::DateMatch(DateMatch { format: Some(format) }) => format.parse(text),
            _ => DateTime::parse(text),
        }
    }

    /// Returns the form in which the judge writes a date.
    pub(super) fn date_form(&self) -> String {
        match self {
            Self::DateMatch(DateMatch { format: Some(format) }) => format.to_string(),
            Self::DateTolerance(parameters) if parameters.unit != TimeUnit::Days => "YYYY-MM-DDTHH:MM".to_owned(),
            _ => "YYYY-MM-DD".to_owned(),
        }
    }

    /// Returns whether the check can compare values of a field type.
    pub fn accepts(&self, kind: &FieldType) -> bool {
        self.field_types().contains(&kind.name())
    }
}
