//! Which scope decides, and which servers are therefore used.
//!
//! Of servers with the same name, the one of the highest scope is the one that is meant, whether or not it can be used:
//! a server that somebody broke or switched off is not silently another one. Of servers that are at the same address,
//! only the first is used.

use std::collections::BTreeMap;
use std::path::Path;

use wharf_protocol::ServerName;

use super::approval::{Approval, Approvals, Verdict};
use super::entry::Entry;
use super::file::Content;
use super::load::{ConfiguredServer, DisabledBy, Eligibility, InvalidEntry};
use super::problem::{Problem, ProblemKind, Severity};
use super::rules::Rules;
use super::server::{Scope, Server, TransportConfig};
use super::signature::Signature;
use super::written::RawEntry;

/// What is needed to decide.
pub(super) struct Deciding<'a> {
    pub(super) order: &'a [Scope],
    pub(super) contents: &'a [(Scope, Content)],
    pub(super) root: Option<&'a Path>,
    pub(super) approvals: &'a Approvals,
    pub(super) rules: &'a Rules,
}

#[derive(Default)]
pub(super) struct Decided {
    pub(super) servers: Vec<ConfiguredServer>,
    pub(super) broken: Vec<InvalidEntry>,
    pub(super) problems: Vec<Problem>,
    /// Which scope a name belongs to.
    owners: BTreeMap<String, Scope>,
    /// Those that are used so far.
    used: Vec<Used>,
}

struct Used {
    name: ServerName,
    scope: Scope,
    signature: Signature,
    reach: TransportConfig,
}

