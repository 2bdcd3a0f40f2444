//! Many callers on a simulated network, where servers lose sessions and links are cut at random moments of a seed.
//!
//! The network, the moments and the events depend only on the seed. The client's own randomness, such as jitter, does
//! not, and no test may depend on it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::future::join_all;
use serde_json::json;
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until, timeout};
use wharf_client::{
    CallError, CallErrorKind, Deadlines, Http, NoHost, Outcome, RemoteOptions, Session, SessionOptions,
};
use wharf_io::{DialTo, Dialed, HttpSettings};
use wharf_protocol::{Json, ToolOutput};
use wharf_testkit::{HttpScripted, ResponseFormat, Script, Step};

use crate::{json, legacy};

const CALLERS: usize = 64;
const CALLS_EACH: usize = 2;
/// The number of the call that is made after the network has recovered.
const LAST: usize = CALLERS * CALLS_EACH;
/// When all callers have started their last call.
const BUSY: Duration = Duration::from_millis(600);
/// The longest time a link is cut: shorter than [`CONNECT`], so that a cut affects only what was in flight at its
/// start.
const LONGEST_CUT: Duration = Duration::from_millis(400);
const SHORTEST_CUT: Duration = Duration::from_millis(20);
const CONNECT: Duration = Duration::from_millis(800);
const TOTAL: Duration = Duration::from_millis(1200);
/// When the whole simulation must have ended.
const THE_END: Duration = Duration::from_secs(30);
/// One in this many callers lists the tools before it calls one.
const LISTS: usize = 32;
const PORT: u16 = 80;

/// What happens at some moment.
#[derive(Clone, Copy, Debug)]
enum Mishap {
    /// The server drops its sessions and ends its streams.
    Wipe,
    /// The server drops its sessions silently.
    WipeSilently,
    /// Everything sent meanwhile is lost.
    Partition(Duration),
    /// Everything sent meanwhile arrives afterwards.
    Hold(Duration),
    /// The server closes all connections.
    HangUp,
}

impl Mishap {
    fn is_wipe(self) -> bool {
        matches!(self, Self::Wipe | Self::WipeSilently)
    }
}

/// The plan of one seed.
#[derive(Debug)]
struct Plan {
    seed: u64,
    answers: ResponseFormat,
    /// In chronological order.
    mishaps: Vec<(Duration, Mishap)>,
    /// When each call of each caller starts.
    calls: Vec<Vec<Duration>>,
}

/// A random number generator that is the same on all platforms.
struct Dice(u64);

impl Dice {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (mixed ^ (mixed >> 31)) % bound
    }

    fn moment(&mut self, before: Duration) -> Duration {
        Duration::from_millis(self.below(u64::try_from(before.as_millis()).unwrap()))
    }
}

impl Plan {
    fn new(seed: u64) -> Self {
        let mut dice = Dice(seed);
        let answers = if dice.below(2) == 0 { ResponseFormat::Json } else { ResponseFormat::Sse };
        // A third of the seeds leave the network alone.
        let kinds = if dice.below(3) == 0 { 2 } else { 5 };
        let mut at = Duration::ZERO;
        let mishaps = (0..=dice.below(3)).map(|_| {
            at += dice.moment(BUSY / 2);
            let length = SHORTEST_CUT + dice.moment(LONGEST_CUT.saturating_sub(SHORTEST_CUT));
            let mishap = match dice.below(kinds) {
                0 => Mishap::Wipe,
                1 => Mishap::WipeSilently,
                2 => Mishap::Partition(length),
                3 => Mishap::Hold(length),
                _ => Mishap::HangUp,
            };
            (at, mishap)
        });
        let mishaps = mishaps.collect();
        let calls = (0..CALLERS).map(|_| {
            let mut moments: Vec<Duration> = (0..CALLS_EACH).map(|_| dice.moment(BUSY)).collect();
            moments.sort_unstable();
            moments
        });
        let calls = calls.collect();
        Self { seed, answers, mishaps, calls }
    }

    fn wipes(&self) -> usize {
        self.mishaps.iter().filter(|(_, mishap)| mishap.is_wipe()).count()
    }

