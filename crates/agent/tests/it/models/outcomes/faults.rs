//! Each fault in the second response of a run, permanent or once.

use serde_json::json;
use wharf_agent::{ModelErrorKind, RunEnd};
use wharf_testkit::models::Fault;

use super::{TestModel, Trial, TrialOutcome, all_models};

/// The effect of a fault on a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Effect {
    /// The request fails, and may be retried.
    Failure(ModelErrorKind),
    /// The connection is replaced without an error, once.
    NewConnection,
    /// None: the response is usable.
    Nothing,
}

/// Returns the effect of a fault. Exhaustive, so that a new fault needs an entry here.
fn effect(fault: &Fault) -> Effect {
    use ModelErrorKind::{
        Auth, ContextTooLong, Invalid, Malformed, Network, Overloaded, Quota, RateLimit, Refused, Server, Timeout,
        WrongUrl,
    };
    match fault {
        Fault::Status(401, ..) => Effect::Failure(Auth),
        Fault::Status(402, ..) => Effect::Failure(Quota),
        Fault::Status(404, ..) => Effect::Failure(WrongUrl),
        Fault::Status(413, ..) => Effect::Failure(ContextTooLong),
        Fault::Status(429, ..) => Effect::Failure(RateLimit),
        Fault::Status(503 | 529, ..) => Effect::Failure(Overloaded),
        Fault::Status(400, _, body) if body.contains("policy") => Effect::Failure(Refused),
        Fault::Status(400, ..) => Effect::Failure(Invalid),
        Fault::Status(..) => Effect::Failure(Server),
        Fault::ErrorEvent(kind, _) if kind == "overloaded_error" => Effect::Failure(Overloaded),
        Fault::ErrorEvent(..) => Effect::Failure(ContextTooLong),
        Fault::HangBeforeHead | Fault::HangAfterHead | Fault::HangMidway | Fault::Drip => Effect::Failure(Timeout),
        Fault::CutMidEvent | Fault::EndEarly => Effect::Failure(Network),
        Fault::Garbage => Effect::Failure(Malformed),
        Fault::HangUp => Effect::NewConnection,
        Fault::NoMessageStart
        | Fault::NoInputTokens
        | Fault::NoIds
        | Fault::SameIds
        | Fault::SameIndex
        | Fault::NoDoneEvent
        | Fault::NotStreamed
        | Fault::StaleConnection
        | Fault::StayOpen => Effect::Nothing,
    }
}

fn faults() -> Vec<Fault> {
    let status = |status: u16, kind: &str| {
        let body = json!({"type": "error", "error": {"type": kind, "message": "no"}}).to_string();
        Fault::Status(status, Vec::new(), body)
    };
    vec![
        status(400, "invalid_request_error"),
        status(400, "content_policy_violation"),
        status(401, "authentication_error"),
        status(402, "billing_error"),
        Fault::Status(404, Vec::new(), "<!doctype html>".to_owned()),
        status(413, "request_too_large"),
        status(429, "rate_limit_error"),
        status(500, "api_error"),
        status(529, "overloaded_error"),
        Fault::ErrorEvent("overloaded_error".to_owned(), "Overloaded".to_owned()),
        Fault::ErrorEvent("invalid_request_error".to_owned(), "prompt is too long".to_owned()),
        Fault::HangBeforeHead,
        Fault::HangAfterHead,
        Fault::HangUp,
        Fault::HangMidway,
        Fault::Drip,
        Fault::CutMidEvent,
        Fault::EndEarly,
        Fault::Garbage,
        Fault::NoMessageStart,
        Fault::NoInputTokens,
        Fault::NoIds,
        Fault::SameIds,
        Fault::SameIndex,
        Fault::NoDoneEvent,
        Fault::NotStreamed,
        Fault::StaleConnection,
        Fault::StayOpen,
    ]
}

