//! A scripted server as a child process: `scripted-server SCRIPT [LOG]`.

use std::path::PathBuf;

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let mut arguments = std::env::args_os().skip(1).map(PathBuf::from);
    let script = arguments.next().expect("usage: scripted-server SCRIPT [LOG]");
    wharf_testkit::child_server(script, arguments.next()).await;
    // A thread blocked on stdin would delay a normal exit.
    std::process::exit(0);
}
