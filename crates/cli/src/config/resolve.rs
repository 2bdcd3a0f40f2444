//! From a name to a server that may be used, or the reason why it may not.

use wharf::config::{ConfiguredServer, DisabledBy, Eligibility, InvalidEntry, Loaded};
use wharf::fleet::{Scope, Server};

use super::describe::disabled_by;
use super::servers::did_you_mean;
use crate::error::{UsageError, usage_error};

/// Returns the server of a name, if it may be used.
pub(super) fn usable_server(loaded: &Loaded, name: &str) -> Result<Server, UsageError> {
    if let Some(by) = loaded.find_broken(name).and_then(|broken| broken.disabled) {
        return Err(usage_error(format!("server `{name}` is disabled {}", disabled_by(by)), None));
    }
    let found = find(loaded, name)?;
    let approve = format!("review and approve it: wharf approve {name}");
    let error = |message: String| Err(usage_error(message, None));
    match &found.eligibility {
        Eligibility::Ready => Ok(found.server.clone()),
        Eligibility::NeedsApproval(_) => {
            Err(usage_error(format!("server `{name}` of this project needs your approval"), Some(&approve)))
        }
        Eligibility::ApprovalChanged(_) => {
            Err(usage_error(format!("server `{name}` changed since you approved it"), Some(&approve)))
        }
        Eligibility::Disabled(by) => {
            let hint = can_be_enabled(found).then(|| format!("enable it: wharf enable {name}"));
            Err(usage_error(format!("server `{name}` is disabled {}", disabled_by(*by)), hint.as_deref()))
        }
        Eligibility::Refused(reason) => error(format!("server `{name}` is not allowed: {reason}")),
        Eligibility::Duplicate { of } => {
            Err(usage_error(format!("server `{name}` is a duplicate of `{of}`"), Some(&format!("use `{of}`"))))
        }
        Eligibility::Shadowed { by } => error(format!("server `{name}` is shadowed by one of the {by} scope")),
    }
}

/// Returns the server of a name, whether or not it may be used.
pub(super) fn find<'a>(loaded: &'a Loaded, name: &str) -> Result<&'a ConfiguredServer, UsageError> {
    if let Some(broken) = loaded.find_broken(name) {
        return Err(invalid_entry(broken));
    }
    loaded.find(name).ok_or_else(|| unknown_server(loaded, name))
}

/// The error for a name that no server has.
pub(super) fn unknown_server(loaded: &Loaded, name: &str) -> UsageError {
    let names = server_names(loaded);
    let hint = if names.is_empty() && loaded.errors().next().is_some() {
        "fix the configuration first; show its problems: wharf doctor".to_owned()
    } else {
        did_you_mean(name, &names)
    };
    usage_error(format!("unknown server `{name}`"), Some(&hint))
}

/// Returns the names of all servers, sorted.
pub(super) fn server_names(loaded: &Loaded) -> Vec<&str> {
    let servers = loaded.servers.iter().filter(|found| !matches!(found.eligibility, Eligibility::Shadowed { .. }));
    let names = servers.map(|found| found.server.name.as_str());
    let mut names: Vec<&str> = names.chain(loaded.broken.iter().map(|broken| broken.name.as_str())).collect();
    names.sort_unstable();
    names.dedup();
    names
}

/// The error for a server whose entry is invalid. Its problems have been printed before.
pub(super) fn invalid_entry(broken: &InvalidEntry) -> UsageError {
    let InvalidEntry { name, origin, .. } = broken;
    usage_error(format!("server `{name}` has an invalid entry in {}:{}", origin.file.display(), origin.line), None)
}

/// Whether a user can enable a disabled server: not if the organization disabled it.
pub(crate) fn can_be_enabled(found: &ConfiguredServer) -> bool {
    match found.eligibility {
        Eligibility::Disabled(DisabledBy::Entry) => found.server.scope != Scope::Enterprise,
        Eligibility::Disabled(DisabledBy::List(scope)) => scope != Scope::Enterprise,
        _ => false,
    }
}
