//! `wharf completions` and `wharf man`: written from the same description as the help.

use clap::CommandFactory as _;
use clap_complete::env::Shells;

use crate::args::Args;
use crate::exit::Exit;
use crate::{complete, render};

/// The script asks this program what may follow, so that it also knows the servers there are.
pub(crate) async fn run(shell: clap_complete::Shell) -> Exit {
    let mut script = Vec::new();
    let shells = Shells::builtins();
    let Some(completer) = shells.completer(&shell.to_string()) else {
        render::error(&format!("there are no completions for {shell}"), &[], None);
        return Exit::Usage;
    };
    match completer.write_registration(complete::VARIABLE, "wharf", "wharf", "wharf", &mut script) {
        Ok(()) => print(&script).await,
        Err(error) => {
            render::error(&format!("the script could not be written: {error}"), &[], None);
            Exit::Failed
        }
    }
}

pub(crate) async fn man() -> Exit {
    let mut page = Vec::new();
    match clap_mangen::Man::new(Args::command()).render(&mut page) {
        Ok(()) => print(&page).await,
        Err(error) => {
            render::error(&format!("the manual page could not be written: {error}"), &[], None);
            Exit::Failed
        }
    }
}

async fn print(text: &[u8]) -> Exit {
    render::out(String::from_utf8_lossy(text).trim_end().to_owned()).await
}
