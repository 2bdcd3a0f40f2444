//! Servers that send what they should not. Every case ends in an answer or a typed error, and the connection lives on.

use serde_json::json;
use tokio::time::Instant;
use wharf_client::Session;
use wharf_testkit::{Script, Step, eventually};

use crate::{in_memory, json, none, settle, told};

const OK: &str = r#"{"jsonrpc":"2.0","id":{id},"result":{"content":[{"type":"text","text":"ok"}]}}"#;

fn line(text: &str) -> Step {
    Step::Line(text.to_owned())
}

/// Calls a tool that does `steps`, and then checks that the connection is as good as before.
async fn call(steps: impl Into<Vec<Step>>) -> (String, Session) {
    let (session, server) = in_memory(Script::good().any_tool("evil").on_call("evil", steps));
    let answer = told(eventually(session.call("evil", &none())).await);
    assert_eq!(told(eventually(session.call("echo", &json(json!({"text": "alive"})))).await), "alive");
    assert_eq!(server.connections(), 1, "the connection was lost");
    (answer, session)
}

#[tokio::test(start_paused = true)]
async fn noise_between_messages_is_skipped_and_counted() {
    let noise = "Server ready!\r\n\r\n[12:00] info: [x]\n{not json}\n\u{feff}\n\t\n";
    let (answer, session) = call([Step::Bytes(noise.into()), line(&format!("\u{feff}{OK}\r"))]).await;
    assert_eq!(answer, "ok");
    assert_eq!((session.health().noise, session.health().violations), (3, 0));
}

#[tokio::test(start_paused = true)]
async fn repeated_unknown_and_late_answers_are_counted_and_reach_nobody() {
    let unknown = r#"{"jsonrpc":"2.0","id":987654,"result":{"content":[]}}"#;
    let foreign = r#"{"jsonrpc":"2.0","id":"who","result":{}}"#;
    let (answer, session) = call([line(unknown), line(foreign), line(OK), line(OK), line(OK)]).await;
    assert_eq!(answer, "ok");
    assert_eq!(session.health().stray_answers, 3);
}

