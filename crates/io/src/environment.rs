//! The environment of a child process: a short allowlist, and the variables of its configuration.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::path::{Path, PathBuf};

/// The variables that every server gets: enough for programs, home and language, and no secrets.
const ALLOWED: [&str; 11] =
    ["HOME", "LANG", "LC_ALL", "LC_CTYPE", "LOGNAME", "PATH", "SHELL", "TERM", "TMPDIR", "TZ", "USER"];

/// Files with the certificates that programs trust. Every server gets them: it may need the network.
const CERTIFICATES: [&str; 5] =
    ["SSL_CERT_FILE", "SSL_CERT_DIR", "NODE_EXTRA_CA_CERTS", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"];

/// The proxies of programs, in upper or lower case. Every server gets them.
const PROXIES: [&str; 4] = ["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"];

/// The programs that download a package and run it.
const PACKAGE_RUNNERS: [&str; 3] = ["uvx", "npx", "pipx"];

/// Where those programs download from, and how: by exact name, because the same prefixes name credentials.
const PACKAGE_SETTINGS: [&str; 24] = [
    "UV_INDEX",
    "UV_DEFAULT_INDEX",
    "UV_INDEX_URL",
    "UV_EXTRA_INDEX_URL",
    "UV_INDEX_STRATEGY",
    "UV_FIND_LINKS",
    "UV_NATIVE_TLS",
    "UV_SYSTEM_CERTS",
    "UV_INSECURE_HOST",
    "UV_PYTHON_INSTALL_MIRROR",
    "UV_CONFIG_FILE",
    "PIP_INDEX_URL",
    "PIP_EXTRA_INDEX_URL",
    "PIP_FIND_LINKS",
    "PIP_TRUSTED_HOST",
    "PIP_CERT",
    "PIP_PROXY",
    "PIP_CONFIG_FILE",
    "NPM_CONFIG_REGISTRY",
    "NPM_CONFIG_CAFILE",
    "NPM_CONFIG_PROXY",
    "NPM_CONFIG_HTTPS_PROXY",
    "NPM_CONFIG_NOPROXY",
    "NPM_CONFIG_STRICT_SSL",
];

/// The prefixes of all variables of the package runners.
const PACKAGE_PREFIXES: [&str; 3] = ["UV_", "PIP_", "NPM_CONFIG_"];

/// Parts of the names of secrets.
const SECRET_WORDS: [&str; 8] = ["TOKEN", "KEY", "SECRET", "PASSW", "AUTH", "CREDENTIAL", "USERNAME", "DSN"];

/// What a line says that asks for a variable.
const ABOUT_VARIABLES: [&str; 5] = ["environment variable", "env var", "not set", "must be set", "must set"];

/// The most names that [`Environment::missing`] returns.
const MAX_MISSING: usize = 4;

/// The whole environment of a child process.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Environment {
    variables: BTreeMap<OsString, OsString>,
    /// What only package runners get.
    package_settings: BTreeMap<OsString, OsString>,
    /// Whether the process is a package runner.
    runs_packages: bool,
    /// The names of the host's variables that the process does not get.
    withheld: BTreeSet<String>,
}

impl Environment {
    /// Selects the allowed variables from `vars`, usually `std::env::vars_os()`.
    pub fn allowed_from(vars: impl IntoIterator<Item = (OsString, OsString)>) -> Self {
        let mut environment = Self::default();
        for (name, value) in vars {
            let upper = name.to_str().map(str::to_ascii_uppercase).unwrap_or_default();
            let is_in = |list: &[&str]| list.iter().any(|listed| OsStr::new(listed) == name);
            let is_proxy =
                PROXIES.contains(&upper.as_str()) && (is_in(&PROXIES) || name == *upper.to_ascii_lowercase());
            let is_package_setting = PACKAGE_SETTINGS.contains(&upper.as_str());
            // A value that starts with `()` is a function that an old shell would run.
            if value.as_encoded_bytes().starts_with(b"()")
                || (is_proxy || is_package_setting) && has_credentials(&value)
            {
                environment.withhold(&name);
            } else if name == "PATH" {
                environment.variables.extend(without_relative_folders(&value).map(|path| (name, path)));
            } else if is_in(&ALLOWED) || is_in(&CERTIFICATES) || is_proxy {
                environment.variables.insert(name, value);
            } else if is_package_setting {
                environment.package_settings.insert(name, value);
            } else {
                environment.withhold(&name);
            }
        }
        environment
    }

