//! From files to servers: what each scope says, and which scope decides.

use std::path::{Path, PathBuf};

use serde::Serialize;
use serde_json::Value;
use wharf_protocol::ServerName;

use super::approval::{Approval, Approvals};
use super::decide::Deciding;
use super::entry::{self, Context};
use super::expand::Variables;
use super::file::{self, Content};
use super::problem::{Problem, ProblemKind, Severity};
use super::project::ProjectFile;
use super::rules::Rules;
use super::server::{Scope, Server, SourceLocation};
use super::text::Document;
use super::written::RawEntry;

/// Where configuration comes from. Files need not exist.
#[derive(Clone, Debug)]
pub struct Sources {
    /// The organisation's files; they add up.
    pub enterprise: Vec<PathBuf>,
    /// Files that somebody names as the organisation's. They are, where it has none of its own; where it has, they only
    /// restrict: nobody gives servers of their own the organisation's name.
    pub named_enterprise: Vec<PathBuf>,
    /// This person's file for this project.
    pub local: Option<PathBuf>,
    /// This person's file.
    pub user: Option<PathBuf>,
    /// The project's file.
    pub project: Option<ProjectFile>,
    /// Servers of this run only.
    pub dynamic: Vec<Server>,
    /// What a provider sent; [`cloud_allowed`] says whether to ask for it at all.
    pub cloud: Option<CloudText>,
    /// Which scope decides, the highest first.
    pub order: Vec<Scope>,
    /// Whether only the dynamic servers are meant. What the files say about servers still holds for them.
    pub only_dynamic: bool,
}

/// What a provider sent: a file as any other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CloudText {
    /// Where it came from, for messages.
    pub from: String,
    /// The text.
    pub text: String,
}

/// What the sources come to.
#[derive(Clone, Debug)]
pub struct Loaded {
    /// Every server whose entry can be understood, the highest scope first and as written within it.
    pub servers: Vec<ConfiguredServer>,
    /// Entries that cannot be understood.
    pub broken: Vec<InvalidEntry>,
    /// Everything that is wrong or worth knowing, in the order of the sources.
    pub problems: Vec<Problem>,
    /// Which servers may be used; also for those that are added later.
    pub rules: Rules,
    /// Whether servers of a provider may be used.
    pub cloud_allowed: bool,
    /// The files that are there and could not be understood, by scope: what else they say is not known either.
    pub lost: Vec<(Scope, PathBuf)>,
    /// What the files say about policy.
    pub policy: Vec<RawSetting>,
    /// What the files say about hooks.
    pub hooks: Vec<RawSetting>,
    /// Where the files say that a provider's servers are fetched; the highest scope first.
    pub cloud: Vec<RawSetting>,
}

/// A server, and whether it is used.
#[derive(Clone, Debug)]
pub struct ConfiguredServer {
    /// The server.
    pub server: Server,
    /// Whether it is used.
    pub standing: Eligibility,
    /// Its entry before variables; what is approved.
    pub written: RawEntry,
    /// Why one that is switched off may not be started either, if somebody switches it on for a while.
    pub lock: Option<&'static str>,
}

/// Whether a server is used, and if not, why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Eligibility {
    /// It is used.
    Ready,
    /// A person has to approve it first.
    NeedsApproval(Box<Approval>),
    /// A person approved it, but it is another one now; the approval says what changed.
    ApprovalChanged(Box<Approval>),
    /// Somebody switched it off.
    Disabled(DisabledBy),
    /// It may not be used.
    Refused(String),
    /// A higher scope has a server of the same name.
    Shadowed {
        /// The higher scope.
        by: Scope,
    },
    /// It is at the same address as another, which is used.
    Duplicate {
        /// The other one.
        of: ServerName,
    },
}

/// Who switched a server off.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum DisabledBy {
    /// Its own entry.
    Entry,
    /// The `disabledServers` of a scope's file.
    List(Scope),
}

/// A server whose entry cannot be understood.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct InvalidEntry {
    /// Its name as written.
    pub name: String,
    /// Who configured it.
    pub scope: Scope,
    /// Where.
    pub origin: SourceLocation,
    /// Why.
    pub problems: Vec<Problem>,
    /// Whether it says that it is needed, as far as it can be read.
    pub required: bool,
    /// Who switched it off, if anybody did: then what is wrong with it troubles nobody.
    pub disabled: Option<DisabledBy>,
}

/// A value that is handed on unread.
#[derive(Clone, PartialEq, Serialize)]
pub struct RawSetting {
    /// Whose it is.
    pub scope: Scope,
    /// Where it is written.
    pub origin: SourceLocation,
    /// The value.
    pub value: Value,
}

