//! What a model file or a benchmark may do: they are untrusted, like a project's file.
//!
//! Its commands start only after the user approved exactly them, or with `--trust`. Before the run, the user reads which
//! variables it uses and where they go. A provider's key goes to that provider only.

use std::path::{Path, PathBuf};

use wharf::agent::models::{ModelConfig, UnsafeKey, is_unencrypted, may_send};
use wharf::config::model_servers::ModelServers;
use wharf::config::{Approvals, ReadServer};
use wharf::fleet::TransportConfig;

use crate::config::servers::remote;
use crate::config::{Setup, describe};
use crate::env::variable;
use crate::error::{UsageError, usage_error};
use crate::globals::Globals;
use crate::term;
use crate::term::prompt::is_interactive;

/// How far files are trusted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Trust {
    /// The user is asked before a command starts.
    Ask,
    /// Commands start without approval, and keys go where the files say.
    All,
}

impl Trust {
    /// Returns the trust of the option `--trust`.
    pub(crate) fn of_flag(is_set: bool) -> Self {
        if is_set { Self::All } else { Self::Ask }
    }
}

/// Checks that the API key of a model may be sent to its URL, and reports which variable it is read from.
pub(super) fn check_key(trust: Trust, globals: &Globals, config: &ModelConfig) -> Result<(), UsageError> {
    let label = config.label();
    match config.check_key() {
        Ok(()) => {}
        Err(UnsafeKey::OtherAddress { .. }) if trust == Trust::All => {}
        Err(error) => {
            let hint = match error {
                UnsafeKey::Unencrypted { .. } => "use an https URL, or remove the key",
                UnsafeKey::OtherAddress { .. } => "if you trust the address, pass --trust",
            };
            return Err(usage_error(format!("model `{label}`: {error}"), Some(hint)));
        }
    }
    if let Some(name) = config.withheld_variable(&|name| variable(&[name])) {
        let message = format!("model `{label}`: {name} is not sent to the base URL of a file");
        let hint = format!("if you trust the address, set the key of the model to ${{{name}}} and pass --trust");
        // Without a key some endpoints work.
        if config.spec().is_ok_and(|spec| spec.interface.default_url().is_some()) {
            return Err(usage_error(message, Some(&hint)));
        }
        if !globals.quiet {
            term::warning(&message);
        }
    }
    if let Some(read) = config.read_variable() {
        term::note(&format!("model `{label}` reads your {} and sends it to {}", read.name, read.address));
    }
    Ok(())
}

/// The servers that a file declares.
pub(crate) struct DeclaredServers<'a> {
    /// The file that declares them.
    pub(crate) file: &'a Path,
    /// What the servers belong to in the file: the label of a model.
    pub(crate) owner: &'a str,
    /// The servers as the file has them.
    pub(crate) declared: &'a ModelServers,
    /// The servers to start.
    pub(crate) servers: &'a [ReadServer],
    /// Whether the user approves also what reads variables, beside what runs commands: files that come from elsewhere.
    pub(crate) approves_variables: bool,
}

/// Checks that the user approved what the servers of a file run and read. Asks at a terminal.
pub(crate) fn check_servers(setup: &Setup, trust: Trust, found: &DeclaredServers<'_>) -> Result<(), UsageError> {
    let DeclaredServers { file, owner, declared, servers, approves_variables } = found;
    for read in *servers {
        let reads = declared.variables_of(&read.server.name);
        check_variables(trust, read, &reads)?;
        if !reads.is_empty() {
            let target = describe::target(&read.written, &read.server.transport);
            term::note(&format!("server `{}` ({target}) reads your {}", read.server.name, reads.join(", ")));
        }
    }
    let needs_approval = |read: &&ReadServer| {
        let reads_variables = || !declared.variables_of(&read.server.name).is_empty();
        starts_command(&read.server.transport) || *approves_variables && reads_variables()
    };
    let commands: Vec<&ReadServer> = servers.iter().filter(needs_approval).collect();
    if trust == Trust::All || commands.is_empty() {
        return Ok(());
    }
    let directory = std::env::current_dir()
        .map_err(|error| usage_error(format!("cannot determine the current directory: {error}"), None))?;
    let origin = origin(file, owner, &directory);
    let approvals = setup.approvals()?;
    for read in commands {
        if let Some(approval) = approvals.review(&origin, &directory, &read.server.name, &read.written) {
            if !is_interactive() {
                let what = if starts_command(&read.server.transport) {
                    "runs a command that you have not approved"
                } else {
                    "reads your variables, which you have not approved"
                };
                let message = format!("{}: server `{}` {what}", file.display(), approval.name);
                let hint = "run it at a terminal to review and approve it, or start its commands without approval with --trust";
                return Err(usage_error(message, Some(hint)));
            }
            term::review::show(&approval, term::review::Detail::Short);
            if !term::review::ask(&approval, "pass --trust")? {
                return Err(usage_error(format!("server `{}` was not approved", approval.name), None));
            }
            store(setup, &origin, read)?;
        }
    }
    Ok(())
}

/// Checks that a remote server does not get the key of a model provider, and no variable over an unencrypted connection.
/// A command is approved with its variables.
fn check_variables(trust: Trust, read: &ReadServer, reads: &[String]) -> Result<(), UsageError> {
    let Some(remote) = remote(&read.server.transport).filter(|_| trust == Trust::Ask) else { return Ok(()) };
    if !reads.is_empty() && is_unencrypted(&remote.url) {
        let names = reads.join(", ");
        let message = format!("server `{}` would get your {names} over an unencrypted connection", read.server.name);
        return Err(usage_error(message, Some("use an https URL; if you trust the network, pass --trust")));
    }
    match reads.iter().find(|name| !may_send(name, &remote.url)) {
        None => Ok(()),
        Some(name) => {
            let message = format!("server `{}` would get your {name}, which is for its provider", read.server.name);
            Err(usage_error(message, Some("if you trust the server, pass --trust")))
        }
    }
}

/// Whether connecting starts a process.
fn starts_command(transport: &TransportConfig) -> bool {
    transport.is_local() || remote(transport).is_some_and(|remote| remote.headers_helper.is_some())
}

/// Returns the key of a file's approvals. Two models of one file may have different servers of the same name. Relative
/// commands and arguments such as `sh srv.sh` run other code in another directory.
fn origin(file: &Path, owner: &str, directory: &Path) -> PathBuf {
    let file = file.canonicalize().unwrap_or_else(|_| file.to_owned());
    let mut origin = file.into_os_string();
    // No path contains a NUL: the parts stay apart, and no symbolic link makes two keys the same.
    origin.push(format!("\0{owner}\0"));
    origin.push(directory);
    origin.into()
}

/// Stores an approval. Without a directory for it, it applies to this run only.
fn store(setup: &Setup, origin: &Path, read: &ReadServer) -> Result<(), UsageError> {
    let Some(file) = &setup.paths.approvals else { return Ok(()) };
    let stored = Approvals::load(file).and_then(|mut approvals| {
        approvals.approve(origin, &read.server.name, &read.written);
        approvals.save()
    });
    stored.map_err(|error| usage_error(error.to_string(), None))
}
