//! The fleet: what a call through it costs, how fast many servers are there, and how much memory they take.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::Instant;
use wharf::ServerName;
use wharf::fleet::config::{Launch, Reach, Remote, Scope, Server as Configured};
use wharf::fleet::{Enlisted, Fleet, FleetOptions, LOCAL_GATE, REMOTE_GATE, State};

use crate::contenders::{Server, program, rmcp_over_http, rmcp_over_stdio};
use crate::measure::{median, peak_memory_of, resident_memory};

/// Servers in processes of their own.
const LOCAL: usize = 30;
/// Servers behind HTTP.
const REMOTE: usize = 50;
/// How often each contender connects all of them.
const ROUNDS: usize = 5;
/// The longest anything here may take.
const LONG: Duration = Duration::from_secs(120);

/// Prints how fast many servers are connected and how much memory they take; whether the bars are met.
#[expect(clippy::print_stdout, reason = "printing is what this program is for")]
pub(crate) async fn compare() -> bool {
    let (wharf, rmcp) = connecting().await;
    let ratio = wharf.as_secs_f64() / rmcp.as_secs_f64();
    let [wharf, rmcp] = [wharf, rmcp].map(|time| format!("{:.0} ms", time.as_secs_f64() * 1e3));
    println!("connecting {LOCAL} stdio and {REMOTE} HTTP servers: wharf {wharf}, rmcp {rmcp}");
    println!("the one ÷ the other: {ratio:.2} (bar: ≤ 1.1, aim: ≤ 1.0)");
    let [wharf, rmcp] = ["hold-wharf", "hold-rmcp"].map(kibibytes);
    let held = wharf / rmcp;
    println!(
        "{REMOTE} connections with 500 tools each: wharf {:.0} MiB, rmcp {:.0} MiB",
        wharf / 1024.0,
        rmcp / 1024.0
    );
    println!("the one ÷ the other: {held:.2} (bar: ≤ 1.0, aim: ≤ 0.5)");
    let long = kibibytes("hold-long");
    println!("500 tools with descriptions of 30 KB: {:.1} MiB more than before (14 MiB of text came)", long / 1024.0);
    ratio <= 1.1 && held <= 1.0 && long / 1024.0 <= 8.0
}

#[expect(clippy::print_stdout, reason = "printing is what this program is for")]
fn kibibytes(run: &str) -> f64 {
    let told = peak_memory_of(run);
    told.parse().unwrap_or_else(|_| {
        println!("{run} did not say how much it holds: {told}");
        f64::INFINITY
    })
}

/// How long each takes until every server is connected and its tools are listed: Wharf, and rmcp behind the same gates.
async fn connecting() -> (Duration, Duration) {
    let server = Server::start().await;
    let (mut wharf, mut rmcp) = (Vec::new(), Vec::new());
    for round in 0..=ROUNDS {
        let began = Instant::now();
        let fleet = open(local().chain(remote(&server.url(), REMOTE))).await;
        let ours = began.elapsed();
        fleet.close().await;
        let began = Instant::now();
        let others = all_of_rmcp(&server.url()).await;
        let theirs = began.elapsed();
        drop(others);
        if round > 0 {
            wharf.push(ours);
            rmcp.push(theirs);
        }
    }
    (median(wharf.into_iter()), median(rmcp.into_iter()))
}

fn local() -> impl Iterator<Item = Configured> {
    (0..LOCAL).map(|number| {
        let command = program().to_string_lossy().into_owned();
        let launch = Launch { command, args: vec!["serve".to_owned()], env: [].into(), cwd: None };
        Configured::new(name("local", number), Scope::User, Reach::Stdio(launch))
    })
}

fn remote(url: &str, many: usize) -> impl Iterator<Item = Configured> {
    (0..many).map(move |number| {
        let remote = Remote { url: url.to_owned(), headers: Vec::new(), headers_helper: None };
        Configured::new(name("remote", number), Scope::User, Reach::Http(remote))
    })
}

fn name(kind: &str, number: usize) -> ServerName {
    format!("{kind}-{number}").parse().expect("a name")
}

async fn open(servers: impl Iterator<Item = Configured>) -> Fleet {
    let fleet = Fleet::open(servers.map(Enlisted::from), FleetOptions::default());
    assert!(fleet.settled(LONG).await, "not all were connected in time");
    let statuses = fleet.statuses();
    assert!(statuses.iter().all(|status| status.state == State::Connected), "{statuses:?}");
    fleet
}

async fn all_of_rmcp(url: &str) -> Vec<crate::contenders::Listed> {
    let (local, remote) = (Arc::new(Semaphore::new(LOCAL_GATE)), Arc::new(Semaphore::new(REMOTE_GATE)));
    let mut tasks = JoinSet::new();
    for _ in 0..LOCAL {
        let gate = Arc::clone(&local);
        tasks.spawn(async move {
            let _turn = gate.acquire().await;
            rmcp_over_stdio().await
        });
    }
    for _ in 0..REMOTE {
        let (gate, url) = (Arc::clone(&remote), url.to_owned());
        tasks.spawn(async move {
            let _turn = gate.acquire().await;
            rmcp_over_http(&url).await
        });
    }
    tasks.join_all().await
}

/// Holds many connections with many tools, and prints how much memory this process takes in KiB.
#[expect(clippy::print_stdout, reason = "the process that started this one reads it")]
pub(crate) async fn hold(rmcp: bool) {
    let server = Server::with_tools(&["498"]).await;
    if rmcp {
        let mut held = Vec::new();
        for _ in 0..REMOTE {
            held.push(rmcp_over_http(&server.url()).await);
        }
        assert!(held.iter().all(|listed| listed.tools.len() == 500));
        println!("{}", resident_memory());
    } else {
        let fleet = open(remote(&server.url(), REMOTE)).await;
        let catalog = fleet.catalog();
        assert_eq!(catalog.entries().len(), 500 * REMOTE);
        println!("{}", resident_memory());
        drop(catalog);
    }
}

/// Holds one server whose descriptions are far too long, and prints how much more memory this process takes in KiB.
#[expect(clippy::print_stdout, reason = "the process that started this one reads it")]
pub(crate) async fn hold_long() {
    let (server, before) = (Server::with_tools(&["498", "30000"]).await, resident_memory());
    let fleet = open(remote(&server.url(), 1)).await;
    let catalog = fleet.catalog();
    assert_eq!(catalog.entries().len(), 500);
    println!("{}", resident_memory() - before);
}