/// Without the value, which may be a secret.
impl std::fmt::Debug for RawSetting {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Setting({} {:?})", self.scope, self.origin)
    }
}

/// One server that was read by itself.
#[derive(Clone, Debug)]
pub struct ReadServer {
    /// The server.
    pub server: Server,
    /// Its entry before variables.
    pub written: RawEntry,
    /// Warnings and notes.
    pub problems: Vec<Problem>,
}

impl Default for Sources {
    fn default() -> Self {
        Self {
            enterprise: Vec::new(),
            named_enterprise: Vec::new(),
            local: None,
            user: None,
            project: None,
            dynamic: Vec::new(),
            cloud: None,
            order: Scope::ALL.to_vec(),
            only_dynamic: false,
        }
    }
}

impl Loaded {
    /// The servers to run.
    pub fn ready(&self) -> impl Iterator<Item = &Server> {
        self.servers.iter().filter(|found| found.standing == Eligibility::Ready).map(|found| &found.server)
    }

    /// The server that a name stands for: the one of the highest scope that has it.
    pub fn find(&self, name: &str) -> Option<&ConfiguredServer> {
        self.servers
            .iter()
            .find(|found| found.server.name.as_str() == name && !matches!(found.standing, Eligibility::Shadowed { .. }))
    }

    /// The entry of that name that cannot be understood, where it is the one that decides.
    pub fn find_broken(&self, name: &str) -> Option<&InvalidEntry> {
        // A lower scope takes nobody's server away by breaking one of that name.
        let decides = self.find(name).is_none();
        self.broken.iter().find(|found| found.name == name && decides)
    }

    /// Problems because of which something is not used.
    pub fn errors(&self) -> impl Iterator<Item = &Problem> {
        self.problems.iter().filter(|problem| problem.is_error())
    }
}

impl Eligibility {
    /// In a word, for a list.
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Ready => "ready",
            Self::NeedsApproval(_) => "needs approval",
            Self::ApprovalChanged(_) => "changed since it was approved",
            Self::Disabled(_) => "disabled",
            Self::Refused(_) => "refused",
            Self::Shadowed { .. } => "shadowed",
            Self::Duplicate { .. } => "duplicate",
        }
    }
}

/// Whether a provider may be asked for servers: not if the organisation has a file. Looks at nothing else.
pub fn cloud_allowed(sources: &Sources) -> bool {
    !sources.enterprise.iter().chain(&sources.named_enterprise).any(|file| exists(file))
}

/// Whether there is a file, or something that may be one: what cannot be looked at counts.
fn exists(file: &Path) -> bool {
    use std::io::ErrorKind::{NotADirectory, NotFound};
    match file.symlink_metadata() {
        Ok(_) => true,
        Err(error) => !matches!(error.kind(), NotFound | NotADirectory),
    }
}

/// Reads the sources and decides which servers are used.
pub fn load(sources: &Sources, variables: &Variables, approvals: &Approvals) -> Loaded {
    let root = sources.project.as_ref().map(|project| project.root.as_path());
    let mut contents: Vec<(Scope, Content)> = Vec::new();
    for enterprise in &sources.enterprise {
        contents.push((Scope::Enterprise, file::read(enterprise, Scope::Enterprise, variables, None)));
    }
    let has_own = sources.enterprise.iter().any(|file| exists(file));
    for named in &sources.named_enterprise {
        let content = file::read(named, Scope::Enterprise, variables, None);
        contents.push((Scope::Enterprise, if has_own { only_rules(content) } else { content }));
    }
    if let Some(local) = &sources.local {
        contents.push((Scope::Local, file::read(local, Scope::Local, variables, root)));
    }
    if let Some(user) = &sources.user {
        contents.push((Scope::User, file::read(user, Scope::User, variables, None)));
    }
    if let Some(project) = &sources.project {
        contents.push((Scope::Project, file::read_project(project, variables)));
    }
    let cloud_allowed = cloud_allowed(sources);
    if let Some(cloud) = &sources.cloud {
        contents.push((Scope::Cloud, from_cloud(cloud, cloud_allowed)));
    }
    if sources.only_dynamic {
        for (_, content) in &mut contents {
            content.entries.clear();
        }
    }
    let mut loaded = Loaded { cloud_allowed, ..gather(&mut contents) };
    let deciding = Deciding { order: &sources.order, contents: &contents, root, approvals, rules: &loaded.rules };
    let decided = deciding.decide(&sources.dynamic);
    loaded.servers = decided.servers;
    loaded.broken = decided.broken;
    loaded.problems.extend(decided.problems);
    for broken in loaded.broken.iter().filter(|broken| broken.disabled.is_some()) {
        let of_it = |problem: &&mut Problem| {
            problem.server.as_ref() == Some(&broken.name) && problem.file == broken.origin.file
        };
        loaded.problems.iter_mut().filter(of_it).for_each(|problem| problem.severity = Severity::Note);
    }
    loaded
}

