//! `wharf export`: write servers into the configuration of another MCP host.

use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use clap::ValueEnum;
use clap_complete::ArgValueCandidates;
use serde::Serialize;
use wharf::config::export::{ExportError, ExportHost, Exported, HostFile, SecretValues, convert};
use wharf::config::import::ImportDirs;
use wharf::config::{ConfiguredServer, Eligibility};

use crate::complete;
use crate::config::{Setup, describe};
use crate::error::{UsageError, usage_error};
use crate::exit::Exit;
use crate::globals::Globals;
use crate::interrupt::dropped_on_interrupt;
use crate::term;
use crate::term::input::line;
use crate::term::prompt::is_interactive;

#[derive(Debug, clap::Args)]
#[command(after_help = "Shows what would be written and asks first. The file before the change is stored beside it. \
        Variables such as ${TOKEN} stay variables. A secret that an entry contains itself is copied, and its name is \
        shown, unless --secrets placeholder is passed.\n\n\
        Examples:\n  wharf export cursor --dry-run\n  wharf export vscode time github\n  wharf export claude-desktop --yes")]
pub(crate) struct Export {
    /// Host to write for
    #[arg(value_name = "HOST", value_parser = clap::builder::PossibleValuesParser::new(ExportHost::ALL.map(ExportHost::as_str)))]
    host: String,
    /// Server names [default: all servers that are used]
    #[arg(value_name = "SERVER", add = ArgValueCandidates::new(complete::servers))]
    servers: Vec<String>,
    /// Configuration file of the host [default: its usual location]
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    to: Option<PathBuf>,
    /// Show what would be written, without writing
    #[arg(long)]
    dry_run: bool,
    /// Replace other servers of the same names
    #[arg(short, long)]
    force: bool,
    /// What to write for secrets that entries contain
    #[arg(long, value_enum, default_value_t = SecretsArg::Copy)]
    secrets: SecretsArg,
    /// Write without asking
    #[arg(short, long)]
    yes: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum SecretsArg {
    /// The secret
    Copy,
    /// ${env:NAME}, for hosts with variables
    Placeholder,
}

/// The layout of `--json`.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct JsonExport {
    version: u32,
    host: String,
    file: PathBuf,
    backup: Option<PathBuf>,
    written: bool,
    servers: Vec<ExportRow>,
}

#[derive(Serialize)]
struct ExportRow {
    name: String,
    result: &'static str,
    /// Its command or URL, without secrets.
    target: String,
    notes: Vec<String>,
    /// Where the entry contains secrets that are written, without their values.
    secrets: Vec<String>,
}

/// What an export would write.
struct Prepared {
    path: PathBuf,
    file: HostFile,
    rows: Vec<ExportRow>,
    changes: usize,
}

pub(crate) async fn run(globals: &Globals, export: Export) -> Exit {
    dropped_on_interrupt(Box::pin(export_servers(globals, &export))).await
}

async fn export_servers(globals: &Globals, export: &Export) -> Exit {
    let Prepared { path, file, rows, changes } = match prepare(globals, export) {
        Ok(prepared) => prepared,
        Err(error) => return term::usage_error(&error),
    };
    let written = if globals.json { Exit::Done } else { show(&rows).await };
    let mut backup = None;
    let mut is_written = false;
    if changes > 0 {
        warn_if_others_can_read(&path, &rows);
    }
    if changes > 0 && !export.dry_run {
        match confirmed(export, &path, changes).await {
            Ok(true) => {}
            Ok(false) => {
                term::note("nothing written");
                return Exit::Failed;
            }
            Err(error) => return term::usage_error(&error),
        }
        let place = backup_path(&path);
        match file.save(&place) {
            Ok(written) => backup = written,
            Err(error) => {
                term::error(&error.to_string(), &[], None);
                return Exit::Failed;
            }
        }
        is_written = true;
    }
    if globals.json {
        let host = export.host.clone();
        let result = JsonExport { version: 1, host, file: path, backup, written: is_written, servers: rows };
        return term::json(&result).await;
    }
    if !globals.quiet {
        let count = term::counted(changes, "server");
        term::note(&match (is_written, changes) {
            (true, _) => format!("wrote {count} to {}", path.display()),
            (false, 0) => format!("nothing to write to {}", path.display()),
            (false, _) => format!("would write {count} to {}", path.display()),
        });
        if let Some(backup) = backup {
            term::note(&format!("the file before is {}", backup.display()));
        }
    }
    written
}

