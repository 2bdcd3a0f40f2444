//! Every failure of a provider is an error of the right kind, within its timeout.

use std::time::Duration;

use tokio::time::Instant;
use wharf_agent::models::{Endpoint, ProviderTimeouts};
use wharf_agent::{ModelError, ModelErrorKind};
use wharf_io::{DialTo, HttpClient, HttpSettings};
use wharf_protocol::Secret;
use wharf_testkit::eventually;
use wharf_testkit::models::{FakeModels, Fault, Turn};

use super::kit::{ALL, Adapter, KEY, TestRequest, endpoint, in_memory};

async fn failed(adapter: Adapter, stream: bool, turn: Turn) -> ModelError {
    let fake = FakeModels::new([turn]);
    let model = adapter.model(&fake);
    eventually(TestRequest::new("?").streaming(stream).complete(&*model)).await.unwrap_err()
}

#[tokio::test(start_paused = true)]
async fn every_fault_has_its_error_kind_on_every_adapter() {
    use ModelErrorKind::{
        Auth, ContextTooLong, Invalid, Malformed, Network, Overloaded, Quota, RateLimit, Refused, Server, WrongUrl,
    };
    let status = |status: u16, kind: &str, message: &str| {
        Turn::status(status, &[], format!(r#"{{"type":"error","error":{{"type":"{kind}","message":"{message}"}}}}"#))
    };
    let event = |kind: &str, message: &str| Turn::fault(Fault::ErrorEvent(kind.to_owned(), message.to_owned()));
    let cases = [
        (Turn::fault(Fault::CutMidEvent), Network),
        (Turn::fault(Fault::EndEarly), Network),
        (Turn::fault(Fault::HangUp), Network),
        (Turn::fault(Fault::HangBeforeHead), ModelErrorKind::Timeout),
        (Turn::fault(Fault::HangAfterHead), ModelErrorKind::Timeout),
        (Turn::fault(Fault::HangMidway), ModelErrorKind::Timeout),
        (Turn::fault(Fault::Garbage), Malformed),
        (event("overloaded_error", "Overloaded"), Overloaded),
        (event("rate_limit_error", "slow down"), RateLimit),
        (event("api_error", "oh no"), Server),
        (event("invalid_request_error", "prompt is too long: 9 tokens > 8 maximum"), ContextTooLong),
        (status(400, "invalid_request_error", "prompt is too long: 9 tokens > 8 maximum"), ContextTooLong),
        (status(400, "invalid_request_error", "This model's maximum context length is 8 tokens."), ContextTooLong),
        (status(413, "request_too_large", "no"), ContextTooLong),
        (status(400, "invalid_request_error", "no such field"), Invalid),
        (status(404, "not_found_error", "model: fake-1"), Invalid),
        (status(401, "authentication_error", "invalid x-api-key"), Auth),
        (status(403, "permission_error", "no"), Auth),
        (status(402, "billing_error", "no"), Quota),
        (status(429, "insufficient_quota", "You exceeded your current quota"), Quota),
        (status(400, "invalid_request_error", "Your credit balance is too low"), Quota),
        (event("insufficient_quota", "You exceeded your current quota"), Quota),
        (Turn::status(404, &[], "404 page not found"), WrongUrl),
        (Turn::status(404, &[], r#"{"detail":"Not Found"}"#), WrongUrl),
        (Turn::status(405, &[], r#"{"detail":"Method Not Allowed"}"#), WrongUrl),
        (Turn::status(404, &[("content-type", "text/html")], "<html><title>404</title>"), WrongUrl),
        (Turn::status(200, &[("content-type", "text/html")], "<!doctype html><title>Chat</title>"), WrongUrl),
        (Turn::status(403, &[("content-type", "text/html")], "<html><title>Sign in</title>"), Auth),
        (status(429, "rate_limit_error", "slow down"), RateLimit),
        (status(500, "api_error", "oh no"), Server),
        (status(529, "overloaded_error", "Overloaded"), Overloaded),
        (status(503, "", "no slot"), Overloaded),
        (status(400, "content_policy_violation", "no"), Refused),
        (Turn::status(502, &[], "<html><h1>Bad   Gateway</h1>"), Server),
        (Turn::status(500, &[], ""), Server),
    ];
    for (turn, expected) in cases {
        for adapter in ALL {
            for stream in [true, false] {
                let error = failed(adapter, stream, turn.clone()).await;
                assert_eq!(error.kind, expected, "{adapter:?}, stream: {stream}, {turn:?}: {error}");
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn errors_contain_the_message_the_status_and_the_url() {
    let error = failed(ALL[0], true, Turn::status(502, &[], "<html><h1>Bad   Gateway</h1>")).await;
    let page = "the response is a web page: Bad Gateway";
    assert_eq!(error.to_string(), format!("server error: {page} (HTTP 502 from http://provider.test)"));
    let error = failed(ALL[1], true, Turn::status(500, &[], "")).await;
    assert_eq!(error.to_string(), "server error: Internal Server Error (HTTP 500 from http://provider.test/v1)");
    let raw = r#"{"error":{"message":"Provider returned error","code":429,"metadata":{"raw":"busy, retry in 3s"}}}"#;
    let error = failed(ALL[2], false, Turn::status(429, &[], raw)).await;
    assert_eq!(
        error.to_string(),
        "rate limit: Provider returned error: busy, retry in 3s (HTTP 429 from http://provider.test/v1)"
    );
    let page = failed(ALL[1], true, Turn::status(200, &[], "<html><title>Open WebUI</title>")).await;
    assert_eq!(
        page.to_string(),
        "wrong URL: the response is a web page: Open WebUI (HTTP 200 from http://provider.test/v1)"
    );
    assert_eq!(error.retry_after, Some(Duration::from_secs(3)));
}

#[tokio::test(start_paused = true)]
async fn an_error_in_a_successful_response_is_an_error_with_its_code() {
    for body in [
        r#"{"error":{"code":502,"message":"upstream"}}"#,
        r#"{"choices":[{"index":0,"message":{"role":"assistant","content":""},"error":{"code":502,"message":"upstream"}}]}"#,
    ] {
        let error = failed(ALL[2], false, Turn::status(200, &[], body)).await;
        assert_eq!((error.kind, error.status), (ModelErrorKind::Server, Some(502)), "{body}");
    }
    let empty = failed(ALL[1], false, Turn::status(200, &[], r#"{"choices":[]}"#)).await;
    assert_eq!(empty.kind, ModelErrorKind::Malformed);
    let empty = failed(ALL[0], false, Turn::status(200, &[], "{}")).await;
    assert_eq!(empty.kind, ModelErrorKind::Malformed);
}

#[tokio::test(start_paused = true)]
async fn the_retry_delay_is_read_from_headers_and_messages() {
    let date = ("date", "Mon, 16 Nov 2026 10:00:00 GMT");
    let body = r#"{"error":{"message":"Please try again in 250ms."}}"#;
    let cases = [
        (vec![("retry-after", "7")], "{}", 7_000),
        (vec![("retry-after-ms", "1500"), ("retry-after", "2")], "{}", 1_500),
        (vec![("retry-after", "Mon, 16 Nov 2026 10:00:30 GMT"), date], "{}", 30_000),
        (vec![], body, 250),
    ];
    for adapter in ALL {
        for (headers, body, millis) in &cases {
            let error = failed(adapter, true, Turn::status(429, headers, *body)).await;
            assert_eq!(error.retry_after, Some(Duration::from_millis(*millis)), "{adapter:?} {headers:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_silent_provider_runs_into_the_timeouts() {
    let timeouts = ProviderTimeouts {
        first_byte: Duration::from_secs(20),
        idle: Duration::from_secs(5),
        total: Duration::from_secs(60),
    };
    for adapter in ALL {
        let faults =
            [(Fault::HangBeforeHead, 20), (Fault::HangAfterHead, 20), (Fault::HangMidway, 5), (Fault::Drip, 60)];
        for (fault, seconds) in faults {
            for stream in [true, false] {
                let fake = FakeModels::new([Turn::fault(fault.clone())]);
                let model = adapter.at(endpoint(&fake).with_timeouts(timeouts));
                let start = Instant::now();
                let error = eventually(TestRequest::new("?").streaming(stream).complete(&*model)).await.unwrap_err();
                assert_eq!(error.kind, ModelErrorKind::Timeout, "{adapter:?} {fault:?} {error}");
                let duration = start.elapsed();
                assert!(
                    duration >= Duration::from_secs(seconds) && duration < Duration::from_secs(seconds + 1),
                    "{duration:?}"
                );
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn an_unreachable_provider_is_a_network_error() {
    let refuses = HttpSettings::default().dialing(|_: DialTo| async {
        Err(std::io::Error::new(std::io::ErrorKind::ConnectionRefused, "connection refused"))
    });
    let never = HttpSettings::default().dialing(|_: DialTo| std::future::pending());
    for settings in [refuses, never] {
        let endpoint = Endpoint::new("http://provider.test", None, HttpClient::new(settings).unwrap()).unwrap();
        for adapter in ALL {
            let model = adapter.at(endpoint.clone());
            let error = eventually(TestRequest::new("?").complete(&*model)).await.unwrap_err();
            assert_eq!(error.kind, ModelErrorKind::Network, "{error}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn an_api_key_is_sent_and_never_shown() {
    for adapter in ALL {
        let echo = format!(r#"{{"error":{{"message":"Incorrect API key provided: {KEY}"}}}}"#);
        let fake = FakeModels::new([Turn::status(401, &[], echo), Turn::text("hi")]);
        let endpoint = endpoint(&fake).with_header("x-project", Secret::new("hidden-project")).unwrap();
        let debug = format!("{endpoint:?}");
        let model = adapter.at(endpoint);
        let error = eventually(TestRequest::new("?").complete(&*model)).await.unwrap_err();
        let shown = format!("{debug} {error} {error:?} {}", serde_json::to_string(&error).unwrap());
        assert!(!shown.contains(KEY) && !shown.contains("hidden-project"), "{shown}");
        let headers = &fake.requests()[0].headers;
        match adapter {
            Adapter::Anthropic => assert_eq!(headers["x-api-key"], KEY),
            Adapter::OpenAi(_) => assert_eq!(headers["authorization"], format!("Bearer {KEY}").as_str()),
        }
        assert_eq!(headers["x-project"], "hidden-project");
    }
}

#[tokio::test(start_paused = true)]
async fn one_connection_is_used_for_all_requests() {
    for adapter in ALL {
        let error = Turn::status(429, &[], r#"{"error":{"message":"slow down"}}"#);
        let fake = FakeModels::new([Turn::text("a"), Turn::text("b"), error, Turn::text("c")]);
        let http = in_memory(&fake);
        let model = adapter.at(Endpoint::new("http://provider.test/v1", None, http.clone()).unwrap());
        for stream in [true, false, true, true] {
            let _ = eventually(TestRequest::new("?").streaming(stream).complete(&*model)).await;
        }
        assert_eq!((fake.remaining_turns(), http.connections_opened()), (0, 1), "{adapter:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_stale_connection_is_replaced() {
    for adapter in ALL {
        let fake = FakeModels::new([Turn::text("a").with(Fault::StaleConnection), Turn::text("b")]);
        let http = in_memory(&fake);
        let model = adapter.at(Endpoint::new("http://provider.test/v1", None, http.clone()).unwrap());
        for expected in ["a", "b"] {
            let (answer, _) = eventually(TestRequest::new("?").complete(&*model)).await.unwrap();
            assert_eq!(answer.message.plain_text(), expected);
        }
        assert_eq!((fake.requests().len(), http.connections_opened()), (2, 2), "{adapter:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_new_connection_that_breaks_is_not_retried() {
    let fake = FakeModels::new([Turn::fault(Fault::HangUp), Turn::text("b")]);
    let error = eventually(TestRequest::new("?").complete(&*ALL[0].model(&fake))).await.unwrap_err();
    assert_eq!((error.kind, fake.remaining_turns()), (ModelErrorKind::Network, 1));
}

#[tokio::test(start_paused = true)]
async fn a_stream_that_stays_open_does_not_delay_the_response() {
    for adapter in ALL {
        let fake = FakeModels::new([Turn::text("so").with(Fault::StayOpen)]);
        let start = Instant::now();
        let (answer, _) = eventually(TestRequest::new("?").complete(&*adapter.model(&fake))).await.unwrap();
        assert_eq!(answer.message.plain_text(), "so");
        assert!(start.elapsed() < Duration::from_millis(200), "{:?}", start.elapsed());
    }
}

#[tokio::test(start_paused = true)]
async fn a_dropped_request_closes_its_connection() {
    let fake = FakeModels::new([Turn::fault(Fault::HangMidway), Turn::text("again")]);
    let model = ALL[0].model(&fake);
    let request = TestRequest::new("?");
    assert!(tokio::time::timeout(Duration::from_secs(1), request.complete(&*model)).await.is_err());
    let (answer, _) = eventually(request.complete(&*model)).await.unwrap();
    assert_eq!(answer.message.plain_text(), "again");
}