    /// Adds what a command needs besides: the settings of package indexes, for a program that downloads packages.
    #[must_use]
    pub fn for_command(mut self, command: &str) -> Self {
        let settings = std::mem::take(&mut self.package_settings);
        let program = Path::new(command).file_name().and_then(OsStr::to_str).unwrap_or_default();
        self.runs_packages = PACKAGE_RUNNERS.contains(&program);
        if self.runs_packages {
            self.variables.extend(settings);
        } else {
            for name in settings.keys() {
                self.withhold(name);
            }
        }
        self
    }

    /// Adds a variable, or replaces it.
    #[must_use]
    pub fn with(mut self, name: impl Into<OsString>, value: impl Into<OsString>) -> Self {
        let name = name.into();
        if let Some(name) = name.to_str() {
            self.withheld.remove(name);
        }
        self.package_settings.remove(&name);
        self.variables.insert(name, value.into());
        self
    }

    /// Returns the value of a variable.
    pub fn get(&self, name: &str) -> Option<&OsStr> {
        self.variables.get(OsStr::new(name)).map(OsString::as_os_str)
    }

    /// Iterates over all variables.
    pub fn iter(&self) -> impl Iterator<Item = (&OsStr, &OsStr)> {
        self.variables.iter().map(|(name, value)| (name.as_os_str(), value.as_os_str()))
    }

    /// Returns the names of the host's variables that a process may have failed without: what the process itself names in
    /// its output, and the settings of networks that were withheld, for a package runner also those of package indexes.
    pub fn missing(&self, output: &[String]) -> Vec<String> {
        let is_setting = |name: &&String| {
            let upper = name.to_ascii_uppercase();
            let is_of_runner = || {
                let is_prefixed = PACKAGE_PREFIXES.iter().any(|prefix| upper.starts_with(prefix));
                // No download fails without a cache folder or a number of retries.
                let is_needed = PACKAGE_SETTINGS.contains(&upper.as_str()) || is_secret_like(&upper);
                // A runner never publishes.
                self.runs_packages && is_prefixed && is_needed && !upper.contains("PUBLISH")
            };
            PROXIES.contains(&upper.as_str()) || is_of_runner()
        };
        let is_named = |name: &&String| output.iter().any(|line| names_variable(line, name));
        let named = self.withheld.iter().filter(is_named);
        let settings = self.withheld.iter().filter(|name| is_setting(name) && !is_named(name));
        named.chain(settings).take(MAX_MISSING).cloned().collect()
    }

    fn withhold(&mut self, name: &OsStr) {
        // A name that is not text cannot be passed by an option either.
        self.withheld.extend(name.to_str().map(str::to_owned));
    }
}

/// Whether a URL, or one of several, contains credentials: a user name and password, or a token as a parameter.
fn has_credentials(value: &OsStr) -> bool {
    let value = value.to_string_lossy().to_ascii_lowercase();
    // Also after a path: a password may contain `/`, and programs differ in how they read it.
    value.contains('@') || ["token=", "auth=", "key=", "password="].iter().any(|parameter| value.contains(parameter))
}

/// Whether a line contains a name as a whole word. A name without `_`, such as `DEBUG`, may be an ordinary word: it counts
/// if it looks like a secret, or if the line is about variables.
fn names_variable(line: &str, name: &str) -> bool {
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let is_uppercase = !name.contains(|c: char| c.is_ascii_lowercase());
    let is_about_variables = || {
        let line = line.to_ascii_lowercase();
        ABOUT_VARIABLES.iter().any(|words| line.contains(words))
    };
    is_uppercase
        && line.split(|c| !is_part(c)).any(|word| word == name)
        && (name.contains('_') || is_secret_like(name) || is_about_variables())
}

