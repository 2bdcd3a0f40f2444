//! Files that are edited while a fleet is at work.

use std::sync::PoisonError;
use std::time::Duration;

use wharf::config::{Loaded, Rules, Sources, load};
use wharf::fleet::{DisabledReason, Fleet, Scope, ServerSpec};

use super::{Setup, Unusable, Which, approvals, enlist};
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
        let mut setup = self;
        let mut before: Vec<ServerSpec> = setup.loaded.servers.iter().filter_map(enlist).collect();
        // As the fleet has them; what is wrong with the command line was told when it was opened.
        let _ = setup.dress(&mut before, Which::All);
        fleet.follow(EVERY, move || {
            if !setup.watched.changed() {
                return None;
            }
            let now = setup.read_again();
            if !setup.globals.quiet {
                for change in changes(&before, &now) {
                    render::note(&change);
                }
            }
            before.clone_from(&now);
            Some(now)
        });
    }

    fn read_again(&mut self) -> Vec<ServerSpec> {
        let (approvals, problem) = approvals(&self.places);
        let loaded = load(&self.sources, &self.variables, &approvals);
        let errors = loaded.problems.iter().filter(|problem| problem.is_error()).chain(&problem);
        errors.for_each(render::problem);
        let mut enlisted = self.taken_over(loaded);
        if let Err(misuse) = self.dress(&mut enlisted, Which::All) {
            render::misuse(&misuse);
        }
        for one in enlisted.iter_mut().filter(|one| one.hold.is_none()) {
            // One that cannot be used keeps nobody else from being.
            if let Err(Unusable::Server(misuse) | Unusable::Surroundings(misuse)) = self.check_network(&one.server) {
                one.hold = Some(DisabledReason::Refused(misuse.what));
            }
        }
        enlisted
    }

    /// The servers as they are now. While somebody's file cannot be understood, those of before go on, unless a rule
    /// forbids them now: a comma that is missing for a minute must not end what is at work, nor drop a person's rules.
    fn taken_over(&mut self, loaded: Loaded) -> Vec<ServerSpec> {
        let hold_to = |rules: Rules| *self.rules.write().unwrap_or_else(PoisonError::into_inner) = rules;
        let is_lost = loaded.lost.iter().any(|(scope, _)| *scope != Scope::Enterprise);
        if !is_lost {
            hold_to(loaded.rules.clone());
            self.loaded = loaded;
            return self.loaded.servers.iter().filter_map(enlist).collect();
        }
        hold_to(self.loaded.rules.and(&loaded.rules));
        let mut enlisted: Vec<ServerSpec> = self.loaded.servers.iter().filter_map(enlist).collect();
        for one in enlisted.iter_mut().filter(|one| one.hold.is_none()) {
            one.hold = loaded.rules.permits(&one.server).err().map(DisabledReason::Refused);
        }
        enlisted
    }
}

/// What has become of whom, in words.
fn changes(before: &[ServerSpec], now: &[ServerSpec]) -> Vec<String> {
    let find = |among: &[ServerSpec], one: &ServerSpec| {
        among.iter().find(|other| other.server.name == one.server.name).cloned()
    };
    let held = |one: &ServerSpec| match &one.hold {
        Some(
            DisabledReason::Approval(words)
            | DisabledReason::SwitchedOff(words)
            | DisabledReason::Refused(words)
            | DisabledReason::Locked(words),
        ) => {
            format!(", and is not used: {words}")
        }
        Some(DisabledReason::OnDemand) | None => String::new(),
    };
    let came_or_changed = now.iter().filter_map(|one| match find(before, one) {
        None => Some(format!("{} was added{}", one.server.name, held(one))),
        Some(was) if !was.server.same_as(&one.server) => Some(format!("{} was changed{}", one.server.name, held(one))),
        Some(was) if was.hold != one.hold && one.hold.is_none() => Some(format!("{} may be used now", one.server.name)),
        Some(was) if was.hold != one.hold => Some(format!("{} is another now{}", one.server.name, held(one))),
        Some(_) => None,
    });
    let went =
        before.iter().filter(|one| find(now, one).is_none()).map(|one| format!("{} was removed", one.server.name));
    came_or_changed.chain(went).collect()
}

/// Every file that is read.
pub(super) fn files(sources: &Sources, places: &Places) -> Vec<std::path::PathBuf> {
    let project = sources.project.as_ref().map(|project| project.file.clone());
    let single = [&sources.local, &sources.user, &places.approvals];
    let enterprise = sources.enterprise.iter().chain(&sources.named_enterprise).cloned();
    enterprise.chain(single.into_iter().flatten().cloned()).chain(project).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::Globals;

    /// Who is enlisted, and what holds them back.
    fn told(enlisted: &[ServerSpec]) -> String {
        let one = |one: &ServerSpec| match &one.hold {
            None => one.server.name.to_string(),
            Some(hold) => format!("{} {}", one.server.name, format!("{hold:?}").split('(').next().unwrap_or_default()),
        };
        enlisted.iter().map(one).collect::<Vec<_>>().join(", ")
    }

    #[test]
    fn a_file_that_cannot_be_read_again_leaves_what_was_there_and_stricter_rules_still_hold() {
        let folder = tempfile::tempdir().expect("a folder");
        let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).expect("a file");
        let root = Some(folder.path().to_owned());
        std::fs::create_dir(folder.path().join("project")).expect("a folder");
        let globals = Globals { config_root: root, project: Some(folder.path().join("project")), ..Globals::default() };
        write("mcp.json", r#"{"mcpServers": {"a": {"command": "a"}, "b": {"command": "b"}}}"#);
        let mut setup = Setup::from_files(&globals).expect("it can be read");
        assert!(!setup.watched.changed());
        // What changed since it was read is noticed, though nobody followed it yet.
        write("mcp.json", r#"{"mcpServers": {"a": {"command": "a"}"#);
        assert!(setup.watched.changed());
        assert_eq!(told(&setup.read_again()), "a, b");
        let ready: Vec<ServerSpec> = setup.loaded.servers.iter().filter_map(enlist).collect();
        write("managed-mcp.json", r#"{"deniedMcpServers": [{"serverName": "b"}]}"#);
        assert_eq!(told(&setup.read_again()), "a, b Refused");
        write("mcp.json", r#"{"mcpServers": {"b": {"command": "b"}, "c": {"command": "c"}}}"#);
        let now = setup.read_again();
        assert_eq!(told(&now), "b Refused, c");
        let changed = changes(&ready, &now);
        assert!(changed[0].starts_with("b is another now, and is not used: "), "{changed:?}");
        assert_eq!(changed[1..], ["c was added", "a was removed"]);
        let rules = setup.rules.read().expect("nobody else has it");
        assert!(setup.loaded.servers.iter().any(|found| rules.permits(&found.server).is_err()));
    }
}
