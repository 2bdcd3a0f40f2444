//! `wharf import`: the servers of another host.

use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde_json::Value;
use wharf::config::import::{self, ImportDirs, ImportHost, ImportedFile};
use wharf::config::{Editor, OnExisting, Severity};
use wharf::fleet::Scope;

use crate::args::{Globals, Import};
use crate::describe;
use crate::exit::Exit;
use crate::render;
use crate::servers::{Misuse, misuse};
use crate::setup::Setup;
use crate::writing::{self, Trouble};

/// The longest file that is read. Some hosts keep everything they know in one.
const LONGEST: u64 = 64 << 20;

/// What `--json` shows.
#[derive(Serialize)]
struct Shown {
    version: u32,
    host: String,
    from: Vec<PathBuf>,
    scope: Scope,
    /// Where they are now, or would be.
    file: PathBuf,
    #[serde(rename = "dryRun")]
    dry_run: bool,
    taken: Vec<Taken>,
    skipped: Vec<Skipped>,
    notes: Vec<String>,
}

#[derive(Serialize)]
struct Taken {
    name: String,
    /// What it is called there.
    original: String,
    /// Its command or address, without secrets.
    target: String,
    notes: Vec<String>,
}

#[derive(Serialize)]
struct Skipped {
    name: String,
    reason: String,
}

pub(crate) async fn run(globals: &Globals, import: Import) -> Exit {
    let shown = match take_over(globals, &import) {
        Ok(shown) => shown,
        Err(trouble) => return trouble.tell(),
    };
    let exit = if shown.taken.is_empty() && !shown.skipped.is_empty() { Exit::Failed } else { Exit::Done };
    let written = if globals.json { render::json(&shown).await } else { tell(&shown, globals).await };
    exit.max(written)
}

fn take_over(globals: &Globals, import: &Import) -> Result<Shown, Trouble> {
    let host: ImportHost = import.host.parse().map_err(|error| misuse(error, None))?;
    let setup = Setup::read(globals)?;
    let scope = import.scope.into();
    let (from, mut imported) = read(host, import, &setup)?;
    imported.notes.extend(left_alone(host, import, &setup));
    let file = setup.places.of(scope)?.to_owned();
    let mut editor = Editor::open(&file, scope)?;
    let mut skipped: Vec<Skipped> =
        imported.skipped.into_iter().map(|(name, reason)| Skipped { name, reason }).collect();
    let mut taken = Vec::new();
    for server in imported.servers {
        let (name, entry) = (server.name, Value::Object(server.entry));
        let checked = writing::check(&setup, name.as_str(), &entry.to_string(), scope);
        let existing = if import.force { OnExisting::Replace } else { OnExisting::Refuse };
        let added = checked.and_then(|read| {
            editor.add(&name, &entry, existing)?;
            Ok(read)
        });
        match added {
            Ok(read) => {
                let odd = read.problems.iter().filter(|problem| problem.severity != Severity::Note);
                let off = (!read.server.settings.enabled).then(|| "switched off, as it is there".to_owned());
                let notes =
                    off.into_iter().chain(server.notes).chain(odd.map(|problem| problem.message.clone())).collect();
                let target = describe::target(&read.written, &read.server.reach);
                taken.push(Taken { name: name.to_string(), original: server.original, target, notes });
            }
            Err(trouble) => skipped.push(Skipped { name: server.original, reason: why(trouble) }),
        }
    }
    if !import.dry_run && !taken.is_empty() {
        editor.save()?;
    }
    let notes = imported.notes;
    let host = host.to_string();
    Ok(Shown { version: 1, host, from, scope, file, dry_run: import.dry_run, taken, skipped, notes })
}

/// Why one server was left out, in a line.
fn why(trouble: Trouble) -> String {
    match trouble {
        Trouble::Misuse(Misuse { what, hint }) => hint.map_or(what.clone(), |hint| format!("{what}; {hint}")),
        Trouble::Problems(problems) => {
            let errors = problems.iter().filter(|problem| problem.is_error());
            errors.map(ToString::to_string).collect::<Vec<_>>().join("; ")
        }
        Trouble::Failed(what) => what,
    }
}

