//! `wharf demo`: one small server over every transport and in every protocol mode, what happens when it crashes or
//! restarts, and a benchmark of scripted models over its tools.

use std::sync::Arc;

use futures_util::future::join_all;
use serde_json::{Value, json};
use tokio::time::Instant;
use wharf::fleet::{Fleet, ServerStatus};
use wharf::server::{ListenOptions as ServerOptions, RemoteServer, Router, serve_stream};
use wharf::{
    CallErrorKind, Environment, Http, HttpSse, InProcess, Json, NoHost, ProtocolMode, RemoteOptions, Secret, Session,
    SessionOptions, Stdio, Transport, WebSocket,
};

use crate::config::{FleetLifetime, ServerSelection, Setup, servers};
use crate::error::{UsageError, usage_error};
use crate::exit::Exit;
use crate::globals::Globals;
use crate::guard::Guard;
use crate::interrupt::guarded_sessions;
use crate::term::{SETTLE_LIMIT, counted};
use crate::verification::quickstart::{self, Quickstart};
use crate::verification::{failures, table};
use crate::{demo_server, env, term};

/// One step with both local servers.
struct LocalStep {
    step: &'static str,
    in_process: String,
    child: String,
    /// Whether the results are as expected.
    ok: bool,
}

/// One session over the network.
struct RemoteRun {
    transport: &'static str,
    protocol: String,
    connect: String,
    call: String,
    /// The same call after the server restarted.
    recovered: String,
    ok: bool,
}

/// A server of `--mcp`.
struct NamedServer {
    server: String,
    connect: String,
    protocol: String,
    tools: String,
    ping: String,
    exit: Exit,
}

pub(crate) async fn run(globals: &Globals) -> Exit {
    let prepared = async {
        // The demo starts no configured server, only those of --mcp.
        let setup = Setup::load(&Globals { only_mcp: true, ..globals.clone() }).await?;
        let remote = serve().await?;
        let local = local_sessions(globals, &setup)?;
        let remotes = remote_sessions(&setup, &remote)?;
        let named =
            if globals.mcp.is_empty() { None } else { Some(setup.open(ServerSelection::All, FleetLifetime::OneShot)?) };
        Ok::<_, UsageError>((remote, local, remotes, named))
    };
    let (remote, local, remotes, named) = match prepared.await {
        Ok(prepared) => prepared,
        Err(error) => return term::usage_error(&error),
    };
    let all: Vec<Session> = local.iter().chain(&remotes).cloned().collect();
    let exit = guarded_sessions(&all, async {
        let demo = Demo {
            local: Box::pin(run_local(&local)).await,
            remote: Box::pin(run_remote(&remotes, &remote)).await,
            named: match &named {
                Some(fleet) => Box::pin(connect_named(fleet)).await,
                None => Vec::new(),
            },
            benchmark: match Box::pin(quickstart::run(globals)).await {
                Ok(benchmark) => benchmark,
                Err(error) => {
                    term::usage_error(&error);
                    return Exit::Failed;
                }
            },
        };
        let written = if globals.json { term::json(&demo.to_json()).await } else { demo.show(globals).await };
        let exit = demo.named.iter().map(|server| server.exit).max().unwrap_or(Exit::Done).max(written);
        if demo.is_ok() { exit } else { Exit::Failed.max(exit) }
    })
    .await;
    remote.close().await;
    exit
}

/// All results.
struct Demo {
    local: Vec<LocalStep>,
    remote: Vec<RemoteRun>,
    named: Vec<NamedServer>,
    benchmark: Quickstart,
}

impl Demo {
    fn is_ok(&self) -> bool {
        self.local.iter().all(|step| step.ok) && self.remote.iter().all(|run| run.ok) && self.benchmark.ok
    }

    async fn show(&self, globals: &Globals) -> Exit {
        let note = |text| {
            if !globals.quiet {
                term::note(text);
            }
        };
        let mark = |ok| if ok { "✓" } else { "✗" }.to_owned();
        note("One small server, in this process and as a child process:\n");
        let step =
            |step: &LocalStep| vec![mark(step.ok), step.step.to_owned(), step.in_process.clone(), step.child.clone()];
        let rows = self.local.iter().map(step).collect();
        let written = term::out(term::table(&["", "step", "in process", "child process"], rows)).await;
        note("\nThe same over the network, with a restart of the server:");
        let run = |run: &RemoteRun| {
            let RemoteRun { transport, protocol, connect, call, recovered, ok } = run;
            let cells = [protocol, connect, call, recovered].map(String::clone);
            [vec![mark(*ok), (*transport).to_owned()], cells.to_vec()].concat()
        };
        let head = ["", "transport", "protocol", "connect", "6 × 7", "6 × 7 after restart"];
        let rows = self.remote.iter().map(run).collect();
        let written = written.max(term::out(format!("\n{}", term::table(&head, rows))).await);
        note("\nA benchmark of two scripted models over its tools, judged by a scripted judge:");
        let written = written.max(term::out(format!("\n{}", table::of_summary(&self.benchmark.summary))).await);
        note("\nWhat did not pass, and why:");
        let written = written
            .max(term::out(format!("\n{}", failures::of(&self.benchmark.not_passed, failures::REASON_CHARS))).await);
        if self.named.is_empty() {
            return written;
        }
        note("\nThe servers of --mcp:");
        let server = |named: &NamedServer| {
            let NamedServer { server, connect, protocol, tools, ping, exit } = named;
            let cells = [connect, protocol, tools, ping].map(|cell| term::plain(cell));
            [vec![mark(*exit == Exit::Done), server.clone()], cells.to_vec()].concat()
        };
        let rows = self.named.iter().map(server).collect();
        let table = term::table(&["", "server", "connect", "protocol", "tools", "ping"], rows);
        written.max(term::out(format!("\n{table}")).await)
    }