/// What a scope says about one name.
enum Candidate<'a> {
    Entry(&'a Entry),
    Dynamic(&'a Server),
}

impl Deciding<'_> {
    pub(super) fn decide(&self, dynamic: &[Server]) -> Decided {
        let entries = self
            .contents
            .iter()
            .flat_map(|(scope, content)| content.entries.iter().map(|entry| (*scope, Candidate::Entry(entry))));
        let dynamic = dynamic.iter().map(|server| (Scope::Dynamic, Candidate::Dynamic(server)));
        let mut candidates: Vec<_> = entries.chain(dynamic).collect();
        // Stable: within one scope, what comes first stays first.
        candidates.sort_by_key(|(scope, _)| self.rank(*scope));
        let mut decided = Decided::default();
        for (scope, candidate) in candidates {
            match candidate {
                Candidate::Entry(entry) => self.entry(&mut decided, scope, entry),
                Candidate::Dynamic(server) => {
                    let server = Server { scope, ..server.clone() };
                    self.server(&mut decided, server, RawEntry::default(), false);
                }
            }
        }
        self.check_switches(&mut decided);
        decided
    }

    /// Scopes that the order does not name come last, as they usually would.
    fn rank(&self, scope: Scope) -> (usize, Scope) {
        (self.order.iter().position(|listed| *listed == scope).unwrap_or(self.order.len()), scope)
    }

    fn entry(&self, decided: &mut Decided, scope: Scope, entry: &Entry) {
        if let Some((server, written)) = &entry.found {
            self.server(decided, server.clone(), written.clone(), entry.is_incomplete);
            return;
        }
        decided.owners.entry(entry.name.clone()).or_insert(scope);
        decided.broken.push(InvalidEntry {
            name: entry.name.clone(),
            scope,
            origin: entry.origin.clone(),
            problems: entry.problems.clone(),
            required: entry.required,
            disabled: self.broken_off(scope, entry),
        });
    }

    fn server(&self, decided: &mut Decided, mut server: Server, written: RawEntry, is_incomplete: bool) {
        let standing = self.standing(decided, &server, &written, is_incomplete);
        let warning = match &standing {
            Eligibility::Refused(reason) => Some(format!("is not used: {reason}")),
            Eligibility::Shadowed { by } => Some(format!("is not used: the {by} scope has a server of the same name")),
            Eligibility::Duplicate { of } => Some(format!("is not used: it is the same server as `{of}`")),
            Eligibility::Ready
            | Eligibility::NeedsApproval(_)
            | Eligibility::ApprovalChanged(_)
            | Eligibility::Disabled(_) => None,
        };
        // What a list switches on is on, whatever its entry says.
        server.settings.enabled |=
            matches!(standing, Eligibility::Ready | Eligibility::NeedsApproval(_) | Eligibility::ApprovalChanged(_));
        let lock = match standing {
            Eligibility::Disabled(by) => self.lock(&server, &written, (by, is_incomplete)),
            _ => None,
        };
        let not_used =
            |message| Problem { kind: ProblemKind::ServerNotUsed, ..about(&server, Severity::Warning, message) };
        decided.problems.extend(warning.map(not_used));
        decided.owners.entry(server.name.as_str().to_owned()).or_insert(server.scope);
        if standing == Eligibility::Ready {
            let signature = Signature::of(&server);
            let reach = server.reach.clone();
            decided.used.push(Used { name: server.name.clone(), scope: server.scope, signature, reach });
        }
        decided.servers.push(ConfiguredServer { server, standing, written, lock });
    }

    /// Why a server that is switched off may not be switched on for a while.
    fn lock(
        &self,
        server: &Server,
        written: &RawEntry,
        (by, is_incomplete): (DisabledBy, bool),
    ) -> Option<&'static str> {
        let by_organisation = match by {
            DisabledBy::Entry => server.scope == Scope::Enterprise,
            DisabledBy::List(scope) => scope == Scope::Enterprise,
        };
        let approved = |root: &Path| matches!(self.approved(root, server, written), Eligibility::Ready);
        if by_organisation {
            Some("the organisation has the last word")
        } else if is_incomplete {
            Some("a variable that it names is not set")
        } else if server.scope == Scope::Project && !self.root.is_some_and(approved) {
            Some("nobody approved it as it is written")
        } else {
            None
        }
    }

    fn standing(&self, decided: &mut Decided, server: &Server, written: &RawEntry, is_incomplete: bool) -> Eligibility {
        if let Some(by) = decided.owners.get(server.name.as_str()) {
            return Eligibility::Shadowed { by: *by };
        }
        if let Err(reason) = self.rules.permits(server) {
            return Eligibility::Refused(reason);
        }
        if let Some(by) = self.disabled(decided, server) {
            return Eligibility::Disabled(by);
        }
        if is_incomplete {
            return Eligibility::Refused("a variable that it names is not set".to_owned());
        }
        let signature = Signature::of(server);
        let same = |used: &&Used| {
            // Two accounts at one address are two servers, if the same hand wrote both.
            used.signature == signature && (used.scope != server.scope || used.reach == server.reach)
        };
        if let Some(used) = decided.used.iter().find(same) {
            return Eligibility::Duplicate { of: used.name.clone() };
        }
        match (server.scope, self.root) {
            (Scope::Project, Some(root)) => self.approved(root, server, written),
            _ => Eligibility::Ready,
        }
    }

    fn approved(&self, root: &Path, server: &Server, written: &RawEntry) -> Eligibility {
        let approval = |changes| Box::new(Approval::of(root, &server.name, written, changes));
        match self.approvals.verdict(root, &server.name, written) {
            Verdict::Approved => Eligibility::Ready,
            Verdict::Unseen => Eligibility::NeedsApproval(approval(Vec::new())),
            Verdict::Changed(changes) => Eligibility::ApprovalChanged(approval(changes)),
        }
    }

    /// Who switched a server off. An organisation's word is final: what it requires stays on, what it switches off
    /// stays off.
    fn disabled(&self, decided: &mut Decided, server: &Server) -> Option<DisabledBy> {
        let is_enterprise = server.scope == Scope::Enterprise;
        let switched = self.switched(server.name.as_str());
        match switched {
            Some((false, scope)) if is_enterprise && server.settings.required && server.settings.enabled => {
                let message =
                    format!("stays on: the organisation requires it, though the {scope} scope switches it off");
                decided.problems.push(about(server, Severity::Warning, message));
                None
            }
            Some((false, scope)) => Some(DisabledBy::List(scope)),
            Some((true, _)) if !is_enterprise => None,
            _ => (!server.settings.enabled).then_some(DisabledBy::Entry),
        }
    }

    /// Who switched an entry off that cannot be understood.
    fn broken_off(&self, scope: Scope, entry: &Entry) -> Option<DisabledBy> {
        let is_enterprise = scope == Scope::Enterprise;
        match self.switched(&entry.name) {
            Some((false, _)) if is_enterprise && entry.required && entry.enabled => None,
            Some((false, by)) => Some(DisabledBy::List(by)),
            Some((true, _)) if !is_enterprise => None,
            _ => (!entry.enabled).then_some(DisabledBy::Entry),
        }
    }

    /// What the lists say about a name: on, off, or nothing. The higher scope decides, and off comes before on.
    fn switched(&self, name: &str) -> Option<(bool, Scope)> {
        let mut contents: Vec<_> = self.contents.iter().collect();
        contents.sort_by_key(|(scope, _)| self.rank(*scope));
        contents.into_iter().find_map(|(scope, content)| {
            let has = |list: &[super::file::Named]| list.iter().any(|named| named.name == name);
            let off = has(&content.disabled).then_some((false, *scope));
            off.or_else(|| has(&content.enabled).then_some((true, *scope)))
        })
    }

    /// Lists may name servers that are not there. In a person's own file that may be one of another project.
    fn check_switches(&self, decided: &mut Decided) {
        for (scope, content) in self.contents.iter().filter(|(scope, _)| *scope == Scope::Local) {
            for named in content.disabled.iter().chain(&content.enabled) {
                if !decided.owners.contains_key(&named.name) {
                    decided.problems.push(named.problem.clone());
                }
            }
            let both = content.disabled.iter().find(|off| content.enabled.iter().any(|on| on.name == off.name));
            if let Some(both) = both {
                let message = format!("`{}` is switched on as well in the {scope} scope; it stays off", both.name);
                decided.problems.push(Problem { severity: Severity::Warning, message, ..both.problem.clone() });
            }
        }
    }
}

/// A problem of a whole server.
fn about(server: &Server, severity: Severity, message: String) -> Problem {
    let problem = match &server.origin {
        Some(origin) => Problem {
            line: origin.line,
            path: format!("mcpServers.{}", server.name),
            ..Problem::of_file(severity, &origin.file, message)
        },
        None => Problem { path: server.name.as_str().to_owned(), ..Problem::of_file(severity, "", message) },
    };
    problem.of_server(server.name.as_str())
}

#[cfg(test)]
mod tests;
