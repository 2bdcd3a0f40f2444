//! `wharf verify preset`: settings with a name, as files in the user's configuration directory.

use std::path::{Path, PathBuf};

use serde_json::json;
use wharf::nearest;
use wharf::verify::config::{InvalidPreset, Preset};
use wharf::{Durability, FileMode, MissingFolder, ReplaceOptions, replace_file};

use super::args::{PresetArgs, PresetCommand, SavePreset};
use super::settings;
use crate::config::{Paths, no_home};
use crate::error::{UsageError, usage_error};
use crate::exit::Exit;
use crate::globals::Globals;
use crate::models::choose::read_file;
use crate::term;

/// The maximum number of presets that are listed.
const MAX_PRESETS: usize = 1000;

/// How presets are written: only the owner reads them.
const WRITE: ReplaceOptions = ReplaceOptions {
    mode: FileMode::Private,
    durability: Durability::Contents,
    folder: MissingFolder::CreatePrivate,
    follow_symlinks: false,
};

pub(super) async fn run(globals: &Globals, args: PresetArgs) -> Exit {
    let paths = match Paths::find(globals) {
        Ok(paths) => paths,
        Err(error) => return term::usage_error(&error),
    };
    let done = match args.command {
        PresetCommand::Save(save) => self::save(globals, &paths, *save).await,
        PresetCommand::List => list(globals, &paths).await,
        PresetCommand::Show(named) => show(globals, &paths, &named.name).await,
        PresetCommand::Delete(named) => delete(globals, &paths, &named.name).await,
    };
    done.unwrap_or_else(|error| term::usage_error(&error))
}

/// Reads a preset.
pub(super) fn load(paths: &Paths, name: &str) -> Result<Preset, UsageError> {
    let file = file_of(paths, name)?;
    if !file.exists() {
        let names = names(folder(paths)?);
        let hint = match nearest(name, names.iter().map(String::as_str)) {
            Some(near) => format!("did you mean `{near}`?"),
            None if names.is_empty() => "save one: wharf verify preset save NAME [SETTINGS]".to_owned(),
            None => format!("available: {}", names.join(", ")),
        };
        return Err(usage_error(format!("unknown preset `{name}`"), Some(&hint)));
    }
    let invalid = |reason: String| usage_error(format!("{}: {reason}", file.display()), Some("save it again"));
    let preset: Preset = serde_json::from_str(&read_file(&file)?).map_err(|error| invalid(error.to_string()))?;
    preset.check().map_err(|error| invalid(error.to_string()))?;
    // Values of a file that was edited by hand follow the same rules.
    let config = serde_json::to_string(&preset.config).unwrap_or_default();
    wharf::verify::VerificationConfig::parse(&config, &file).map_err(|problems| {
        problems.iter().for_each(term::problem);
        invalid("invalid settings".to_owned())
    })?;
    Ok(preset)
}

async fn save(globals: &Globals, paths: &Paths, args: SavePreset) -> Result<Exit, UsageError> {
    let file = file_of(paths, &args.name)?;
    let mut config = settings::of_command_line(&args.settings)?;
    if let Some(base) = &args.settings.preset {
        config = config.or(load(paths, base)?.config);
    }
    // A preset is used in other directories.
    if let Some(models) = &mut config.models_file {
        let absolute = std::path::absolute(&*models)
            .map_err(|error| usage_error(format!("cannot find {models}: {error}"), None))?;
        *models = absolute.display().to_string();
    }
    let now = chrono::Utc::now().to_rfc3339_opts(chrono::SecondsFormat::Secs, true);
    let before = if file.exists() { load(paths, &args.name).ok() } else { None };
    let preset = Preset {
        name: args.name,
        description: args.description.or_else(|| before.as_ref().and_then(|preset| preset.description.clone())),
        config,
        created_at: before.map_or_else(|| now.clone(), |preset| preset.created_at),
        updated_at: now,
    };
    preset.check().map_err(|error| invalid(&error))?;
    let text = serde_json::to_string_pretty(&preset).unwrap_or_default();
    replace_file(&file, text.as_bytes(), WRITE)
        .map_err(|error| usage_error(format!("cannot write {}: {error}", file.display()), None))?;
    if globals.json {
        return Ok(term::json(&json!({"version": 1, "preset": preset, "file": file})).await);
    }
    if !globals.quiet {
        term::note(&format!("saved {}; use it with --preset {}", file.display(), preset.name));
    }
    Ok(Exit::Done)
}

async fn list(globals: &Globals, paths: &Paths) -> Result<Exit, UsageError> {
    let mut presets: Vec<Preset> = Vec::new();
    for name in names(folder(paths)?) {
        match load(paths, &name) {
            Ok(preset) => presets.push(preset),
            // One that was edited by hand does not hide the others.
            Err(error) => {
                term::warning(&error.message);
            }
        }
    }
    if globals.json {
        return Ok(term::json(&json!({"version": 1, "presets": presets})).await);
    }
    if presets.is_empty() {
        if !globals.quiet {
            term::note("no presets; save one with `wharf verify preset save NAME [SETTINGS]`");
        }
        return Ok(Exit::Done);
    }
    let row = |preset: &Preset| {
        vec![preset.name.clone(), preset.updated_at.clone(), preset.description.clone().unwrap_or_default()]
    };
    let rows = presets.iter().map(row).collect();
    Ok(term::out(term::table(&["name", "updated", "description"], rows)).await)
}

async fn show(globals: &Globals, paths: &Paths, name: &str) -> Result<Exit, UsageError> {
    let preset = load(paths, name)?;
    if globals.json {
        return Ok(term::json(&json!({"version": 1, "preset": preset})).await);
    }
    Ok(term::out(serde_json::to_string_pretty(&preset).unwrap_or_default()).await)
}

async fn delete(globals: &Globals, paths: &Paths, name: &str) -> Result<Exit, UsageError> {
    // A preset that cannot be read can still be deleted.
    let file = file_of(paths, name)?;
    if !file.exists() {
        load(paths, name)?;
    }
    std::fs::remove_file(&file)
        .map_err(|error| usage_error(format!("cannot delete {}: {error}", file.display()), None))?;
    if globals.json {
        return Ok(term::json(&json!({"version": 1, "deleted": name})).await);
    }
    if !globals.quiet {
        term::note(&format!("deleted {}", file.display()));
    }
    Ok(Exit::Done)
}

fn folder(paths: &Paths) -> Result<&Path, UsageError> {
    paths.presets.as_deref().ok_or_else(no_home)
}

fn file_of(paths: &Paths, name: &str) -> Result<PathBuf, UsageError> {
    Preset::check_name(name).map_err(|error| invalid(&error))?;
    Ok(folder(paths)?.join(format!("{name}.json")))
}

fn invalid(error: &InvalidPreset) -> UsageError {
    usage_error(error.to_string(), None)
}

/// Returns the names of all presets, sorted.
fn names(folder: &Path) -> Vec<String> {
    let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
    let name = |entry: std::io::Result<std::fs::DirEntry>| {
        let file = entry.ok()?.file_name().into_string().ok()?;
        let name = file.strip_suffix(".json")?.to_owned();
        Preset::check_name(&name).ok().map(|()| name)
    };
    let mut names: Vec<String> = entries.filter_map(name).take(MAX_PRESETS).collect();
    names.sort_unstable();
    names
}
