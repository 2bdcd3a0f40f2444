//! Each fault, in the second answer of a run: for good, or once.

use serde_json::json;
use wharf_agent::{ModelErrorKind, RunEnd};
use wharf_testkit::models::Fault;

use super::{Came, Trial, Who, everybody};

/// What a run makes of a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Makes {
    /// The model fails, for good or until it is asked again.
    Failure(ModelErrorKind),
    /// The connection is made anew, and nobody hears of it but once.
    NewConnection,
    /// Nothing: the answer is as good as any.
    Nothing,
}

/// Every fault there is; one that is added has to say here what becomes of it.
fn makes(fault: &Fault) -> Makes {
    use ModelErrorKind::{
        Auth, ContextTooLong, Invalid, Malformed, Network, Overloaded, RateLimit, Refused, Server, Timeout,
    };
    match fault {
        Fault::Status(401, ..) => Makes::Failure(Auth),
        Fault::Status(413, ..) => Makes::Failure(ContextTooLong),
        Fault::Status(429, ..) => Makes::Failure(RateLimit),
        Fault::Status(503 | 529, ..) => Makes::Failure(Overloaded),
        Fault::Status(400, _, body) if body.contains("policy") => Makes::Failure(Refused),
        Fault::Status(400, ..) => Makes::Failure(Invalid),
        Fault::Status(..) => Makes::Failure(Server),
        Fault::ErrorEvent(kind, _) if kind == "overloaded_error" => Makes::Failure(Overloaded),
        Fault::ErrorEvent(..) => Makes::Failure(ContextTooLong),
        Fault::HangBeforeHead | Fault::HangMidway | Fault::Drip => Makes::Failure(Timeout),
        Fault::CutMidEvent | Fault::EndEarly => Makes::Failure(Network),
        Fault::Garbage => Makes::Failure(Malformed),
        Fault::HangUp => Makes::NewConnection,
        Fault::NoMessageStart
        | Fault::NoInputTokens
        | Fault::NoIds
        | Fault::SameIds
        | Fault::SameIndex
        | Fault::NoDoneEvent
        | Fault::NotStreamed
        | Fault::StaleConnection
        | Fault::StayOpen => Makes::Nothing,
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
        status(413, "request_too_large"),
        status(429, "rate_limit_error"),
        status(500, "api_error"),
        status(529, "overloaded_error"),
        Fault::ErrorEvent("overloaded_error".to_owned(), "Overloaded".to_owned()),
        Fault::ErrorEvent("invalid_request_error".to_owned(), "prompt is too long".to_owned()),
        Fault::HangBeforeHead,
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

/// How often a failure is tried again.
fn retries(kind: ModelErrorKind) -> usize {
    use ModelErrorKind::{Malformed, Network, Overloaded, RateLimit, Server, Timeout};
    if matches!(kind, Malformed | Network | Overloaded | RateLimit | Server | Timeout) { 2 } else { 0 }
}

#[tokio::test(start_paused = true)]
async fn a_fault_that_stays_ends_the_run_with_its_kind_and_all_that_went_well_before() {
    for (fault, who, stream) in every_fault() {
        let kind = match makes(&fault) {
            Makes::Failure(kind) => kind,
            Makes::NewConnection => ModelErrorKind::Network,
            Makes::Nothing => continue,
        };
        let fails = || who.looks(&["b", "c"]).with(fault.clone());
        let turns = [who.looks(&["a"]), fails(), fails(), fails(), fails(), fails()];
        let came = Trial::new(who, turns).streaming(stream).run(&format!("{fault:?} stays")).await;
        let Came { name, result, .. } = &came;
        let RunEnd::ModelFailed(error) = &result.stop else { panic!("{name}: {:?}", result.stop) };
        assert_eq!(error.kind, kind, "{name}: {error}");
        assert_eq!((result.final_response.as_deref(), result.limit_reached), (None, false), "{name}");
        assert_eq!((result.turns, result.usage.input_tokens, result.usage.output_tokens), (1, 10, 5), "{name}");
        assert_eq!((result.trace_messages.len(), came.results().len()), (2, 1), "{name}");
        assert!(!came.results()[0].tool_result.as_ref().unwrap().is_error, "{name}");
        assert_eq!(came.events("finished")[0]["error"]["kind"], json!(kind), "{name}");
        let delays: Vec<u64> = came.events("retry").iter().map(|event| event["delay_ms"].as_u64().unwrap()).collect();
        // By a quarter more or less.
        let fits = delays.iter().zip([1500..=2500, 3000..=5000]).all(|(delay, pause)| pause.contains(delay));
        assert!(delays.len() == retries(kind) && fits, "{name}: it was asked again after {delays:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_fault_that_passes_is_asked_again_or_not_noticed_and_one_that_cannot_pass_ends_the_run() {
    for (fault, who, stream) in every_fault() {
        let ids = ["b", "c"];
        let fails = who.looks(&ids).with(fault.clone());
        let good = match makes(&fault) {
            Makes::Nothing => vec![who.says("found")],
            Makes::Failure(_) | Makes::NewConnection => vec![who.looks(&ids), who.says("found")],
        };
        let turns = [who.looks(&["a"]), fails].into_iter().chain(good);
        let came = Trial::new(who, turns).streaming(stream).run(&format!("{fault:?} once")).await;
        let Came { name, result, fake, .. } = &came;
        let again = match makes(&fault) {
            Makes::Failure(kind) if retries(kind) == 0 => {
                assert!(matches!(&result.stop, RunEnd::ModelFailed(error) if error.kind == kind), "{name}");
                assert_eq!((fake.requests().len(), came.events("retry").len()), (2, 0), "{name}");
                continue;
            }
            Makes::Failure(_) => 1,
            Makes::NewConnection | Makes::Nothing => 0,
        };
        assert_eq!((&result.stop, result.final_response.as_deref()), (&RunEnd::Completed, Some("found")), "{name}");
        assert_eq!((came.events("retry").len(), fake.remaining_turns()), (again, 0), "{name}");
        assert_eq!((result.turns, came.results().len()), (3, 1 + who.of(&ids)), "{name}");
        assert_eq!((result.usage.input_tokens, result.usage.output_tokens), (30, 15), "{name}");
        assert!(came.results().iter().all(|one| !one.tool_result.as_ref().unwrap().is_error), "{name}");
    }
}

fn every_fault() -> impl Iterator<Item = (Fault, Who, bool)> {
    let ways = || everybody().flat_map(|who| [true, false].map(|stream| (who, stream)));
    faults().into_iter().flat_map(move |fault| ways().map(move |(who, stream)| (fault.clone(), who, stream)))
}
