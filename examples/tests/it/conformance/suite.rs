//! One run of the suite, and its findings.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use serde_json::Value;
use tokio::process::Command;
use wharf_testkit::peers;

/// Time limit of a run. On two idle cores the longest one takes about twelve seconds.
const RUN_LIMIT: Duration = Duration::from_secs(80);

/// Length of the timestamp after the scenario in the name of a results folder: `-2026-11-15T15-51-16-697Z`.
const TIME_LENGTH: usize = 25;

/// The program under test.
pub(crate) enum Subject<'a> {
    /// A running server.
    Server { url: &'a str },
    /// A program that the suite starts for every scenario, with the URL of a server as its only argument.
    Client { program: &'a Path },
}

impl Subject<'_> {
    fn role(&self) -> &'static str {
        match self {
            Self::Server { .. } => "server",
            Self::Client { .. } => "client",
        }
    }

    fn arguments(&self) -> [OsString; 3] {
        match self {
            Self::Server { url } => ["server".into(), "--url".into(), url.into()],
            Self::Client { program } => ["client".into(), "--command".into(), program.into()],
        }
    }
}

/// The findings of the suite.
pub(crate) struct Report {
    /// Number of scenarios, scored or not.
    pub(crate) scenarios: usize,
    /// Failures and warnings, scored or not, one per line.
    pub(crate) complaints: Vec<String>,
    /// Whether all scored checks passed, except the expected failures in `conformance/`.
    conforms: bool,
    summary: String,
}

impl Report {
    /// # Panics
    /// If the subject does not conform, with the reasons.
    #[track_caller]
    pub(crate) fn assert_conforms(&self) {
        let complaints = self.complaints.join("\n");
        assert!(self.conforms, "the suite reports failures:\n{complaints}\n\n{}", self.summary);
    }
}

/// Runs all scenarios of a protocol revision against `subject`.
pub(crate) async fn run(subject: &Subject<'_>, revision: &str) -> Report {
    let root = peers();
    let results = tempfile::tempdir().unwrap();
    let modules = root.join(".peers/node_modules");
    let expected_failures = format!("examples/conformance/{}.yml", subject.role());
    let mut suite = Command::new(modules.join("node/bin/node"));
    suite
        .arg(modules.join("@modelcontextprotocol/conformance/dist/index.js"))
        .args(subject.arguments())
        .args(["--requirements", revision])
        .arg("--expected-failures")
        .arg(root.join(expected_failures))
        .arg("--output-dir")
        .arg(results.path())
        .stdin(Stdio::null())
        .kill_on_drop(true);
    let ended = tokio::time::timeout(RUN_LIMIT, suite.output()).await;
    let output = ended.expect("the suite timed out").unwrap();
    let printed = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).concat();
    // The results contain the output per scenario in more detail; passing scenarios are not shown.
    let summary = printed.rsplit_once("SUMMARY ===").map_or(printed.as_str(), |(_, summary)| summary);
    let summary =
        summary.lines().filter(|line| !line.is_empty() && !line.starts_with('✓')).collect::<Vec<_>>().join("\n");

    let mut found = Vec::new();
    find_results(results.path(), &mut found);
    let complaints = found.iter().flat_map(|folder| complaints(results.path(), folder)).collect();
    Report { scenarios: found.len(), complaints, conforms: output.status.success(), summary }
}

/// Collects the result folders of all scenarios; names of scenarios may contain slashes.
fn find_results(folder: &Path, found: &mut Vec<PathBuf>) {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    for inner in entries.filter(|path| path.is_dir()) {
        if inner.join("checks.json").is_file() {
            found.push(inner);
        } else {
            find_results(&inner, found);
        }
    }
}

fn complaints(results: &Path, folder: &Path) -> Vec<String> {
    let checks = std::fs::read_to_string(folder.join("checks.json")).unwrap();
    let checks = serde_json::from_str::<Vec<Value>>(&checks).unwrap();
    let name = folder.strip_prefix(results).unwrap().display().to_string();
    let scenario = &name[..name.len().saturating_sub(TIME_LENGTH)];
    let wrong = checks.iter().filter(|check| check["status"] == "FAILURE" || check["status"] == "WARNING");
    let line = |check: &Value| {
        let field = |name: &str| check[name].as_str().unwrap_or_default().to_owned();
        let why = if check["errorMessage"].is_string() { field("errorMessage") } else { field("description") };
        format!("{scenario}: {}: {why}", field("id"))
    };
    wrong.map(line).collect()
}
