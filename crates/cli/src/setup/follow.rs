//! Files that are edited while a fleet is at work.

use std::time::Duration;

use wharf::fleet::config::{Sources, Watched, load};
use wharf::fleet::{Enlisted, Fleet};

use super::{Setup, Which, approvals, enlist};
use crate::places::Places;
use crate::render;

/// How often is looked.
const EVERY: Duration = Duration::from_secs(1);

impl Setup {
    /// Brings what is changed in the files, or approved, to the fleet for as long as it lives. What was said on the
    /// command line holds; a provider is not asked again.
    pub(crate) fn follow(self, fleet: &Fleet) {
        if self.globals.only_mcp {
            return;
        }
        let mut watched = Watched::new(files(&self.sources, &self.places));
        let mut setup = self;
        fleet.follow(EVERY, move || if watched.changed() { setup.read_again() } else { None });
    }

    fn read_again(&mut self) -> Option<Vec<Enlisted>> {
        let (approvals, problem) = approvals(&self.places);
        let loaded = load(&self.sources, &self.variables, &approvals);
        let errors = loaded.problems.iter().filter(|problem| problem.is_error()).chain(&problem);
        errors.for_each(render::problem);
        self.loaded = loaded;
        let enlisted = self.loaded.servers.iter().filter_map(enlist).collect();
        match self.checked(enlisted, Which::All) {
            Ok(enlisted) => Some(enlisted),
            Err(misuse) => {
                // What was there before goes on.
                render::misuse(&misuse);
                None
            }
        }
    }
}

fn files(sources: &Sources, places: &Places) -> Vec<std::path::PathBuf> {
    let project = sources.project.as_ref().map(|project| project.file.clone());
    let single = [&sources.local, &sources.user, &places.approvals];
    sources.enterprise.iter().cloned().chain(single.into_iter().flatten().cloned()).chain(project).collect()
}
