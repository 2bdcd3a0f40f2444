//! Unique ids of tool calls, independent of the provider's ids.

use std::collections::HashSet;
use std::sync::Arc;

use wharf_protocol::Message;

/// The ids that are in use in a conversation.
pub(super) struct CallIds(HashSet<Arc<str>>);

impl CallIds {
    /// Collects the ids of all calls so far.
    pub(super) fn from_messages(messages: &[Message]) -> Self {
        Self(messages.iter().flat_map(Message::calls).map(|call| Arc::clone(&call.id)).collect())
    }

    /// Returns the provider's id of a call, or a new id if it is empty or in use. Results are matched to calls by id
    /// only.
    pub(super) fn unique(&mut self, given: &str) -> Arc<str> {
        let given: Arc<str> = given.into();
        if !given.is_empty() && self.0.insert(Arc::clone(&given)) {
            return given;
        }
        let mut number = self.0.len() + 1;
        loop {
            let id: Arc<str> = format!("call_{number}").into();
            if self.0.insert(Arc::clone(&id)) {
                return id;
            }
            number += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_and_duplicate_ids_are_replaced() {
        let mut ids = CallIds(HashSet::from(["call_3".into()]));
        let unique = ["a", "a", "", "call_3", "b"].map(|given| ids.unique(given).to_string());
        assert_eq!(unique, ["a", "call_4", "call_5", "call_6", "b"]);
        assert_eq!(ids.0.len(), 6);
    }
}
