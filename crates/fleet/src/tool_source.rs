//! A fleet as the source of an agent's tools.

use std::sync::Arc;

use wharf_protocol::{ToolSource, Tools};

use crate::dispatch::{Dispatcher, Turn};
use crate::fleet::Fleet;

/// The tools of a fleet: each turn has the catalog of its beginning, and its calls go through one dispatcher.
#[derive(Clone)]
pub struct FleetTools {
    fleet: Fleet,
    dispatcher: Arc<Dispatcher>,
}

impl FleetTools {
    /// Creates the source.
    pub fn new(fleet: Fleet, dispatcher: Arc<Dispatcher>) -> Self {
        Self { fleet, dispatcher }
    }
}

impl ToolSource for FleetTools {
    fn turn(&self) -> Arc<dyn Tools> {
        Arc::new(Turn { catalog: self.fleet.catalog(), dispatcher: Arc::clone(&self.dispatcher) })
    }
}
