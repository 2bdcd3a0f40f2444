//! Fakes for Wharf's own tests: scripted MCP servers with faults and a wire log, an OAuth provider, and model providers.
//!
//! A [`Script`] defines what a server offers and how it responds. [`Scripted`] serves it in memory, the binary
//! `scripted-server` as a child process, and [`HttpScripted`] over HTTP, all with the real wire format. An [`EvilPeer`]
//! injects network faults in front of any server. The binary `rmcp-server` is not scripted: it is a server built on rmcp.
//! [`provider`] is an OAuth authorization server with a protected MCP server. [`models`] fakes the APIs of model
//! providers, and [`FakeRegistry`] the registry of MCP servers. [`Postgres`] is not a fake: it starts a PostgreSQL server.

mod child;
mod evil;
mod http;
mod log;
pub mod models;
mod modern;
mod postgres;
mod process;
pub mod provider;
mod registry;
mod rules;
mod script;
mod seen_request;
mod serve;

use std::path::PathBuf;
use std::time::Duration;

pub use child::child_server;
pub use evil::{EvilPeer, NetworkFault, with_fault};
pub use http::{GetBehavior, HttpScripted, Listening, ResponseFormat, UnknownSession};
pub use log::WireLog;
pub use postgres::Postgres;
pub use process::{alive, children_of, descendants_of, kill};
pub use registry::{FakeRegistry, RegistryContents};
pub use script::{Eras, Rule, Script, Step};
pub use seen_request::SeenRequest;
pub use serve::Scripted;

/// Timeout with the real clock. A hang fails the test instead of blocking the run.
const REAL_TIMEOUT: Duration = Duration::from_secs(30);
/// Timeout with a paused clock, where waiting costs nothing: longer than every deadline under test.
const PAUSED_TIMEOUT: Duration = Duration::from_secs(7 * 24 * 60 * 60);

/// Waits for `future` in a test with the real clock.
///
/// # Panics
/// If it takes too long.
pub async fn soon<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(REAL_TIMEOUT, future).await.expect("timed out")
}

/// Waits for `future` in a test with a paused clock.
///
/// # Panics
/// If nothing is left that could complete it.
pub async fn eventually<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(PAUSED_TIMEOUT, future).await.expect("timed out")
}

/// Polls until `condition` holds, for state outside of the process.
///
/// # Panics
/// If it takes too long.
pub async fn until(mut condition: impl AsyncFnMut() -> bool) {
    let poll = async {
        while !condition().await {
            // Not an interval: a condition that takes longer than that would never let other tasks run.
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    soon(poll).await;
}

/// Returns a free port for a server with a fixed port. It is below the ephemeral range, so that the system does not assign
/// it to another process while the server restarts.
///
/// # Panics
/// If no port is free.
pub fn free_port() -> u16 {
    let start = std::process::id().wrapping_mul(17);
    let ports = (0..10_000).map(|step| 20_000 + u16::try_from(start.wrapping_add(step) % 10_000).unwrap_or_default());
    let is_free = |port: &u16| std::net::TcpListener::bind(("127.0.0.1", *port)).is_ok();
    ports.into_iter().find(is_free).expect("a port is free")
}

/// Returns the path of the built `scripted-server`, next to the running test.
///
/// # Panics
/// If it has not been built.
pub fn scripted_server() -> PathBuf {
    built("scripted-server")
}

/// Returns the path of the built `rmcp-server`, next to the running test: a server of the 2026-07-28 revision on rmcp, with
/// the tools of `peers/mcp2_modern.py`.
///
/// # Panics
/// If it has not been built.
pub fn rmcp_server() -> PathBuf {
    built("rmcp-server")
}

fn built(name: &str) -> PathBuf {
    let test = std::env::current_exe().expect("the path of the test binary");
    let built = test.ancestors().map(|folder| folder.join(name)).find(|path| path.is_file());
    built.unwrap_or_else(|| {
        panic!("`{name}` is not built; run the tests of the whole workspace, or `cargo build -p wharf-testkit`")
    })
}

/// Returns the root of the repository, where `scripts/peers` has installed third-party servers in `.peers`.
///
/// # Panics
/// If they are not installed.
pub fn peers() -> PathBuf {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the repository");
    assert!(root.join(".peers").is_dir(), "third-party servers are not installed; run scripts/peers");
    root
}
