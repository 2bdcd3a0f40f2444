//! `wharf completions` and `wharf man`: written from the same description as the help.

use clap::CommandFactory as _;

use crate::args::Args;
use crate::exit::Exit;
use crate::render;

pub(crate) async fn run(shell: clap_complete::Shell) -> Exit {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Args::command(), "wharf", &mut script);
    print(&script).await
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
