//! Files and directories. Only the binary knows the home directory.

use std::path::{Path, PathBuf};

use sha2::{Digest as _, Sha256};
use wharf::config::{ProjectFile, project_root};
use wharf::fleet::Scope;

use crate::env::{directory, exactly, variable};
use crate::error::UsageError;
use crate::globals::Globals;

/// The organization's file. It always applies: no option moves or replaces it.
const MANAGED: &str = "/etc/wharf/managed-mcp.json";
/// Name of the organization's file below `--config-root`.
const MANAGED_NAME: &str = "managed-mcp.json";
/// Name of a user's files.
const FILE_NAME: &str = "mcp.json";
const DEFAULT_PROFILE: &str = "default";
const MAX_PROFILE_BYTES: usize = 64;
/// How many bytes of a project's digest name its directory.
const DIGEST_BYTES: usize = 8;

/// Every file and directory that is read or written. Without a home directory, most of them are `None`.
#[derive(Clone, Debug)]
pub(crate) struct Paths {
    pub(crate) home: Option<PathBuf>,
    /// The organization's file, which may not exist.
    pub(crate) enterprise: PathBuf,
    /// Further files with the organization's rules.
    pub(crate) named_enterprise: Vec<PathBuf>,
    pub(crate) user: Option<PathBuf>,
    pub(crate) local: Option<PathBuf>,
    pub(crate) project: ProjectFile,
    pub(crate) approvals: Option<PathBuf>,
    /// The directory with credentials.
    pub(crate) auth: Option<PathBuf>,
    /// The credential profile.
    pub(crate) profile: String,
    /// The directory with the logs of servers.
    pub(crate) logs: Option<PathBuf>,
    /// The file with the lines typed in `wharf repl`.
    pub(crate) history: Option<PathBuf>,
    /// The file with the runs of `wharf verify`.
    pub(crate) verify_store: Option<PathBuf>,
    /// The directory with the presets of `wharf verify`.
    pub(crate) presets: Option<PathBuf>,
    /// Files that can be deleted at any time.
    pub(crate) cache: Option<PathBuf>,
    /// The user's configuration directory, where other programs keep their settings too.
    pub(crate) config: Option<PathBuf>,
}

/// The base directories of a user.
struct Roots {
    config: Option<PathBuf>,
    state: Option<PathBuf>,
    cache: Option<PathBuf>,
}

impl Paths {
    /// Finds all paths from the options and the environment.
    pub(crate) fn find(globals: &Globals) -> Result<Self, UsageError> {
        let home = directory("HOME");
        let under_home =
            |name: &str, default: &str| directory(name).or_else(|| home.as_ref().map(|home| home.join(default)));
        let config = under_home("XDG_CONFIG_HOME", ".config");
        let moved = moved_root(globals)?;
        let roots = match &moved {
            Some(root) => {
                Roots { config: Some(root.clone()), state: Some(root.clone()), cache: Some(root.join("cache")) }
            }
            None => Roots {
                config: config.as_ref().map(|base| base.join("wharf")),
                state: under_home("XDG_STATE_HOME", ".local/state").map(|base| base.join("wharf")),
                cache: under_home("XDG_CACHE_HOME", ".cache").map(|base| base.join("wharf")),
            },
        };
        let local_file =
            |root: &Path| roots.state.as_ref().map(|state| state.join("projects").join(digest(root)).join(FILE_NAME));
        let project = project(globals, home.as_deref(), &|root| local_file(root).is_some_and(|file| file.exists()))?;
        let local = local_file(&project.root);
        Ok(Self {
            home,
            enterprise: PathBuf::from(MANAGED),
            named_enterprise: named_enterprise(moved.as_deref())?,
            presets: roots.config.as_ref().map(|base| base.join("presets")),
            user: roots.config.map(|base| base.join(FILE_NAME)),
            local,
            project,
            approvals: roots.state.as_ref().map(|base| base.join("approvals.json")),
            verify_store: roots.state.as_ref().map(|base| base.join("verify.db")),
            logs: roots.state.as_ref().map(|base| base.join("logs")),
            history: roots.state.as_ref().map(|base| base.join("repl_history")),
            auth: roots.state.map(|base| base.join("auth")),
            profile: profile(globals)?,
            cache: roots.cache,
            config,
        })
    }

    /// The cache of what is known about servers.
    pub(super) fn server_cache(&self) -> Option<PathBuf> {
        Some(self.cache.as_ref()?.join("servers.json"))
    }

