//! Answer templates: the source text of a Python class, read into a template in Wharf's notation, and written from one.

mod infer;
mod read;
mod write;

pub(super) use read::{read, read_check_object};
pub(super) use write::{write, write_check_object};

/// What happens to templates whose verdict is code.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum HandWritten {
    /// They are left out.
    #[default]
    LeaveOut,
    /// Where their truths are literal, their checks are inferred from the types of their fields, and listed.
    Infer,
}

/// The names of the checks, here and there.
const CHECKS: [(&str, &str); 23] = [
    ("boolean_match", "BooleanMatch"),
    ("exact_match", "ExactMatch"),
    ("contains_any", "ContainsAny"),
    ("contains_all", "ContainsAll"),
    ("regex_match", "RegexMatch"),
    ("semantic_match", "SemanticMatch"),
    ("numeric_exact", "NumericExact"),
    ("numeric_tolerance", "NumericTolerance"),
    ("numeric_range", "NumericRange"),
    ("numeric_minimum", "NumericMinimum"),
    ("numeric_maximum", "NumericMaximum"),
    ("numeric_graded", "NumericGraded"),
    ("numeric_range_graded", "NumericRangeGraded"),
    ("numeric_threshold_graded", "NumericThresholdGraded"),
    ("set_containment", "SetContainment"),
    ("ordered_match", "OrderedMatch"),
    ("literal_match", "LiteralMatch"),
    ("date_match", "DateMatch"),
    ("date_tolerance", "DateTolerance"),
    ("date_range", "DateRange"),
    ("trace_regex", "TraceRegex"),
    ("trace_contains", "TraceContains"),
    ("trace_length", "TraceLength"),
];

/// The flags of regular expressions, here and there, with their short names.
const FLAGS: [(&str, &str, &str); 4] = [
    ("ignore_case", "IGNORECASE", "I"),
    ("multiline", "MULTILINE", "M"),
    ("dot_all", "DOTALL", "S"),
    ("verbose", "VERBOSE", "X"),
];
