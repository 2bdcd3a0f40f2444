//! A fleet as the source of an agent's tools.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

use wharf_protocol::{ServerInstructions, ServerName, ServerNotice, ToolRanking, ToolSource, Tools};

use crate::catalog::Catalog;
use crate::dispatch::{Dispatcher, Turn};
use crate::fleet::Fleet;
use crate::search_tools::{SEARCH_TOOLS, SearchTools};

/// The tools of a fleet: each turn has the catalog of its beginning, and its calls go through one dispatcher.
///
/// The model learns which servers are about to connect, and when they have.
#[derive(Clone)]
pub struct FleetTools {
    fleet: Fleet,
    dispatcher: Arc<Dispatcher>,
    /// The servers that were about to connect at the beginning of an earlier turn. `None` if the model does not learn
    /// about them.
    late: Option<Arc<Mutex<BTreeSet<ServerName>>>>,
    search: Option<Arc<SearchTools>>,
}

impl FleetTools {
    /// Creates the source.
    pub fn new(fleet: Fleet, dispatcher: Arc<Dispatcher>) -> Self {
        Self { fleet, dispatcher, late: Some(Arc::default()), search: None }
    }

    /// Leaves out the notices about servers that are about to connect: what the model reads depends on the catalog only.
    #[must_use]
    pub fn without_notices(mut self) -> Self {
        self.late = None;
        self
    }

    /// Adds the tool `search_tools`, with which a model finds tools that it is not offered at once.
    #[must_use]
    pub fn with_search(mut self, ranking: Arc<dyn ToolRanking>) -> Self {
        self.search = Some(Arc::new(SearchTools::new(ranking)));
        self
    }

    fn notices(&self, catalog: &Catalog) -> Vec<ServerInstructions> {
        let Some(late) = &self.late else { return Vec::new() };
        let mut late = late.lock().unwrap_or_else(PoisonError::into_inner);
        let joined = catalog.connected().filter(|server| late.contains(*server));
        let joined = joined.map(|server| ServerInstructions::of_host(server.clone(), ServerNotice::Joined));
        let mut notices: Vec<ServerInstructions> = joined.collect();
        for absent in catalog.absent().iter().filter(|absent| absent.is_expected()) {
            late.insert(absent.server.clone());
            notices.push(ServerInstructions::of_host(absent.server.clone(), ServerNotice::Late));
        }
        notices
    }
}

impl ToolSource for FleetTools {
    fn turn(&self) -> Arc<dyn Tools> {
        let catalog = self.fleet.catalog();
        let notices = self.notices(&catalog);
        let dispatcher = Arc::clone(&self.dispatcher);
        let turn = match self.search.as_ref().and_then(|search| search.add_to(&catalog)) {
            Some(searchable) => Turn::new(searchable, dispatcher).with_search_tool(SEARCH_TOOLS.into()),
            None => Turn::new(catalog, dispatcher),
        };
        Arc::new(turn.with_notices(notices))
    }
}
