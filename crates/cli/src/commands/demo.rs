//! `wharf demo`: the whole of it in a few lines. One small server, reached in every way there is and spoken with in every
//! generation of the protocol, and what happens when it dies or is started anew.

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

use crate::args::Globals;
use crate::exit::Exit;
use crate::guard::Guard;
use crate::interrupt::guarded_sessions;
use crate::setup::{How, LONGEST, Setup, Which};
use crate::{demo_server, render, servers, surroundings};

/// One thing that was done, and how it went with each server.
struct Row {
    step: &'static str,
    cells: [String; 2],
    /// Whether it went as it should.
    good: bool,
}

/// How it went over one kind of network transport: what was spoken, connecting, a call, and the same call after the server
/// was started anew.
struct Journey {
    transport: &'static str,
    cells: [String; 4],
    good: bool,
}

pub(crate) async fn run(globals: &Globals) -> Exit {
    let prepared = async {
        // The demo shows itself; of yours it visits those that are named for it, and starts no other.
        let setup = Setup::load(&Globals { only_mcp: true, ..globals.clone() }).await?;
        let remote = serve().await?;
        let (local, remotes) = (sessions(globals, &setup)?, remote_sessions(&setup, &remote)?);
        let yours = if globals.mcp.is_empty() { None } else { Some(setup.open(Which::All, How::Once)?) };
        Ok::<_, servers::Misuse>((remote, local, remotes, yours))
    };
    let (remote, local, remotes, yours) = match prepared.await {
        Ok(prepared) => prepared,
        Err(misuse) => {
            render::misuse(&misuse);
            return Exit::Usage;
        }
    };
    let all: Vec<Session> = local.iter().chain(&remotes).cloned().collect();
    let exit = guarded_sessions(&all, async {
        let rows = Box::pin(play(&local)).await;
        let journeys = Box::pin(travel(&remotes, &remote)).await;
        let visits = match &yours {
            Some(fleet) => Box::pin(visit_all(fleet)).await,
            None => Vec::new(),
        };
        let good = rows.iter().all(|row| row.good) && journeys.iter().all(|journey| journey.good);
        let written = if globals.json {
            render::out(as_json(&rows, &journeys, &visits, good).to_string()).await
        } else {
            show(globals, rows, journeys, &visits).await
        };
        let exit = visits.iter().map(|visit| visit.exit).max().unwrap_or(Exit::Done).max(written);
        if good { exit } else { Exit::Failed.max(exit) }
    })
    .await;
    remote.close().await;
    exit
}

async fn show(globals: &Globals, rows: Vec<Row>, journeys: Vec<Journey>, visits: &[Visit]) -> Exit {
    let note = |text| {
        if !globals.quiet {
            render::note(text);
        }
    };
    let mark = |good| if good { "✓" } else { "✗" }.to_owned();
    note("One small server, in this process and as a child:\n");
    let rows = rows.into_iter().map(|row| {
        let [inside, child] = row.cells;
        vec![mark(row.good), row.step.to_owned(), inside, child]
    });
    let written =
        render::out(render::table(&["", "step", "in this process", "as a child process"], rows.collect())).await;
    note("\nThe same over the network. It forgets us, as if it had been started again:");
    let journeys = journeys.into_iter().map(|journey| {
        let [spoken, connected, called, recovered] = journey.cells;
        vec![mark(journey.good), journey.transport.to_owned(), spoken, connected, called, recovered]
    });
    let head = ["", "transport", "protocol", "connect", "6 × 7", "6 × 7, started again"];
    let written = written.max(render::out(format!("\n{}", render::table(&head, journeys.collect()))).await);
    if visits.is_empty() {
        return written;
    }
    note("\nAnd the servers you named:");
    let visits = visits.iter().map(|visit| {
        let [connected, spoken, tools, ping] = visit.cells.each_ref().map(|cell| render::plain(cell));
        vec![mark(visit.exit == Exit::Done), visit.server.clone(), connected, spoken, tools, ping]
    });
    let table = render::table(&["", "server", "connect", "protocol", "tools", "ping"], visits.collect());
    written.max(render::out(format!("\n{table}")).await)
}

/// What became of a server that was named on the command line: connecting, what it speaks, its tools, a ping.
struct Visit {
    server: String,
    cells: [String; 4],
    exit: Exit,
}

