//! A provider that fails: 5 % of its responses are a 429, a 500, silence or a cut connection.
//!
//! A worker process runs against it, is killed, and is started again. The provider counts what it answered.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde_json::json;
use wharf::agent::models::Endpoint;
use wharf::verify::store::RunStore as _;
use wharf::verify::worker::WorkerEnd;
use wharf::verify::{ModelSettings, WorkerOptions};
use wharf::{HttpClient, HttpSettings, Secret};

use super::fixture::{Fixture, TemporaryFolder};
use super::{IN_FLIGHT, open, options, run_id, work};

/// Units of the run.
const UNITS: u32 = 1_000;
/// One response of so many fails.
const FAULT_EVERY: usize = 20;
/// Answers before the worker is killed.
const ANSWERS_BEFORE_KILL: usize = 400;
/// Timeout of one attempt: silence costs that long.
const ATTEMPT_TIMEOUT: Duration = Duration::from_secs(1);
/// Lease of the workers: the second one waits for that of the first.
const LEASE: Duration = Duration::from_secs(2);
/// Tokens of one answer.
const TOKENS: u64 = 110;

/// The answers of the provider, by question.
#[derive(Default)]
struct Ledger {
    requests: AtomicUsize,
    answers: Mutex<BTreeMap<String, u32>>,
}

impl Ledger {
    fn answers(&self) -> BTreeMap<String, u32> {
        self.answers.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Runs 1,000 units against the provider, with a kill in between; returns whether the accounts are exact.
#[expect(clippy::print_stdout, reason = "the purpose of this program is its output")]
pub(super) async fn survives() -> bool {
    let folder = TemporaryFolder::new();
    let path = folder.path().join("runs.db");
    let ledger = Arc::new(Ledger::default());
    let port = start(&ledger);
    let mut first = worker(&path, port, "first");
    while ledger.answers().len() < ANSWERS_BEFORE_KILL && first.try_wait().is_ok_and(|ended| ended.is_none()) {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let _ = first.kill();
    let _ = first.wait();
    let before = open(&path).await.progress(&run_id()).await.expect("the progress").done;
    let finished = worker(&path, port, "second").wait().is_ok_and(|status| status.success());
    let progress = open(&path).await.progress(&run_id()).await.expect("the progress");
    let answers = ledger.answers();
    let repeated = answers.values().filter(|count| **count > 1).count();
    let total: u32 = answers.values().sum();
    let is_exact = finished
        && before > 0
        && before < u64::from(UNITS)
        && progress.passed == u64::from(UNITS)
        && answers.len() == UNITS as usize
        && progress.usage.total_tokens() == TOKENS * u64::from(UNITS)
        && answers.values().all(|count| *count <= 2)
        && repeated <= IN_FLIGHT;
    println!(
        "{UNITS} units, a provider that fails 5 % of {} requests, killed after {before} units and resumed: {} units passed, \
         {total} answers were paid for, {repeated} twice (bar: ≤ {IN_FLIGHT}, those in flight); exact accounts: {is_exact}",
        ledger.requests.load(Ordering::Relaxed),
        progress.passed,
    );
    is_exact
}

fn worker(store: &Path, port: u16, name: &str) -> Child {
    let program = std::env::current_exe().expect("the path of this program");
    let mut command = Command::new(program);
    command.arg("verify-worker").arg(store).arg(port.to_string()).arg(name);
    command.stdout(Stdio::null()).spawn().expect("a worker")
}

/// The worker process: works until the run is finished. Returns whether it is.
pub(crate) async fn work_against_faulty_provider() -> bool {
    let mut arguments = std::env::args().skip(2);
    let [store, port, name] = [(); 3].map(|()| arguments.next().expect("an argument"));
    let http = HttpClient::new(HttpSettings::default()).expect("a client");
    let endpoint = Endpoint::new(&format!("http://127.0.0.1:{port}"), Some(Secret::new("made-up")), http);
    let mut settings = ModelSettings::new("anthropic", "faulty");
    settings.attempt_timeout = Some(ATTEMPT_TIMEOUT);
    // Short pauses: the provider recovers at once.
    settings.middleware = serde_json::from_value(json!({
        "model_retry": {"max_retries": 6, "initial_delay": 0.05, "max_delay": 0.2}
    }))
    .expect("settings");
    let fixture = Fixture::with_model(UNITS, endpoint.expect("an endpoint"), settings);
    let store = fixture.store(Path::new(&store)).await;
    let (lease, heartbeat, poll) = (LEASE, LEASE / 5, Duration::from_millis(100));
    let options = WorkerOptions { in_flight: IN_FLIGHT, lease, heartbeat, poll, ..options(&name) };
    let report = work(&store, &fixture, options).await;
    let _ = store.close().await;
    report.end == WorkerEnd::Finished
}

/// Starts the provider. Its threads end with this process.
fn start(ledger: &Arc<Ledger>) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port();
    let ledger = Arc::clone(ledger);
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let ledger = Arc::clone(&ledger);
            std::thread::spawn(move || {
                let _ = serve(stream, &ledger);
            });
        }
    });
    port
}

/// Answers the requests of one connection.
fn serve(mut stream: TcpStream, ledger: &Ledger) -> std::io::Result<()> {
    let mut reader = BufReader::new(stream.try_clone()?);
    loop {
        let mut length = 0;
        let mut line = String::new();
        loop {
            line.clear();
            if reader.read_line(&mut line)? == 0 {
                return Ok(());
            }
            let lower = line.to_ascii_lowercase();
            if let Some(value) = lower.strip_prefix("content-length:") {
                length = value.trim().parse().unwrap_or(0);
            }
            if line.trim().is_empty() {
                break;
            }
        }
        let mut body = vec![0; length];
        reader.read_exact(&mut body)?;
        let body = String::from_utf8_lossy(&body);
        let number = ledger.requests.fetch_add(1, Ordering::Relaxed);
        std::thread::sleep(Duration::from_millis(10));
        let fault = (number % FAULT_EVERY == FAULT_EVERY - 1).then_some(number / FAULT_EVERY % 4);
        match fault {
            Some(0) => respond(
                &mut stream,
                "429 Too Many Requests",
                r#"{"type":"error","error":{"type":"rate_limit_error","message":"later"}}"#,
            )?,
            Some(1) => respond(
                &mut stream,
                "500 Internal Server Error",
                r#"{"type":"error","error":{"type":"api_error","message":"broken"}}"#,
            )?,
            Some(2) => std::thread::sleep(3 * ATTEMPT_TIMEOUT),
            Some(_) => {
                // Half of a response.
                stream.write_all(
                    b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 500\r\n\r\n{\"id\":",
                )?;
                return Ok(());
            }
            None => {
                let question = body.split("How much is ").nth(1).and_then(|rest| rest.split('?').next());
                let question = question.unwrap_or("unknown").to_owned();
                *ledger.answers.lock().unwrap_or_else(PoisonError::into_inner).entry(question).or_default() += 1;
                respond(
                    &mut stream,
                    "200 OK",
                    r#"{"id":"msg_1","type":"message","role":"assistant","model":"faulty","content":[{"type":"text","text":"It is 42."}],"stop_reason":"end_turn","stop_sequence":null,"usage":{"input_tokens":100,"output_tokens":10}}"#,
                )?;
            }
        }
    }
}

fn respond(stream: &mut TcpStream, status: &str, body: &str) -> std::io::Result<()> {
    write!(
        stream,
        "HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )
}
