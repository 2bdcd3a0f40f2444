//! Resolves which scope's server is used for each name.
//!
//! Of servers with the same name, the one of the highest scope counts, whether or not it can be used: an invalid or
//! disabled server is not silently replaced by another one. Of servers with the same URL or command, only the first is
//! used.

use std::collections::BTreeMap;
use std::path::Path;

use wharf_protocol::ServerName;

use crate::approval::{Approval, ApprovalState, Approvals};
use crate::entry::Entry;
use crate::file::{FileContent, SwitchedServer};
use crate::loaded::{ConfiguredServer, DisabledBy, Eligibility, InvalidEntry};
use crate::look_alike::skeleton;
use crate::problem::{Problem, ProblemKind, Severity};
use crate::raw_entry::RawEntry;
use crate::rules::Rules;
use crate::server::{Scope, Server, TransportConfig};
use crate::signature::Signature;

/// The input of the resolution.
pub(super) struct Resolver<'a> {
    pub(super) order: &'a [Scope],
    pub(super) contents: &'a [(Scope, FileContent)],
    pub(super) root: Option<&'a Path>,
    pub(super) approvals: &'a Approvals,
    pub(super) rules: &'a Rules,
}

/// The servers and problems resolved so far.
#[derive(Default)]
pub(super) struct Resolution {
    pub(super) servers: Vec<ConfiguredServer>,
    pub(super) invalid: Vec<InvalidEntry>,
    pub(super) problems: Vec<Problem>,
    /// The scope that each name belongs to.
    owners: BTreeMap<String, Scope>,
    /// The first server with each skeleton of a name.
    skeletons: BTreeMap<String, NamedServer>,
    used: Vec<UsedServer>,
}

struct NamedServer {
    name: ServerName,
    scope: Scope,
}

struct UsedServer {
    name: ServerName,
    scope: Scope,
    signature: Signature,
    transport: TransportConfig,
}