async fn visit_all(fleet: &Fleet) -> Vec<Visit> {
    fleet.settled(LONGEST).await;
    let visits = join_all(fleet.statuses().iter().map(|status| visit(fleet, status))).await;
    fleet.close().await;
    visits
}

async fn visit(fleet: &Fleet, status: &ServerStatus) -> Visit {
    let exit = Exit::from(status);
    let session = fleet.session(&status.name);
    let cells = if let (Some(info), Some(session)) = (&status.info, session) {
        let began = Instant::now();
        let pinged = session.ping().await;
        let ping = pinged.map_or_else(|error| error.kind.to_string(), |()| milliseconds(began));
        [format!("{} {}", info.name, info.version), info.protocol(), tools_told(status.tools), ping]
    } else {
        let nothing = || "–".to_owned();
        let reason = status.reason.as_ref().map(ToString::to_string);
        [reason.unwrap_or_default(), nothing(), nothing(), nothing()]
    };
    Visit { server: status.name.to_string(), cells, exit }
}

/// The demo's server on a port of this machine.
async fn serve() -> Result<RemoteServer, servers::Misuse> {
    let router = Router::new(demo_server::toolbox, ServerOptions::default());
    let bound = RemoteServer::bind(([127, 0, 0, 1], 0).into(), router).await;
    bound.map_err(|error| servers::Misuse { what: format!("no port can be listened on: {error}"), hint: None })
}

fn sessions(globals: &Globals, setup: &Setup) -> Result<[Session; 2], servers::Misuse> {
    let options = setup.session.clone();
    let inside = InProcess::new(|stream| async {
        // How serving ended is the client's to tell.
        let _ = serve_stream(demo_server::toolbox(), stream).await;
    });
    let program = std::env::current_exe()
        .map_err(|error| servers::Misuse { what: format!("this program cannot find itself: {error}"), hint: None })?;
    let named = servers::variables(globals)?;
    let add = |environment: Environment, (name, value): (&String, &Secret)| environment.with(name, value.expose());
    let environment = named.iter().fold(surroundings::shared(), add);
    let child = Stdio::new(program, [demo_server::COMMAND], environment).watched_by(Guard::start());
    Ok([session("inside", &options, Arc::new(inside))?, session("child", &options, Arc::new(child))?])
}

/// A session over every transport, in every generation of the protocol.
fn remote_sessions(setup: &Setup, remote: &RemoteServer) -> Result<Vec<Session>, servers::Misuse> {
    let (options, way) = (setup.session.clone(), RemoteOptions::default());
    let odd = |error: wharf::InvalidRemote| servers::Misuse { what: error.to_string(), hint: None };
    let transports: [(&str, Arc<dyn Transport>); 3] = [
        ("http", Arc::new(Http::new(&remote.http_url(), way.clone()).map_err(odd)?)),
        ("sse", Arc::new(HttpSse::new(&remote.sse_url(), way.clone()).map_err(odd)?)),
        ("websocket", Arc::new(WebSocket::new(&remote.ws_url(), way).map_err(odd)?)),
    ];
    let each = transports.iter().flat_map(|transport| ProtocolMode::EACH.map(|protocol| (transport, protocol)));
    let sessions = each.map(|((name, transport), protocol)| {
        let options = SessionOptions { protocol, ..options.clone() };
        session(name, &options, Arc::clone(transport))
    });
    sessions.collect()
}

fn session(name: &str, options: &SessionOptions, transport: Arc<dyn Transport>) -> Result<Session, servers::Misuse> {
    let name = name.parse().map_err(|error| servers::Misuse { what: format!("{error}"), hint: None })?;
    Ok(Session::with_shared(name, transport, Arc::new(NoHost), options.clone()))
}

async fn travel(sessions: &[Session], remote: &RemoteServer) -> Vec<Journey> {
    let multiply = Json::from(json!({"a": 6, "operation": "*", "b": 7}));
    let mut journeys = Vec::new();
    for session in sessions {
        let transport = match session.name().as_str() {
            "http" => "Streamable HTTP",
            "sse" => "HTTP with SSE",
            _ => "WebSocket",
        };
        let began = Instant::now();
        let (spoken, connected, there) = match session.connect().await {
            Ok(info) => (info.protocol(), milliseconds(began), true),
            Err(error) => ("–".to_owned(), error.kind.to_string(), false),
        };
        let called = call(session, "calculate", &multiply).await;
        remote.router().forget_sessions().await;
        let began = Instant::now();
        let again = call(session, "calculate", &multiply).await;
        let cost = if session.health().connections == 1 { "nothing was lost" } else { "connected again" };
        let recovered = format!("{again} ({cost}, {})", milliseconds(began));
        let good = there && called == "42" && again == "42";
        journeys.push(Journey { transport, cells: [spoken, connected, called, recovered], good });
    }
    journeys
}

