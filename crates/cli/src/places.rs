//! Where this program finds and keeps things. Only the binary knows a home folder.

use std::path::{Path, PathBuf};

use sha2::{Digest as _, Sha256};
use wharf::config::{ProjectFile, project_root};
use wharf::fleet::Scope;

use crate::args::Globals;
use crate::servers::Misuse;
use crate::surroundings::{exactly, folder, variable};

/// The organisation's file. It always applies: nothing below moves it or takes its place.
const MANAGED: &str = "/etc/wharf/managed-mcp.json";
/// What the same file is called where it stands beside the others.
const MANAGED_NAME: &str = "managed-mcp.json";
/// What the files of a person are called.
const NAME: &str = "mcp.json";
/// The profile of those who name none.
const PROFILE: &str = "default";
const LONGEST_PROFILE: usize = 64;
/// How many bytes of a project's digest name its folder.
const DIGEST: usize = 8;

/// Every file and folder that is read or written. Where there is no home, there are only some of them.
#[derive(Clone, Debug)]
pub(crate) struct Places {
    pub(crate) home: Option<PathBuf>,
    /// The organisation's file, which may or may not exist.
    pub(crate) enterprise: PathBuf,
    /// Files that somebody names as the organisation's.
    pub(crate) named_enterprise: Vec<PathBuf>,
    pub(crate) user: Option<PathBuf>,
    pub(crate) local: Option<PathBuf>,
    pub(crate) project: ProjectFile,
    pub(crate) approvals: Option<PathBuf>,
    /// The folder with the sign-ins.
    pub(crate) auth: Option<PathBuf>,
    /// Which of them are used, where one person is several.
    pub(crate) profile: String,
    /// What can be lost without losing anything but time.
    pub(crate) cache: Option<PathBuf>,
    /// Where this person's programs keep their settings, for those of others.
    pub(crate) config: Option<PathBuf>,
}

/// The three folders of a person.
struct Roots {
    config: Option<PathBuf>,
    state: Option<PathBuf>,
    cache: Option<PathBuf>,
}

impl Places {
    /// Looks where everything is, as the flags and the environment have it.
    pub(crate) fn find(globals: &Globals) -> Result<Self, Misuse> {
        let home = folder("HOME");
        let under_home = |name: &str, usual: &str| folder(name).or_else(|| home.as_ref().map(|home| home.join(usual)));
        let config = under_home("XDG_CONFIG_HOME", ".config");
        let moved = moved_root(globals)?;
        let roots = match &moved {
            Some(root) => {
                Roots { config: Some(root.clone()), state: Some(root.clone()), cache: Some(root.join("cache")) }
            }
            None => Roots {
                config: config.as_ref().map(|folder| folder.join("wharf")),
                state: under_home("XDG_STATE_HOME", ".local/state").map(|folder| folder.join("wharf")),
                cache: under_home("XDG_CACHE_HOME", ".cache").map(|folder| folder.join("wharf")),
            },
        };
        let project = project(globals, home.as_deref())?;
        let local = roots.state.as_ref().map(|state| state.join("projects").join(digest(&project.root)).join(NAME));
        Ok(Self {
            home,
            enterprise: PathBuf::from(MANAGED),
            named_enterprise: named_enterprise(moved.as_deref())?,
            user: roots.config.map(|folder| folder.join(NAME)),
            local,
            project,
            approvals: roots.state.as_ref().map(|folder| folder.join("approvals.json")),
            auth: roots.state.map(|folder| folder.join("auth")),
            profile: profile(globals)?,
            cache: roots.cache,
            config,
        })
    }

    /// The file with what is remembered of servers.
    pub(crate) fn memory(&self) -> Option<PathBuf> {
        Some(self.cache.as_ref()?.join("servers.json"))
    }

    /// The file with who refused us a short while ago.
    pub(crate) fn refusals(&self) -> Option<PathBuf> {
        Some(self.cache.as_ref()?.join("refusals.json"))
    }

