//! Rules that a template keeps beyond its types: names, truths that fit their checks, and parameters that make sense.

use std::collections::BTreeSet;
use std::fmt;

use serde_json::Value;

use super::check::{Check, SetMode};
use super::date::DateTime;
use super::normalize::normalized;
use super::{Field, FieldType, Strategy, Template};
use crate::problem::{Finding, Path, quoted};

/// The problems of a template.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct InvalidTemplate {
    findings: Vec<Finding>,
}

impl fmt::Display for InvalidTemplate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown: Vec<String> = self.findings.iter().map(ToString::to_string).collect();
        write!(f, "invalid template: {}", shown.join("; "))
    }
}

/// The maximum length of a field's name: providers limit the names of properties.
const MAX_NAME_BYTES: usize = 64;

impl Template {
    /// Checks the rules that the types cannot express.
    ///
    /// # Errors
    /// Returns all problems.
    pub fn validate(&self) -> Result<(), InvalidTemplate> {
        let findings = self.findings();
        if findings.is_empty() { Ok(()) } else { Err(InvalidTemplate { findings }) }
    }

    /// Returns all problems, with paths from the template.
    pub(crate) fn findings(&self) -> Vec<Finding> {
        let mut findings = Vec::new();
        let root = Path::default();
        let fields = root.key("fields");
        if self.fields.is_empty() {
            findings.push(Finding::new(fields.clone(), "a template needs at least one field"));
        }
        let mut names = BTreeSet::new();
        for (index, field) in self.fields.iter().enumerate() {
            let path = fields.index(index);
            if !names.insert(field.name.as_str()) {
                findings.push(Finding::new(path.key("name"), format!("duplicate field {}", quoted(&field.name))));
            }
            check_field(field, &path, &mut findings);
        }
        let total: f64 = self.fields.iter().map(|field| field.weight).sum();
        if !self.fields.is_empty() && total <= 0.0 {
            let finding = Finding::new(fields, "every field has the weight 0");
            findings.push(finding.with_hint("give at least one field a weight greater than 0"));
        }
        if let Some(strategy) = &self.pass {
            check_strategy(strategy, &names, &root.key("pass"), &mut findings);
        }
        findings
    }
}

fn check_field(field: &Field, path: &Path, findings: &mut Vec<Finding>) {
    if !is_identifier(&field.name) {
        let finding = Finding::new(path.key("name"), format!("invalid field name {}", quoted(&field.name)));
        findings.push(finding.with_hint("use up to 64 letters, digits and `_`, and start with a letter or `_`"));
    }
    if !field.check.is_on_response() && field.description.trim().is_empty() {
        let finding = Finding::new(path.key("description"), "missing description");
        findings.push(finding.with_hint("the judge finds the value by its description"));
    }
    if !field.weight.is_finite() || field.weight < 0.0 {
        findings.push(Finding::new(path.key("weight"), "the weight must be 0 or greater"));
    }
    if let FieldType::Literal(options) = &field.kind {
        check_options(options, &path.key("type"), findings);
    }
    findings.extend(comparison_findings(field, path));
}

/// Returns the problems of comparing values of a field with its truth.
pub(crate) fn comparison_findings(field: &Field, path: &Path) -> Vec<Finding> {
    if !field.check.accepts(&field.kind) {
        let types = field.check.field_types().join(" or ");
        let message = format!("`{}` does not fit a field of type `{}`", field.check.name(), field.kind.name());
        let hint = format!("use the type {types}, or another check");
        return vec![Finding::new(path.key("check"), message).with_hint(hint)];
    }
    let mut findings = Vec::new();
    check_truth(field, path, &mut findings);
    for (parameter, message) in invalid_parameters(&field.check) {
        let parameter = path.key("check").key(field.check.name()).key(parameter);
        findings.push(Finding::new(parameter, message));
    }
    findings
}