async fn play(sessions: &[Session; 2]) -> Vec<Row> {
    let [inside, child] = sessions;
    let mut rows = Vec::new();
    for (step, tool, arguments, expected) in [
        ("6 × 7", "calculate", json!({"a": 6, "operation": "*", "b": 7}), "42"),
        ("what time is it?", "now", json!({}), "20"),
        ("keep a note", "write_note", json!({"text": "docked"}), "note 1"),
        ("read the notes", "read_notes", json!({}), "docked"),
        ("1 ÷ 0 (the tool fails)", "calculate", json!({"a": 1, "operation": "/", "b": 0}), "tool error: cannot divide"),
        ("\"six\" × 7 (never sent)", "calculate", json!({"a": "six", "operation": "*", "b": 7}), "refused: at `/a`"),
    ] {
        if rows.is_empty() {
            rows.push(both("connect", async |session| connect(session).await, sessions).await);
            rows.push(both("list its tools", async |session| list(session).await, sessions).await);
        }
        let arguments = Json::from(arguments);
        let call = async |session: &Session| {
            let said = call(session, tool, &arguments).await;
            let good = said.starts_with(expected);
            (said, good)
        };
        rows.push(both(step, call, sessions).await);
    }
    let said = call(child, "crash", &Json::from(json!({}))).await;
    let good = said.contains("exited with status 7");
    rows.push(Row { step: "crash it", cells: ["–".to_owned(), said], good });
    let (again, began) = (Json::from(json!({"a": 6, "operation": "*", "b": 7})), Instant::now());
    let said = call(child, "calculate", &again).await;
    let (good, took) = (said == "42", milliseconds(began));
    rows.push(Row {
        step: "6 × 7 again",
        cells: [call(inside, "calculate", &again).await, format!("{said} (started again, {took})")],
        good,
    });
    rows
}

async fn both(step: &'static str, act: impl AsyncFn(&Session) -> (String, bool), sessions: &[Session; 2]) -> Row {
    let [inside, child] = sessions;
    let (one, two) = (act(inside).await, act(child).await);
    Row { step, cells: [one.0, two.0], good: one.1 && two.1 }
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
            CallErrorKind::Arguments { fault, .. } => format!("refused: {fault}"),
            CallErrorKind::Lost(reason) => format!("it {reason}; outcome unknown"),
            kind => kind.to_string(),
        },
    }
}

fn tools_told(count: usize) -> String {
    if count == 1 { "1 tool".to_owned() } else { format!("{count} tools") }
}

fn milliseconds(began: Instant) -> String {
    format!("{:.1} ms", began.elapsed().as_secs_f64() * 1000.0)
}

fn as_json(rows: &[Row], journeys: &[Journey], visits: &[Visit], good: bool) -> Value {
    let row = |row: &Row| json!({ "step": row.step, "inProcess": row.cells[0], "child": row.cells[1], "ok": row.good });
    let journey = |journey: &Journey| {
        let [spoken, connected, called, recovered] = &journey.cells;
        json!({
            "transport": journey.transport,
            "protocol": spoken,
            "connect": connected,
            "call": called,
            "recovered": recovered,
            "ok": journey.good,
        })
    };
    let (steps, network): (Vec<_>, Vec<_>) = (rows.iter().map(row).collect(), journeys.iter().map(journey).collect());
    let visit = |visit: &Visit| {
        let [connected, spoken, tools, ping] = &visit.cells;
        json!({
            "server": visit.server,
            "connect": connected,
            "protocol": spoken,
            "tools": tools,
            "ping": ping,
            "ok": visit.exit == Exit::Done,
        })
    };
    let servers: Vec<_> = visits.iter().map(visit).collect();
    json!({ "version": 1, "ok": good, "steps": steps, "network": network, "servers": servers })
}