    /// The file of a scope that people write to.
    pub(crate) fn of(&self, scope: Scope) -> Result<&Path, Misuse> {
        let file = match scope {
            Scope::Project => Some(&self.project.file),
            Scope::User => self.user.as_ref(),
            Scope::Local => self.local.as_ref(),
            Scope::Enterprise | Scope::Dynamic | Scope::Cloud => None,
        };
        file.map(PathBuf::as_path).ok_or_else(homeless)
    }
}

/// What is said where something has to be kept and there is no place for it.
pub(crate) fn homeless() -> Misuse {
    Misuse {
        what: "there is no home folder to keep it in".to_owned(),
        hint: Some("set HOME, or name a folder with --config-root".to_owned()),
    }
}

/// The folder that stands for all folders of a person, if one is named.
fn moved_root(globals: &Globals) -> Result<Option<PathBuf>, Misuse> {
    let named = globals.config_root.clone().or_else(|| variable(&["WHARF_CONFIG_ROOT"]).map(PathBuf::from));
    let absolute = named.map(std::path::absolute).transpose();
    absolute.map_err(|error| Misuse { what: format!("--config-root is no folder's name: {error}"), hint: None })
}

/// The profile that is named, or the usual one.
fn profile(globals: &Globals) -> Result<String, Misuse> {
    let named = globals.profile.clone().or_else(|| variable(&["WHARF_PROFILE"]));
    let profile = named.unwrap_or_else(|| PROFILE.to_owned());
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_.-".contains(&byte);
    if (1..=LONGEST_PROFILE).contains(&profile.len()) && profile.bytes().all(is_plain) {
        return Ok(profile);
    }
    let hint = format!("take 1 to {LONGEST_PROFILE} letters, digits, `_`, `.` and `-`, for example: --profile work");
    Err(Misuse { what: "--profile, or WHARF_PROFILE, is no name".to_owned(), hint: Some(hint) })
}

fn named_enterprise(moved: Option<&Path>) -> Result<Vec<PathBuf>, Misuse> {
    let mut files: Vec<PathBuf> = moved.map(|root| root.join(MANAGED_NAME)).into_iter().collect();
    if let Some(named) = exactly("WHARF_MANAGED_CONFIG").filter(|named| !named.is_empty()).map(PathBuf::from) {
        // Whoever names a file with rules wants them to hold: without it nothing is done.
        // A pipe would be waited for, and is empty the second time.
        let open = |found: std::fs::Metadata| {
            if found.is_file() { std::fs::File::open(&named) } else { Err(std::io::Error::other("it is no file")) }
        };
        let found = named.metadata().and_then(open);
        if let Err(error) = found {
            let what = format!("WHARF_MANAGED_CONFIG names `{}`, which cannot be read: {error}", named.display());
            return Err(Misuse {
                what,
                hint: Some("unset it, or name a file with an organisation's rules".to_owned()),
            });
        }
        files.push(named);
    }
    Ok(files)
}

/// The project that is named, or the one around the current folder: the nearest folder with a `.mcp.json`, or the root
/// of the repository, or the folder itself.
fn project(globals: &Globals, home: Option<&Path>) -> Result<ProjectFile, Misuse> {
    if let Some(named) = &globals.project {
        let root = named.canonicalize().ok().filter(|root| root.is_dir());
        let none = || Misuse { what: format!("--project {} is no folder", named.display()), hint: None };
        return root.map(|root| ProjectFile::at(&root)).ok_or_else(none);
    }
    let here = std::env::current_dir().and_then(|here| here.canonicalize()).map_err(|error| Misuse {
        what: format!("the current folder cannot be found: {error}"),
        hint: Some("name a project with --project DIR".to_owned()),
    })?;
    let home = home.map(|home| home.canonicalize().unwrap_or_else(|_| home.to_owned()));
    Ok(ProjectFile::at(&project_root(&here, home.as_deref())))
}

/// A name for a folder's folder.
fn digest(root: &Path) -> String {
    let digest = Sha256::digest(root.as_os_str().as_encoded_bytes());
    digest.iter().take(DIGEST).fold(String::new(), |name, byte| name + &format!("{byte:02x}"))
}
