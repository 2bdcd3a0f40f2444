//! Loading configuration: each test has its own directory with a file for each scope.

#![expect(clippy::unwrap_used, reason = "a failed setup should stop the test")]

mod approvals;
mod editing;
mod entries;
mod files;
mod forms;
mod rules;
mod scopes;
mod simple;

use std::fs;
use std::path::{Path, PathBuf};

use tempfile::TempDir;
use wharf_config::{Approvals, CloudText, Eligibility, Loaded, ProjectFile, Scope, Severity, Sources, Variables, load};

/// A machine with only the files that a test writes.
struct Machine {
    dir: TempDir,
    sources: Sources,
    variables: Variables,
}

impl Machine {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        fs::create_dir(at("project")).unwrap();
        let sources = Sources {
            enterprise: vec![at("managed.json")],
            local: Some(at("local.json")),
            user: Some(at("user.json")),
            project: Some(ProjectFile::at(&at("project"))),
            ..Sources::default()
        };
        Self { dir, sources, variables: Variables::none() }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn root(&self) -> PathBuf {
        self.path("project")
    }

    fn write(self, name: &str, text: &str) -> Self {
        fs::write(self.path(name), text).unwrap();
        self
    }

    fn enterprise(self, text: &str) -> Self {
        self.write("managed.json", text)
    }

    fn local(self, text: &str) -> Self {
        self.write("local.json", text)
    }

    fn user(self, text: &str) -> Self {
        self.write("user.json", text)
    }

    fn project(self, text: &str) -> Self {
        self.write("project/.mcp.json", text)
    }

    fn cloud(mut self, text: &str) -> Self {
        self.sources.cloud = Some(CloudText { from: "https://provider.example/servers".into(), text: text.into() });
        self
    }

    fn variables(mut self, variables: &[(&str, &str)]) -> Self {
        self.variables = variables.iter().copied().collect();
        self
    }

    fn approvals(&self) -> Approvals {
        Approvals::load(&self.path("approvals.json")).unwrap()
    }

    fn load(&self) -> Loaded {
        load(&self.sources, &self.variables, &self.approvals())
    }

    /// Lists all servers with scope and eligibility, and all invalid entries.
    fn list(&self) -> String {
        list(&self.load())
    }

    /// Lists all problems, without the directory of this machine.
    fn problems(&self, least: Severity) -> String {
        let loaded = self.load();
        let lines = loaded.problems.iter().filter(|problem| problem.severity <= least);
        let lines: Vec<_> = lines.map(|problem| format!("{}: {problem}", problem.severity)).collect();
        self.anonymous(&lines.join("\n"))
    }

    fn anonymous(&self, text: &str) -> String {
        text.replace(&format!("{}/", self.dir.path().display()), "")
    }

    /// Approves the current entries of all servers of the project.
    fn approve_all(&self) {
        let mut approvals = self.approvals();
        for found in self.load().servers.iter().filter(|found| found.server.scope == Scope::Project) {
            approvals.approve(&self.root(), &found.server.name, &found.written);
        }
        approvals.save().unwrap();
    }
}

fn list(loaded: &Loaded) -> String {
    let servers = loaded.servers.iter().map(|found| {
        let eligibility = match &found.eligibility {
            Eligibility::Shadowed { by } => format!("shadowed by {by}"),
            Eligibility::Duplicate { of } => format!("duplicate of {of}"),
            other => other.as_str().to_owned(),
        };
        format!("{} {} {eligibility}", found.server.scope, found.server.name)
    });
    let broken = loaded.broken.iter().map(|found| format!("{} {} broken", found.scope, found.name));
    servers.chain(broken).collect::<Vec<_>>().join("\n")
}

/// A file with one server `x`.
fn one(entry: &str) -> String {
    format!("{{\"mcpServers\": {{\n\"x\": {entry}\n}}}}")
}

fn mode(file: &Path) -> u32 {
    use std::os::unix::fs::PermissionsExt;
    fs::metadata(file).unwrap().permissions().mode() & 0o777
}
