//! Limits the size of a schema's compiled patterns.
//!
//! The estimate from a pattern's text refuses most that are too large before they are compiled. This is exact, also
//! where the estimate is wrong, and it stops between two patterns when its caller has.

use jsonschema_regex::to_rust_regex;
use regex_automata::nfa::thompson;

use super::elsewhere::Caller;
use super::error::SchemaError;

/// The most bytes of all patterns of a schema together, in the first form into which `regex` compiles them. Several
/// times as many are used in the end.
const MAX_COMPILED_BYTES: usize = 32 << 20;

/// Compiles each pattern as jsonschema will, and fails if they are too large together.
pub(super) fn check(patterns: &[String], caller: &Caller) -> Result<(), SchemaError> {
    check_up_to(MAX_COMPILED_BYTES, patterns, caller)
}

fn check_up_to(max_bytes: usize, patterns: &[String], caller: &Caller) -> Result<(), SchemaError> {
    let mut left = max_bytes;
    for pattern in patterns {
        if caller.gave_up() {
            return Err(SchemaError::TimedOut);
        }
        // Validation reports patterns that do not compile at all.
        let Ok(translated) = to_rust_regex(pattern) else { continue };
        let config = thompson::Config::new().nfa_size_limit(Some(left));
        match thompson::Compiler::new().configure(config).build(&translated) {
            Ok(compiled) => left = left.saturating_sub(compiled.memory_usage()),
            Err(error) if error.size_limit().is_some() => return Err(SchemaError::patterns_too_large()),
            Err(_) => {}
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_are_too_large_together_whatever_was_estimated() {
        let pattern = |count: usize| format!("[a-z]{{{count}}}");
        let patterns: Vec<String> = (100..200).map(pattern).collect();
        assert_eq!(check_up_to(1 << 20, &patterns[..10], &Caller::blocked()), Ok(()));
        assert_eq!(check_up_to(1 << 17, &patterns, &Caller::blocked()), Err(SchemaError::patterns_too_large()));
        assert_eq!(check(&[".{999}{999}".to_owned()], &Caller::blocked()), Err(SchemaError::patterns_too_large()));
        assert_eq!(check(&["(".to_owned(), r"(?=a)".to_owned()], &Caller::blocked()), Ok(()));
    }

    #[test]
    fn no_further_pattern_is_compiled_after_the_caller_gave_up() {
        let (waiting, caller) = Caller::waiting();
        let patterns = ["a".to_owned()];
        assert_eq!(check(&patterns, &caller), Ok(()));
        drop(waiting);
        assert!(matches!(check(&patterns, &caller), Err(SchemaError::TimedOut)));
    }
}
