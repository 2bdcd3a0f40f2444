//! Traits that a regular expression decides.

use super::{TraitOutcome, TraitValue};
use crate::benchmark::RegexTrait;

/// Matches a text. A text that matches is `true`, unless the result is inverted.
pub(crate) fn match_pattern(of: &RegexTrait, text: &str) -> TraitOutcome {
    match of.expression() {
        Ok(expression) => {
            let matches = expression.is_match(text);
            TraitOutcome::Value(TraitValue::Boolean(matches != of.invert_result))
        }
        Err(error) => TraitOutcome::Failed(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn case_and_inversion_are_settings() {
        let check = |settings: serde_json::Value, text: &str, expected: bool| {
            let mut of = json!({"pattern": "paris$"});
            of.as_object_mut().unwrap().extend(settings.as_object().unwrap().clone());
            let of: RegexTrait = serde_json::from_value(of).unwrap();
            assert_eq!(
                match_pattern(&of, text),
                TraitOutcome::Value(TraitValue::Boolean(expected)),
                "{settings} {text}"
            );
        };
        check(json!({}), "In paris", true);
        check(json!({}), "In Paris", false);
        check(json!({"case_sensitive": false}), "In Paris", true);
        check(json!({"case_sensitive": false, "invert_result": true}), "In Paris", false);
        check(json!({"invert_result": true}), "In Rome", true);
    }
}
