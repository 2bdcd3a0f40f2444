//! Reads all sources, and resolves which servers are used.

use std::path::Path;

use crate::approval::Approvals;
use crate::entry::{EntryContext, ReadPurpose};
use crate::expand::Variables;
use crate::file::{self, FileContent};
use crate::loaded::Loaded;
use crate::problem::{Problem, ProblemKind, Severity};
use crate::resolve::{Resolution, Resolver};
use crate::rules::Rules;
use crate::server::Scope;
use crate::sources::{CloudText, Sources, cloud_allowed, may_exist};

/// Reads the sources and resolves which servers are used.
pub fn load(sources: &Sources, variables: &Variables, approvals: &Approvals) -> Loaded {
    let root = sources.project.as_ref().map(|project| project.root.as_path());
    let cloud_allowed = cloud_allowed(sources);
    let contents = read_all(sources, variables, cloud_allowed);
    let rules = Rules {
        lists: contents.iter().filter_map(|(_, content)| content.rules.clone()).collect(),
        exclusive: contents.iter().find_map(|(_, content)| content.exclusive.clone()),
    };
    let resolver = Resolver { order: &sources.order, contents: &contents, root, approvals, rules: &rules };
    let Resolution { servers, invalid, problems: found, .. } = resolver.resolve(&sources.dynamic);
    let mut problems: Vec<Problem> =
        contents.iter().flat_map(|(_, content)| content.problems.iter().cloned()).collect();
    problems.extend(found);
    // A problem of a disabled entry is harmless.
    for broken in invalid.iter().filter(|broken| broken.disabled.is_some()) {
        let is_of_entry = |problem: &&mut Problem| {
            problem.server.as_ref() == Some(&broken.name) && problem.file == broken.origin.file
        };
        problems.iter_mut().filter(is_of_entry).for_each(|problem| problem.severity = Severity::Note);
    }
    let mut unreadable = Vec::new();
    let mut policy = Vec::new();
    let mut hooks = Vec::new();
    let mut cloud = Vec::new();
    let mut registry = Vec::new();
    for (scope, content) in contents {
        unreadable.extend(content.unreadable.map(|file| (scope, file)));
        policy.extend(content.policy);
        hooks.extend(content.hooks);
        cloud.extend(content.cloud);
        registry.extend(content.registry);
    }
    Loaded {
        servers,
        broken: invalid,
        problems,
        rules,
        cloud_allowed,
        lost: unreadable,
        policy,
        hooks,
        cloud,
        registry,
    }
}

/// Reads all files, and the text of the provider.
fn read_all(sources: &Sources, variables: &Variables, cloud_allowed: bool) -> Vec<(Scope, FileContent)> {
    let root = sources.project.as_ref().map(|project| project.root.as_path());
    let mut contents: Vec<(Scope, FileContent)> = Vec::new();
    for enterprise in &sources.enterprise {
        contents.push((Scope::Enterprise, file::read(enterprise, Scope::Enterprise, variables, None)));
    }
    let has_enterprise = sources.enterprise.iter().any(|file| may_exist(file));
    for named in &sources.named_enterprise {
        let content = file::read(named, Scope::Enterprise, variables, None);
        contents.push((Scope::Enterprise, if has_enterprise { only_rules(content) } else { content }));
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
    if let Some(cloud) = &sources.cloud {
        contents.push((Scope::Cloud, read_cloud(cloud, cloud_allowed)));
    }
    if sources.only_dynamic {
        for (scope, content) in &mut contents {
            remove_servers(*scope, content);
        }
    }
    contents
}

/// Removes the servers of a file. Its rules, policy and hooks still apply to servers of this run.
fn remove_servers(scope: Scope, content: &mut FileContent) {
    content.entries.clear();
    content.problems.retain(|problem| problem.server.is_none());
    // A user switches configured servers. An enterprise switches names, also those of this run.
    if scope != Scope::Enterprise {
        content.disabled.clear();
        content.enabled.clear();
    }
}

/// Reduces a named enterprise file to its rules: beside a system-wide one it can restrict, but not add servers.
fn only_rules(mut content: FileContent) -> FileContent {
    for entry in content.entries.drain(..) {
        let message = "ignored: an enterprise file exists, and only that one can add servers";
        let problem = Problem::of_file(Severity::Warning, &entry.origin.file, message).of_server(&entry.name);
        let path = format!("mcpServers.{}", entry.name);
        let kind = ProblemKind::ServerNotUsed;
        content.problems.push(Problem { kind, line: entry.origin.line, path, ..problem });
    }
    // It must not deny what the enterprise requires, so its rules do not count as the enterprise's.
    if let Some(rules) = &mut content.rules {
        rules.scope = None;
    }
    FileContent { cloud: None, registry: None, ..content }
}

/// Reads what a provider sent. Variables are not expanded: those of this machine are not the provider's to read.
fn read_cloud(cloud: &CloudText, is_allowed: bool) -> FileContent {
    let file = Path::new(&cloud.from);
    if !is_allowed {
        let message = "ignored: an enterprise file exists";
        let problem = Problem::of_file(Severity::Warning, file, message);
        return FileContent { problems: vec![problem], ..FileContent::default() };
    }
    let variables = Variables::none();
    let purpose = ReadPurpose::Run;
    let context = EntryContext { scope: Scope::Cloud, variables: &variables, base_dir: None, purpose };
    reject_processes(file::parse(file, &cloud.text, context))
}

/// Rejects entries that start a process: a provider must not run code on this machine.
fn reject_processes(mut content: FileContent) -> FileContent {
    for entry in &mut content.entries {
        let Some((server, raw)) = &entry.server else { continue };
        if server.transport.is_local() || raw.get("headersHelper").is_some() {
            let message = "starts a command, which a provider's server must not";
            let problem = Problem {
                line: entry.origin.line,
                path: format!("mcpServers.{}", entry.name),
                ..Problem::of_file(Severity::Error, &entry.origin.file, message)
            };
            let problem = problem.of_server(&entry.name);
            entry.server = None;
            entry.problems.push(problem.clone());
            content.problems.push(problem);
        }
    }
    content
}
