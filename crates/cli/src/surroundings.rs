//! The environment this program was started in. Everything that reads it reads it here.

use std::ffi::OsString;
use std::path::PathBuf;

use wharf::Environment;
use wharf::config::Variables;

/// The first of these variables that is set to something.
#[expect(clippy::disallowed_methods, reason = "the cli is where the environment is read")]
pub(crate) fn variable(names: &[&str]) -> Option<String> {
    names.iter().filter_map(|name| std::env::var(name).ok()).find(|value| !value.trim().is_empty())
}

/// One variable as it is, empty or not text.
#[expect(clippy::disallowed_methods, reason = "the cli is where the environment is read")]
pub(crate) fn exactly(name: &str) -> Option<OsString> {
    std::env::var_os(name)
}

/// A folder that a variable names; one that is not absolute means nothing, as the XDG specification has it.
pub(crate) fn folder(name: &str) -> Option<PathBuf> {
    exactly(name).map(PathBuf::from).filter(|path| path.is_absolute())
}

/// What the processes of servers see, whoever they are.
#[expect(clippy::disallowed_methods, reason = "the cli is where the environment is read")]
pub(crate) fn shared() -> Environment {
    Environment::allowed_from(std::env::vars_os())
}

/// What a browser needs to find this person's screen and their settings, and nothing else.
pub(crate) fn of_the_desktop() -> Environment {
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
    set.fold(Environment::default(), |environment, (name, value)| environment.with(name, value))
}

/// What `${VAR}` in a configuration may stand for: all of it that is text.
#[expect(clippy::disallowed_methods, reason = "the cli is where the environment is read")]
pub(crate) fn variables() -> Variables {
    std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
        .collect()
}