    /// When the last event is over.
    fn healed(&self) -> Duration {
        self.mishaps.iter().fold(Duration::ZERO, |before, (at, mishap)| match mishap {
            Mishap::Partition(length) | Mishap::Hold(length) => before.max(*at) + *length,
            Mishap::Wipe | Mishap::WipeSilently | Mishap::HangUp => before.max(*at),
        })
    }

    fn cuts(&self) -> usize {
        self.mishaps.len() - self.wipes()
    }
}

/// How the call with each number ended.
type Ends = HashMap<usize, Result<ToolOutput, CallError>>;

/// The tool of a call: those with an even number are idempotent.
fn tool(number: usize) -> &'static str {
    if number.is_multiple_of(2) { "look" } else { "add" }
}

fn arguments(number: usize) -> Json {
    json(json!({"a": number, "b": 1}))
}

fn script() -> Script {
    let object = json!({"type": "object"});
    let look = json!({"name": "look", "inputSchema": object, "annotations": {"readOnlyHint": true}});
    // Long enough to be cut off in the middle.
    let takes = Step::Wait(15);
    Script::good()
        .tool(look)
        .on_call("look", [takes.clone(), Step::Text("seen".into())])
        .on_call("add", [takes, Step::Normally])
}

fn session() -> Session {
    let mut http = HttpSettings::default().dialing(|to: DialTo| async move {
        Ok(Dialed::new(turmoil::net::TcpStream::connect((to.host, to.port)).await?))
    });
    http.connect = CONNECT;
    let transport = Http::new("http://server/mcp", RemoteOptions { http, ..RemoteOptions::default() }).unwrap();
    let deadlines = Deadlines { connect: CONNECT, total: Some(TOTAL), ..Deadlines::default() };
    let options = SessionOptions { deadlines, ..legacy() };
    Session::new("simulated".parse().unwrap(), transport, NoHost, options)
}

async fn serve(server: HttpScripted, hang_up: Arc<Notify>) -> turmoil::Result {
    let listener = turmoil::net::TcpListener::bind(("0.0.0.0", PORT)).await?;
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => {
                let (stream, _) = accepted?;
                connections.spawn(server.clone().serve_connection(stream));
            }
            () = hang_up.notified() => connections.shutdown().await,
        }
    }
}

/// Runs the events of the plan, one after the other.
async fn happen(plan: Arc<Plan>, server: HttpScripted, hang_up: Arc<Notify>) -> turmoil::Result {
    let began = Instant::now();
    for (at, mishap) in &plan.mishaps {
        sleep_until(began + *at).await;
        match mishap {
            Mishap::Wipe => server.wipe(),
            Mishap::WipeSilently => server.wipe_silently(),
            Mishap::HangUp => hang_up.notify_one(),
            Mishap::Partition(length) => {
                turmoil::partition("client", "server");
                tokio::time::sleep(*length).await;
                turmoil::repair("client", "server");
            }
            Mishap::Hold(length) => {
                turmoil::hold("client", "server");
                tokio::time::sleep(*length).await;
                turmoil::release("client", "server");
            }
        }
    }
    Ok(())
}

/// Makes all calls of the plan, and one after the network has recovered.
async fn call(plan: Arc<Plan>, ends: Arc<Mutex<Ends>>) -> turmoil::Result {
    let session = session();
    let began = Instant::now();
    let callers = plan.calls.iter().enumerate().map(|(caller, moments)| {
        let session = session.clone();
        let ends = Arc::clone(&ends);
        async move {
            for (nth, at) in moments.iter().enumerate() {
                sleep_until(began + *at).await;
                if caller.is_multiple_of(LISTS) {
                    // The tools are invalidated with every session; without them no call counts as idempotent.
                    let _ = session.list_tools().await;
                }
                let number = caller * CALLS_EACH + nth;
                let end = session.call(tool(number), &arguments(number)).await;
                ends.lock().unwrap().insert(number, end);
            }
        }
    });
    join_all(callers).await;
    sleep_until(began + plan.healed() + CONNECT).await;
    let end = timeout(TOTAL + CONNECT, session.call(tool(LAST), &arguments(LAST))).await?;
    ends.lock().unwrap().insert(LAST, end);
    Ok(())
}