/// The number of retries after an error.
fn retries(kind: ModelErrorKind) -> usize {
    use ModelErrorKind::{Malformed, Network, Overloaded, RateLimit, Server, Timeout};
    if matches!(kind, Malformed | Network | Overloaded | RateLimit | Server | Timeout) { 2 } else { 0 }
}

#[tokio::test(start_paused = true)]
async fn a_permanent_fault_ends_the_run_with_its_kind_and_the_partial_result() {
    for (fault, model, stream) in every_fault() {
        let kind = match effect(&fault) {
            Effect::Failure(kind) => kind,
            Effect::NewConnection => ModelErrorKind::Network,
            Effect::Nothing => continue,
        };
        let fails = || model.looks(&["b", "c"]).with(fault.clone());
        let turns = [model.looks(&["a"]), fails(), fails(), fails(), fails(), fails()];
        let outcome = Trial::new(model, turns).streaming(stream).run(&format!("{fault:?} permanent")).await;
        let TrialOutcome { name, result, .. } = &outcome;
        let RunEnd::ModelFailed(error) = &result.stop else { panic!("{name}: {:?}", result.stop) };
        assert_eq!(error.kind, kind, "{name}: {error}");
        assert_eq!((result.final_response.as_deref(), result.limit_reached), (None, false), "{name}");
        assert_eq!((result.turns, result.usage.input_tokens, result.usage.output_tokens), (1, 10, 5), "{name}");
        assert_eq!((result.trace_messages.len(), outcome.results().len()), (2, 1), "{name}");
        assert!(!outcome.results()[0].tool_result.as_ref().unwrap().is_error, "{name}");
        assert_eq!(outcome.events("finished")[0]["error"]["kind"], json!(kind), "{name}");
        let delays: Vec<u64> =
            outcome.events("retry").iter().map(|event| event["delay_ms"].as_u64().unwrap()).collect();
        // With 25% jitter.
        let fits = delays.iter().zip([1500..=2500, 3000..=5000]).all(|(delay, pause)| pause.contains(delay));
        assert!(delays.len() == retries(kind) && fits, "{name}: retried after {delays:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_transient_fault_is_retried_and_a_permanent_one_ends_the_run() {
    for (fault, model, stream) in every_fault() {
        let ids = ["b", "c"];
        let fails = model.looks(&ids).with(fault.clone());
        let good = match effect(&fault) {
            Effect::Nothing => vec![model.says("found")],
            Effect::Failure(_) | Effect::NewConnection => vec![model.looks(&ids), model.says("found")],
        };
        let turns = [model.looks(&["a"]), fails].into_iter().chain(good);
        let outcome = Trial::new(model, turns).streaming(stream).run(&format!("{fault:?} once")).await;
        let TrialOutcome { name, result, fake, .. } = &outcome;
        let retries = match effect(&fault) {
            Effect::Failure(kind) if retries(kind) == 0 => {
                assert!(matches!(&result.stop, RunEnd::ModelFailed(error) if error.kind == kind), "{name}");
                assert_eq!((fake.requests().len(), outcome.events("retry").len()), (2, 0), "{name}");
                continue;
            }
            Effect::Failure(_) => 1,
            Effect::NewConnection | Effect::Nothing => 0,
        };
        assert_eq!((&result.stop, result.final_response.as_deref()), (&RunEnd::Completed, Some("found")), "{name}");
        assert_eq!((outcome.events("retry").len(), fake.remaining_turns()), (retries, 0), "{name}");
        assert_eq!((result.turns, outcome.results().len()), (3, 1 + model.call_count(&ids)), "{name}");
        assert_eq!((result.usage.input_tokens, result.usage.output_tokens), (30, 15), "{name}");
        assert!(outcome.results().iter().all(|one| !one.tool_result.as_ref().unwrap().is_error), "{name}");
    }
}

fn every_fault() -> impl Iterator<Item = (Fault, TestModel, bool)> {
    let variants = || all_models().flat_map(|model| [true, false].map(|stream| (model, stream)));
    faults().into_iter().flat_map(move |fault| variants().map(move |(model, stream)| (fault.clone(), model, stream)))
}
