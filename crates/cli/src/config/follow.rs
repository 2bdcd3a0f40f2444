//! Configuration files that change while a fleet runs.

use std::sync::PoisonError;
use std::time::Duration;

use wharf::config::{Loaded, Rules};
use wharf::fleet::{DisabledReason, Fleet, Scope, ServerSpec};

use super::setup::{ServerSelection, Setup, load_sources};
use crate::term;

const POLL_INTERVAL: Duration = Duration::from_secs(1);

impl Setup {
    /// Applies changes of the files, and approvals, to the fleet for as long as it lives. The command line still applies;
    /// a cloud provider is not requested again.
    pub(crate) fn follow(self, fleet: &Fleet) {
        if self.globals.only_mcp {
            return;
        }
        let mut setup = self;
        // An error of the command line would have been reported when the fleet was opened.
        let mut before =
            setup.apply_cli_overrides(setup.specs(), ServerSelection::All).unwrap_or_else(|_| setup.specs());
        fleet.follow(POLL_INTERVAL, move || {
            if !setup.watched.changed() {
                return None;
            }
            let now = setup.reload();
            if !setup.globals.quiet {
                for change in changes(&before, &now) {
                    term::note(&change);
                }
            }
            before.clone_from(&now);
            Some(now)
        });
    }

    fn reload(&mut self) -> Vec<ServerSpec> {
        let loaded = load_sources(&self.paths, &self.sources, &self.variables);
        loaded.problems.iter().filter(|problem| problem.is_error()).for_each(term::problem);
        let specs = self.replace_loaded(loaded);
        let mut specs = match self.apply_cli_overrides(specs.clone(), ServerSelection::All) {
            Ok(specs) => specs,
            Err(error) => {
                term::usage_error(&error);
                specs
            }
        };
        for spec in specs.iter_mut().filter(|spec| spec.disabled.is_none()) {
            // A server with wrong settings does not affect the others.
            if let Err(unusable) = self.check_network(&spec.server) {
                spec.disabled = Some(DisabledReason::Refused(unusable.into_error().message));
            }
        }
        specs
    }

    /// Returns the servers as they are now. While a file is invalid, the servers of before stay, unless a rule forbids
    /// them now: a comma that is missing for a minute must neither end a running server nor drop a user's rules.
    fn replace_loaded(&mut self, loaded: Loaded) -> Vec<ServerSpec> {
        let set_rules = |rules: Rules| *self.rules.write().unwrap_or_else(PoisonError::into_inner) = rules;
        let has_invalid_file = loaded.lost.iter().any(|(scope, _)| *scope != Scope::Enterprise);
        if !has_invalid_file {
            set_rules(loaded.rules.clone());
            self.loaded = loaded;
            return self.specs();
        }
        set_rules(self.loaded.rules.and(&loaded.rules));
        let mut specs = self.specs();
        for spec in specs.iter_mut().filter(|spec| spec.disabled.is_none()) {
            spec.disabled = loaded.rules.permits(&spec.server).err().map(DisabledReason::Refused);
        }
        specs
    }
}

/// Describes what changed.
fn changes(before: &[ServerSpec], now: &[ServerSpec]) -> Vec<String> {
    let find = |specs: &[ServerSpec], spec: &ServerSpec| {
        specs.iter().find(|other| other.server.name == spec.server.name).cloned()
    };
    let not_used = |spec: &ServerSpec| match &spec.disabled {
        Some(
            DisabledReason::Approval(reason)
            | DisabledReason::SwitchedOff(reason)
            | DisabledReason::Refused(reason)
            | DisabledReason::Locked(reason),
        ) => {
            format!(", not used: {reason}")
        }
        Some(DisabledReason::OnDemand) | None => String::new(),
    };
    let added_or_changed = now.iter().filter_map(|spec| {
        let name = &spec.server.name;
        match find(before, spec) {
            None => Some(format!("server `{name}` added{}", not_used(spec))),
            Some(was) if !was.server.same_as(&spec.server) => {
                Some(format!("server `{name}` changed{}", not_used(spec)))
            }
            Some(was) if was.disabled == spec.disabled => None,
            Some(_) if spec.disabled.is_none() => Some(format!("server `{name}` may be used now")),
            Some(_) => Some(format!("server `{name}` changed{}", not_used(spec))),
        }
    });
    let removed = before
        .iter()
        .filter(|spec| find(now, spec).is_none())
        .map(|spec| format!("server `{}` removed", spec.server.name));
    added_or_changed.chain(removed).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::globals::Globals;

    /// Describes the servers, and why they are disabled.
    fn describe(specs: &[ServerSpec]) -> String {
        let one = |spec: &ServerSpec| match &spec.disabled {
            None => spec.server.name.to_string(),
            Some(reason) => {
                format!("{} {}", spec.server.name, format!("{reason:?}").split('(').next().unwrap_or_default())
            }
        };
        specs.iter().map(one).collect::<Vec<_>>().join(", ")
    }

    #[test]
    fn an_invalid_file_keeps_the_servers_of_before_and_stricter_rules_still_apply() {
        let folder = tempfile::tempdir().expect("a folder");
        let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).expect("a file");
        let root = Some(folder.path().to_owned());
        std::fs::create_dir(folder.path().join("project")).expect("a folder");
        let globals = Globals { config_root: root, project: Some(folder.path().join("project")), ..Globals::default() };
        write("mcp.json", r#"{"mcpServers": {"a": {"command": "a"}, "b": {"command": "b"}}}"#);
        let mut setup = Setup::read(&globals).expect("it can be read");
        assert!(!setup.watched.changed());
        // A change since the files were read is noticed, although nothing followed them yet.
        write("mcp.json", r#"{"mcpServers": {"a": {"command": "a"}"#);
        assert!(setup.watched.changed());
        assert_eq!(describe(&setup.reload()), "a, b");
        let ready = setup.specs();
        write("managed-mcp.json", r#"{"deniedMcpServers": [{"serverName": "b"}]}"#);
        assert_eq!(describe(&setup.reload()), "a, b Refused");
        write("mcp.json", r#"{"mcpServers": {"b": {"command": "b"}, "c": {"command": "c"}}}"#);
        let now = setup.reload();
        assert_eq!(describe(&now), "b Refused, c");
        let changed = changes(&ready, &now);
        assert!(changed[0].starts_with("server `b` changed, not used: "), "{changed:?}");
        assert_eq!(changed[1..], ["server `c` added", "server `a` removed"]);
        let rules = setup.rules.read().expect("no other user");
        assert!(setup.loaded.servers.iter().any(|found| rules.permits(&found.server).is_err()));
    }
}
