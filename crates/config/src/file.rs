//! Reads one configuration file: its servers, rules and settings.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use wharf_protocol::nearest;

use crate::address;
use crate::cursor::{Cursor, Document, Kind};
use crate::entry::{self, Entry, EntryContext, ReadPurpose};
use crate::entry_name::server_name;
use crate::expand::Variables;
use crate::jsonc;
use crate::loaded::RawSetting;
use crate::problem::{Problem, Severity};
use crate::project::ProjectFile;
use crate::rules::{self, Exclusive, RuleList};
use crate::server::{Scope, SourceLocation};
use crate::suggest::{brief, did_you_mean};

const SERVERS: &str = "mcpServers";
const ALLOWED: &str = "allowedMcpServers";
const DENIED: &str = "deniedMcpServers";
/// The key and its alias.
const EXCLUSIVE: [&str; 2] = ["exclusive", "allowManagedMcpServersOnly"];

/// Keys that apply in enterprise, local and user files only, never in a project's or a provider's.
const RULES: [&str; 4] = [ALLOWED, DENIED, EXCLUSIVE[0], EXCLUSIVE[1]];
/// Settings that are passed on without interpreting them.
const PASSED_ON: [&str; 4] = ["policy", "hooks", "cloud", "registry"];
const DISABLED: &str = "disabledServers";
const ENABLED: &str = "enabledServers";
const SWITCHES: [&str; 2] = [DISABLED, ENABLED];
/// Keys with which other hosts approve a project's servers.
const APPROVALS: [&str; 6] =
    ["enableAllProjectMcpServers", "enabledMcpjsonServers", "disabledMcpjsonServers", "approved", "approvals", "trust"];
/// The key for call rules in other hosts.
const PERMISSIONS: &str = "permissions";
/// Harmless keys of other hosts.
const OTHER_HOSTS: [&str; 6] = ["$schema", "inputs", "version", "name", "description", "$comment"];

/// The content of a file.
#[derive(Clone, Debug, Default)]
pub(crate) struct FileContent {
    pub(super) entries: Vec<Entry>,
    pub(super) problems: Vec<Problem>,
    /// The file, if it exists and cannot be read.
    pub(super) unreadable: Option<PathBuf>,
    pub(super) rules: Option<RuleList>,
    pub(super) exclusive: Option<Exclusive>,
    pub(super) policy: Option<RawSetting>,
    pub(super) hooks: Option<RawSetting>,
    pub(super) cloud: Option<RawSetting>,
    pub(super) registry: Option<RawSetting>,
    pub(super) disabled: Vec<SwitchedServer>,
    pub(super) enabled: Vec<SwitchedServer>,
}

/// A name in `disabledServers` or `enabledServers`.
#[derive(Clone, Debug)]
pub(crate) struct SwitchedServer {
    pub(super) name: String,
    /// The problem to report if no server has this name.
    pub(super) unknown: Problem,
}

/// Reads a file of a scope; a missing file is empty. `base_dir` is the project directory.
pub(crate) fn read(file: &Path, scope: Scope, variables: &Variables, base_dir: Option<&Path>) -> FileContent {
    match jsonc::read_file(file) {
        Ok(None) => FileContent::default(),
        Ok(Some(text)) => parse(file, &text, EntryContext { scope, variables, base_dir, purpose: ReadPurpose::Run }),
        Err(problem) => FileContent::unreadable(file, scope, *problem),
    }
}

/// Reads a project's file. A link out of the project is an error: the file would be someone else's.
pub(crate) fn read_project(project: &ProjectFile, variables: &Variables) -> FileContent {
    if let Err(problem) = check_inside(project) {
        return FileContent::unreadable(&project.file, Scope::Project, *problem);
    }
    read(&project.file, Scope::Project, variables, Some(&project.root))
}

/// Checks that a project's file is inside the project after links are resolved.
pub(crate) fn check_inside(project: &ProjectFile) -> Result<(), Box<Problem>> {
    let Ok(file) = project.file.canonicalize() else { return Ok(()) };
    let root = project.root.canonicalize().unwrap_or_else(|_| project.root.clone());
    if file.starts_with(&root) {
        return Ok(());
    }
    let message = format!("links to {}, which is outside of the project", file.display());
    Err(Problem::of_file(Severity::Error, &project.file, message).with_hint("copy the file into the project").into())
}

