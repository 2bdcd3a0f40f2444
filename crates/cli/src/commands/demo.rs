//! `wharf demo`: the whole of it in a few lines. One small server, reached in two ways, and what happens when it dies.

use std::sync::Arc;

use serde_json::{Value, json};
use tokio::time::Instant;
use wharf::server::serve_stream;
use wharf::{CallErrorKind, InProcess, Json, NoHost, Session, SessionOptions, Stdio};

use crate::args::Globals;
use crate::exit::Exit;
use crate::guard::Guard;
use crate::interrupt::guarded;
use crate::{demo_server, render, servers};

/// One thing that was done, and how it went with each server.
struct Row {
    step: &'static str,
    cells: [String; 2],
    /// Whether it went as it should.
    good: bool,
}

pub(crate) async fn run(globals: &Globals) -> Exit {
    let sessions = match sessions(globals) {
        Ok(sessions) => sessions,
        Err(misuse) => {
            render::misuse(&misuse);
            return Exit::Usage;
        }
    };
    guarded(&sessions, async {
        let rows = Box::pin(play(&sessions)).await;
        let good = rows.iter().all(|row| row.good);
        let written = if globals.json {
            render::out(as_json(&rows, good).to_string()).await
        } else {
            if !globals.quiet {
                render::note("One small server, with a calculator, a clock and notes, reached in two ways:\n");
            }
            let rows = rows.into_iter().map(|row| {
                let [inside, child] = row.cells;
                let mark = if row.good { "✓" } else { "✗" };
                vec![mark.to_owned(), row.step.to_owned(), inside, child]
            });
            render::out(render::table(&["", "step", "in this process", "as a child process"], rows.collect())).await
        };
        if good { written } else { Exit::Failed }
    })
    .await
}

fn sessions(globals: &Globals) -> Result<[Session; 2], servers::Misuse> {
    let options = servers::options(globals)?;
    let new = |name: &str, options: &SessionOptions, transport: Arc<dyn wharf::Transport>| {
        let name = name.parse().map_err(|error| servers::Misuse { what: format!("{error}"), hint: None })?;
        Ok::<_, servers::Misuse>(Session::with_shared(name, transport, Arc::new(NoHost), options.clone()))
    };
    let inside = InProcess::new(|stream| async {
        // How serving ended is the client's to tell.
        let _ = serve_stream(demo_server::toolbox(), stream).await;
    });
    let program = std::env::current_exe()
        .map_err(|error| servers::Misuse { what: format!("this program cannot find itself: {error}"), hint: None })?;
    let child = Stdio::new(program, [demo_server::COMMAND], servers::environment(globals)?).watched_by(Guard::start());
    Ok([new("inside", &options, Arc::new(inside))?, new("child", &options, Arc::new(child))?])
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
        Ok(info) => (format!("{} {}, {}", info.name, info.version, milliseconds(began)), true),
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

fn milliseconds(began: Instant) -> String {
    format!("{:.1} ms", began.elapsed().as_secs_f64() * 1000.0)
}

fn as_json(rows: &[Row], good: bool) -> Value {
    let row = |row: &Row| json!({ "step": row.step, "inProcess": row.cells[0], "child": row.cells[1], "ok": row.good });
    json!({ "version": 1, "ok": good, "steps": rows.iter().map(row).collect::<Vec<_>>() })
}
