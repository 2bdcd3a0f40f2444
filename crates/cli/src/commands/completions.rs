//! `wharf completions`: generated from the command line's definition.

use clap_complete::env::Shells;

use crate::exit::Exit;
use crate::{complete, term};

/// Prints a script that calls this program for candidates, so that it completes servers and tools, too.
pub(crate) async fn run(shell: clap_complete::Shell) -> Exit {
    let mut script = Vec::new();
    let shells = Shells::builtins();
    let Some(completer) = shells.completer(&shell.to_string()) else {
        term::error(&format!("unsupported shell `{shell}`"), &[], None);
        return Exit::Usage;
    };
    match completer.write_registration(complete::VARIABLE, "wharf", "wharf", "wharf", &mut script) {
        Ok(()) => print(&script).await,
        Err(error) => {
            term::error(&format!("cannot generate the script: {error}"), &[], None);
            Exit::Failed
        }
    }
}

async fn print(text: &[u8]) -> Exit {
    term::out(String::from_utf8_lossy(text).trim_end().to_owned()).await
}
