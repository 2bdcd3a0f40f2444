//! Risks of an entry: shells, inline code, variables that load code, plaintext secrets, unpinned packages, code from
//! elsewhere, containers with access to the machine.

mod host_access;
mod inline_code;
mod invocation;
mod packages;
mod secrets;
mod variables;

pub(crate) use host_access::{HostAccess, host_access};
pub(crate) use inline_code::{runs_inline_code, runs_shell_string};
pub(crate) use packages::{fetched_code, fetched_package, is_exact_npm_version};
pub use secrets::looks_secret;
pub(crate) use variables::{adds_trust, loads_code, moves_settings, redirects_requests, weakens_tls};

use invocation::Invocation;

/// Returns whether a command runs a Python that imports modules from its working directory first: one that gets a module
/// name (`-m`) or code (`-c`). A script imports the files next to it instead.
pub fn imports_from_directory(command: &str, args: &[String]) -> bool {
    inline_code::python_mode(&Invocation::of(command, args)).is_some()
}

/// Returns the variables that `env` sets in front of the program.
pub(crate) fn variables_in_arguments<'a>(command: &'a str, args: &'a [String]) -> Vec<&'a str> {
    Invocation::of(command, args).variables
}