/// Returns whether a text can be the name of a field or a variable.
pub(crate) fn is_identifier(name: &str) -> bool {
    let starts = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    starts && name.len() <= MAX_NAME_BYTES && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

fn check_options(options: &[String], path: &Path, findings: &mut Vec<Finding>) {
    let path = path.key("literal");
    if options.len() < 2 {
        findings.push(Finding::new(path.clone(), "a literal needs at least two options"));
    }
    let mut seen = BTreeSet::new();
    for (index, option) in options.iter().enumerate() {
        if option.trim().is_empty() {
            findings.push(Finding::new(path.index(index), "an option must not be empty"));
        } else if !seen.insert(option) {
            findings.push(Finding::new(path.index(index), format!("duplicate option {}", quoted(option))));
        }
    }
}

fn check_truth(field: &Field, path: &Path, findings: &mut Vec<Finding>) {
    let path = path.key("truth");
    if field.truth.is_null() {
        if field.check.needs_truth() {
            findings.push(Finding::new(path, format!("missing truth: `{}` compares with it", field.check.name())));
        }
        return;
    }
    if let Err(expected) = fits(field) {
        let mut finding = Finding::new(path, format!("the truth must be {expected}, found {}", shown(&field.truth)));
        if matches!((&field.kind, &field.truth), (FieldType::Str, Value::Number(_) | Value::Bool(_))) {
            finding = finding.with_hint("put the value in quotes");
        }
        if matches!(
            (&field.kind, &field.truth),
            (FieldType::Bool | FieldType::Int | FieldType::Float, Value::String(_))
        ) {
            finding = finding.with_hint("write the value without quotes");
        }
        findings.push(finding);
    }
}

/// Returns what the truth must be, unless it is that.
fn fits(field: &Field) -> Result<(), String> {
    let truth = &field.truth;
    let (fits, expected) = match &field.kind {
        FieldType::Bool => (truth.is_boolean(), "true or false"),
        FieldType::Int => (truth.is_i64() || truth.is_u64(), "an integer"),
        FieldType::Float => (truth.is_number(), "a number"),
        FieldType::ListStr => {
            (truth.as_array().is_some_and(|items| items.iter().all(Value::is_string)), "a list of texts")
        }
        FieldType::Literal(options) => {
            let is_option = truth.as_str().is_some_and(|truth| options.iter().any(|option| option == truth));
            (is_option, "one of the field's options")
        }
        FieldType::Str | FieldType::Date => (truth.is_string(), "a text"),
    };
    if !fits {
        return Err(expected.to_owned());
    }
    let is_date = |text: &str| field.check.parse_date(text).is_some();
    let compares_dates = matches!(&field.check, Check::DateMatch(_) | Check::DateTolerance(_));
    if (compares_dates || field.kind == FieldType::Date) && !truth.as_str().is_some_and(is_date) {
        return Err(format!("a date in the form {}", field.check.date_form()));
    }
    Ok(())
}

/// Returns the parameters whose values make no sense.
fn invalid_parameters(check: &Check) -> Vec<(&'static str, &'static str)> {
    let mut invalid = Vec::new();
    let mut expect = |holds: bool, parameter: &'static str, message: &'static str| {
        if !holds {
            invalid.push((parameter, message));
        }
    };
    let is_positive = |number: f64| number.is_finite() && number > 0.0;
    let is_finite = |number: Option<f64>| number.is_none_or(f64::is_finite);
    match check {
        Check::ContainsAny(parameters) | Check::ContainsAll(parameters) => {
            expect(!parameters.substrings.is_empty(), "substrings", "the list must not be empty");
            let is_filled = parameters.substrings.iter().all(|text| !text.is_empty());
            expect(is_filled, "substrings", "an empty text is in every text");
            let is_left = |text: &String| text.is_empty() || !normalized(&parameters.normalize, text).is_empty();
            let is_compared = parameters.substrings.iter().all(is_left);
            expect(is_compared, "substrings", "nothing is left of a text after `normalize`, so it is in every text");
        }
        Check::SemanticMatch(parameters) => {
            let in_range = (0.0..=1.0).contains(&parameters.threshold);
            expect(in_range, "threshold", "the threshold must be from 0 to 1");
        }
        Check::NumericTolerance(parameters) => {
            expect(is_positive(parameters.tolerance), "tolerance", "the tolerance must be greater than 0");
        }
        Check::NumericRange(parameters) => {
            expect(is_finite(parameters.min) && is_finite(parameters.max), "min", "the range must be finite");
            let is_bounded = parameters.min.is_some() || parameters.max.is_some();
            expect(is_bounded, "min", "a range needs `min`, `max` or both");
            let is_ordered = parameters.min.zip(parameters.max).is_none_or(|(min, max)| min <= max);
            expect(is_ordered, "max", "`max` must not be less than `min`");
        }
        Check::NumericGraded(parameters) => {
            expect(is_positive(parameters.cutoff), "cutoff", "the cutoff must be greater than 0");
            let is_inner = parameters.full_credit.is_none_or(|inner| inner >= 0.0 && inner < parameters.cutoff);
            expect(is_inner, "full_credit", "`full_credit` must be 0 or greater and less than `cutoff`");
        }
        Check::NumericRangeGraded(parameters) => {
            let is_ordered =
                parameters.min.is_finite() && parameters.max.is_finite() && parameters.min < parameters.max;
            expect(is_ordered, "max", "`max` must be greater than `min`");
            expect(is_positive(parameters.margin), "margin", "the margin must be greater than 0");
        }
        Check::NumericThresholdGraded(parameters) => {
            expect(is_positive(parameters.margin), "margin", "the margin must be greater than 0");
        }
        Check::SetContainment(parameters) => {
            let fits = parameters.min_overlap.is_none() || parameters.mode == SetMode::Overlap;
            expect(fits, "min_overlap", "`min_overlap` applies to the mode `overlap` only");
            expect(parameters.min_overlap != Some(0), "min_overlap", "`min_overlap` must be greater than 0");
        }
        Check::DateTolerance(parameters) => {
            expect(parameters.tolerance > 0, "tolerance", "the tolerance must be greater than 0");
        }
        Check::DateRange(parameters) => {
            let is_bounded = parameters.min.is_some() || parameters.max.is_some();
            expect(is_bounded, "min", "a range needs `min`, `max` or both");
            let parse = |text: &Option<String>| text.as_deref().map(DateTime::parse);
            let (min, max) = (parse(&parameters.min), parse(&parameters.max));
            expect(min != Some(None), "min", "expected a date such as 2026-11-16");
            expect(max != Some(None), "max", "expected a date such as 2026-11-16");
            let is_ordered = match (min.flatten(), max.flatten()) {
                (Some(min), Some(max)) => min.instant() <= max.instant(),
                _ => true,
            };
            expect(is_ordered, "max", "`max` must not be before `min`");
        }
        Check::TraceRegex(parameters) => {
            expect(parameters.count_min != Some(0), "count_min", "`count_min` must be greater than 0");
        }
        Check::TraceContains(parameters) => {
            expect(!parameters.substring.is_empty(), "substring", "an empty text is in every response");
        }
        Check::TraceLength(parameters) => {
            let is_bounded = parameters.min.is_some() || parameters.max.is_some();
            expect(is_bounded, "min", "a range needs `min`, `max` or both");
            let is_ordered = parameters.min.zip(parameters.max).is_none_or(|(min, max)| min <= max);
            expect(is_ordered, "max", "`max` must not be less than `min`");
        }
        Check::BooleanMatch
        | Check::ExactMatch(_)
        | Check::RegexMatch(_)
        | Check::NumericExact
        | Check::NumericMinimum(_)
        | Check::NumericMaximum(_)
        | Check::OrderedMatch(_)
        | Check::LiteralMatch
        | Check::DateMatch(_) => {}
    }
    invalid
}

fn check_strategy(strategy: &Strategy, names: &BTreeSet<&str>, path: &Path, findings: &mut Vec<Finding>) {
    let inner_path = match strategy {
        Strategy::Field(name) => {
            if !names.contains(name.as_str()) {
                let mut finding = Finding::new(path.clone(), format!("unknown field {}", quoted(name)));
                if let Some(similar) = wharf_protocol::nearest(name, names.iter().copied()) {
                    finding = finding.with_hint(format!("did you mean `{similar}`?"));
                }
                findings.push(finding);
            }
            return;
        }
        Strategy::AllOf(_) => path.key("all_of"),
        Strategy::AnyOf(_) => path.key("any_of"),
        Strategy::AtLeastN { n, of } => {
            let path = path.key("at_least_n");
            if *n == 0 || *n > of.len() {
                let message = format!("`n` must be from 1 to {}, the number of candidates", of.len());
                findings.push(Finding::new(path.key("n"), message));
            }
            path.key("of")
        }
    };
    if strategy.inner().is_empty() {
        findings.push(Finding::new(inner_path.clone(), "the list must not be empty"));
    }
    for (index, inner) in strategy.inner().iter().enumerate() {
        check_strategy(inner, names, &inner_path.index(index), findings);
    }
}

fn shown(value: &Value) -> String {
    match value {
        Value::String(text) => quoted(text),
        Value::Array(_) => "a list".to_owned(),
        Value::Object(_) => "a mapping".to_owned(),
        scalar => scalar.to_string(),
    }
}
