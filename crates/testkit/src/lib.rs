//! Scripted MCP servers for Wharf's own tests: any revision, any fault, every line logged.
//!
//! A [`Script`] says what the server offers and how it answers; [`Scripted`] serves it in memory, the binary
//! `scripted-server` serves the same script as a child process, and [`HttpScripted`] serves it over HTTP. The wire
//! format is the true one. An [`EvilPeer`] stands before any server and ruins what it says. The binary `rmcp-server` is
//! no script but a server on rmcp, to be talked to as any other peer. A [`provider`] lets people sign in, and guards a
//! server. The [`models`] speak the wire formats of model providers.

mod evil;
mod http;
mod log;
pub mod models;
mod modern;
mod process;
pub mod provider;
mod rules;
mod script;
mod serve;

use std::path::PathBuf;
use std::time::Duration;

pub use evil::{EvilPeer, NetworkFault, with_fault};
pub use http::{GetBehavior, HttpScripted, Listening, ResponseFormat, SeenRequest, UnknownSession};
pub use log::WireLog;
pub use process::{alive, child_server, children_of, descendants_of, kill};
pub use script::{Eras, Rule, Script, Step};
pub use serve::Scripted;

/// The longest anything in a test may take by the real clock. A hang fails instead of holding up everything.
const SOON: Duration = Duration::from_secs(30);
/// The same under a paused clock, where waiting costs nothing: longer than every deadline under test.
const EVENTUALLY: Duration = Duration::from_secs(7 * 24 * 60 * 60);

/// Waits for `future`, for a test with the real clock.
///
/// # Panics
/// If it takes too long.
pub async fn soon<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(SOON, future).await.expect("this should have ended soon, and hangs")
}

/// Waits for `future`, for a test with a paused clock.
///
/// # Panics
/// If nothing is left that could ever complete it.
pub async fn eventually<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(EVENTUALLY, future).await.expect("this should have ended, and hangs")
}

/// Looks again and again until `condition` holds, for what only the outside world can tell.
///
/// # Panics
/// If it takes too long.
pub async fn until(mut condition: impl AsyncFnMut() -> bool) {
    let look = async {
        let mut pause = tokio::time::interval(Duration::from_millis(10));
        while !condition().await {
            pause.tick().await;
        }
    };
    soon(look).await;
}

/// A port for a server that is told where to listen. It lies below those the system gives out by itself, so nobody is
/// given it while the server is away for a moment.
///
/// # Panics
/// If no port is free.
pub fn free_port() -> u16 {
    let start = std::process::id().wrapping_mul(17);
    let ports = (0..10_000).map(|step| 20_000 + u16::try_from(start.wrapping_add(step) % 10_000).unwrap_or_default());
    let is_free = |port: &u16| std::net::TcpListener::bind(("127.0.0.1", *port)).is_ok();
    ports.into_iter().find(is_free).expect("a port is free")
}

/// Where `scripted-server` has been built, beside the running test.
///
/// # Panics
/// If it has not been built.
pub fn scripted_server() -> PathBuf {
    built("scripted-server")
}

/// Where `rmcp-server` has been built, beside the running test: a server of the 2026-07-28 revision on somebody else's
/// SDK, with the tools of `peers/mcp2_modern.py`.
///
/// # Panics
/// If it has not been built.
pub fn rmcp_server() -> PathBuf {
    built("rmcp-server")
}

fn built(name: &str) -> PathBuf {
    let test = std::env::current_exe().expect("a test knows its own path");
    let built = test.ancestors().map(|folder| folder.join(name)).find(|path| path.is_file());
    built.unwrap_or_else(|| {
        panic!("`{name}` is not built; run the tests of the whole workspace, or `cargo build -p wharf-testkit`")
    })
}

/// The folder with the servers other people wrote, installed by `scripts/peers`.
///
/// # Panics
/// If they are not installed.
pub fn peers() -> PathBuf {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the repository");
    assert!(root.join(".peers").is_dir(), "the peers are not installed; run scripts/peers");
    root
}