    /// The cache of servers that recently denied access.
    pub(super) fn auth_failures(&self) -> Option<PathBuf> {
        Some(self.cache.as_ref()?.join("refusals.json"))
    }

    /// Returns the file of a scope that users edit.
    pub(crate) fn of(&self, scope: Scope) -> Result<&Path, UsageError> {
        let file = match scope {
            Scope::Project => Some(&self.project.file),
            Scope::User => self.user.as_ref(),
            Scope::Local => self.local.as_ref(),
            Scope::Enterprise | Scope::Dynamic | Scope::Cloud => None,
        };
        file.map(PathBuf::as_path).ok_or_else(no_home)
    }
}

/// The error where a file must be stored and no home directory exists.
pub(crate) fn no_home() -> UsageError {
    UsageError {
        message: "no home directory to store files in".to_owned(),
        hint: Some("set HOME, or pass --config-root DIR".to_owned()),
    }
}

/// The directory that replaces all base directories, if one is given.
fn moved_root(globals: &Globals) -> Result<Option<PathBuf>, UsageError> {
    let named = globals.config_root.clone().or_else(|| variable(&["WHARF_CONFIG_ROOT"]).map(PathBuf::from));
    let absolute = named.map(std::path::absolute).transpose();
    absolute.map_err(|error| UsageError { message: format!("invalid --config-root: {error}"), hint: None })
}

fn profile(globals: &Globals) -> Result<String, UsageError> {
    let named = globals.profile.clone().or_else(|| variable(&["WHARF_PROFILE"]));
    let profile = named.unwrap_or_else(|| DEFAULT_PROFILE.to_owned());
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_.-".contains(&byte);
    if (1..=MAX_PROFILE_BYTES).contains(&profile.len()) && profile.bytes().all(is_plain) {
        return Ok(profile);
    }
    let hint = format!("use 1 to {MAX_PROFILE_BYTES} letters, digits, `_`, `.` and `-`, for example: --profile work");
    Err(UsageError { message: "invalid name in --profile or WHARF_PROFILE".to_owned(), hint: Some(hint) })
}

fn named_enterprise(moved: Option<&Path>) -> Result<Vec<PathBuf>, UsageError> {
    let mut files: Vec<PathBuf> = moved.map(|root| root.join(MANAGED_NAME)).into_iter().collect();
    if let Some(named) = exactly("WHARF_MANAGED_CONFIG").filter(|named| !named.is_empty()).map(PathBuf::from) {
        // The rules in the file must apply, so an unreadable file is an error. A pipe would block, and is empty when it is
        // read again.
        let open = |found: std::fs::Metadata| {
            if found.is_file() { std::fs::File::open(&named) } else { Err(std::io::Error::other("not a file")) }
        };
        let found = named.metadata().and_then(open);
        if let Err(error) = found {
            return Err(UsageError {
                message: format!("cannot read WHARF_MANAGED_CONFIG `{}`: {error}", named.display()),
                hint: Some("unset it, or name a file with the organization's rules".to_owned()),
            });
        }
        files.push(named);
    }
    Ok(files)
}

/// Returns the project of `--project`, or the one around the current directory: the nearest directory with a `.mcp.json`,
/// or the root of the repository, or the nearest directory with servers of the local scope, or the directory itself.
fn project(
    globals: &Globals,
    home: Option<&Path>,
    has_local: &dyn Fn(&Path) -> bool,
) -> Result<ProjectFile, UsageError> {
    if let Some(named) = &globals.project {
        let root = named.canonicalize().ok().filter(|root| root.is_dir());
        let none = || UsageError { message: format!("--project {} is not a directory", named.display()), hint: None };
        return root.map(|root| ProjectFile::at(&root)).ok_or_else(none);
    }
    let here = std::env::current_dir().and_then(|here| here.canonicalize()).map_err(|error| UsageError {
        message: format!("cannot find the current directory: {error}"),
        hint: Some("pass the project with --project DIR".to_owned()),
    })?;
    let home = home.map(|home| home.canonicalize().unwrap_or_else(|_| home.to_owned()));
    Ok(ProjectFile::at(&project_root(&here, home.as_deref(), has_local)))
}

/// Returns the name of a project's directory below the state directory.
fn digest(root: &Path) -> String {
    let digest = Sha256::digest(root.as_os_str().as_encoded_bytes());
    digest.iter().take(DIGEST_BYTES).fold(String::new(), |name, byte| name + &format!("{byte:02x}"))
}
