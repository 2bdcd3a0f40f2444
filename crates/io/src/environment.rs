//! The environment of a child process: a short allowlist, and the variables of its configuration.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::path::PathBuf;

/// The variables that every server gets: enough for programs, home and language, and no secrets.
const ALLOWED: [&str; 11] =
    ["HOME", "LANG", "LC_ALL", "LC_CTYPE", "LOGNAME", "PATH", "SHELL", "TERM", "TMPDIR", "TZ", "USER"];

/// The whole environment of a child process.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Environment(BTreeMap<OsString, OsString>);

impl Environment {
    /// Selects the allowed variables from `vars`, usually `std::env::vars_os()`.
    pub fn allowed_from(vars: impl IntoIterator<Item = (OsString, OsString)>) -> Self {
        let allowed = |(name, value): &(OsString, OsString)| {
            // A value that starts with `()` is a function that an old shell would run.
            ALLOWED.iter().any(|allowed| OsStr::new(allowed) == name) && !value.as_encoded_bytes().starts_with(b"()")
        };
        let safe = |(name, value): (OsString, OsString)| match name.to_str() {
            Some("PATH") => without_relative_folders(&value).map(|path| (name, path)),
            _ => Some((name, value)),
        };
        Self(vars.into_iter().filter(allowed).filter_map(safe).collect())
    }

    /// Adds a variable, or replaces it.
    #[must_use]
    pub fn with(mut self, name: impl Into<OsString>, value: impl Into<OsString>) -> Self {
        self.0.insert(name.into(), value.into());
        self
    }

    /// Returns the value of a variable.
    pub fn get(&self, name: &str) -> Option<&OsStr> {
        self.0.get(OsStr::new(name)).map(OsString::as_os_str)
    }

    /// Iterates over all variables.
    pub fn iter(&self) -> impl Iterator<Item = (&OsStr, &OsStr)> {
        self.0.iter().map(|(name, value)| (name.as_os_str(), value.as_os_str()))
    }
}

/// Returns the folders of a `PATH` in which commands are looked up: the absolute ones.
///
/// A relative folder, and an empty one, means the working directory. That is often a repository, whose files must not run
/// under the name of a command.
pub fn search_folders(path: &OsStr) -> impl Iterator<Item = PathBuf> {
    std::env::split_paths(path).filter(|folder| folder.is_absolute())
}

/// Removes the relative folders of a `PATH`: programs look up commands too, for example the interpreter of a script.
/// Returns `None` if nothing is left, because an empty `PATH` means the working directory.
fn without_relative_folders(path: &OsStr) -> Option<OsString> {
    std::env::join_paths(search_folders(path)).ok().filter(|path| !path.is_empty())
}

/// Shows names only, because values may be secrets.
impl fmt::Debug for Environment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn relative_folders_of_the_path_are_not_inherited() {
        let inherited = |path: &str| {
            let environment = Environment::allowed_from([("PATH".into(), path.into())]);
            environment.get("PATH").map(|path| path.to_str().unwrap().to_owned())
        };
        assert_eq!(inherited("/bin:.:bin:/usr/bin").as_deref(), Some("/bin:/usr/bin"));
        assert_eq!(inherited(":/bin::./node_modules/.bin:").as_deref(), Some("/bin"));
        // An empty one would mean the working directory.
        assert_eq!(inherited(".:"), None);
        assert_eq!(Environment::default().with("PATH", "bin:/bin").get("PATH").unwrap(), "bin:/bin");
    }

    #[test]
    fn only_listed_variables_are_inherited_and_configured_ones_are_added() {
        let vars = [("PATH", "/bin"), ("AWS_SECRET_ACCESS_KEY", "s3cr3t"), ("HOME", "() { :; }; rm"), ("USER", "me")];
        let environment = Environment::allowed_from(vars.map(|(name, value)| (name.into(), value.into())))
            .with("TOKEN", "t")
            .with("PATH", "/opt/bin");
        let seen: Vec<String> = environment.iter().map(|(n, v)| format!("{}={}", n.display(), v.display())).collect();
        assert_eq!(seen, ["PATH=/opt/bin", "TOKEN=t", "USER=me"]);
        assert_eq!(format!("{environment:?}"), r#"{"PATH", "TOKEN", "USER"}"#);
    }
}
