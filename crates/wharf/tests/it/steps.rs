//! The tracing events of a run, from connecting to the result.

use std::fmt::Debug;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::json;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};
use wharf::agent::{
    Agent, Capabilities, Limits, Model, ModelError, ModelErrorKind, ModelRequest, ModelResponse, Run, Scripted as Told,
    StopReason,
};
use wharf::config::Pattern;
use wharf::config::{Scope, Server, ToolChoice, TransportConfig};
use wharf::fleet::{Dispatcher, Fleet, FleetOptions, Policy, ServerSpec, Turn};
use wharf::{BoxFuture, InProcess, Message, Role, Tools};
use wharf_testkit::{Script, Scripted, eventually};

/// Records the names of steps and spans, and the messages of other events, in order.
#[derive(Clone, Default)]
struct Recorder {
    text: Arc<Mutex<Vec<String>>>,
    ids: Arc<AtomicU64>,
}

/// The step or the message of an event.
#[derive(Default)]
struct EventText(Option<String>);

impl Visit for EventText {
    fn record_str(&mut self, field: &Field, value: &str) {
        if field.name() == "step" {
            self.0 = Some(value.to_owned());
        }
    }

    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        if field.name() == "message" {
            self.0 = Some(format!("{value:?}"));
        }
    }
}

impl Recorder {
    fn add(&self, text: String) {
        self.text.lock().unwrap().push(text);
    }
}

impl Subscriber for Recorder {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        ["wharf::step", "wharf_agent", "wharf_fleet"].iter().any(|target| metadata.target().starts_with(target))
    }

    fn new_span(&self, span: &Attributes<'_>) -> Id {
        self.add(format!("[{}]", span.metadata().name()));
        Id::from_u64(self.ids.fetch_add(1, Ordering::Relaxed) + 1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut said = EventText::default();
        event.record(&mut said);
        self.add(said.0.unwrap_or_default());
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

/// A model that is overloaded once.
struct OnceBusy {
    model: Told,
    was_busy: AtomicBool,
}

impl Model for OnceBusy {
    fn interface(&self) -> &'static str {
        "scripted"
    }

    fn name(&self) -> &'static str {
        "once-busy"
    }

    fn capabilities(&self) -> Capabilities {
        self.model.capabilities()
    }

    fn complete<'a>(&'a self, request: &'a ModelRequest<'a>) -> BoxFuture<'a, Result<ModelResponse, ModelError>> {
        if self.was_busy.swap(true, Ordering::Relaxed) {
            return self.model.complete(request);
        }
        Box::pin(std::future::ready(Err(ModelError::new(ModelErrorKind::Overloaded, "busy"))))
    }
}

#[tokio::test(start_paused = true)]
async fn a_run_emits_its_steps_in_order_and_runs_layers_inside_the_loop() {
    let heard = Recorder::default();
    let _listening = tracing::subscriber::set_default(heard.clone());
    let scripted = Scripted::new(Script::good());
    let transport = Arc::new(InProcess::new(move |stream| scripted.clone().serve(stream)));
    let mut server =
        Server::new("s".parse().unwrap(), Scope::Dynamic, TransportConfig::Custom("in-process".into(), transport));
    server.settings.tools = ToolChoice { allowed: Some(vec![Pattern::new("add")]), ..ToolChoice::default() };
    let fleet = Fleet::open([ServerSpec::from(server)], FleetOptions::default());
    assert!(eventually(fleet.settled(Duration::from_secs(60))).await);

    let turns = "- tools: [{name: mcp__s__add, arguments: {a: 40, b: 2}}]\n- text: It is 42.\n";
    let model = OnceBusy { model: Told::parse("turns", turns).unwrap(), was_busy: AtomicBool::new(false) };
    let catalog = fleet.catalog();
    let dispatcher = Arc::new(Dispatcher::new(Policy::default()));
    let turn = move || Arc::new(Turn::new(Arc::clone(&catalog), Arc::clone(&dispatcher))) as Arc<dyn Tools>;
    let agent = Agent::new(Arc::new(model), Arc::new(turn));
    let mut run = Run::new("r", vec![Message::text(Role::User, "How much?")], Limits::default());
    let result = eventually(agent.run(&mut run, std::future::pending())).await.unwrap();
    assert_eq!(result.final_response.as_deref(), Some("It is 42."));
    assert_eq!(result.stop_reason, Some(StopReason::EndTurn));
    assert_eq!(json!(result.trace_messages)[1]["content"], "42");
    fleet.close().await;

    let text = heard.text.lock().unwrap().join(", ");
    assert_eq!(
        text,
        "connect, discover, filter, transform, [invoke_agent], execute, [chat], retrying the model request, [execute_tool], \
         [call], [chat], capture, convert, return"
    );
}
