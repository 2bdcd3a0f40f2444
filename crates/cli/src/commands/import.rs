//! `wharf import`: the servers of another MCP host.

use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde_json::Value;
use wharf::ServerName;
use wharf::config::import::{self, ImportDirs, ImportHost, ImportedFile};
use wharf::config::{Editor, OnExisting, Severity};
use wharf::fleet::Scope;

use super::common::WriteScope;
use crate::config::writing::{self, WriteError};
use crate::config::{Setup, describe};
use crate::error::{UsageError, usage_error};
use crate::exit::Exit;
use crate::globals::Globals;
use crate::{program, term};

/// The largest file that is read. Some hosts store all their state in one.
const MAX_FILE_BYTES: u64 = 64 << 20;

#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  wharf import claude-desktop --dry-run\n  wharf import cursor --from .cursor/mcp.json -s user"
)]
pub(crate) struct Import {
    /// Host to import from
    #[arg(value_name = "HOST", value_parser = clap::builder::PossibleValuesParser::new(ImportHost::ALL.map(ImportHost::as_str)))]
    host: String,
    /// Configuration file of the host [default: its usual location]
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    from: Option<PathBuf>,
    /// Scope to write to
    #[arg(short, long, value_enum, default_value_t = WriteScope::Local)]
    scope: WriteScope,
    /// Show what would be imported, without writing
    #[arg(long)]
    dry_run: bool,
    /// Replace existing servers of the same names
    #[arg(short, long)]
    force: bool,
}

/// The layout of `--json`.
#[derive(Serialize)]
struct JsonImport {
    version: u32,
    host: String,
    from: Vec<PathBuf>,
    scope: Scope,
    /// The file they were written to, or would be.
    file: PathBuf,
    #[serde(rename = "dryRun")]
    dry_run: bool,
    taken: Vec<Imported>,
    skipped: Vec<Skipped>,
    notes: Vec<String>,
}

/// Why a server is not imported for every project.
const FOR_ONE_PROJECT: &str =
    "uses the directory of the project (`${workspaceFolder}`); import it into the project where it is used: -s local";

#[derive(Serialize)]
struct Imported {
    name: String,
    /// Its name at the host.
    original: String,
    /// Its command or URL, without secrets.
    target: String,
    notes: Vec<String>,
}

#[derive(Serialize)]
struct Skipped {
    name: String,
    reason: String,
}

pub(crate) async fn run(globals: &Globals, import: Import) -> Exit {
    let result = match import_servers(globals, &import) {
        Ok(result) => result,
        Err(error) => return error.report(),
    };
    let exit = if result.taken.is_empty() && !result.skipped.is_empty() { Exit::Failed } else { Exit::Done };
    let written = if globals.json { term::json(&result).await } else { print(&result, globals).await };
    exit.max(written)
}

fn import_servers(globals: &Globals, import: &Import) -> Result<JsonImport, WriteError> {
    let host: ImportHost = import.host.parse().map_err(|error| usage_error(error, None))?;
    let setup = Setup::read(globals)?;
    let scope = import.scope.into();
    let (from, mut imported) = read(host, import, &setup)?;
    imported.notes.extend(skipped_project_file(host, import, &setup));
    let file = setup.paths.of(scope)?.to_owned();
    let mut editor = Editor::open(&file, scope)?;
    let mut skipped: Vec<Skipped> =
        imported.skipped.into_iter().map(|(name, reason)| Skipped { name, reason }).collect();
    let mut taken = Vec::new();
    for server in imported.servers {
        if scope == Scope::User && server.is_for_project {
            skipped.push(Skipped { name: server.original, reason: FOR_ONE_PROJECT.to_owned() });
            continue;
        }
        let name = server.name;
        let entry = Value::Object(server.entry);
        let checked = writing::check(&setup, name.as_str(), &entry.to_string(), scope);
        let existing = if import.force { OnExisting::Replace } else { OnExisting::Refuse };
        let added = checked.and_then(|read| {
            editor.add(&name, &entry, existing)?;
            Ok(read)
        });
        match added {
            Ok(read) => {
                let problems = read.problems.iter().filter(|problem| problem.severity != Severity::Note);
                let disabled = (!read.server.settings.enabled).then(|| "disabled, as at the host".to_owned());
                let messages = problems.map(|problem| problem.message.clone());
                let missing = program::missing_command(&read.server, &setup.paths.project.root);
                let missing = missing.map(|missing| format!("command not found: {}", missing.hint));
                let same_name = same_name(&setup, &name, scope);
                let notes = disabled.into_iter().chain(server.notes).chain(messages).chain(same_name).chain(missing);
                let notes = notes.collect();
                let target = describe::target(&read.written, &read.server.transport);
                taken.push(Imported { name: name.to_string(), original: server.original, target, notes });
            }
            Err(error) => skipped.push(Skipped { name: server.original, reason: reason(error) }),
        }
    }
    if !import.dry_run && !taken.is_empty() {
        editor.save()?;
    }
    Ok(JsonImport {
        version: 1,
        host: host.to_string(),
        from,
        scope,
        file,
        dry_run: import.dry_run,
        taken,
        skipped,
        notes: imported.notes,
    })
}

/// Says which servers of the same name an imported one replaces, or which one is used in its place.
fn same_name(setup: &Setup, name: &ServerName, scope: Scope) -> Vec<String> {
    let others = setup.loaded.servers.iter().filter(|found| found.server.name == *name);
    let mut scopes: Vec<Scope> = others.map(|found| found.server.scope).filter(|other| *other != scope).collect();
    scopes.sort_unstable();
    match scopes.first() {
        // The highest scope comes first.
        Some(higher) if *higher < scope => vec![format!("not used: the one of the {higher} scope has precedence")],
        _ => scopes.iter().map(|lower| format!("shadows the one of the {lower} scope")).collect(),
    }
}

