//! The process environment. Only this module reads it.

use std::ffi::OsString;
use std::path::PathBuf;

use wharf::Environment;
use wharf::config::Variables;

/// Returns the first of these variables that is set and not blank.
#[expect(clippy::disallowed_methods, reason = "the cli is where the environment is read")]
pub(crate) fn variable(names: &[&str]) -> Option<String> {
    names.iter().filter_map(|name| std::env::var(name).ok()).find(|value| !value.trim().is_empty())
}

/// Returns a variable as it is, even if it is empty or not UTF-8.
#[expect(clippy::disallowed_methods, reason = "the cli is where the environment is read")]
pub(crate) fn exactly(name: &str) -> Option<OsString> {
    std::env::var_os(name)
}

/// Returns the directory a variable names. Relative paths are ignored, as the XDG specification demands.
pub(crate) fn directory(name: &str) -> Option<PathBuf> {
    exactly(name).map(PathBuf::from).filter(|path| path.is_absolute())
}

/// Whether a variable configures a proxy.
pub(crate) fn has_proxy() -> bool {
    let names = ["HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"];
    variable(&names).is_some()
}

/// Returns the variables that every server process inherits.
pub(crate) fn for_servers() -> Environment {
    wharf::env::child_environment()
}

/// Returns the variables a browser needs to find the user's screen and settings, and no others.
pub(crate) fn for_browser() -> Environment {
    const NEEDED: [&str; 8] = [
        "PATH",
        "HOME",
        "DISPLAY",
        "WAYLAND_DISPLAY",
        "XDG_RUNTIME_DIR",
        "DBUS_SESSION_BUS_ADDRESS",
        "XAUTHORITY",
        "LANG",
    ];
    let set = NEEDED.into_iter().filter_map(|name| Some((name, exactly(name)?)));
    let environment = set.fold(Environment::default(), |environment, (name, value)| environment.with(name, value));
    // As for servers, without relative directories.
    match for_servers().get("PATH") {
        Some(path) => environment.with("PATH", path),
        None => environment,
    }
}

/// Returns the variables that `${VAR}` in a configuration may refer to: all that are UTF-8.
#[expect(clippy::disallowed_methods, reason = "the cli is where the environment is read")]
pub(crate) fn variables() -> Variables {
    std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
        .collect()
}
