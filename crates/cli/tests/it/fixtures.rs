//! [`Sandbox`]: a config root and a project with configured servers.

use std::path::PathBuf;
use std::process::{Child, Command};

use serde_json::{Map, Value, json};
use wharf_testkit::{Script, scripted_server};

use crate::{RunOutput, ran, wharf};

/// A temporary directory with everything the binary reads. `$` in a script stands for that directory.
pub(crate) struct Sandbox {
    folder: tempfile::TempDir,
    user: Map<String, Value>,
    project: Map<String, Value>,
}

impl Sandbox {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        for name in ["root", "project"] {
            std::fs::create_dir(folder.path().join(name)).unwrap();
        }
        Self { folder, user: Map::new(), project: Map::new() }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Adds a server with this entry to the user scope.
    pub(crate) fn entry(mut self, name: &str, entry: Value) -> Self {
        self.user.insert(name.to_owned(), entry);
        self
    }

    /// Adds a scripted server to the user scope.
    pub(crate) fn server(self, name: &str, script: &Script) -> Self {
        let entry = self.scripted(name, script);
        self.entry(name, entry)
    }

    /// Adds a scripted server to the user scope, with one more key in its entry.
    pub(crate) fn server_with(self, name: &str, script: &Script, key: &str, value: Value) -> Self {
        let mut entry = self.scripted(name, script);
        entry[key] = value;
        self.entry(name, entry)
    }

    /// Adds an unapproved scripted server to the project.
    pub(crate) fn project_server(mut self, name: &str, script: &Script) -> Self {
        let entry = self.scripted(name, script);
        self.project.insert(name.to_owned(), entry);
        self
    }

    fn scripted(&self, name: &str, script: &Script) -> Value {
        let file = self.path(&format!("{name}.script"));
        let text = serde_json::to_string(script).unwrap().replace('$', self.folder.path().to_str().unwrap());
        std::fs::write(&file, text).unwrap();
        json!({"command": scripted_server(), "args": [file]})
    }

    pub(crate) fn run(&self, arguments: &[&str]) -> RunOutput {
        ran(self.command(arguments))
    }

    /// Like [`Self::run`], with environment variables.
    pub(crate) fn run_with(&self, arguments: &[&str], variables: &[(&str, &str)]) -> RunOutput {
        let mut command = self.command(arguments);
        command.envs(variables.iter().copied());
        ran(command)
    }

    /// Starts a command without waiting for it.
    pub(crate) fn start(&self, arguments: &[&str]) -> Child {
        self.command(arguments).spawn().unwrap()
    }

    /// Returns the binary in the project's directory, after writing the configuration files.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let write = |file: &str, servers: &Map<String, Value>| {
            let text = serde_json::to_string_pretty(&json!({"mcpServers": servers})).unwrap();
            std::fs::write(self.path(file), text).unwrap();
        };
        write("root/mcp.json", &self.user);
        if !self.project.is_empty() {
            write("project/.mcp.json", &self.project);
        }
        let mut command = wharf(arguments);
        command.env("WHARF_CONFIG_ROOT", self.path("root")).current_dir(self.path("project"));
        command
    }

    /// Returns the output without the parts that differ between runs: paths and durations.
    pub(crate) fn normalized(&self, text: &str) -> String {
        let folder = self.folder.path().canonicalize().unwrap();
        let text = text.replace(folder.to_str().unwrap(), "~").replace(scripted_server().to_str().unwrap(), "server");
        let words = text.split_inclusive(char::is_whitespace).collect::<Vec<_>>();
        let is_unit = |word: &str| matches!(word.trim_end_matches([' ', '\n', ':', ',']), "ms" | "s");
        let is_number = |word: &str| word.trim().parse::<f64>().is_ok();
        let normalize = |(index, word): (usize, &&str)| {
            let next = words.get(index + 1).copied().unwrap_or("");
            let before = words.get(index.wrapping_sub(1));
            match *word {
                word if is_number(word) && is_unit(next) => "N ".to_owned(),
                // The duration depends on the machine, and so does its unit.
                word if is_unit(word) && before.is_some_and(|word| is_number(word)) => {
                    format!("ms{}", word.trim_start_matches(['m', 's']))
                }
                word => word.to_owned(),
            }
        };
        words.iter().enumerate().map(normalize).collect()
    }
}