/// What a scope says about one name.
enum Source<'a> {
    Entry(&'a Entry),
    Dynamic(&'a Server),
}

/// A valid server that may be used.
struct Candidate {
    server: Server,
    raw: RawEntry,
    has_unset_variables: bool,
}

/// What the lists of a file say about a server.
enum Switch {
    On,
    Off(Scope),
}

impl Resolver<'_> {
    pub(super) fn resolve(&self, dynamic: &[Server]) -> Resolution {
        let entries = self
            .contents
            .iter()
            .flat_map(|(scope, content)| content.entries.iter().map(|entry| (*scope, Source::Entry(entry))));
        let dynamic = dynamic.iter().map(|server| (Scope::Dynamic, Source::Dynamic(server)));
        let mut sources: Vec<_> = entries.chain(dynamic).collect();
        // Stable: within one scope, the order stays.
        sources.sort_by_key(|(scope, _)| self.rank(*scope));
        let mut resolution = Resolution::default();
        for (scope, source) in sources {
            match source {
                Source::Entry(entry) => self.add_entry(&mut resolution, scope, entry),
                Source::Dynamic(server) => {
                    let server = Server { scope, ..server.clone() };
                    let raw = RawEntry::default();
                    self.add_server(&mut resolution, Candidate { server, raw, has_unset_variables: false });
                }
            }
        }
        self.check_switches(&mut resolution);
        resolution
    }

    /// Scopes that the order does not list come last, in the default order.
    fn rank(&self, scope: Scope) -> (usize, Scope) {
        (self.order.iter().position(|listed| *listed == scope).unwrap_or(self.order.len()), scope)
    }

    fn add_entry(&self, resolution: &mut Resolution, scope: Scope, entry: &Entry) {
        if let Some((server, raw)) = &entry.server {
            let has_unset_variables = entry.has_unset_variables;
            self.add_server(resolution, Candidate { server: server.clone(), raw: raw.clone(), has_unset_variables });
            return;
        }
        resolution.owners.entry(entry.name.clone()).or_insert(scope);
        resolution.invalid.push(InvalidEntry {
            name: entry.name.clone(),
            scope,
            origin: entry.origin.clone(),
            problems: entry.problems.clone(),
            target: entry.target.clone(),
            required: entry.required,
            disabled: self.invalid_disabled_by(scope, entry),
        });
    }

    fn add_server(&self, resolution: &mut Resolution, mut candidate: Candidate) {
        let mut eligibility = self.eligibility(resolution, &candidate);
        if let Some(other) = resolution.look_alike(&candidate.server) {
            let message = format!("its name looks like `{}` of the {} scope", other.name, other.scope);
            match &mut eligibility {
                Eligibility::NeedsApproval(approval) | Eligibility::ApprovalChanged(approval) => {
                    approval
                        .dangers
                        .push(format!("has a name that looks like `{}` of the {} scope", other.name, other.scope));
                }
                _ => {}
            }
            resolution.problems.push(server_problem(&candidate.server, Severity::Warning, message));
        }
        let warning = match &eligibility {
            Eligibility::Refused(reason) => Some(format!("not used: {reason}")),
            Eligibility::Shadowed { by } => Some(format!("not used: the {by} scope has a server with the same name")),
            Eligibility::Duplicate { of } => Some(format!("not used: same server as `{of}`")),
            Eligibility::Ready
            | Eligibility::NeedsApproval(_)
            | Eligibility::ApprovalChanged(_)
            | Eligibility::Disabled(_) => None,
        };
        // What a list enables is enabled, whatever the entry says.
        candidate.server.settings.enabled |=
            matches!(eligibility, Eligibility::Ready | Eligibility::NeedsApproval(_) | Eligibility::ApprovalChanged(_));
        let lock = match eligibility {
            Eligibility::Disabled(by) => self.lock_reason(&candidate, by),
            _ => None,
        };
        let Candidate { server, raw, .. } = candidate;
        let not_used = |message| Problem {
            kind: ProblemKind::ServerNotUsed,
            ..server_problem(&server, Severity::Warning, message)
        };
        resolution.problems.extend(warning.map(not_used));
        resolution.owners.entry(server.name.as_str().to_owned()).or_insert(server.scope);
        if eligibility == Eligibility::Ready {
            let signature = Signature::of(&server);
            let transport = server.transport.clone();
            resolution.used.push(UsedServer { name: server.name.clone(), scope: server.scope, signature, transport });
        }
        resolution.servers.push(ConfiguredServer { server, eligibility, written: raw, lock });
    }

    /// Returns why a disabled server may not be enabled temporarily.
    fn lock_reason(&self, candidate: &Candidate, by: DisabledBy) -> Option<&'static str> {
        let Candidate { server, raw, has_unset_variables } = candidate;
        let by_enterprise = match by {
            DisabledBy::Entry => server.scope == Scope::Enterprise,
            DisabledBy::List(scope) => scope == Scope::Enterprise,
        };
        let is_approved = |root: &Path| matches!(self.approval_of(root, server, raw), Eligibility::Ready);
        if by_enterprise {
            Some("the enterprise configuration disables it")
        } else if *has_unset_variables {
            Some("a variable it uses is not set")
        } else if server.scope == Scope::Project && !self.root.is_some_and(is_approved) {
            Some("its current entry is not approved")
        } else {
            None
        }
    }

    fn eligibility(&self, resolution: &mut Resolution, candidate: &Candidate) -> Eligibility {
        let Candidate { server, raw, has_unset_variables } = candidate;
        if let Some(by) = resolution.owners.get(server.name.as_str()) {
            return Eligibility::Shadowed { by: *by };
        }
        if let Err(reason) = self.rules.permits(server) {
            return Eligibility::Refused(reason);
        }
        if let Some(by) = self.disabled_by(resolution, server) {
            return Eligibility::Disabled(by);
        }
        if *has_unset_variables {
            return Eligibility::Refused("a variable it uses is not set".to_owned());
        }
        let signature = Signature::of(server);
        let is_same = |used: &&UsedServer| {
            // Two accounts at one URL are two servers, if the same scope has both.
            used.signature == signature && (used.scope != server.scope || used.transport == server.transport)
        };
        if let Some(used) = resolution.used.iter().find(is_same) {
            return Eligibility::Duplicate { of: used.name.clone() };
        }
        match (server.scope, self.root) {
            (Scope::Project, Some(root)) => self.approval_of(root, server, raw),
            _ => Eligibility::Ready,
        }
    }

    fn approval_of(&self, root: &Path, server: &Server, raw: &RawEntry) -> Eligibility {
        let approval = |changes| Box::new(Approval::new(root, &server.name, raw, changes));
        match self.approvals.state(root, &server.name, raw) {
            ApprovalState::Approved => Eligibility::Ready,
            ApprovalState::Unknown => Eligibility::NeedsApproval(approval(Vec::new())),
            ApprovalState::Changed(changes) => Eligibility::ApprovalChanged(approval(changes)),
        }
    }

    /// Returns what disabled a server. The enterprise decides last: what it requires stays enabled, what it disables
    /// stays disabled.
    fn disabled_by(&self, resolution: &mut Resolution, server: &Server) -> Option<DisabledBy> {
        let is_enterprise = server.scope == Scope::Enterprise;
        match self.switch(server.name.as_str()) {
            Some(Switch::Off(scope)) if is_enterprise && server.settings.required && server.settings.enabled => {
                let message =
                    format!("stays enabled: the enterprise requires it, although the {scope} scope disables it");
                resolution.problems.push(server_problem(server, Severity::Warning, message));
                None
            }
            Some(Switch::Off(scope)) => Some(DisabledBy::List(scope)),
            Some(Switch::On) if !is_enterprise => None,
            _ => (!server.settings.enabled).then_some(DisabledBy::Entry),
        }
    }

    /// Returns what disabled an invalid entry.
    fn invalid_disabled_by(&self, scope: Scope, entry: &Entry) -> Option<DisabledBy> {
        let is_enterprise = scope == Scope::Enterprise;
        match self.switch(&entry.name) {
            Some(Switch::Off(_)) if is_enterprise && entry.required && entry.enabled => None,
            Some(Switch::Off(by)) => Some(DisabledBy::List(by)),
            Some(Switch::On) if !is_enterprise => None,
            _ => (!entry.enabled).then_some(DisabledBy::Entry),
        }
    }

    /// Returns what the lists say about a name. The higher scope decides, and off wins over on.
    fn switch(&self, name: &str) -> Option<Switch> {
        let mut contents: Vec<_> = self.contents.iter().collect();
        contents.sort_by_key(|(scope, _)| self.rank(*scope));
        let lists_name = |list: &[SwitchedServer]| list.iter().any(|switched| switched.name == name);
        contents.into_iter().find_map(|(scope, content)| {
            if lists_name(&content.disabled) {
                Some(Switch::Off(*scope))
            } else if lists_name(&content.enabled) {
                Some(Switch::On)
            } else {
                None
            }
        })
    }

    /// Reports unknown names in the lists of the local file. A user file may name servers of other projects.
    fn check_switches(&self, resolution: &mut Resolution) {
        for (scope, content) in self.contents.iter().filter(|(scope, _)| *scope == Scope::Local) {
            for switched in content.disabled.iter().chain(&content.enabled) {
                if !resolution.owners.contains_key(&switched.name) {
                    resolution.problems.push(switched.unknown.clone());
                }
            }
            let both = content.disabled.iter().find(|off| content.enabled.iter().any(|on| on.name == off.name));
            if let Some(both) = both {
                let message = format!("the {scope} scope also enables `{}`; it stays disabled", both.name);
                resolution.problems.push(Problem { severity: Severity::Warning, message, ..both.unknown.clone() });
            }
        }
    }
}

impl Resolution {
    /// Remembers the name of a server. Returns the server of another scope whose name looks the same and differs.
    fn look_alike(&mut self, server: &Server) -> Option<NamedServer> {
        let Server { name, scope, .. } = server;
        let first = self.skeletons.entry(skeleton(name.as_str()));
        let NamedServer { name: other, scope: owner } =
            first.or_insert_with(|| NamedServer { name: name.clone(), scope: *scope });
        let differs = other != name && owner != scope;
        differs.then(|| NamedServer { name: other.clone(), scope: *owner })
    }
}

/// Creates a problem of a whole server.
fn server_problem(server: &Server, severity: Severity, message: String) -> Problem {
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
