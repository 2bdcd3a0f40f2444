//! Servers that violate the protocol. Every case ends in an answer or a typed error, and the connection survives.

use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::time::Instant;
use wharf_client::{CallOptions, InProcess, NoHost, Session};
use wharf_testkit::{Script, Scripted, Step, eventually};

use crate::{in_memory, json, legacy, none, result_text, settle, with_shared_host};

const OK: &str = r#"{"jsonrpc":"2.0","id":{id},"result":{"content":[{"type":"text","text":"ok"}]}}"#;

fn line(text: &str) -> Step {
    Step::Line(text.to_owned())
}

/// Calls a tool that performs `steps`, and then checks that the connection still works.
async fn call(steps: impl Into<Vec<Step>>) -> (String, Session) {
    let (session, server) = in_memory(Script::good().any_tool("evil").on_call("evil", steps));
    let answer = result_text(eventually(session.call("evil", &none())).await);
    assert_eq!(result_text(eventually(session.call("echo", &json(json!({"text": "alive"})))).await), "alive");
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
async fn repeated_unknown_and_late_answers_are_counted_and_ignored() {
    let unknown = r#"{"jsonrpc":"2.0","id":987654,"result":{"content":[]}}"#;
    let foreign = r#"{"jsonrpc":"2.0","id":"who","result":{}}"#;
    let (answer, session) = call([line(unknown), line(foreign), line(OK), line(OK), line(OK)]).await;
    assert_eq!(answer, "ok");
    assert_eq!(session.health().stray_answers, 3);
}

#[tokio::test(start_paused = true)]
async fn an_id_returned_as_a_string_or_with_a_fraction_is_matched() {
    for id in ["\"{id}\"", "{id}.0"] {
        let (answer, session) = call([line(&OK.replace("{id}", id))]).await;
        assert_eq!((answer.as_str(), session.health().violations), ("ok", 1), "{id}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_batch_is_split_into_its_messages() {
    let progress =
        r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":{id},"progress":1}}"#;
    let (answer, session) = call([line(&format!("[{progress},{OK}]"))]).await;
    assert_eq!((answer.as_str(), session.health().violations), ("ok", 0));
}

#[tokio::test(start_paused = true)]
async fn a_broken_answer_fails_its_call_immediately() {
    let deep = "[".repeat(5_000);
    let cases = [
        (line(r#"{"jsonrpc":"2.0","id":{id},"result":{},"error":{}}"#), "it has both a result and an error"),
        (line(r#"{"jsonrpc":"2.0","id":{id}}"#), "it has neither a result nor an error"),
        (line(r#"{"jsonrpc":"2.0","id":{id},"result":{"#), "EOF while parsing"),
        (line(r#"{"jsonrpc":"2.0","id":{id},"id":{id},"result":{}}"#), "duplicate field `id`"),
        (line(&format!(r#"{{"jsonrpc":"2.0","id":{{id}},"result":{deep}}}"#)), "expected value"),
        (line("{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":{\"a\":\"\0\"}}"), "control character"),
        (line(r#"{"jsonrpc":"2.0","id":{id},"result":7}"#), "the result is a number, not an object"),
        (line(r#"{"jsonrpc":"2.0","id":{id},"result":null}"#), "the result is null, not an object"),
        (line(r#"{"result":{"x":tru},"id":{id}}"#), "expected"),
    ];
    for (step, reason) in cases {
        let began = Instant::now();
        let (answer, _session) = call([step]).await;
        assert!(answer.starts_with("scripted: the server's response is malformed: "), "{answer}");
        assert!(answer.contains(reason), "{answer} should say: {reason}");
        assert_eq!(began.elapsed().as_millis(), 0, "{reason}");
    }
}

#[tokio::test(start_paused = true)]
async fn invalid_utf8_fails_its_call_immediately() {
    // The id of the first call after the handshake is 2.
    let bytes =
        b"{\"jsonrpc\":\"2.0\",\"id\":2,\"result\":{\"content\":[{\"type\":\"text\",\"text\":\"\xff\xfe\"}]}}\n";
    let began = Instant::now();
    let (answer, _session) = call([Step::Bytes(bytes.to_vec())]).await;
    assert_eq!(answer, "scripted: the server's response is malformed: it is not UTF-8 at byte 68");
    assert_eq!(began.elapsed().as_millis(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_lone_surrogate_breaks_only_its_block() {
    let text = r#"{"jsonrpc":"2.0","id":{id},"result":{"content":[{"type":"text","text":"\ud800"},{"type":"text","text":"ok"}]}}"#;
    let (answer, _session) = call([line(text)]).await;
    assert!(answer.starts_with("[unreadable block: `text` is invalid") && answer.ends_with("\nok"), "{answer}");
}

#[tokio::test(start_paused = true)]
async fn huge_numbers_and_deep_values_in_a_result_stay_unchanged() {
    let deep = format!("{}{}", "[".repeat(4_000), "]".repeat(4_000));
    let text = format!(
        r#"{{"jsonrpc":"2.0","id":{{id}},"result":{{"content":[],"structuredContent":{{"n":1e99999,"d":{deep}}}}}}}"#
    );
    let (answer, _session) = call([line(&text)]).await;
    assert_eq!(answer, format!(r#"{{"n":1e99999,"d":{deep}}}"#));
}

#[tokio::test(start_paused = true)]
async fn an_overlong_line_fails_its_call_and_the_next_line_is_read() {
    let before = r#"{"jsonrpc":"2.0","id":{id},"result":{"content":[{"type":"text","text":""#;
    let (answer, _session) = call([Step::Flood(before.into(), 40 * 1024 * 1024, "\"}]}}\n".into())]).await;
    assert_eq!(answer, "scripted: the server's response is malformed: it is longer than 32 MiB");
    // The id is at the end.
    let after = "\"}]},\"id\":{id}}\n";
    let before = r#"{"jsonrpc":"2.0","result":{"content":[{"type":"text","text":""#;
    let (answer, _session) = call([Step::Flood(before.into(), 40 * 1024 * 1024, after.into())]).await;
    assert_eq!(answer, "scripted: the server's response is malformed: it is longer than 32 MiB");
}

#[tokio::test(start_paused = true)]
async fn an_answer_of_twenty_megabytes_is_read() {
    let before = r#"{"jsonrpc":"2.0","id":{id},"result":{"content":[{"type":"text","text":""#;
    let (answer, _session) = call([Step::Flood(before.into(), 20_000_000, "\"}]}}\n".into())]).await;
    assert_eq!(answer.len(), 20_000_000);
}

#[tokio::test(start_paused = true)]
async fn an_error_without_an_id_does_not_affect_a_later_answer() {
    let complaint = line(r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"what?"}}"#);
    let (answer, _session) = call([complaint, Step::Wait(4_000), line(OK)]).await;
    assert_eq!(answer, "ok");
}

#[tokio::test(start_paused = true)]
async fn an_error_without_an_id_fails_the_call_if_nothing_follows() {
    for complaint in [
        r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"what?"}}"#,
        r#"{"jsonrpc":"2.0","error":{"code":-32600,"message":"what?"}}"#,
    ] {
        let began = Instant::now();
        let (answer, _session) = call([line(complaint), Step::Hang]).await;
        let expected = "scripted: the server sent error -32600: what? without a request id and then no response; \
            whether the call ran is unknown";
        assert_eq!(answer, expected);
        assert_eq!(began.elapsed().as_secs(), 5);
    }
}

#[tokio::test(start_paused = true)]
async fn an_answer_in_slow_single_bytes_is_read() {
    let drip = OK.replace("{id}", "2").into_bytes().into_iter();
    let mut steps: Vec<Step> = drip.flat_map(|byte| [Step::Bytes(vec![byte]), Step::Wait(1_000)]).collect();
    steps.push(Step::Bytes(b"\n".to_vec()));
    assert_eq!(call(steps).await.0, "ok");
}

#[tokio::test(start_paused = true)]
async fn a_result_that_resembles_another_message_is_read_as_the_answer() {
    let text = r#"{"jsonrpc":"2.0","id":{id},"result":{"content":[{"type":"text","text":"ok"}],"tools":[],"messages":[],"contents":[]}}"#;
    assert_eq!(call([line(text)]).await.0, "ok");
}

#[tokio::test(start_paused = true)]
async fn twenty_thousand_pings_do_not_delay_an_answer() {
    let ping = "{\"jsonrpc\":\"2.0\",\"id\":\"p\",\"method\":\"ping\"}\n".repeat(20_000);
    let (answer, _session) = call([Step::Bytes(ping.into_bytes()), line(OK)]).await;
    assert_eq!(answer, "ok");
}

#[tokio::test(start_paused = true)]
async fn a_protocol_error_keeps_its_code_message_and_data() {
    let text = r#"{"jsonrpc":"2.0","id":{id},"error":{"code":-32001,"message":"busy","data":{"k": 1.0}}}"#;
    let (session, _server) = in_memory(Script::good().any_tool("evil").on_call("evil", [line(text)]));
    let error = eventually(session.call("evil", &none())).await.unwrap_err();
    let wharf_client::CallErrorKind::Server { code, message, data } = error.kind else { panic!("{error}") };
    assert_eq!((code, message.as_str(), data.unwrap().as_str()), (-32001, "busy", r#"{"k": 1.0}"#));
}

#[tokio::test(start_paused = true)]
async fn a_server_that_reads_nothing_blocks_only_its_callers_and_only_until_the_deadline() {
    let (stuck, _server) = in_memory(Script::good().any_tool("deaf").on_call("deaf", [Step::StopReading]));
    let (other, _other) = in_memory(Script::good());
    let nothing = none();
    let big = json(json!({"text": "x".repeat(1_000_000)}));
    let began = Instant::now();
    let later = async {
        settle().await;
        tokio::join!(stuck.call("echo", &big), stuck.call("echo", &big))
    };
    let calls = async { tokio::join!(stuck.call("deaf", &nothing), later) };
    let healthy = async {
        for n in 0..100 {
            assert_eq!(result_text(other.call("add", &json(json!({"a": n, "b": 1}))).await), (n + 1).to_string());
        }
        began.elapsed()
    };
    let ((_, (one, two)), healthy) = eventually(Box::pin(async { tokio::join!(calls, healthy) })).await;
    assert_eq!(healthy.as_millis(), 0);
    for result in [one, two] {
        let answer = result_text(result);
        assert!(answer.starts_with("scripted: the server has not read its input for 60 s"), "{answer}");
    }
    assert!(began.elapsed().as_secs() <= 62, "{:?}", began.elapsed());
}

#[tokio::test(start_paused = true)]
async fn json_log_lines_are_noise() {
    let logs = r#"{"level":"info","msg":"working"}"#;
    let with_our_id = r#"{"id":{id},"level":"info","msg":"working"}"#;
    let (answer, session) = call([line(logs), line(with_our_id), Step::Wait(60_000), line(OK)]).await;
    assert_eq!(answer, "ok");
    assert_eq!((session.health().noise, session.health().violations), (2, 0));
    // Latin-1 in a log is not a broken message, and neither is a log that quotes a message.
    let latin = Step::Bytes(b"caf\xe9 is open\n".to_vec());
    let quoting = line(r#"[INFO] request {"jsonrpc":"2.0","id":{id}} took 3 ms"#);
    let failing = line(r#"{"level":"error","error":"refused"}"#);
    let (answer, session) = call([latin, quoting, failing, Step::Wait(60_000), line(OK)]).await;
    assert_eq!(answer, "ok");
    assert_eq!((session.health().noise, session.health().violations), (3, 0));
}

#[tokio::test(start_paused = true)]
async fn messages_that_share_a_line_with_others_or_noise_are_found() {
    let (answer, session) = call([line(&format!("Loading...{OK}"))]).await;
    assert_eq!((answer.as_str(), session.health().noise), ("ok", 1));
    let note = r#"{"jsonrpc":"2.0","method":"notifications/x"}"#;
    assert_eq!(call([line(&format!("{note}{OK}"))]).await.0, "ok");
    assert_eq!(call([line(&format!(r#"[{{"jsonrpc":"2.0","id":1,"id":1}},{OK}]"#))]).await.0, "ok");
}

#[tokio::test(start_paused = true)]
async fn an_endless_line_ends_the_connection() {
    let endless = Step::Flood(r#"{"result":{"text":""#.into(), 600 * 1024 * 1024, String::new());
    let (session, server) = in_memory(Script::good().any_tool("evil").on_call("evil", [endless, Step::Hang]));
    let error = eventually(session.call("evil", &none())).await.unwrap_err();
    assert!(error.to_string().contains("broke the connection (a line without end)"), "{error}");
    assert_eq!(result_text(eventually(session.call("echo", &json(json!({"text": "alive"})))).await), "alive");
    assert_eq!(server.connections(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_call_that_reports_progress_is_not_suspected() {
    let complaint = line(r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"what?"}}"#);
    let progress = Step::Progress(1.0, 2.0, String::new());
    let (answer, _session) = call([complaint, progress, Step::Wait(60_000), line(OK)]).await;
    assert_eq!(answer, "ok");
}

#[tokio::test(start_paused = true)]
async fn every_suspected_call_fails_whenever_it_started() {
    let complaint = line(r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"what?"}}"#);
    let script = Script::good().any_tool("evil").on_call("evil", [complaint, Step::Hang]);
    let (session, server) = in_memory(script);
    let nothing = none();
    let began = Instant::now();
    let later = async {
        tokio::time::sleep(std::time::Duration::from_secs(3)).await;
        session.call("evil", &nothing).await
    };
    let (one, two) = eventually(Box::pin(async { tokio::join!(session.call("evil", &nothing), later) })).await;
    assert!(
        result_text(one).contains("whether the call ran is unknown")
            && result_text(two).contains("whether the call ran is unknown")
    );
    assert_eq!(began.elapsed().as_secs(), 8);
    settle().await;
    assert_eq!(server.log().count("notifications/cancelled"), 2);
}

#[tokio::test(start_paused = true)]
async fn an_unreadable_request_of_the_server_is_not_mistaken_for_an_answer() {
    let request = r#"{"jsonrpc":"2.0","id":{id},"method":"sampling/createMessage","params":{"#;
    let (answer, session) = call([line(request), Step::Wait(60_000), line(OK)]).await;
    assert_eq!((answer.as_str(), session.health().violations), ("ok", 1));
    let flood =
        Step::Flood(r#"{"jsonrpc":"2.0","id":{id},"method":"x","params":""#.into(), 40 * 1024 * 1024, "\"}\n".into());
    let (answer, session) = call([flood, Step::Wait(60_000), line(OK)]).await;
    assert_eq!((answer.as_str(), session.health().violations), ("ok", 1));
}

#[tokio::test(start_paused = true)]
async fn arguments_with_line_breaks_are_sent_as_one_line() {
    let (session, server) = in_memory(Script::good());
    let pretty = wharf_protocol::Json::parse("{\n  \"text\":\r\n \"two\\nlines\"\n}").unwrap();
    assert_eq!(result_text(eventually(session.call("echo", &pretty)).await), "two\nlines");
    assert!(server.log().lines().last().unwrap().contains(r#""arguments":{   "text":   "two\nlines" }"#));
}

#[tokio::test(start_paused = true)]
async fn a_flood_of_progress_does_not_delay_the_total_deadline() {
    let steps: Vec<Step> = (0..200)
        .flat_map(|_| {
            let progress =
                r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":2,"progress":1}}"#;
            [Step::Bytes(format!("{progress}\n").repeat(500).into_bytes()), Step::Wait(100)]
        })
        .collect();
    let (session, _server) = in_memory(Script::good().any_tool("evil").on_call("evil", steps));
    let began = Instant::now();
    let mut received = 0_u32;
    let mut listen = |_| received += 1;
    let options = CallOptions {
        total: Some(std::time::Duration::from_secs(5)),
        progress: Some(&mut listen),
        ..CallOptions::default()
    };
    let error = eventually(session.call_with("evil", &none(), options)).await.unwrap_err();
    assert_eq!(
        (began.elapsed().as_secs(), error.kind.to_string().as_str()),
        (5, "no response within 5 s (total timeout); whether the call ran is unknown")
    );
    assert!(received > 500, "{received}");
}

#[tokio::test(start_paused = true)]
async fn a_server_that_reads_slowly_does_not_time_out() {
    // A pipe of one kilobyte per second: 600 KB take longer than the write deadline, which must not fail.
    let server = Scripted::new(Script::good());
    let transport = InProcess::new(move |client| {
        let server = server.clone();
        async move {
            let (near, far) = tokio::io::duplex(1024);
            let ((mut from_client, mut to_client), (mut from_server, mut to_server)) =
                (tokio::io::split(client), tokio::io::split(near));
            let slowly = async {
                let mut chunk = vec![0; 1024];
                while let Ok(length @ 1..) = from_client.read(&mut chunk).await {
                    tokio::time::sleep(std::time::Duration::from_secs(1)).await;
                    to_server.write_all(&chunk[..length]).await.unwrap();
                }
            };
            let back = async { drop(tokio::io::copy(&mut from_server, &mut to_client).await) };
            tokio::join!(slowly, back, server.serve(far));
        }
    });
    let session = Session::new("slow".parse().unwrap(), transport, NoHost, legacy());
    let text = "x".repeat(600_000);
    let began = Instant::now();
    assert_eq!(result_text(eventually(session.call("echo", &json(json!({"text": text})))).await).len(), 600_000);
    assert!(began.elapsed().as_secs() > 300, "{:?}", began.elapsed());
}

#[tokio::test(start_paused = true)]
async fn notifications_before_a_disconnect_are_delivered() {
    #[derive(Default)]
    struct Listener(std::sync::Mutex<Vec<String>>);
    impl wharf_client::Host for Listener {
        fn notify(&self, notice: wharf_client::Notification) {
            self.0.lock().unwrap().push(format!("{notice:?}"));
        }
    }
    let farewell = [Step::Notify("notifications/farewell".into(), json!({})), Step::HangUp];
    let host = std::sync::Arc::new(Listener::default());
    let (session, _server) = with_shared_host(Script::good().any_tool("evil").on_call("evil", farewell), &host);
    eventually(session.call("evil", &none())).await.unwrap_err();
    settle().await;
    assert_eq!(host.0.lock().unwrap().len(), 1);
}
