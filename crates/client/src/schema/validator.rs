//! The JSON Schema validator. Without the feature `validation` every value is valid.

#[cfg(feature = "validation")]
pub(super) use checking::Validator;
#[cfg(not(feature = "validation"))]
pub(super) use unchecked::Validator;

#[cfg(feature = "validation")]
mod checking {
    use jsonschema::{PatternOptions, ValidationError};
    use serde_json::Value;

    use crate::SchemaViolation;
    use crate::schema::compiled_size;
    use crate::schema::elsewhere::Caller;
    use crate::schema::error::SchemaError;

    /// The most violations that are reported of one value.
    const MAX_VIOLATIONS: usize = 10;

    #[derive(Debug)]
    pub(in crate::schema) struct Validator(jsonschema::Validator);

    impl Validator {
        /// Compiles a schema with these patterns, unless the caller gives up.
        pub(in crate::schema) fn compile(
            document: &Value,
            patterns: &[String],
            caller: &Caller,
        ) -> Result<Self, SchemaError> {
            compiled_size::check(patterns, caller)?;
            let options = jsonschema::options().with_pattern_options(PatternOptions::regex());
            options.build(document).map(Self).map_err(|error| SchemaError::Unusable(truncated(error.to_string())))
        }

        /// Whether a value is valid.
        pub(in crate::schema) fn accepts(&self, value: &Value) -> bool {
            self.0.is_valid(value)
        }

        /// Returns the first violation.
        pub(in crate::schema) fn check(&self, value: &Value) -> Result<(), SchemaViolation> {
            self.0.validate(value).map_err(|error| violation(&error))
        }

        /// Returns the first violations. The validator collects all of them, however many there are.
        pub(in crate::schema) fn check_all(&self, value: &Value) -> Result<(), SchemaViolation> {
            let errors = self.0.iter_errors(value).take(MAX_VIOLATIONS);
            let mut violations = errors.map(|error| violation(&error));
            match violations.next() {
                Some(first) => Err(SchemaViolation { others: violations.collect(), ..first }),
                None => Ok(()),
            }
        }
    }

    fn violation(error: &ValidationError<'_>) -> SchemaViolation {
        SchemaViolation::at(truncated(error.instance_path().to_string()), truncated(error.to_string()))
    }

    /// Truncates a message or a path. They quote the invalid value or schema, which may be megabytes long.
    fn truncated(message: String) -> String {
        const MAX_MESSAGE_CHARS: usize = 300;
        match message.char_indices().nth(MAX_MESSAGE_CHARS) {
            Some((at, _)) => format!("{}…", &message[..at]),
            None => message,
        }
    }
}

#[cfg(not(feature = "validation"))]
mod unchecked {
    use serde_json::Value;

    use crate::SchemaViolation;
    use crate::schema::elsewhere::Caller;
    use crate::schema::error::SchemaError;

    #[derive(Debug)]
    pub(in crate::schema) struct Validator;

    impl Validator {
        #[expect(clippy::unnecessary_wraps, reason = "the same as with validation")]
        pub(in crate::schema) fn compile(_: &Value, _: &[String], _: &Caller) -> Result<Self, SchemaError> {
            Ok(Self)
        }

        #[expect(clippy::unused_self, reason = "the same as with validation")]
        pub(in crate::schema) fn accepts(&self, _: &Value) -> bool {
            true
        }

        #[expect(clippy::unused_self, clippy::unnecessary_wraps, reason = "the same as with validation")]
        pub(in crate::schema) fn check(&self, _: &Value) -> Result<(), SchemaViolation> {
            Ok(())
        }

        #[expect(clippy::unused_self, clippy::unnecessary_wraps, reason = "the same as with validation")]
        pub(in crate::schema) fn check_all(&self, _: &Value) -> Result<(), SchemaViolation> {
            Ok(())
        }
    }
}
