//! A scripted server as a child process: `scripted-server SCRIPT [LOG]`.

use std::path::PathBuf;

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let mut arguments = std::env::args_os().skip(1).map(PathBuf::from);
    let script = arguments.next().expect("the script is the first argument");
    wharf_testkit::child_server(script, arguments.next()).await;
    // Reading stdin keeps a thread busy that would hold up the end.
    std::process::exit(0);
}