/// What the host's files hold: the one that is named, or all there are.
fn read(host: ImportHost, import: &Import, setup: &Setup) -> Result<(Vec<PathBuf>, ImportedFile), Trouble> {
    let project = &setup.places.project;
    let from = match &import.from {
        Some(file) => vec![file.clone()],
        None => usual(host, import, setup)?,
    };
    let mut all = ImportedFile::default();
    for file in &from {
        let text =
            text_of(file).map_err(|error| misuse(format!("{} cannot be read: {error}", file.display()), None))?;
        let read = import::read(host, &text, Some(&project.root));
        let imported = read.map_err(|error| misuse(format!("{}: {error}", file.display()), None))?;
        for server in imported.servers {
            if all.servers.iter().any(|other| other.name == server.name) {
                all.skipped.push((server.original, "a file before has a server of the same name".to_owned()));
            } else {
                all.servers.push(server);
            }
        }
        all.skipped.extend(imported.skipped);
        all.notes.extend(imported.notes);
    }
    Ok((from, all))
}

/// The text of a file, if it is one: a pipe would be waited for.
fn text_of(file: &Path) -> io::Result<String> {
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("it is no file"));
    }
    let mut text = String::new();
    std::fs::File::open(file)?.take(LONGEST + 1).read_to_string(&mut text)?;
    if text.len() as u64 > LONGEST {
        return Err(io::Error::other(format!("it is longer than {LONGEST} bytes")));
    }
    Ok(text)
}

/// The host's file in the project. Whoever wrote it is not the one who imports: what is in it has to be approved, so it
/// is brought over into the project's own scope only.
fn of_project(host: ImportHost, setup: &Setup) -> Vec<PathBuf> {
    let (nowhere, project) = (Path::new(""), &setup.places.project);
    let folders = ImportDirs { home: nowhere, config: nowhere, project: Some(&project.root) };
    let files = import::default_files(host, &folders).into_iter();
    files.filter(|file| file.starts_with(&project.root) && *file != project.file).collect()
}

/// What is said about the project's files where they are not read.
fn left_alone(host: ImportHost, import: &Import, setup: &Setup) -> Option<String> {
    let is_asked = import.from.is_some() || Scope::from(import.scope) == Scope::Project;
    let found = of_project(host, setup).into_iter().find(|file| !is_asked && file.exists())?;
    Some(format!(
        "{} was left alone: it is the project's; `-s project` brings it over, to be approved",
        found.display()
    ))
}

/// Where the host keeps its servers. A project's `.mcp.json` is ours as well, so there is nothing to bring over.
fn usual(host: ImportHost, import: &Import, setup: &Setup) -> Result<Vec<PathBuf>, Misuse> {
    let places = &setup.places;
    let (home, config) =
        places.home.as_deref().zip(places.config.as_deref()).ok_or_else(|| {
            misuse("there is no home folder to look in".to_owned(), Some("name a file with --from FILE"))
        })?;
    let for_project = Scope::from(import.scope) == Scope::Project;
    let project = if for_project { of_project(host, setup) } else { Vec::new() };
    let own = import::default_files(host, &ImportDirs { home, config, project: None });
    let files: Vec<PathBuf> = project.into_iter().chain(own).collect();
    let found: Vec<PathBuf> = files.iter().filter(|file| file.exists()).cloned().collect();
    if found.is_empty() {
        let looked: Vec<String> = files.iter().map(|file| file.display().to_string()).collect();
        let mut hint = format!("looked for {}; name another with --from FILE", looked.join(", "));
        if let Some(note) = left_alone(host, import, setup) {
            hint = format!("{hint}; {note}");
        }
        return Err(misuse(format!("no configuration of {host} was found"), Some(&hint)));
    }
    Ok(found)
}

async fn tell(shown: &Shown, globals: &Globals) -> Exit {
    let Shown { from, file, scope, dry_run, taken, skipped, notes, .. } = shown;
    if !globals.quiet {
        for note in notes {
            render::note(note);
        }
        let verb = if *dry_run { "would add" } else { "added" };
        let count = if taken.len() == 1 { "1 server".to_owned() } else { format!("{} servers", taken.len()) };
        let from: Vec<String> = from.iter().map(|file| file.display().to_string()).collect();
        let (from, file) = (from.join(", "), file.display());
        render::note(&format!("{verb} {count} of {from} to the {scope} scope, in {file}"));
    }
    let took = |server: &Taken| {
        let word = if *dry_run { "new" } else { "added" };
        vec![server.name.clone(), word.to_owned(), server.target.clone(), render::flat(&server.notes.join("; "))]
    };
    let left = |server: &Skipped| {
        vec![render::flat(&server.name), "skipped".to_owned(), String::new(), render::flat(&server.reason)]
    };
    let rows: Vec<Vec<String>> = taken.iter().map(took).chain(skipped.iter().map(left)).collect();
    if rows.is_empty() {
        return Exit::Done;
    }
    render::out(render::table(&["server", "", "is", "notes"], rows)).await
}
