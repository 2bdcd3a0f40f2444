//! Ids of calls: one for each, whatever the provider thinks of ids.

use std::collections::HashSet;
use std::sync::Arc;

use wharf_protocol::Message;

/// The ids that are taken in a conversation.
pub(super) struct Ids(HashSet<Arc<str>>);

impl Ids {
    /// Those of all calls so far.
    pub(super) fn of(messages: &[Message]) -> Self {
        Self(messages.iter().flat_map(Message::calls).map(|call| Arc::clone(&call.id)).collect())
    }

    /// The provider's id for a call, or one of our own where it has none or has used it before: results are told apart
    /// by nothing else.
    pub(super) fn unique(&mut self, given: &str) -> Arc<str> {
        let given: Arc<str> = given.into();
        if !given.is_empty() && self.0.insert(Arc::clone(&given)) {
            return given;
        }
        let mut number = self.0.len() + 1;
        loop {
            let made: Arc<str> = format!("call_{number}").into();
            if self.0.insert(Arc::clone(&made)) {
                return made;
            }
            number += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_that_are_missing_or_taken_are_replaced() {
        let mut ids = Ids(HashSet::from(["call_3".into()]));
        let made = ["a", "a", "", "call_3", "b"].map(|given| ids.unique(given).to_string());
        assert_eq!(made, ["a", "call_4", "call_5", "call_6", "b"]);
        assert_eq!(ids.0.len(), 6);
    }
}