#[tokio::test(start_paused = true)]
async fn an_id_that_comes_back_as_text_or_with_a_fraction_still_finds_its_call() {
    for id in ["\"{id}\"", "{id}.0"] {
        let (answer, session) = call([line(&OK.replace("{id}", id))]).await;
        assert_eq!((answer.as_str(), session.health().violations), ("ok", 1), "{id}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_batch_is_taken_apart() {
    let progress =
        r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":{id},"progress":1}}"#;
    let (answer, session) = call([line(&format!("[{progress},{OK}]"))]).await;
    assert_eq!((answer.as_str(), session.health().violations), ("ok", 0));
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_is_broken_fails_its_call_at_once() {
    let deep = "[".repeat(5_000);
    let cases = [
        (line(r#"{"jsonrpc":"2.0","id":{id},"result":{},"error":{}}"#), "it has both a result and an error"),
        (line(r#"{"jsonrpc":"2.0","id":{id}}"#), "it has neither a result nor an error"),
        (line(r#"{"jsonrpc":"2.0","id":{id},"result":{"#), "EOF while parsing"),
        (line(r#"{"jsonrpc":"2.0","id":{id},"id":{id},"result":{}}"#), "duplicate field `id`"),
        (line(&format!(r#"{{"jsonrpc":"2.0","id":{{id}},"result":{deep}}}"#)), "expected value"),
        (line("{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":{\"a\":\"\0\"}}"), "control character"),
        (line(r#"{"jsonrpc":"2.0","id":{id},"result":7}"#), "the result is a number, not an object"),
        (line(r#"{"jsonrpc":"2.0","id":{id},"result":null}"#), "it has neither a result nor an error"),
        (line(r#"{"result":{"x":tru},"id":{id}}"#), "expected"),
    ];
    for (step, reason) in cases {
        let began = Instant::now();
        let (answer, _session) = call([step]).await;
        assert!(answer.starts_with("scripted: the server's answer is malformed: "), "{answer}");
        assert!(answer.contains(reason), "{answer} should say: {reason}");
        assert_eq!(began.elapsed().as_millis(), 0, "{reason}");
    }
}

#[tokio::test(start_paused = true)]
async fn bytes_that_are_no_text_fail_their_call_at_once() {
    // The id of the first call after the handshake is 2.
    let bytes =
        b"{\"jsonrpc\":\"2.0\",\"id\":2,\"result\":{\"content\":[{\"type\":\"text\",\"text\":\"\xff\xfe\"}]}}\n";
    let began = Instant::now();
    let (answer, _session) = call([Step::Bytes(bytes.to_vec())]).await;
    assert_eq!(answer, "scripted: the server's answer is malformed: it is not UTF-8 at byte 68");
    assert_eq!(began.elapsed().as_millis(), 0);
}

#[tokio::test(start_paused = true)]
async fn half_a_surrogate_pair_spoils_its_block_and_nothing_else() {
    let text = r#"{"jsonrpc":"2.0","id":{id},"result":{"content":[{"type":"text","text":"\ud800"},{"type":"text","text":"ok"}]}}"#;
    let (answer, _session) = call([line(text)]).await;
    assert!(answer.starts_with("[a block that `text` cannot be read") && answer.ends_with("\nok"), "{answer}");
}

#[tokio::test(start_paused = true)]
async fn huge_numbers_and_deep_values_inside_a_result_are_kept_as_they_are() {
    let deep = format!("{}{}", "[".repeat(4_000), "]".repeat(4_000));
    let text = format!(
        r#"{{"jsonrpc":"2.0","id":{{id}},"result":{{"content":[],"structuredContent":{{"n":1e99999,"d":{deep}}}}}}}"#
    );
    let (answer, _session) = call([line(&text)]).await;
    assert_eq!(answer, format!(r#"{{"n":1e99999,"d":{deep}}}"#));
}

#[tokio::test(start_paused = true)]
async fn a_line_past_the_bound_fails_its_call_and_the_next_line_is_read() {
    let before = r#"{"jsonrpc":"2.0","id":{id},"result":{"content":[{"type":"text","text":""#;
    let (answer, _session) = call([Step::Flood(before.into(), 40 * 1024 * 1024, "\"}]}}\n".into())]).await;
    assert_eq!(answer, "scripted: the server's answer is malformed: it is longer than 32 MiB");
    // The id stands at the end.
    let after = "\"}]},\"id\":{id}}\n";
    let before = r#"{"jsonrpc":"2.0","result":{"content":[{"type":"text","text":""#;
    let (answer, _session) = call([Step::Flood(before.into(), 40 * 1024 * 1024, after.into())]).await;
    assert_eq!(answer, "scripted: the server's answer is malformed: it is longer than 32 MiB");
}

#[tokio::test(start_paused = true)]
async fn twenty_megabytes_are_an_answer_like_any_other() {
    let before = r#"{"jsonrpc":"2.0","id":{id},"result":{"content":[{"type":"text","text":""#;
    let (answer, _session) = call([Step::Flood(before.into(), 20_000_000, "\"}]}}\n".into())]).await;
    assert_eq!(answer.len(), 20_000_000);
}

#[tokio::test(start_paused = true)]
async fn an_error_without_an_id_does_not_spoil_an_answer_that_comes_after_it() {
    let complaint = line(r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"what?"}}"#);
    let (answer, _session) = call([complaint, Step::Wait(4_000), line(OK)]).await;
    assert_eq!(answer, "ok");
}

#[tokio::test(start_paused = true)]
async fn an_error_without_an_id_releases_the_call_if_nothing_comes_after_it() {
    for complaint in [
        r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"what?"}}"#,
        r#"{"jsonrpc":"2.0","error":{"code":-32600,"message":"what?"}}"#,
    ] {
        let began = Instant::now();
        let (answer, _session) = call([line(complaint), Step::Hang]).await;
        let expected = "scripted: the server's answer is malformed: without naming a request the server sent error -32600: what?, and then nothing";
        assert_eq!(answer, expected);
        assert_eq!(began.elapsed().as_secs(), 5);
    }
}

#[tokio::test(start_paused = true)]
async fn a_slow_drip_of_single_bytes_is_an_answer() {
    let drip = OK.replace("{id}", "2").into_bytes().into_iter();
    let mut steps: Vec<Step> = drip.flat_map(|byte| [Step::Bytes(vec![byte]), Step::Wait(1_000)]).collect();
    steps.push(Step::Bytes(b"\n".to_vec()));
    assert_eq!(call(steps).await.0, "ok");
}

#[tokio::test(start_paused = true)]
async fn a_result_that_also_looks_like_something_else_is_read_as_what_was_asked_for() {
    let text = r#"{"jsonrpc":"2.0","id":{id},"result":{"content":[{"type":"text","text":"ok"}],"tools":[],"messages":[],"contents":[]}}"#;
    assert_eq!(call([line(text)]).await.0, "ok");
}

#[tokio::test(start_paused = true)]
async fn twenty_thousand_pings_do_not_hold_up_an_answer() {
    let ping = "{\"jsonrpc\":\"2.0\",\"id\":\"p\",\"method\":\"ping\"}\n".repeat(20_000);
    let (answer, _session) = call([Step::Bytes(ping.into_bytes()), line(OK)]).await;
    assert_eq!(answer, "ok");
}

#[tokio::test(start_paused = true)]
async fn an_error_of_the_protocol_keeps_its_code_words_and_data() {
    let text = r#"{"jsonrpc":"2.0","id":{id},"error":{"code":-32001,"message":"busy","data":{"k": 1.0}}}"#;
    let (session, _server) = in_memory(Script::good().any_tool("evil").on_call("evil", [line(text)]));
    let error = eventually(session.call("evil", &none())).await.unwrap_err();
    let wharf_client::CallErrorKind::Server { code, message, data } = error.kind else { panic!("{error}") };
    assert_eq!((code, message.as_str(), data.unwrap().as_str()), (-32001, "busy", r#"{"k": 1.0}"#));
}

#[tokio::test(start_paused = true)]
async fn a_server_that_reads_nothing_holds_up_only_its_own_callers_and_not_for_ever() {
    let (stuck, _server) = in_memory(Script::good().any_tool("deaf").on_call("deaf", [Step::StopReading]));
    let (other, _other) = in_memory(Script::good());
    let (nothing, big) = (none(), json(json!({"text": "x".repeat(1_000_000)})));
    let began = Instant::now();
    let later = async {
        settle().await;
        tokio::join!(stuck.call("echo", &big), stuck.call("echo", &big))
    };
    let calls = async { tokio::join!(stuck.call("deaf", &nothing), later) };
    let healthy = async {
        for n in 0..100 {
            assert_eq!(told(other.call("add", &json(json!({"a": n, "b": 1}))).await), (n + 1).to_string());
        }
        began.elapsed()
    };
    let ((_, (one, two)), healthy) = eventually(Box::pin(async { tokio::join!(calls, healthy) })).await;
    assert_eq!(healthy.as_millis(), 0);
    for result in [one, two] {
        let answer = told(result);
        assert!(answer.starts_with("scripted: the server has not read its input for 60 s"), "{answer}");
    }
    assert!(began.elapsed().as_secs() <= 62, "{:?}", began.elapsed());
}
