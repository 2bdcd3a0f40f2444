//! `wharf man`: manual pages, generated from the command line's definition.

use std::path::{Path, PathBuf};

use clap::Command;
use clap_mangen::Man as Page;
use wharf::{Durability, FileMode, MissingFolder, ReplaceOptions, nearest, replace_file};

use crate::error::{UsageError, usage_error};
use crate::exit::Exit;
use crate::term;

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  wharf man | man -l -\n  wharf man verify run | man -l -\n  \
        wharf man --dir ~/.local/share/man/man1")]
pub(crate) struct Man {
    /// Command to describe [default: wharf itself]
    #[arg(value_name = "COMMAND")]
    command: Vec<String>,
    /// Write the pages of all commands to a directory
    #[arg(long, value_name = "DIR", conflicts_with = "command", value_hint = clap::ValueHint::DirPath)]
    dir: Option<PathBuf>,
}

/// Prints a page, or writes all of them.
pub(crate) async fn run(root: Command, man: &Man) -> Exit {
    // Only a built command knows its full name and its global options.
    let mut root = root.disable_help_subcommand(true);
    root.build();
    let written = match &man.dir {
        Some(dir) => write_all(&root, dir).map(|count| {
            let pages = term::counted(count, "manual page");
            term::note(&format!("wrote {pages} to {}", dir.display()));
            None
        }),
        None => find(&root, &man.command).and_then(|command| render(command).map(Some)),
    };
    match written {
        Ok(Some(page)) => term::out(page.trim_end().to_owned()).await,
        Ok(None) => Exit::Done,
        Err(error) => term::usage_error(&error),
    }
}

fn find<'a>(root: &'a Command, names: &[String]) -> Result<&'a Command, UsageError> {
    let mut found = root;
    for name in names {
        let known: Vec<&str> = found.get_subcommands().map(Command::get_name).collect();
        found = found.find_subcommand(name).ok_or_else(|| {
            let hint = nearest(name, known.iter().copied()).map(|near| format!("did you mean `{near}`?"));
            let typed = names.join(" ");
            usage_error(format!("unknown command `{typed}`"), hint.as_deref())
        })?;
    }
    Ok(found)
}

fn render(command: &Command) -> Result<String, UsageError> {
    let mut page = Vec::new();
    let rendered = Page::new(command.clone()).render(&mut page);
    rendered.map_err(|error| usage_error(format!("cannot generate the manual page: {error}"), None))?;
    Ok(String::from_utf8_lossy(&page).into_owned())
}

/// Writes the page of a command and of all commands below it. Returns how many there are.
fn write_all(command: &Command, dir: &Path) -> Result<usize, UsageError> {
    let unwritable = |error: std::io::Error| usage_error(format!("cannot write to {}: {error}", dir.display()), None);
    std::fs::create_dir_all(dir).map_err(unwritable)?;
    let name = command.get_display_name().unwrap_or_else(|| command.get_name());
    // A link in the directory is replaced and not followed, and nothing waits for the reader of a pipe.
    let options = ReplaceOptions {
        mode: FileMode::Default,
        durability: Durability::Unsynced,
        folder: MissingFolder::Fail,
        follow_symlinks: false,
    };
    replace_file(&dir.join(format!("{name}.1")), render(command)?.as_bytes(), options).map_err(unwritable)?;
    let mut count = 1;
    for below in command.get_subcommands().filter(|below| !below.is_hide_set()) {
        count += write_all(below, dir)?;
    }
    Ok(count)
}