/// Returns why a server was skipped, in one line.
fn reason(error: WriteError) -> String {
    match error {
        WriteError::Usage(UsageError { message, hint }) => match hint {
            Some(hint) => format!("{message}; {hint}"),
            None => message,
        },
        WriteError::Problems(problems) => {
            let errors = problems.iter().filter(|problem| problem.is_error());
            errors.map(ToString::to_string).collect::<Vec<_>>().join("; ")
        }
        WriteError::Failed(message) => message,
    }
}

/// Reads the given file of a host, or all it has.
fn read(host: ImportHost, import: &Import, setup: &Setup) -> Result<(Vec<PathBuf>, ImportedFile), WriteError> {
    let project = &setup.paths.project;
    let from = match &import.from {
        Some(file) => vec![file.clone()],
        None => default_files(host, import, setup)?,
    };
    let mut all = ImportedFile::default();
    for file in &from {
        let text =
            text_of(file).map_err(|error| usage_error(format!("cannot read {}: {error}", file.display()), None))?;
        let read = import::read(host, &text, Some(&project.root));
        let imported = read.map_err(|error| usage_error(format!("{}: {error}", file.display()), None))?;
        for server in imported.servers {
            if all.servers.iter().any(|other| other.name == server.name) {
                all.skipped.push((server.original, "an earlier file has a server of the same name".to_owned()));
            } else {
                all.servers.push(server);
            }
        }
        all.skipped.extend(imported.skipped);
        all.notes.extend(imported.notes);
    }
    Ok((from, all))
}

/// Reads a regular file: a pipe would block.
fn text_of(file: &Path) -> io::Result<String> {
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("not a file"));
    }
    let mut text = String::new();
    std::fs::File::open(file)?.take(MAX_FILE_BYTES + 1).read_to_string(&mut text)?;
    if text.len() as u64 > MAX_FILE_BYTES {
        return Err(io::Error::other(format!("larger than {MAX_FILE_BYTES} bytes")));
    }
    Ok(text)
}

/// Returns the host's files in the project. Their authors are not the user, so their servers need approval: they are
/// imported into the project scope only.
fn project_files(host: ImportHost, setup: &Setup) -> Vec<PathBuf> {
    let project = &setup.paths.project;
    let nowhere = Path::new("");
    let dirs = ImportDirs { home: nowhere, config: nowhere, project: Some(&project.root) };
    let files = import::default_files(host, &dirs).into_iter();
    files.filter(|file| file.starts_with(&project.root) && *file != project.file).collect()
}

/// Returns a note about a project's file that is not imported.
fn skipped_project_file(host: ImportHost, import: &Import, setup: &Setup) -> Option<String> {
    if import.from.is_some() || Scope::from(import.scope) == Scope::Project {
        return None;
    }
    let found = project_files(host, setup).into_iter().find(|file| file.exists())?;
    Some(format!("skipped {}: it belongs to the project; import it for approval with `-s project`", found.display()))
}

/// Returns the existing files of a host. A project's `.mcp.json` is ours as well, so it needs no import.
fn default_files(host: ImportHost, import: &Import, setup: &Setup) -> Result<Vec<PathBuf>, UsageError> {
    let paths = &setup.paths;
    let (home, config) =
        paths.home.as_deref().zip(paths.config.as_deref()).ok_or_else(|| {
            usage_error("no home directory to search".to_owned(), Some("pass a file with --from FILE"))
        })?;
    let for_project = Scope::from(import.scope) == Scope::Project;
    let project = if for_project { project_files(host, setup) } else { Vec::new() };
    let own = import::default_files(host, &ImportDirs { home, config, project: None });
    let files: Vec<PathBuf> = project.into_iter().chain(own).collect();
    let found: Vec<PathBuf> = files.iter().filter(|file| file.exists()).cloned().collect();
    if found.is_empty() {
        let searched: Vec<String> = files.iter().map(|file| file.display().to_string()).collect();
        let hint = format!("searched {}; pass another file with --from FILE", searched.join(", "));
        let hint = match skipped_project_file(host, import, setup) {
            Some(note) => format!("{hint}; {note}"),
            None => hint,
        };
        return Err(usage_error(format!("no configuration of {host} found"), Some(&hint)));
    }
    Ok(found)
}

async fn print(result: &JsonImport, globals: &Globals) -> Exit {
    let JsonImport { from, file, scope, dry_run, taken, skipped, notes, .. } = result;
    if !globals.quiet {
        for note in notes {
            term::note(note);
        }
        let verb = if *dry_run { "would add" } else { "added" };
        let count = term::counted(taken.len(), "server");
        let from: Vec<String> = from.iter().map(|file| file.display().to_string()).collect();
        let from = from.join(", ");
        term::note(&format!("{verb} {count} of {from} to the {scope} scope, in {}", file.display()));
    }
    let imported = |server: &Imported| {
        let word = if *dry_run { "new" } else { "added" };
        vec![term::name(&server.name), word.to_owned(), server.target.clone(), term::flat(&server.notes.join("; "))]
    };
    let skipped_row = |server: &Skipped| {
        vec![term::name(&server.name), "skipped".to_owned(), String::new(), term::flat(&server.reason)]
    };
    let rows: Vec<Vec<String>> = taken.iter().map(imported).chain(skipped.iter().map(skipped_row)).collect();
    if rows.is_empty() {
        return Exit::Done;
    }
    term::out(term::table(&["server", "", "target", "notes"], rows)).await
}