    fn to_json(&self) -> Value {
        let step = |step: &LocalStep| json!({ "step": step.step, "inProcess": step.in_process, "child": step.child, "ok": step.ok });
        let run = |run: &RemoteRun| {
            json!({
                "transport": run.transport,
                "protocol": run.protocol,
                "connect": run.connect,
                "call": run.call,
                "recovered": run.recovered,
                "ok": run.ok,
            })
        };
        let server = |named: &NamedServer| {
            json!({
                "server": named.server,
                "connect": named.connect,
                "protocol": named.protocol,
                "tools": named.tools,
                "ping": named.ping,
                "ok": named.exit == Exit::Done,
            })
        };
        json!({
            "version": 1,
            "ok": self.is_ok(),
            "steps": self.local.iter().map(step).collect::<Vec<_>>(),
            "network": self.remote.iter().map(run).collect::<Vec<_>>(),
            "servers": self.named.iter().map(server).collect::<Vec<_>>(),
            "benchmark": self.benchmark.summary,
        })
    }
}

async fn connect_named(fleet: &Fleet) -> Vec<NamedServer> {
    fleet.settled(SETTLE_LIMIT).await;
    let named = join_all(fleet.statuses().iter().map(|status| named_server(fleet, status))).await;
    fleet.close().await;
    named
}

async fn named_server(fleet: &Fleet, status: &ServerStatus) -> NamedServer {
    let server = status.name.to_string();
    let exit = Exit::from(status);
    let (Some(info), Some(session)) = (&status.info, fleet.session(&status.name)) else {
        let nothing = || "–".to_owned();
        let connect = status.reason.as_ref().map(ToString::to_string).unwrap_or_default();
        return NamedServer { server, connect, protocol: nothing(), tools: nothing(), ping: nothing(), exit };
    };
    let began = Instant::now();
    let pinged = session.ping().await;
    NamedServer {
        server,
        connect: format!("{} {}", info.name, info.version),
        protocol: info.protocol(),
        tools: counted(status.tools, "tool"),
        ping: pinged.map_or_else(|error| error.kind.to_string(), |()| milliseconds(began)),
        exit,
    }
}

/// Starts the demo's server on a local port.
async fn serve() -> Result<RemoteServer, UsageError> {
    let router = Router::new(demo_server::toolbox, ServerOptions::default());
    let bound = RemoteServer::bind(([127, 0, 0, 1], 0).into(), router).await;
    bound.map_err(|error| usage_error(format!("cannot listen on a local port: {error}"), None))
}

fn local_sessions(globals: &Globals, setup: &Setup) -> Result<[Session; 2], UsageError> {
    let options = setup.session.clone();
    let in_process = InProcess::new(|stream| async {
        // The client reports how the connection ended.
        let _ = serve_stream(demo_server::toolbox(), stream).await;
    });
    let program = std::env::current_exe()
        .map_err(|error| usage_error(format!("cannot find the path of this program: {error}"), None))?;
    let named = servers::variables(globals)?;
    let add = |environment: Environment, (name, value): (&String, &Secret)| environment.with(name, value.expose());
    let environment = named.iter().fold(env::for_servers(), add);
    let child = Stdio::new(program, [demo_server::COMMAND], environment).watched_by(Guard::start());
    Ok([session("in-process", &options, Arc::new(in_process))?, session("child", &options, Arc::new(child))?])
}

/// Returns a session for every transport and protocol mode.
fn remote_sessions(setup: &Setup, remote: &RemoteServer) -> Result<Vec<Session>, UsageError> {
    let options = setup.session.clone();
    let remote_options = RemoteOptions::default();
    let invalid = |error: wharf::InvalidRemote| usage_error(error.to_string(), None);
    let transports: [(&str, Arc<dyn Transport>); 3] = [
        ("http", Arc::new(Http::new(&remote.http_url(), remote_options.clone()).map_err(invalid)?)),
        ("sse", Arc::new(HttpSse::new(&remote.sse_url(), remote_options.clone()).map_err(invalid)?)),
        ("websocket", Arc::new(WebSocket::new(&remote.ws_url(), remote_options).map_err(invalid)?)),
    ];
    let each = transports.iter().flat_map(|transport| ProtocolMode::EACH.map(|protocol| (transport, protocol)));
    let sessions = each.map(|((name, transport), protocol)| {
        let options = SessionOptions { protocol, ..options.clone() };
        session(name, &options, Arc::clone(transport))
    });
    sessions.collect()
}