fn prepare(globals: &Globals, export: &Export) -> Result<Prepared, UsageError> {
    let host: ExportHost = export.host.parse().map_err(|error| usage_error(error, None))?;
    let setup = Setup::read(globals)?;
    setup.print_problems(wharf::config::Problem::is_error);
    let path = match &export.to {
        Some(file) => file.clone(),
        None => default_file(host, &setup)?,
    };
    let mut file = HostFile::open(host, &path).map_err(|error| unusable(&error))?;
    let mut rows = Vec::new();
    let mut changes = 0;
    for found in selected(&setup, export)? {
        let name = found.server.name.as_str();
        let target = describe::target(&found.written, &found.server.transport);
        let mut row =
            ExportRow { name: name.to_owned(), result: "skipped", target, notes: Vec::new(), secrets: Vec::new() };
        if found.eligibility != Eligibility::Ready {
            row.notes.push(describe::reason(found).unwrap_or_else(|| found.eligibility.as_str().to_owned()));
            rows.push(row);
            continue;
        }
        match convert(host, &found.written, found.server.transport.kind(), export.secret_values()) {
            Err(reason) => row.notes.push(reason),
            Ok(exported) => {
                row.notes = exported.notes;
                let result = file.add(name, &exported.entry, export.force).map_err(|error| unusable(&error))?;
                changes += usize::from(matches!(result, Exported::New | Exported::Replaced));
                if matches!(result, Exported::New | Exported::Replaced) && !exported.secrets.is_empty() {
                    let alternative =
                        if host == ExportHost::ClaudeDesktop { "" } else { "; --secrets placeholder leaves them out" };
                    row.notes.push(format!("contains secrets: {}{alternative}", exported.secrets.join(", ")));
                    row.secrets = exported.secrets;
                }
                row.result = match result {
                    Exported::New => "new",
                    Exported::Replaced => "replaced",
                    Exported::Unchanged => "unchanged",
                    Exported::Kept => {
                        row.notes.push("the file has another server of this name; replace it with --force".to_owned());
                        "skipped"
                    }
                };
            }
        }
        rows.push(row);
    }
    Ok(Prepared { path, file, rows, changes })
}

impl Export {
    fn secret_values(&self) -> SecretValues {
        match self.secrets {
            SecretsArg::Copy => SecretValues::Copy,
            SecretsArg::Placeholder => SecretValues::Placeholder,
        }
    }
}

/// Warns before secrets get into a file of the host that others can read. Its permissions are the host's decision.
fn warn_if_others_can_read(path: &Path, rows: &[ExportRow]) {
    let mode = std::fs::metadata(path).map(|found| found.permissions().mode());
    if mode.is_ok_and(|mode| mode & 0o044 != 0) && rows.iter().any(|row| !row.secrets.is_empty()) {
        term::warning(&format!("other users of this machine can read {}, which would contain secrets", path.display()));
    }
}

fn unusable(error: &ExportError) -> UsageError {
    usage_error(error.to_string(), Some("the file is left as it is"))
}

fn default_file(host: ExportHost, setup: &Setup) -> Result<PathBuf, UsageError> {
    let paths = &setup.paths;
    let dirs = paths.home.as_deref().zip(paths.config.as_deref());
    let file = dirs.and_then(|(home, config)| host.file(&ImportDirs { home, config, project: None }));
    file.ok_or_else(|| usage_error("no home directory to search".to_owned(), Some("pass a file with --to FILE")))
}

/// Returns the named servers, or all that are used.
fn selected<'a>(setup: &'a Setup, export: &Export) -> Result<Vec<&'a ConfiguredServer>, UsageError> {
    if export.servers.is_empty() {
        let used = setup.loaded.servers.iter().filter(|found| found.eligibility == Eligibility::Ready);
        let used: Vec<&ConfiguredServer> = used.collect();
        if used.is_empty() {
            return Err(usage_error("no servers to export".to_owned(), Some("add one: wharf add NAME URL|COMMAND")));
        }
        return Ok(used);
    }
    export.servers.iter().map(|name| setup.loaded.find(name).ok_or_else(|| setup.unknown_server(name))).collect()
}

async fn show(rows: &[ExportRow]) -> Exit {
    let row = |row: &ExportRow| {
        vec![term::name(&row.name), row.result.to_owned(), row.target.clone(), term::flat(&row.notes.join("; "))]
    };
    term::out(term::table(&["server", "", "target", "notes"], rows.iter().map(row).collect())).await
}

async fn confirmed(export: &Export, path: &Path, changes: usize) -> Result<bool, UsageError> {
    if export.yes {
        return Ok(true);
    }
    if !is_interactive() {
        let message = format!("cannot ask whether to write {} without a terminal", path.display());
        return Err(usage_error(message, Some("if you have reviewed it, pass --yes")));
    }
    // The table is on stdout, and must be there before the question.
    let _ = std::io::stdout().flush();
    let count = term::counted(changes, "server");
    let answer = line(format!("Write {count} to {}? [y/N] ", path.display())).await.unwrap_or_default();
    Ok(matches!(answer.trim().to_lowercase().as_str(), "y" | "yes"))
}

/// Returns the path of a backup, which names the time.
fn backup_path(path: &Path) -> PathBuf {
    let time = chrono::Utc::now().format("%Y%m%dT%H%M%SZ");
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    path.with_file_name(format!("{name}.before-wharf-{time}"))
}