/// Parses the text of a file.
pub(crate) fn parse(file: &Path, text: &str, context: EntryContext<'_>) -> FileContent {
    match Document::parse(file, text) {
        Ok(document) => FileReader { context, content: FileContent::default() }.read(&document.root()),
        Err(problem) => FileContent::unreadable(file, context.scope, *problem),
    }
}

impl FileContent {
    /// Returns the content of an unreadable file: no servers. An enterprise file is assumed to be exclusive.
    fn unreadable(file: &Path, scope: Scope, problem: Problem) -> Self {
        let exclusive = (scope == Scope::Enterprise).then(|| Exclusive::Assumed(file.to_owned()));
        Self { problems: vec![problem], unreadable: Some(file.to_owned()), exclusive, ..Self::default() }
    }
}

struct FileReader<'a> {
    context: EntryContext<'a>,
    content: FileContent,
}

impl FileReader<'_> {
    fn read(mut self, root: &Cursor<'_>) -> FileContent {
        if !root.is_object() {
            let problem = root.wrong_type("an object with `mcpServers`");
            return FileContent::unreadable(root.file(), self.context.scope, problem);
        }
        if let Some(problem) = root.duplicate_keys().into_iter().next() {
            return FileContent::unreadable(root.file(), self.context.scope, problem);
        }
        for (key, at) in root.fields() {
            if matches!(at.node.kind, Kind::Null) {
                continue;
            }
            self.read_key(key, &at);
        }
        self.content
    }

    fn read_key(&mut self, key: &str, at: &Cursor<'_>) {
        let scope = self.context.scope;
        let may_set_rules = matches!(scope, Scope::Enterprise | Scope::Local | Scope::User);
        match key {
            SERVERS => self.read_servers(at),
            _ if APPROVALS.contains(&key) && scope == Scope::Project => {
                self.warn(at, "ignored: a project cannot approve its own servers");
            }
            // The rules of a project could only restrict, but whom would be a guess.
            _ if RULES.contains(&key) && !may_set_rules => {
                let note = at.note("ignored in this scope").with_hint("move it to your user configuration");
                self.content.problems.push(note);
            }
            _ if (PASSED_ON.contains(&key) || SWITCHES.contains(&key)) && !may_set_rules => {
                let warning = at.warning("ignored in this scope").with_hint("move it to your user configuration");
                self.content.problems.push(warning);
            }
            _ if EXCLUSIVE.contains(&key) => self.read_exclusive(at),
            _ if RULES.contains(&key) => self.read_rules(key, at),
            PERMISSIONS => {
                let problem = at.warning("not applied: it neither allows nor denies anything here");
                let hint = "write rules for calls in `policy`: {\"policy\": {\"deny\": [\"mcp__SERVER__TOOL\"]}}";
                self.content.problems.push(problem.with_hint(hint));
            }
            "policy" => self.content.policy = Some(self.setting(at)),
            "hooks" => self.content.hooks = Some(self.setting(at)),
            "cloud" => self.content.cloud = self.url_setting(at),
            "registry" => self.content.registry = self.url_setting(at),
            _ if SWITCHES.contains(&key) => self.read_switches(key, at),
            _ if OTHER_HOSTS.contains(&key) || APPROVALS.contains(&key) => {
                self.content.problems.push(at.note("ignored: a setting of another host"));
            }
            _ => self.report_unknown(key, at),
        }
    }

    fn warn(&mut self, at: &Cursor<'_>, message: &str) {
        self.content.problems.push(at.warning(message));
    }

    fn read_servers(&mut self, at: &Cursor<'_>) {
        if !at.is_object() {
            self.content.problems.push(at.wrong_type("an object of servers"));
            return;
        }
        let mut indices: HashMap<String, usize> = HashMap::new();
        for (key, entry) in at.fields() {
            let name = name_of(key);
            let earlier = indices.get(&name).and_then(|index| self.content.entries.get_mut(*index));
            let Some(earlier) = earlier else {
                indices.insert(name, self.content.entries.len());
                let entry = entry::read(key, &entry, self.context);
                self.content.entries.push(entry);
                continue;
            };
            // Which of the two is meant would be a guess, and programs guess differently.
            let message = format!("duplicate server `{}`: first defined in line {}", brief(&name), earlier.origin.line);
            earlier.server = None;
            earlier.problems.push(entry.error(message).with_hint("rename or remove one of them").of_server(&name));
        }
        let problems = self.content.entries.iter().flat_map(|entry| entry.problems.iter().cloned());
        self.content.problems.extend(problems);
    }

    fn read_exclusive(&mut self, at: &Cursor<'_>) {
        let file = at.file().to_owned();
        match (&at.node.kind, self.context.scope) {
            (Kind::Bool(false), _) => {}
            (Kind::Bool(true), Scope::Enterprise) => self.set_exclusive(Exclusive::Declared(file)),
            (Kind::Bool(true), _) => self.warn(at, "ignored in this scope: only an enterprise file can be exclusive"),
            (_, scope) => {
                self.content.problems.push(at.wrong_type("true or false"));
                if scope == Scope::Enterprise {
                    self.set_exclusive(Exclusive::Assumed(file));
                }
            }
        }
    }

    fn read_rules(&mut self, key: &str, at: &Cursor<'_>) {
        let patterns = rules::patterns(at);
        let scope = Some(self.context.scope);
        let rules = self.content.rules.get_or_insert_with(|| RuleList::new(at.file(), scope));
        match patterns {
            Ok(patterns) if key == ALLOWED => rules.allowed = Some(patterns),
            Ok(patterns) => rules.denied = patterns,
            Err(wrong) => {
                rules.is_invalid = true;
                let expected = "a list of `{\"serverUrl\": …}`, `{\"serverCommand\": […]}` and `{\"serverName\": …}`";
                let problem = wrong.error("invalid rule, so no server is allowed");
                self.content.problems.push(problem.with_hint(format!("write {expected}")));
            }
        }
    }

    /// An explicit declaration takes precedence over an assumption.
    fn set_exclusive(&mut self, exclusive: Exclusive) {
        if !matches!(self.content.exclusive, Some(Exclusive::Declared(_))) {
            self.content.exclusive = Some(exclusive);
        }
    }

    fn setting(&self, at: &Cursor<'_>) -> RawSetting {
        let origin = SourceLocation { file: at.file().to_owned(), line: at.line() };
        RawSetting { scope: self.context.scope, origin, value: at.node.to_value() }
    }

    fn url_setting(&mut self, at: &Cursor<'_>) -> Option<RawSetting> {
        match at.text().map(|url| address::check(url, address::Family::Http)) {
            Some(Ok(())) => return Some(self.setting(at)),
            Some(Err(invalid)) => self.content.problems.push(invalid.problem(at)),
            None => self.content.problems.push(at.wrong_type("a URL")),
        }
        None
    }

    fn read_switches(&mut self, key: &str, at: &Cursor<'_>) {
        if !at.is_list() {
            self.content.problems.push(at.wrong_type("a list of names"));
        }
        for item in at.items() {
            let Some(name) = item.text() else {
                self.content.problems.push(item.wrong_type("a name"));
                continue;
            };
            let unknown = item.note(format!("no server named `{}`", brief(name)));
            let switched = SwitchedServer { name: name_of(name), unknown };
            let list = if key == DISABLED { &mut self.content.disabled } else { &mut self.content.enabled };
            list.push(switched);
        }
    }

    fn report_unknown(&mut self, key: &str, at: &Cursor<'_>) {
        let known: Vec<&'static str> = [SERVERS].into_iter().chain(RULES).chain(PASSED_ON).chain(SWITCHES).collect();
        let near = nearest(key, known);
        let problem = at.warning(format!("unknown key `{}`", brief(key)));
        let is_entry = ["command", "url"].iter().any(|key| at.field(key).is_some());
        let problem = match near {
            Some(known) => problem.with_hint(did_you_mean(known)),
            None if key == "servers" || key == "mcp" => problem.with_hint(did_you_mean(SERVERS)),
            None if is_entry => problem.with_hint("if it is a server, move it into `mcpServers`"),
            None => problem,
        };
        self.content.problems.push(problem);
        // A misspelled rule of an enterprise file is still a rule.
        if self.context.scope == Scope::Enterprise && near.is_some_and(|near| RULES.contains(&near)) {
            self.set_exclusive(Exclusive::Assumed(PathBuf::from(at.file())));
        }
    }
}

/// Returns the name of the server that a key or an item of a list means.
fn name_of(key: &str) -> String {
    server_name(key).map_or_else(|| key.to_owned(), |name| name.to_string())
}
