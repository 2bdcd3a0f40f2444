//! How many servers connect at the same time.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::time::Instant;
use wharf_client::{BoxFuture, InProcess, Link, OpenError, Transport};
use wharf_fleet::{Fleet, FleetOptions, ServerSpec, ServerState};
use wharf_testkit::{HttpScripted, Script, Scripted, Step, soon};

use super::{LONG, at, custom, in_memory, over_http};

/// Counts how many transports are opening, now and at most.
#[derive(Default)]
struct OpenCount {
    open: AtomicUsize,
    most: AtomicUsize,
}

/// A transport that takes a while to open.
struct Slow {
    count: Arc<OpenCount>,
    inner: Box<dyn Transport>,
}

impl Transport for Slow {
    fn open(&self) -> BoxFuture<'_, Result<Link, OpenError>> {
        Box::pin(async {
            let now = self.count.open.fetch_add(1, Ordering::SeqCst) + 1;
            self.count.most.fetch_max(now, Ordering::SeqCst);
            tokio::time::sleep(Duration::from_secs(1)).await;
            self.count.open.fetch_sub(1, Ordering::SeqCst);
            self.inner.open().await
        })
    }
}

fn slow(number: usize, count: &Arc<OpenCount>) -> wharf_fleet::Server {
    let server = Scripted::new(Script::good());
    let inner = Box::new(InProcess::new(move |stream| server.clone().serve(stream)));
    custom(&format!("local-{number}"), Slow { count: Arc::clone(count), inner })
}

async fn most(local_gate: usize) -> (usize, u64) {
    let count = Arc::<OpenCount>::default();
    let began = Instant::now();
    let servers = (0..30).map(|number| ServerSpec::from(slow(number, &count)));
    let fleet = Fleet::open(servers, FleetOptions { local_gate, ..FleetOptions::default() });
    assert!(fleet.settled(LONG).await);
    assert!(fleet.statuses().iter().all(|status| status.state == ServerState::Connected));
    (count.most.load(Ordering::SeqCst), began.elapsed().as_secs())
}

#[tokio::test(start_paused = true)]
async fn three_local_servers_connect_at_the_same_time_by_default() {
    assert_eq!(most(wharf_fleet::LOCAL_GATE).await, (3, 10));
    assert_eq!(most(1).await, (1, 30));
    assert_eq!(most(0).await, (1, 30), "a gate of 0 admits one");
}

#[tokio::test]
async fn twenty_remote_servers_connect_at_the_same_time() {
    // Each server answers its handshake late enough for all permitted ones to start.
    let hold = [Step::Wait(1000), Step::Normally];
    let server = HttpScripted::new(Script::good().on("initialize", hold));
    let listening = server.listen().await;
    let url = format!("http://{}/mcp", listening.address());
    let options = FleetOptions {
        session: wharf_client::SessionOptions {
            protocol: wharf_client::ProtocolMode::Legacy,
            ..wharf_client::SessionOptions::default()
        },
        ..FleetOptions::default()
    };
    let servers: Vec<_> = (0..30).map(|number| ServerSpec::from(at(&format!("remote-{number}"), &url))).collect();
    let fleet = Fleet::open(servers, options);
    let mut most = 0;
    let connected = |state: ServerState| fleet.statuses().iter().filter(|status| status.state == state).count();
    soon(async {
        while connected(ServerState::Connected) < 30 {
            // The handshakes in flight.
            let begun = server.log().count("initialize");
            most = most.max(begun.saturating_sub(server.log().count("notifications/initialized")));
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
    assert_eq!(most, 20);
    soon(fleet.close()).await;
}

#[tokio::test(start_paused = true)]
async fn servers_that_never_list_their_tools_time_out_and_delay_no_other() {
    let mute = || Scripted::new(Script::good().on("tools/list", [Step::Hang]));
    let mute = (0..6).map(|number| in_memory(&format!("a-mute-{number}"), &mute()));
    let fleet = super::open(mute.chain([in_memory("good", &Scripted::new(Script::good()))]));
    let began = Instant::now();
    wharf_testkit::eventually(super::reaches(&fleet, "good", ServerState::Connected)).await;
    assert!(began.elapsed() < Duration::from_secs(1), "{:?}", began.elapsed());
    assert!(fleet.settled(LONG).await);
    assert!(began.elapsed() < Duration::from_secs(40), "{:?}", began.elapsed());
    assert!(
        super::summary(&fleet).contains("a-mute-0 pending 0: the server was not ready within 30 s"),
        "{}",
        super::summary(&fleet)
    );
}

#[tokio::test]
async fn slow_local_servers_do_not_delay_remote_ones() {
    let hanging = || Scripted::new(Script::good().on("initialize", [Step::Hang]).on("server/discover", [Step::Hang]));
    let (remote, _listening) = over_http("remote", &HttpScripted::new(Script::good())).await;
    let locals = (0..5).map(|number| in_memory(&format!("local-{number}"), &hanging()));
    let fleet = super::open(locals.chain([remote]));
    soon(super::reaches(&fleet, "remote", ServerState::Connected)).await;
    assert_eq!(fleet.statuses().iter().filter(|status| status.state == ServerState::Pending).count(), 5);
    soon(fleet.close()).await;
}
