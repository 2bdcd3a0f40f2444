//! Undocumented behavior of providers, and token counts.

use wharf_agent::{Delta, StopReason};
use wharf_protocol::{BlockKind, Usage};
use wharf_testkit::eventually;
use wharf_testkit::models::{FakeModels, Fault, Tokens, Turn};

use super::kit::{ALL, Adapter, OPENAI, TestRequest, endpoint};
use wharf_agent::models::{Dialect, OpenAi};

#[tokio::test(start_paused = true)]
async fn a_stream_without_a_start_or_input_tokens_is_accepted() {
    let turn = || Turn::default().saying("so ").calling("toolu_1", "t", "{}");
    for (turn, input, output) in [
        (turn().with(Fault::NoMessageStart), 10, 5),
        (turn().with(Fault::NoInputTokens), 10, 5),
        (turn().with(Fault::NoMessageStart).with(Fault::NoInputTokens), 0, 5),
    ] {
        let fake = FakeModels::new([turn]);
        let (answer, _) = eventually(TestRequest::new("?").complete(&*Adapter::Anthropic.model(&fake))).await.unwrap();
        assert_eq!((answer.usage.input_tokens, answer.usage.output_tokens), (input, output));
        assert_eq!((answer.model.as_str(), &answer.stop), ("fake-1", &StopReason::ToolUse));
        assert_eq!(answer.message.calls().count(), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn every_call_has_a_unique_id_and_is_sent_back_with_it() {
    for adapter in ALL {
        for fault in [Fault::NoIds, Fault::SameIds] {
            for stream in [true, false] {
                let turn = || {
                    let turn = Turn::default().calling("a", "one", r#"{"n":1}"#).calling("b", "two", r#"{"n":2}"#);
                    turn.with(fault.clone())
                };
                let fake = FakeModels::new([turn(), turn()]);
                let model = adapter.model(&fake);
                let mut request = TestRequest::new("?").streaming(stream);
                let (first, deltas) = eventually(request.complete(&*model)).await.unwrap();
                request.messages.push(first.message.clone());
                let (second, _) = eventually(request.complete(&*model)).await.unwrap();
                let calls: Vec<_> = first.message.calls().chain(second.message.calls()).collect();
                let names: Vec<&str> = calls.iter().map(|call| &*call.name).collect();
                assert_eq!(names, ["one", "two", "one", "two"], "{adapter:?} {fault:?} {stream}");
                let ids: std::collections::HashSet<&str> = calls.iter().map(|call| &*call.id).collect();
                assert_eq!(ids.len(), 4, "{adapter:?} {fault:?} {stream} {ids:?}");
                assert!(!ids.contains(""));
                let reported = deltas.iter().filter_map(|delta| match delta {
                    Delta::ToolUse { id, .. } => Some(&**id),
                    _ => None,
                });
                let own: Vec<&str> = first.message.calls().map(|call| &*call.id).collect();
                assert_eq!(reported.collect::<Vec<_>>(), own, "{adapter:?}");
                let sent = &fake.requests()[1].body;
                assert!(own.iter().all(|id| sent.contains(&format!("\"id\":\"{id}\""))), "{sent}");
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn calls_with_the_same_index_are_distinguished_by_id() {
    let turn = Turn::default().calling("a", "one", r#"{"n":1}"#).calling("b", "two", r#"{"n":2}"#);
    let fake = FakeModels::new([turn.with(Fault::SameIndex)]);
    let (answer, _) = eventually(TestRequest::new("?").complete(&*OPENAI.model(&fake))).await.unwrap();
    let calls: Vec<_> =
        answer.message.calls().map(|call| format!("{} {} {}", call.id, call.name, call.arguments)).collect();
    assert_eq!(calls, [r#"a one {"n":1}"#, r#"b two {"n":2}"#]);
}

#[tokio::test(start_paused = true)]
async fn a_stream_with_a_finish_reason_may_omit_the_done_marker() {
    let fake = FakeModels::new([Turn::text("so").with(Fault::NoDoneEvent)]);
    let (answer, _) = eventually(TestRequest::new("?").complete(&*OPENAI.model(&fake))).await.unwrap();
    assert_eq!(answer.message.plain_text(), "so");
}

#[tokio::test(start_paused = true)]
async fn invalid_arguments_are_stored_as_text_and_sent_back_in_an_accepted_form() {
    for adapter in ALL {
        let turn = Turn::default().calling("a", "one", r#"{"n": 1, "s": "un"#).stopping("length");
        let fake = FakeModels::new([turn, Turn::text("ok")]);
        let model = adapter.model(&fake);
        let mut request = TestRequest::new("?");
        let (answer, _) = eventually(request.complete(&*model)).await.unwrap();
        let call = answer.message.calls().next().unwrap();
        assert_eq!(call.arguments.decode::<String>().unwrap(), r#"{"n": 1, "s": "un"#, "{adapter:?}");
        request.messages.push(answer.message.clone());
        eventually(request.complete(&*model)).await.unwrap();
        let sent = &fake.bodies()[1]["messages"][1];
        match adapter {
            Adapter::Anthropic => {
                assert_eq!(sent["content"][0]["input"]["INVALID_JSON"], r#"{"n": 1, "s": "un"#);
            }
            Adapter::OpenAi(_) => {
                assert_eq!(sent["tool_calls"][0]["function"]["arguments"], r#"{"n": 1, "s": "un"#);
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn missing_arguments_are_an_empty_object() {
    for adapter in ALL {
        for stream in [true, false] {
            let arguments = if stream { "" } else { "{}" };
            let fake = FakeModels::new([Turn::default().calling("a", "one", arguments)]);
            let (answer, _) =
                eventually(TestRequest::new("?").streaming(stream).complete(&*adapter.model(&fake))).await.unwrap();
            assert_eq!(answer.message.calls().next().unwrap().arguments.as_str(), "{}", "{adapter:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn usage_is_normalized_on_every_adapter() {
    let tokens = Tokens { input: 100, output: 20, cache_read: 60, cache_write: 10, reasoning: 7, cost: Some(0.25) };
    for adapter in ALL {
        for stream in [true, false] {
            let fake = FakeModels::new([Turn::text("so").costing(tokens)]);
            let (answer, _) =
                eventually(TestRequest::new("?").streaming(stream).complete(&*adapter.model(&fake))).await.unwrap();
            let expected = Usage {
                input_tokens: 100,
                output_tokens: 20,
                cache_read_tokens: 60,
                cache_write_tokens: 10,
                reasoning_tokens: 7,
                cost_usd: (adapter != Adapter::Anthropic).then_some(0.25),
            };
            assert_eq!(answer.usage, expected, "{adapter:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_refusal_field_is_a_refusal() {
    let message = r#"{"role":"assistant","content":null,"refusal":"I will not."}"#;
    for stream in [true, false] {
        let fake = FakeModels::new([Turn::message(message)]);
        let (answer, deltas) =
            eventually(TestRequest::new("?").streaming(stream).complete(&*OPENAI.model(&fake))).await.unwrap();
        assert_eq!((answer.stop, answer.message.plain_text().as_str()), (StopReason::Refusal, "I will not."));
        assert!(deltas.iter().all(|delta| matches!(delta, Delta::Text(_))) && !deltas.is_empty());
    }
}

/// A provider that sends this stream.
fn stream(body: &str) -> FakeModels {
    FakeModels::new([Turn::status(200, &[("content-type", "text/event-stream")], body)])
}

#[tokio::test(start_paused = true)]
async fn an_unstreamed_response_to_a_streaming_request_is_accepted() {
    for adapter in ALL {
        let turn = Turn::default().saying("so ").calling("a", "one", "{}").with(Fault::NotStreamed);
        let fake = FakeModels::new([turn]);
        let (answer, _) = eventually(TestRequest::new("?").complete(&*adapter.model(&fake))).await.unwrap();
        assert_eq!((answer.message.plain_text().as_str(), answer.message.calls().count()), ("so ", 1), "{adapter:?}");
        assert_eq!(fake.bodies()[0]["stream"], true);
    }
}

#[tokio::test(start_paused = true)]
async fn a_streamed_response_to_an_unstreamed_request_is_accepted() {
    let chunk = r#"{"choices":[{"delta":{"content":"so"},"finish_reason":"stop"}]}"#;
    let fake = stream(&format!("data: {chunk}\n\ndata: [DONE]\n\n"));
    let (answer, _) = eventually(TestRequest::new("?").unstreamed().complete(&*OPENAI.model(&fake))).await.unwrap();
    assert_eq!(answer.message.plain_text(), "so");
    assert_eq!(fake.bodies()[0].get("stream"), None);
}

#[tokio::test(start_paused = true)]
async fn blocks_without_index_and_calls_without_input_are_accepted() {
    let fake = stream(
        r#"data: {"type":"content_block_start","content_block":{"type":"text"}}

data: {"type":"content_block_delta","delta":{"type":"text_delta","text":"so"}}

data: {"type":"content_block_start","content_block":{"type":"tool_use","name":"t"}}

event: content_block_delta
data: {"delta":{"type":"input_json_delta","partial_json":"{\"n\": 1}"}}

data: {"type":"content_block_start","content_block":{"type":"tool_use","name":"t"}}

data: {"type":"content_block_delta","delta":{"type":"input_json_delta","partial_json":""}}

data: {"type":"message_delta","delta":{"stop_reason":null},"usage":null}

data: {"type":"message_stop"}

"#,
    );
    let (answer, _) = eventually(TestRequest::new("?").complete(&*Adapter::Anthropic.model(&fake))).await.unwrap();
    let raws: Vec<&str> = answer.message.content.iter().map(|block| block.raw.as_ref().unwrap().as_str()).collect();
    assert_eq!(
        raws,
        [
            r#"{"type":"text","text":"so"}"#,
            r#"{"type":"tool_use","name":"t","id":"call_1","input":{"n": 1}}"#,
            r#"{"type":"tool_use","name":"t","id":"call_2","input":{}}"#,
        ]
    );
    assert_eq!(answer.stop, StopReason::ToolUse);
}

#[tokio::test(start_paused = true)]
async fn call_deltas_without_index_belong_to_the_latest_call() {
    let fake = stream(
        r#"data: {"choices":[{"delta":{"tool_calls":[{"id":"a","function":{"name":"one","arguments":"{\"n\""}}]}}]}

data: {"choices":[{"delta":{"tool_calls":[{"function":{"arguments":":1}"}}]}}]}

data: {"choices":[{"delta":{"tool_calls":[{"id":"b","function":{"name":"two","arguments":"{}"}}]}}]}

data: {"choices":[{"delta":{"tool_calls":[{"id":"c","function":{"arguments":"{}"}}]},"finish_reason":"stop"}]}

"#,
    );
    let (answer, _) = eventually(TestRequest::new("?").complete(&*OPENAI.model(&fake))).await.unwrap();
    // The last call has no name. It gets no result, so it must not be sent back.
    let raw = answer.message.origin.as_ref().unwrap().raw.as_ref().unwrap().to_value().unwrap();
    assert_eq!(raw["tool_calls"].as_array().unwrap().len(), 2);
    let calls = answer.message.calls().map(|call| format!("{} {} {}", call.id, call.name, call.arguments));
    assert_eq!(calls.collect::<Vec<_>>(), [r#"a one {"n":1}"#, "b two {}"]);
    assert_eq!(answer.stop, StopReason::ToolUse);
}

#[tokio::test(start_paused = true)]
async fn an_event_of_type_error_is_an_error() {
    use wharf_agent::ModelErrorKind::{Overloaded, Server};
    for (body, kind, message) in [
        ("event: error\ndata: it broke\n\n", Server, "it broke"),
        ("event: error\ndata: {\"message\":\"busy\",\"type\":\"overloaded_error\"}\n\n", Overloaded, "busy"),
        ("data: {\"error\":\"it broke\",\"type\":\"error\"}\n\n", Server, "it broke"),
    ] {
        for adapter in ALL {
            let error = eventually(TestRequest::new("?").complete(&*adapter.model(&stream(body)))).await.unwrap_err();
            assert_eq!((error.kind, error.message.as_str()), (kind, message), "{adapter:?} {body}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn an_unparsable_message_is_an_error() {
    let deep = format!("{}{}", "[".repeat(300), "]".repeat(300));
    let body = format!(r#"{{"choices":[{{"message":{{"role":"assistant","content":"so","x":{deep}}}}}]}}"#);
    let fake = FakeModels::new([Turn::status(200, &[], body)]);
    let error = eventually(TestRequest::new("?").unstreamed().complete(&*OPENAI.model(&fake))).await.unwrap_err();
    assert_eq!(error.kind, wharf_agent::ModelErrorKind::Malformed);
}

#[tokio::test(start_paused = true)]
async fn a_model_without_image_input_gets_descriptions_of_images() {
    let image = r#"{"content":[{"type":"image","data":"aGk=","mimeType":"image/png"}]}"#;
    let output = wharf_protocol::ToolOutput::from_json(&super::kit::json(image)).unwrap();
    let mut request = TestRequest::new("?");
    request.messages.push(wharf_protocol::Message::tool_result("a".into(), output));
    let fake = FakeModels::new([Turn::text("ok")]);
    let model = OpenAi::new(Dialect::Ollama, endpoint(&fake), "tiny").unwrap().without_images();
    assert!(!wharf_agent::Model::capabilities(&model).result_images);
    eventually(request.complete(&model)).await.unwrap();
    let sent = &fake.bodies()[0]["messages"];
    assert_eq!((&sent[1]["content"], sent.as_array().unwrap().len()), (&"[image, image/png, 2 bytes]".into(), 2));
}

#[tokio::test(start_paused = true)]
async fn reasoning_is_read_from_every_known_field() {
    for field in [
        r#""reasoning":"hm""#,
        r#""reasoning_content":"hm""#,
        r#""reasoning":"hm","reasoning_details":[{"type":"reasoning.text","text":"hm","index":0}]"#,
        r#""reasoning_details":[{"type":"reasoning.summary","summary":"h"},{"type":"reasoning.text","text":"m"}]"#,
    ] {
        for stream in [true, false] {
            let fake = FakeModels::new([Turn::message(format!(r#"{{"role":"assistant",{field},"content":"so"}}"#))]);
            let (answer, deltas) =
                eventually(TestRequest::new("?").streaming(stream).complete(&*OPENAI.model(&fake))).await.unwrap();
            let BlockKind::Thinking { text, .. } = &answer.message.content[0].kind else { panic!("{answer:?}") };
            assert_eq!((text.as_str(), answer.message.plain_text().as_str()), ("hm", "so"));
            let streamed: String =
                deltas.iter().map(|delta| if let Delta::Thinking(text) = delta { text.as_str() } else { "" }).collect();
            assert_eq!(streamed, "hm", "{field}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn the_context_window_is_requested_once() {
    let listed = serde_json::json!({"object":"list","data":[{"id":"x"},{"id":"fake-1","max_model_len":32768}]});
    let fake = FakeModels::default().listing(listed);
    let model = OPENAI.model(&fake);
    assert_eq!(eventually(model.context_window()).await, Some(32768));
    assert_eq!(eventually(model.context_window()).await, Some(32768));
    assert_eq!(fake.requests().iter().map(|seen| seen.path.as_str()).collect::<Vec<_>>(), ["/v1/models"]);

    let fake = FakeModels::default();
    let model = OPENAI.model(&fake);
    assert_eq!((eventually(model.context_window()).await, eventually(model.context_window()).await), (None, None));
    assert_eq!(fake.requests().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn prompt_caching_is_a_capability_only_if_it_must_be_requested() {
    let fake = FakeModels::default();
    let caches = |dialect, name: &str| {
        use wharf_agent::Model as _;
        OpenAi::new(dialect, endpoint(&fake), name).unwrap().capabilities().prompt_caching
    };
    assert!(caches(Dialect::OpenRouter, "anthropic/claude-sonnet-5"));
    assert!(!caches(Dialect::OpenRouter, "openai/gpt-5"));
    assert!(!caches(Dialect::Endpoint, "anthropic/claude-sonnet-5"));
    assert!(Adapter::Anthropic.model(&fake).capabilities().prompt_caching);
    let caches_by_itself = |dialect, name: &str| {
        use wharf_agent::Model as _;
        OpenAi::new(dialect, endpoint(&fake), name).unwrap().capabilities().automatic_caching
    };
    assert!(caches_by_itself(Dialect::OpenAi, "gpt-5") && caches_by_itself(Dialect::OpenRouter, "openai/gpt-5"));
    assert!(!caches_by_itself(Dialect::Endpoint, "x") && !caches_by_itself(Dialect::OpenRouter, "meta-llama/x"));
}
