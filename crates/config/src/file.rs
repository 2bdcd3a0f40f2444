//! One configuration file: its servers, and everything else it says.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use super::entry::keys::brief;
use super::entry::{self, Context, Entry};
use super::expand::Variables;
use super::load::RawSetting;
use super::problem::{Problem, Severity};
use super::project::ProjectFile;
use super::rules::{self, Exclusive, List};
use super::server::{Scope, SourceLocation};
use super::text::{self, At, Document, Kind};
use wharf_protocol::nearest;

const SERVERS: &str = "mcpServers";
const ALLOWED: &str = "allowedMcpServers";
const DENIED: &str = "deniedMcpServers";
/// Two words for the same.
const EXCLUSIVE: [&str; 2] = ["exclusive", "allowManagedMcpServersOnly"];

/// What only people and organisations say, never a project or a provider.
const RULES: [&str; 4] = [ALLOWED, DENIED, EXCLUSIVE[0], EXCLUSIVE[1]];
const HANDED_ON: [&str; 3] = ["policy", "hooks", "cloud"];
const SWITCHES: [&str; 2] = ["disabledServers", "enabledServers"];
/// How other hosts let a project past a person.
const APPROVALS: [&str; 6] =
    ["enableAllProjectMcpServers", "enabledMcpjsonServers", "disabledMcpjsonServers", "approved", "approvals", "trust"];
/// What other hosts call rules for calls.
const PERMISSIONS: &str = "permissions";
/// Keys of other hosts that harm nobody.
const OTHERS: [&str; 6] = ["$schema", "inputs", "version", "name", "description", "$comment"];

/// What a file says.
#[derive(Clone, Debug, Default)]
pub(super) struct Content {
    pub(super) entries: Vec<Entry>,
    pub(super) problems: Vec<Problem>,
    /// The file, if it is there and cannot be understood.
    pub(super) lost: Option<PathBuf>,
    pub(super) list: Option<List>,
    pub(super) exclusive: Option<Exclusive>,
    pub(super) policy: Option<RawSetting>,
    pub(super) hooks: Option<RawSetting>,
    pub(super) cloud: Option<RawSetting>,
    pub(super) disabled: Vec<Named>,
    pub(super) enabled: Vec<Named>,
}

/// A name in a list of names, and a problem with it that may or may not be one.
#[derive(Clone, Debug)]
pub(super) struct Named {
    pub(super) name: String,
    pub(super) problem: Problem,
}

/// What a file of a scope says; nothing, if there is none. `base` is the project's folder.
pub(super) fn read(file: &Path, scope: Scope, variables: &Variables, base: Option<&Path>) -> Content {
    match text::read(file) {
        Ok(None) => Content::default(),
        Ok(Some(text)) => parse(file, &text, Context { scope, variables, base, to_keep: false }),
        Err(problem) => Content::lost(file, scope, *problem),
    }
}

/// What a project's file says, if it is one: a link that leads out of the project would have it speak for others.
pub(super) fn read_project(project: &ProjectFile, variables: &Variables) -> Content {
    if let Err(problem) = stays_inside(project) {
        return Content::lost(&project.file, Scope::Project, *problem);
    }
    read(&project.file, Scope::Project, variables, Some(&project.root))
}

/// Whether a project's file is in the project, also behind a link.
pub(super) fn stays_inside(project: &ProjectFile) -> Result<(), Box<Problem>> {
    let Ok(file) = project.file.canonicalize() else { return Ok(()) };
    let root = project.root.canonicalize().unwrap_or_else(|_| project.root.clone());
    if file.starts_with(&root) {
        return Ok(());
    }
    let message = format!("is a link to {}, which is outside of the project", file.display());
    Err(Problem::of_file(Severity::Error, &project.file, message).with_hint("copy the file into the project").into())
}

/// What a text says.
pub(super) fn parse(file: &Path, text: &str, context: Context<'_>) -> Content {
    match Document::parse(file, text) {
        Ok(document) => Reader { context, content: Content::default() }.read(&document.root()),
        Err(problem) => Content::lost(file, context.scope, *problem),
    }
}

