//! A whole run that a model has prepared.

use wharf_protocol::{Message, Usage};

use crate::{Limit, RunEnd, StopReason};

/// A run that already happened: what [`Model::prepared`](crate::Model::prepared) returns.
#[derive(Clone, Debug, PartialEq)]
pub struct PreparedRun {
    /// The messages of the model and the tools.
    pub messages: Vec<Message>,
    /// The limits that were reached, in order.
    pub limits: Vec<Limit>,
    /// Why the run ended.
    pub stop: RunEnd,
    /// Why the last response ended, if known.
    pub stop_reason: Option<StopReason>,
    /// The model that responded, if known.
    pub model: Option<String>,
    /// Total tokens and cost.
    pub usage: Usage,
}