/// What a file says that somebody names beside the organisation's own: it takes away and adds nothing.
fn only_rules(mut content: Content) -> Content {
    for entry in content.entries.drain(..) {
        let message = "is not used: the organisation has a file of its own, and only that one adds servers";
        let problem = Problem::of_file(Severity::Warning, &entry.origin.file, message).of_server(&entry.name);
        let path = format!("mcpServers.{}", entry.name);
        let kind = ProblemKind::ServerNotUsed;
        content.problems.push(Problem { kind, line: entry.origin.line, path, ..problem });
    }
    // What the organisation requires, whoever named the file does not forbid.
    if let Some(list) = &mut content.list {
        list.scope = None;
    }
    Content { cloud: None, ..content }
}

/// What a provider sent. Its texts are not expanded: it has no business with the variables of this machine.
fn from_cloud(cloud: &CloudText, is_allowed: bool) -> Content {
    let file = Path::new(&cloud.from);
    if !is_allowed {
        let message = "is not used: the organisation has a file of its own";
        return Content { problems: vec![Problem::of_file(Severity::Warning, file, message)], ..Content::default() };
    }
    let nothing = Variables::none();
    let context = Context { scope: Scope::Cloud, variables: &nothing, base: None, to_keep: false };
    without_processes(file::parse(file, &cloud.text, context))
}

/// A provider says where to connect, never what to start: that would be its code on this machine, unseen.
fn without_processes(mut content: Content) -> Content {
    for entry in &mut content.entries {
        let is_local = entry.found.as_ref().is_some_and(|(server, _)| server.reach.is_local());
        let runs_helper = entry.found.as_ref().is_some_and(|(_, written)| written.get("headersHelper").is_some());
        if is_local || runs_helper {
            let problem = Problem {
                line: entry.origin.line,
                path: format!("mcpServers.{}", entry.name),
                ..Problem::of_file(
                    Severity::Error,
                    &entry.origin.file,
                    "would start a command, which a provider may not",
                )
            };
            let problem = problem.of_server(&entry.name);
            entry.found = None;
            entry.problems.push(problem.clone());
            content.problems.push(problem);
        }
    }
    content
}

/// Everything that is said beside the servers themselves.
fn gather(contents: &mut [(Scope, Content)]) -> Loaded {
    let mut loaded = Loaded {
        servers: Vec::new(),
        broken: Vec::new(),
        problems: Vec::new(),
        rules: Rules::default(),
        cloud_allowed: true,
        lost: Vec::new(),
        policy: Vec::new(),
        hooks: Vec::new(),
        cloud: Vec::new(),
    };
    for (scope, content) in contents {
        loaded.lost.extend(content.lost.take().map(|file| (*scope, file)));
        loaded.problems.append(&mut content.problems);
        loaded.policy.extend(content.policy.take());
        loaded.hooks.extend(content.hooks.take());
        loaded.cloud.extend(content.cloud.take());
        loaded.rules.lists.extend(content.list.take());
        loaded.rules.exclusive = loaded.rules.exclusive.take().or(content.exclusive.take());
    }
    loaded
}

/// Reads the entry of one server, such as one given on a command line; `text` is what stands behind its name.
///
/// Problems are in no file: they begin with the path of the key.
pub fn read_server(name: &str, text: &str, scope: Scope, variables: &Variables) -> Result<ReadServer, Vec<Problem>> {
    read_alone(name, text, Context { scope, variables, base: None, to_keep: false })
}

/// The same for one that is only written down: a variable that is not set now is a warning. Such a server must not be
/// run as it is returned.
pub fn read_server_to_keep(
    name: &str,
    text: &str,
    scope: Scope,
    variables: &Variables,
) -> Result<ReadServer, Vec<Problem>> {
    read_alone(name, text, Context { scope, variables, base: None, to_keep: true })
}

fn read_alone(name: &str, text: &str, context: Context<'_>) -> Result<ReadServer, Vec<Problem>> {
    let document = Document::parse(Path::new(""), text).map_err(|problem| vec![problem.of_server(name)])?;
    let root = document.root();
    let entry = entry::read(name, &root.named(name), context);
    match entry.found {
        Some((server, written)) => {
            let server = Server { origin: None, ..server };
            Ok(ReadServer { server, written, problems: entry.problems })
        }
        None => Err(entry.problems),
    }
}