fn simulate(seed: u64) {
    let plan = Arc::new(Plan::new(seed));
    let server = HttpScripted::new(script()).with_response_format(plan.answers);
    let ends = Arc::new(Mutex::new(Ends::new()));
    let mut builder = turmoil::Builder::new();
    builder
        .rng_seed(seed)
        .tick_duration(Duration::from_millis(10))
        .min_message_latency(Duration::from_millis(1))
        .max_message_latency(Duration::from_millis(20))
        .simulation_duration(THE_END)
        .tcp_capacity(1024);
    let mut world = builder.build();
    let host = server.clone();
    let hang_up = Arc::new(Notify::new());
    let notified = Arc::clone(&hang_up);
    world.host("server", move || serve(host.clone(), Arc::clone(&notified)));
    world.client("client", call(Arc::clone(&plan), Arc::clone(&ends)));
    world.client("mishaps", happen(Arc::clone(&plan), server.clone(), hang_up));
    if let Err(error) = world.run() {
        let missing = LAST + 1 - ends.lock().unwrap().len();
        panic!("seed {seed}: {error}; {missing} calls never ended; {plan:?}");
    }
    judge(&plan, &server, &ends.lock().unwrap());
}

fn judge(plan: &Plan, server: &HttpScripted, ends: &Ends) {
    let seed = plan.seed;
    // Every handshake but the first has a cause. Only a wipe makes the client drop a session, and there is never more
    // than
    // one handshake in flight, so that each wipe causes at most one. The same holds for each cut: it breaks the
    // handshake
    // that was in flight at its start, if any. Handshakes that start during the cut either never arrive or outlive it.
    let handshakes = server.log().count("initialize");
    let reasons = 1 + plan.wipes() + plan.cuts();
    assert!(handshakes <= reasons, "seed {seed}: {handshakes} handshakes for {reasons} reasons; {:?}", plan.mishaps);

    let mut runs: HashMap<u64, usize> = HashMap::new();
    for message in server.handled().messages().iter().filter(|message| message["method"] == "tools/call") {
        *runs.entry(message["params"]["arguments"]["a"].as_u64().unwrap()).or_default() += 1;
    }
    for number in 0..=LAST {
        let runs = runs.get(&(number as u64)).copied().unwrap_or(0);
        let case = format!("seed {seed}, call {number} of {}, ran {runs} times", tool(number));
        let end = ends.get(&number).unwrap_or_else(|| panic!("{case}: it never ended"));
        match end {
            Ok(output) => {
                let expected = if tool(number) == "add" { (number + 1).to_string() } else { "seen".to_owned() };
                assert_eq!(output.text(), expected, "{case}");
                assert!(runs >= 1, "{case}");
            }
            Err(error) if error.outcome() == Outcome::NotRun => assert_eq!(runs, 0, "{case}: {error}"),
            Err(error) => {
                let known = matches!(error.kind, CallErrorKind::Timeout { .. } | CallErrorKind::Lost(_));
                assert!(known, "{case}: {error}");
            }
        }
        let most = if tool(number) == "look" { 2 } else { 1 };
        assert!(runs <= most, "{case}: {end:?}");
    }
    // One lost session is recovered; only a cut link fails a call, or a second session that is lost before the call
    // ran.
    if plan.cuts() == 0 {
        let twice = |error: &CallError| matches!(error.kind, CallErrorKind::SessionLost { .. }) && plan.wipes() > 1;
        let failed = ends.iter().find(|(_, end)| end.as_ref().is_err_and(|error| !twice(error)));
        assert!(failed.is_none(), "seed {seed}: {failed:?}; {:?}", plan.mishaps);
    }
    let last = &ends[&LAST];
    assert!(last.is_ok(), "seed {seed}: nothing works after all has healed: {last:?}; {:?}", plan.mishaps);
}

#[test]
fn no_call_is_lost_or_run_twice_1() {
    (0..50).for_each(simulate);
}

#[test]
fn no_call_is_lost_or_run_twice_2() {
    (50..100).for_each(simulate);
}

#[test]
fn no_call_is_lost_or_run_twice_3() {
    (100..150).for_each(simulate);
}

#[test]
fn no_call_is_lost_or_run_twice_4() {
    (150..200).for_each(simulate);
}