impl Content {
    /// A file that cannot be read costs its servers. What an organisation may have said in it is assumed.
    fn lost(file: &Path, scope: Scope, problem: Problem) -> Self {
        let exclusive = (scope == Scope::Enterprise).then(|| Exclusive::Unknown(file.to_owned()));
        Self { problems: vec![problem], lost: Some(file.to_owned()), exclusive, ..Self::default() }
    }
}

struct Reader<'a> {
    context: Context<'a>,
    content: Content,
}

impl Reader<'_> {
    fn read(mut self, root: &At<'_>) -> Content {
        if !root.is_object() {
            return Content::lost(root.file(), self.context.scope, root.wrong_type("an object with `mcpServers`"));
        }
        if let Some(repeated) = root.repeated().first() {
            let problem = repeated.error("is there twice").with_hint("keep one");
            return Content::lost(root.file(), self.context.scope, problem);
        }
        for (key, at) in root.fields() {
            if matches!(at.node.kind, Kind::Null) {
                continue;
            }
            self.key(key, &at);
        }
        self.content
    }

    fn key(&mut self, key: &str, at: &At<'_>) {
        let scope = self.context.scope;
        let may_rule = matches!(scope, Scope::Enterprise | Scope::Local | Scope::User);
        match key {
            SERVERS => self.servers(at),
            _ if APPROVALS.contains(&key) && scope == Scope::Project => {
                self.warn(at, "is ignored: a project does not approve itself");
            }
            _ if RULES.contains(&key) && !may_rule => self.ignored_rule(at),
            _ if (HANDED_ON.contains(&key) || SWITCHES.contains(&key)) && !may_rule => {
                self.warn(at, "is ignored here: it belongs into your own configuration");
            }
            _ if RULES.contains(&key) => self.rule(key, at),
            PERMISSIONS => {
                let problem = at.warning("is not applied: nothing in it is allowed or forbidden because of it");
                let hint = "rules for calls are written in `policy`: {\"policy\": {\"deny\": [\"mcp__SERVER__TOOL\"]}}";
                self.content.problems.push(problem.with_hint(hint));
            }
            "policy" => self.content.policy = Some(self.setting(at)),
            "hooks" => self.content.hooks = Some(self.setting(at)),
            "cloud" => self.cloud(at),
            _ if SWITCHES.contains(&key) => self.switches(key, at),
            _ if OTHERS.contains(&key) || APPROVALS.contains(&key) => {
                self.content.problems.push(at.note("is passed over: it is for another host"));
            }
            _ => self.unknown(key, at),
        }
    }

    fn warn(&mut self, at: &At<'_>, message: &str) {
        self.content.problems.push(at.warning(message));
    }

    /// Rules of a project only restrict, but whom would be a guess; they are neither followed nor dangerous.
    fn ignored_rule(&mut self, at: &At<'_>) {
        self.content.problems.push(at.note("is ignored here: it belongs into your own configuration"));
    }

    fn servers(&mut self, at: &At<'_>) {
        if !at.is_object() {
            self.content.problems.push(at.wrong_type("an object of servers"));
            return;
        }
        let mut places: HashMap<&str, usize> = HashMap::new();
        for (name, entry) in at.fields() {
            let earlier = places.get(name).and_then(|place| self.content.entries.get_mut(*place));
            let Some(earlier) = earlier else {
                places.insert(name, self.content.entries.len());
                let entry = entry::read(name, &entry, self.context);
                self.content.entries.push(entry);
                continue;
            };
            // Which of the two is meant would be a guess, and programs guess differently.
            let message = format!("there is a server `{}` already, in line {}", brief(name), earlier.origin.line);
            earlier.found = None;
            earlier.problems.push(entry.error(message).with_hint("rename or remove one of them").of_server(name));
        }
        let problems = self.content.entries.iter().flat_map(|entry| entry.problems.iter().cloned());
        self.content.problems.extend(problems);
    }

    fn rule(&mut self, key: &str, at: &At<'_>) {
        let file = at.file();
        if EXCLUSIVE.contains(&key) {
            match (&at.node.kind, self.context.scope) {
                (Kind::Bool(false), _) => {}
                (Kind::Bool(true), Scope::Enterprise) => self.exclude(Exclusive::Said(file.to_owned())),
                (Kind::Bool(true), _) => self.warn(at, "is ignored here: only an organisation shuts others out"),
                _ => {
                    self.content.problems.push(at.wrong_type("true or false"));
                    if self.context.scope == Scope::Enterprise {
                        self.exclude(Exclusive::Unknown(file.to_owned()));
                    }
                }
            }
            return;
        }
        let read = rules::patterns(at);
        let list = self.list(file);
        match read {
            Ok(patterns) if key == ALLOWED => list.allowed = Some(patterns),
            Ok(patterns) => list.denied = patterns,
            Err(wrong) => {
                list.broken = true;
                let wanted = "a list of `{\"serverUrl\": …}`, `{\"serverCommand\": […]}` and `{\"serverName\": …}`";
                let problem =
                    wrong.error(format!("cannot be understood, so nothing is allowed; it has to be {wanted}"));
                self.content.problems.push(problem);
            }
        }
    }

    fn list(&mut self, file: &Path) -> &mut List {
        let scope = Some(self.context.scope);
        self.content.list.get_or_insert_with(|| List { file: file.to_owned(), scope, ..List::default() })
    }

    /// What is said outright is the better reason.
    fn exclude(&mut self, exclusive: Exclusive) {
        if !matches!(self.content.exclusive, Some(Exclusive::Said(_))) {
            self.content.exclusive = Some(exclusive);
        }
    }

    fn setting(&self, at: &At<'_>) -> RawSetting {
        let origin = SourceLocation { file: at.file().to_owned(), line: at.line() };
        RawSetting { scope: self.context.scope, origin, value: at.node.to_value() }
    }

    fn cloud(&mut self, at: &At<'_>) {
        match at.text().map(|url| super::address::check(url, super::address::Family::Http)) {
            Some(Ok(())) => self.content.cloud = Some(self.setting(at)),
            Some(Err(unusable)) => self.content.problems.push(at.error(unusable.why)),
            None => self.content.problems.push(at.wrong_type("a URL")),
        }
    }

    fn switches(&mut self, key: &str, at: &At<'_>) {
        if !at.is_list() {
            self.content.problems.push(at.wrong_type("a list of names"));
        }
        for item in at.items() {
            let Some(name) = item.text() else {
                self.content.problems.push(item.wrong_type("a name"));
                continue;
            };
            let problem = item.note(format!("there is no server `{}`", brief(name)));
            let named = Named { name: name.to_owned(), problem };
            let list = if key == SWITCHES[0] { &mut self.content.disabled } else { &mut self.content.enabled };
            list.push(named);
        }
    }

    fn unknown(&mut self, key: &str, at: &At<'_>) {
        let known: Vec<&'static str> = [SERVERS].into_iter().chain(RULES).chain(HANDED_ON).chain(SWITCHES).collect();
        let near = nearest(key, known);
        let problem = at.warning(format!("`{}` is no key of a configuration", brief(key)));
        let is_entry = ["command", "url"].iter().any(|key| at.field(key).is_some());
        let problem = match near {
            Some(known) => problem.with_hint(format!("did you mean `{known}`?")),
            None if key == "servers" || key == "mcp" => problem.with_hint("did you mean `mcpServers`?"),
            None if is_entry => problem.with_hint("if it is a server, put it into `mcpServers`"),
            None => problem,
        };
        self.content.problems.push(problem);
        // A misspelt rule of an organisation is still a rule.
        if self.context.scope == Scope::Enterprise && near.is_some_and(|near| RULES.contains(&near)) {
            self.exclude(Exclusive::Unknown(PathBuf::from(at.file())));
        }
    }
}
