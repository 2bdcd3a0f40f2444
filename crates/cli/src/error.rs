//! The usage error: a request that cannot be carried out as given. It ends the program with exit code 2.

/// What is wrong with the command line, the environment or the configuration, and how to fix it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct UsageError {
    pub(crate) message: String,
    pub(crate) hint: Option<String>,
}

pub(crate) fn usage_error(message: String, hint: Option<&str>) -> UsageError {
    UsageError { message, hint: hint.map(str::to_owned) }
}
