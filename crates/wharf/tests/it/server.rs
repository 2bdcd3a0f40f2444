//! In-process `Toolbox` servers, tested through a session.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use tokio::sync::Notify;
use wharf::server::{Reply, Toolbox, serve_stream};
use wharf::{CallOptions, InProcess, Json, NoHost, Progress, Session, SessionOptions};
use wharf_testkit::soon;

fn session(toolbox: Toolbox) -> Session {
    let transport = InProcess::new(move |stream| {
        let toolbox = toolbox.clone();
        async move { drop(serve_stream(toolbox, stream).await) }
    });
    Session::new("toolbox".parse().unwrap(), transport, NoHost, SessionOptions::default())
}

fn none() -> Json {
    Json::from(json!({}))
}

#[tokio::test]
async fn a_toolbox_sends_its_name_version_and_instructions() {
    let toolbox = Toolbox::new("box", "1.2").instructions("Turn it on first.");
    let info = soon(session(toolbox).connect()).await.unwrap();
    assert_eq!((info.name.as_str(), info.version.as_str()), ("box", "1.2"));
    assert_eq!(info.instructions.as_deref(), Some("Turn it on first."));
}

#[tokio::test]
async fn a_tool_reports_progress_and_returns_text_structure_or_an_error() {
    let schema = json!({"type": "object"});
    let toolbox = Toolbox::new("box", "1")
        .tool(json!({"name": "count", "inputSchema": schema}), |call| async move {
            for n in [1.0, 2.0, 3.0] {
                call.progress(n, 3.0, "counting").await;
            }
            Ok(Reply::Structured(json!({"counted": 3})))
        })
        .tool(json!({"name": "fail", "inputSchema": schema}), |call| async move {
            call.text("name").map(|_| Reply::Text("never".to_owned()))
        });
    let session = session(toolbox);
    let mut steps = Vec::new();
    let mut listen = |step: Progress| steps.push((step.progress, step.total, step.message));
    let options = CallOptions { progress: Some(&mut listen), ..CallOptions::default() };
    let counted = soon(session.call_with("count", &none(), options)).await.unwrap();
    assert_eq!(counted.structured.unwrap().as_str(), r#"{"counted":3}"#);
    let step = |n| (n, Some(3.0), Some("counting".to_owned()));
    assert_eq!(steps, [step(1.0), step(2.0), step(3.0)]);
    let failed = soon(session.call("fail", &none())).await.unwrap();
    assert!(failed.is_error && failed.text() == "`name` must be a string", "{}", failed.text());
    let unknown = soon(session.call("other", &none())).await.unwrap_err();
    assert!(unknown.to_string().contains("unknown tool `other`"), "{unknown}");
}

#[tokio::test]
async fn a_tool_is_cancelled_when_its_caller_stops_waiting() {
    let started = Arc::new(Notify::new());
    let cancelled = Arc::new(Notify::new());
    let call_started = Arc::clone(&started);
    let call_dropped = Arc::clone(&cancelled);
    let toolbox =
        Toolbox::new("box", "1").tool(json!({"name": "wait", "inputSchema": {"type": "object"}}), move |_| {
            /// Notifies when the call is dropped.
            struct Dropped(Arc<Notify>);
            impl Drop for Dropped {
                fn drop(&mut self) {
                    self.0.notify_one();
                }
            }
            let started = Arc::clone(&call_started);
            let dropped = Dropped(Arc::clone(&call_dropped));
            async move {
                started.notify_one();
                std::future::pending::<()>().await;
                drop(dropped);
                Ok(Reply::Text("never".to_owned()))
            }
        });
    let session = session(toolbox);
    let nothing = none();
    let waiting = async {
        tokio::select! {
            _ = session.call("wait", &nothing) => panic!("unexpected response"),
            () = started.notified() => {}
        }
    };
    soon(waiting).await;
    soon(cancelled.notified()).await;
    let limited = CallOptions { total: Some(Duration::from_millis(50)), ..CallOptions::default() };
    soon(session.call_with("wait", &nothing, limited)).await.unwrap_err();
    soon(cancelled.notified()).await;
}