/// Whether a name in upper case is that of a secret.
fn is_secret_like(upper: &str) -> bool {
    SECRET_WORDS.iter().any(|word| upper.contains(word))
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
        f.debug_set().entries(self.variables.keys()).finish()
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

    fn environment(vars: &[(&str, &str)]) -> Environment {
        Environment::allowed_from(vars.iter().map(|(name, value)| (name.into(), value.into())))
    }

    fn names(environment: &Environment) -> Vec<&str> {
        environment.iter().filter_map(|(name, _)| name.to_str()).collect()
    }

    #[test]
    fn certificates_and_proxies_reach_every_server_and_credentials_none() {
        let vars = [
            ("SSL_CERT_FILE", "/ca.pem"),
            ("NODE_EXTRA_CA_CERTS", "/ca@corp.pem"),
            ("HTTPS_PROXY", "http://proxy.test:8080"),
            ("no_proxy", "localhost,.corp"),
            ("Http_Proxy", "http://proxy.test:8080"),
            ("https_proxy", "http://me:secret@proxy.test:8080"),
            ("ALL_PROXY", "me:secret/@proxy.test"),
            ("HTTP_PROXY", "http://proxy.test?token=t"),
        ];
        let environment = environment(&vars).for_command("node");
        assert_eq!(names(&environment), ["HTTPS_PROXY", "NODE_EXTRA_CA_CERTS", "SSL_CERT_FILE", "no_proxy"]);
        assert_eq!(environment.missing(&[]), ["ALL_PROXY", "HTTP_PROXY", "Http_Proxy", "https_proxy"]);
    }

    #[test]
    fn settings_of_package_indexes_reach_the_programs_that_use_them() {
        let vars = [
            ("UV_DEFAULT_INDEX", "https://index.test/simple"),
            ("npm_config_registry", "https://npm.test/"),
            ("PIP_INDEX_URL", "https://me:secret@index.test/simple"),
            ("UV_INDEX_CORP_PASSWORD", "secret"),
            ("UV_PUBLISH_TOKEN", "secret"),
            ("PIP_DEFAULT_TIMEOUT", "60"),
        ];
        for command in ["uvx", "/opt/bin/npx", "pipx"] {
            let environment = environment(&vars).for_command(command);
            assert_eq!(names(&environment), ["UV_DEFAULT_INDEX", "npm_config_registry"], "{command}");
            assert_eq!(environment.missing(&[]), ["PIP_INDEX_URL", "UV_INDEX_CORP_PASSWORD"]);
            // What the host passes by name is not missing.
            let passed = environment.with("PIP_INDEX_URL", "x");
            assert_eq!(passed.missing(&[]), ["UV_INDEX_CORP_PASSWORD"]);
        }
        // Other programs seldom need them.
        let other = environment(&vars).for_command("./uvx.sh");
        assert_eq!((names(&other), other.missing(&[])), (vec![], vec![]));
        assert_eq!(other.missing(&["set UV_DEFAULT_INDEX".to_owned()]), ["UV_DEFAULT_INDEX"]);
        // A value that the host passes itself counts more than one of its own environment.
        let own = environment(&vars).with("UV_DEFAULT_INDEX", "mine").for_command("uvx");
        assert_eq!(own.get("UV_DEFAULT_INDEX").unwrap(), "mine");
        let words = ["TOKEN", "AUTH", "KEY", "PASSWORD"];
        assert!(!PACKAGE_SETTINGS.iter().any(|name| words.iter().any(|word| name.contains(word))));
    }

    #[test]
    fn a_variable_that_the_process_asks_for_is_missing_if_the_host_has_it() {
        let vars = [("API_KEY", "k"), ("EDITOR", "vi"), ("HOME", "/h"), ("MY_API_KEY", "m"), ("MYTOKEN", "t")];
        let environment = environment(&vars);
        let missing = |line: &str| environment.missing(&[line.to_owned()]);
        assert_eq!(missing("error: API_KEY is not set"), ["API_KEY"]);
        assert_eq!(missing("set $MY_API_KEY, or HOME"), ["MY_API_KEY"]);
        assert_eq!(missing("OTHER_API_KEY and XAPI_KEY; EDITOR"), [""; 0]);
        assert_eq!(missing("MYTOKEN is required"), ["MYTOKEN"]);
        assert_eq!(missing("the environment variable EDITOR is missing"), ["EDITOR"]);
    }
}