fn session(name: &str, options: &SessionOptions, transport: Arc<dyn Transport>) -> Result<Session, UsageError> {
    let name = name.parse().map_err(|error| usage_error(format!("{error}"), None))?;
    Ok(Session::with_shared(name, transport, Arc::new(NoHost), options.clone()))
}

async fn run_remote(sessions: &[Session], remote: &RemoteServer) -> Vec<RemoteRun> {
    let multiply = Json::from(json!({"a": 6, "operation": "*", "b": 7}));
    let mut runs = Vec::new();
    for session in sessions {
        let transport = match session.name().as_str() {
            "http" => "Streamable HTTP",
            "sse" => "HTTP with SSE",
            _ => "WebSocket",
        };
        let began = Instant::now();
        let connected = session.connect().await;
        let connect_time = milliseconds(began);
        let first = call(session, "calculate", &multiply).await;
        remote.router().forget_sessions().await;
        let began = Instant::now();
        let again = call(session, "calculate", &multiply).await;
        let cost = if session.health().connections == 1 { "nothing was lost" } else { "reconnected" };
        let recovered = format!("{again} ({cost}, {})", milliseconds(began));
        let ok = connected.is_ok() && first == "42" && again == "42";
        let (protocol, connect) = match connected {
            Ok(info) => (info.protocol(), connect_time),
            Err(error) => ("–".to_owned(), error.kind.to_string()),
        };
        runs.push(RemoteRun { transport, protocol, connect, call: first, recovered, ok });
    }
    runs
}

async fn run_local(sessions: &[Session; 2]) -> Vec<LocalStep> {
    let [in_process, child] = sessions;
    let mut steps = vec![
        both("connect", async |session| connect(session).await, sessions).await,
        both("list tools", async |session| list(session).await, sessions).await,
    ];
    for (step, tool, arguments, expected) in [
        ("6 × 7", "calculate", json!({"a": 6, "operation": "*", "b": 7}), "42"),
        ("get the time", "now", json!({}), "20"),
        ("write a note", "write_note", json!({"text": "docked"}), "note 1"),
        ("read the notes", "read_notes", json!({}), "docked"),
        ("1 ÷ 0 (tool error)", "calculate", json!({"a": 1, "operation": "/", "b": 0}), "tool error: cannot divide"),
        ("\"six\" × 7 (never sent)", "calculate", json!({"a": "six", "operation": "*", "b": 7}), "rejected: at `/a`"),
    ] {
        let arguments = Json::from(arguments);
        let call = async |session: &Session| {
            let result = call(session, tool, &arguments).await;
            let ok = result.starts_with(expected);
            (result, ok)
        };
        steps.push(both(step, call, sessions).await);
    }
    let crashed = call(child, "crash", &Json::from(json!({}))).await;
    let ok = crashed.contains("exited with status 7");
    steps.push(LocalStep { step: "crash it", in_process: "–".to_owned(), child: crashed, ok });
    let multiply = Json::from(json!({"a": 6, "operation": "*", "b": 7}));
    let began = Instant::now();
    let result = call(child, "calculate", &multiply).await;
    let took = milliseconds(began);
    steps.push(LocalStep {
        step: "6 × 7 again",
        in_process: call(in_process, "calculate", &multiply).await,
        ok: result == "42",
        child: format!("{result} (restarted, {took})"),
    });
    steps
}

async fn both(step: &'static str, act: impl AsyncFn(&Session) -> (String, bool), sessions: &[Session; 2]) -> LocalStep {
    let [in_process, child] = sessions;
    let (in_process, in_process_ok) = act(in_process).await;
    let (child, child_ok) = act(child).await;
    LocalStep { step, in_process, child, ok: in_process_ok && child_ok }
}

async fn connect(session: &Session) -> (String, bool) {
    let began = Instant::now();
    match session.connect().await {
        Ok(info) => (format!("{} {}, {}, {}", info.name, info.version, info.protocol(), milliseconds(began)), true),
        Err(error) => (error.kind.to_string(), false),
    }
}

async fn list(session: &Session) -> (String, bool) {
    match session.list_tools().await {
        Ok(listed) => (format!("{} tools", listed.items.len()), listed.items.len() == 5),
        Err(error) => (error.kind.to_string(), false),
    }
}

async fn call(session: &Session, tool: &str, arguments: &Json) -> String {
    match session.call(tool, arguments).await {
        Ok(output) if output.is_error => format!("tool error: {}", output.text()),
        Ok(output) => match output.structured.as_ref().and_then(|structured| structured.to_value().ok()) {
            Some(structured) => structured["result"].to_string().trim_end_matches(".0").to_owned(),
            None => output.text(),
        },
        Err(error) => match error.kind {
            CallErrorKind::Arguments { fault, .. } => format!("rejected: {fault}"),
            CallErrorKind::Lost(reason) => format!("the server {reason}; outcome unknown"),
            kind => kind.to_string(),
        },
    }
}

fn milliseconds(began: Instant) -> String {
    format!("{:.1} ms", began.elapsed().as_secs_f64() * 1000.0)
}
