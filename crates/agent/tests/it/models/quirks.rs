//! What providers do that is not in any documentation, and the numbers they tell.

use wharf_agent::{Delta, StopReason};
use wharf_protocol::{BlockKind, Usage};
use wharf_testkit::eventually;
use wharf_testkit::models::{FakeModels, Fault, Tokens, Turn};

use super::kit::{ALL, Adapter, OPENAI, Question, endpoint};
use wharf_agent::models::{Dialect, OpenAi};

#[tokio::test(start_paused = true)]
async fn a_stream_without_a_beginning_or_input_tokens_is_read_all_the_same() {
    let turn = || Turn::default().saying("so ").calling("toolu_1", "t", "{}");
    for (turn, input, output) in [
        (turn().with(Fault::NoMessageStart), 10, 5),
        (turn().with(Fault::NoInputTokens), 10, 5),
        (turn().with(Fault::NoMessageStart).with(Fault::NoInputTokens), 0, 5),
    ] {
        let fake = FakeModels::new([turn]);
        let (answer, _) = eventually(Question::new("?").ask(&*Adapter::Anthropic.model(&fake))).await.unwrap();
        assert_eq!((answer.usage.input_tokens, answer.usage.output_tokens), (input, output));
        assert_eq!((answer.model.as_str(), &answer.stop), ("fake-1", &StopReason::ToolUse));
        assert_eq!(answer.message.calls().count(), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn every_call_has_an_id_of_its_own_and_goes_back_with_it() {
    for adapter in ALL {
        for fault in [Fault::NoIds, Fault::SameIds] {
            for stream in [true, false] {
                let turn = || {
                    let turn = Turn::default().calling("a", "one", r#"{"n":1}"#).calling("b", "two", r#"{"n":2}"#);
                    turn.with(fault.clone())
                };
                let fake = FakeModels::new([turn(), turn()]);
                let model = adapter.model(&fake);
                let mut question = Question::new("?").streaming(stream);
                let (first, deltas) = eventually(question.ask(&*model)).await.unwrap();
                question.messages.push(first.message.clone());
                let (second, _) = eventually(question.ask(&*model)).await.unwrap();
                let calls: Vec<_> = first.message.calls().chain(second.message.calls()).collect();
                let names: Vec<&str> = calls.iter().map(|call| &*call.name).collect();
                assert_eq!(names, ["one", "two", "one", "two"], "{adapter:?} {fault:?} {stream}");
                let ids: std::collections::HashSet<&str> = calls.iter().map(|call| &*call.id).collect();
                assert_eq!(ids.len(), 4, "{adapter:?} {fault:?} {stream} {ids:?}");
                assert!(!ids.contains(""));
                let told = deltas.iter().filter_map(|delta| match delta {
                    Delta::ToolUse { id, .. } => Some(&**id),
                    _ => None,
                });
                let own: Vec<&str> = first.message.calls().map(|call| &*call.id).collect();
                assert_eq!(told.collect::<Vec<_>>(), own, "{adapter:?}");
                let sent = &fake.requests()[1].body;
                assert!(own.iter().all(|id| sent.contains(&format!("\"id\":\"{id}\""))), "{sent}");
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn calls_with_one_index_for_all_are_told_apart_by_their_ids() {
    let turn = Turn::default().calling("a", "one", r#"{"n":1}"#).calling("b", "two", r#"{"n":2}"#);
    let fake = FakeModels::new([turn.with(Fault::SameIndex)]);
    let (answer, _) = eventually(Question::new("?").ask(&*OPENAI.model(&fake))).await.unwrap();
    let calls: Vec<_> =
        answer.message.calls().map(|call| format!("{} {} {}", call.id, call.name, call.arguments)).collect();
    assert_eq!(calls, [r#"a one {"n":1}"#, r#"b two {"n":2}"#]);
}

#[tokio::test(start_paused = true)]
async fn a_stream_that_says_why_it_ends_may_leave_the_last_word_out() {
    let fake = FakeModels::new([Turn::text("so").with(Fault::NoDoneEvent)]);
    let (answer, _) = eventually(Question::new("?").ask(&*OPENAI.model(&fake))).await.unwrap();
    assert_eq!(answer.message.spoken(), "so");
}

#[tokio::test(start_paused = true)]
async fn broken_arguments_are_kept_as_the_text_they_are_and_go_back_in_a_form_that_is_taken() {
    for adapter in ALL {
        let turn = Turn::default().calling("a", "one", r#"{"n": 1, "s": "un"#).stopping("length");
        let fake = FakeModels::new([turn, Turn::text("ok")]);
        let model = adapter.model(&fake);
        let mut question = Question::new("?");
        let (answer, _) = eventually(question.ask(&*model)).await.unwrap();
        let call = answer.message.calls().next().unwrap();
        assert_eq!(call.arguments.decode::<String>().unwrap(), r#"{"n": 1, "s": "un"#, "{adapter:?}");
        question.messages.push(answer.message.clone());
        eventually(question.ask(&*model)).await.unwrap();
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
async fn arguments_of_nothing_are_an_empty_object() {
    for adapter in ALL {
        for stream in [true, false] {
            let written = if stream { "" } else { "{}" };
            let fake = FakeModels::new([Turn::default().calling("a", "one", written)]);
            let (answer, _) =
                eventually(Question::new("?").streaming(stream).ask(&*adapter.model(&fake))).await.unwrap();
            assert_eq!(answer.message.calls().next().unwrap().arguments.as_str(), "{}", "{adapter:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn what_it_cost_is_told_in_the_same_numbers_everywhere() {
    let tokens = Tokens { input: 100, output: 20, cache_read: 60, cache_write: 10, reasoning: 7, cost: Some(0.25) };
    for adapter in ALL {
        for stream in [true, false] {
            let fake = FakeModels::new([Turn::text("so").costing(tokens)]);
            let (answer, _) =
                eventually(Question::new("?").streaming(stream).ask(&*adapter.model(&fake))).await.unwrap();
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
async fn a_refusal_in_words_is_one() {
    let message = r#"{"role":"assistant","content":null,"refusal":"I will not."}"#;
    for stream in [true, false] {
        let fake = FakeModels::new([Turn::message(message)]);
        let (answer, deltas) =
            eventually(Question::new("?").streaming(stream).ask(&*OPENAI.model(&fake))).await.unwrap();
        assert_eq!((answer.stop, answer.message.spoken().as_str()), (StopReason::Refusal, "I will not."));
        assert!(deltas.iter().all(|delta| matches!(delta, Delta::Text(_))) && !deltas.is_empty());
    }
}

/// A stream as it stands.
fn stream(body: &str) -> FakeModels {
    FakeModels::new([Turn::status(200, &[("content-type", "text/event-stream")], body)])
}

#[tokio::test(start_paused = true)]
async fn an_answer_in_one_piece_is_read_also_where_pieces_were_asked_for() {
    for adapter in ALL {
        let turn = Turn::default().saying("so ").calling("a", "one", "{}").with(Fault::NotStreamed);
        let fake = FakeModels::new([turn]);
        let (answer, _) = eventually(Question::new("?").ask(&*adapter.model(&fake))).await.unwrap();
        assert_eq!((answer.message.spoken().as_str(), answer.message.calls().count()), ("so ", 1), "{adapter:?}");
        assert_eq!(fake.bodies()[0]["stream"], true);
    }
}

#[tokio::test(start_paused = true)]
async fn pieces_are_read_also_where_none_were_asked_for() {
    let chunk = r#"{"choices":[{"delta":{"content":"so"},"finish_reason":"stop"}]}"#;
    let fake = stream(&format!("data: {chunk}\n\ndata: [DONE]\n\n"));
    let (answer, _) = eventually(Question::new("?").whole().ask(&*OPENAI.model(&fake))).await.unwrap();
    assert_eq!(answer.message.spoken(), "so");
    assert_eq!(fake.bodies()[0].get("stream"), None);
}

#[tokio::test(start_paused = true)]
async fn blocks_that_are_not_counted_and_calls_without_input_are_read_all_the_same() {
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
    let (answer, _) = eventually(Question::new("?").ask(&*Adapter::Anthropic.model(&fake))).await.unwrap();
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
async fn deltas_of_calls_without_index_go_to_the_call_that_began_last() {
    let fake = stream(
        r#"data: {"choices":[{"delta":{"tool_calls":[{"id":"a","function":{"name":"one","arguments":"{\"n\""}}]}}]}

data: {"choices":[{"delta":{"tool_calls":[{"function":{"arguments":":1}"}}]}}]}

data: {"choices":[{"delta":{"tool_calls":[{"id":"b","function":{"name":"two","arguments":"{}"}}]}}]}

data: {"choices":[{"delta":{"tool_calls":[{"id":"c","function":{"arguments":"{}"}}]},"finish_reason":"stop"}]}

"#,
    );
    let (answer, _) = eventually(Question::new("?").ask(&*OPENAI.model(&fake))).await.unwrap();
    // The last one has no name: it is never answered, and must not be sent back.
    let raw = answer.message.origin.as_ref().unwrap().raw.as_ref().unwrap().to_value().unwrap();
    assert_eq!(raw["tool_calls"].as_array().unwrap().len(), 2);
    let calls = answer.message.calls().map(|call| format!("{} {} {}", call.id, call.name, call.arguments));
    assert_eq!(calls.collect::<Vec<_>>(), [r#"a one {"n":1}"#, "b two {}"]);
    assert_eq!(answer.stop, StopReason::ToolUse);
}

#[tokio::test(start_paused = true)]
async fn an_event_that_is_called_an_error_is_one() {
    use wharf_agent::ModelErrorKind::{Overloaded, Server};
    for (body, kind, words) in [
        ("event: error\ndata: it broke\n\n", Server, "it broke"),
        ("event: error\ndata: {\"message\":\"busy\",\"type\":\"overloaded_error\"}\n\n", Overloaded, "busy"),
        ("data: {\"error\":\"it broke\",\"type\":\"error\"}\n\n", Server, "it broke"),
    ] {
        for adapter in ALL {
            let error = eventually(Question::new("?").ask(&*adapter.model(&stream(body)))).await.unwrap_err();
            assert_eq!((error.kind, error.message.as_str()), (kind, words), "{adapter:?} {body}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_message_that_cannot_be_read_is_no_empty_answer() {
    let deep = format!("{}{}", "[".repeat(300), "]".repeat(300));
    let body = format!(r#"{{"choices":[{{"message":{{"role":"assistant","content":"so","x":{deep}}}}}]}}"#);
    let fake = FakeModels::new([Turn::status(200, &[], body)]);
    let error = eventually(Question::new("?").whole().ask(&*OPENAI.model(&fake))).await.unwrap_err();
    assert_eq!(error.kind, wharf_agent::ModelErrorKind::Malformed);
}

#[tokio::test(start_paused = true)]
async fn a_model_that_sees_nothing_is_told_of_images_in_words_only() {
    let image = r#"{"content":[{"type":"image","data":"aGk=","mimeType":"image/png"}]}"#;
    let output = wharf_protocol::ToolOutput::from_json(&super::kit::json(image)).unwrap();
    let mut question = Question::new("?");
    question.messages.push(wharf_protocol::Message::returned("a".into(), output));
    let fake = FakeModels::new([Turn::text("ok")]);
    let model = OpenAi::new(Dialect::Ollama, endpoint(&fake), "tiny").unwrap().without_images();
    assert!(!wharf_agent::Model::capabilities(&model).result_images);
    eventually(question.ask(&model)).await.unwrap();
    let sent = &fake.bodies()[0]["messages"];
    assert_eq!((&sent[1]["content"], sent.as_array().unwrap().len()), (&"[image, image/png, 3 bytes]".into(), 2));
}

#[tokio::test(start_paused = true)]
async fn thoughts_are_shown_by_whichever_name_they_come() {
    for field in [
        r#""reasoning":"hm""#,
        r#""reasoning_content":"hm""#,
        r#""reasoning":"hm","reasoning_details":[{"type":"reasoning.text","text":"hm","index":0}]"#,
        r#""reasoning_details":[{"type":"reasoning.summary","summary":"h"},{"type":"reasoning.text","text":"m"}]"#,
    ] {
        for stream in [true, false] {
            let fake = FakeModels::new([Turn::message(format!(r#"{{"role":"assistant",{field},"content":"so"}}"#))]);
            let (answer, deltas) =
                eventually(Question::new("?").streaming(stream).ask(&*OPENAI.model(&fake))).await.unwrap();
            let BlockKind::Thinking { text, .. } = &answer.message.content[0].kind else { panic!("{answer:?}") };
            assert_eq!((text.as_str(), answer.message.spoken().as_str()), ("hm", "so"));
            let told: String =
                deltas.iter().map(|delta| if let Delta::Thinking(text) = delta { text.as_str() } else { "" }).collect();
            assert_eq!(told, "hm", "{field}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn the_window_is_asked_for_once() {
    let listed = serde_json::json!({"object":"list","data":[{"id":"x"},{"id":"fake-1","max_model_len":32768}]});
    let fake = FakeModels::default().listing(listed);
    let model = OPENAI.model(&fake);
    assert_eq!(eventually(model.window()).await, Some(32768));
    assert_eq!(eventually(model.window()).await, Some(32768));
    assert_eq!(fake.requests().iter().map(|seen| seen.path.as_str()).collect::<Vec<_>>(), ["/v1/models"]);

    let fake = FakeModels::default();
    let model = OPENAI.model(&fake);
    assert_eq!((eventually(model.window()).await, eventually(model.window()).await), (None, None));
    assert_eq!(fake.requests().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn only_a_model_whose_caching_has_to_be_asked_for_says_so() {
    let fake = FakeModels::default();
    let caches = |dialect, name: &str| {
        use wharf_agent::Model as _;
        OpenAi::new(dialect, endpoint(&fake), name).unwrap().capabilities().prompt_caching
    };
    assert!(caches(Dialect::OpenRouter, "anthropic/claude-sonnet-5"));
    assert!(!caches(Dialect::OpenRouter, "openai/gpt-5"));
    assert!(!caches(Dialect::Endpoint, "anthropic/claude-sonnet-5"));
    assert!(Adapter::Anthropic.model(&fake).capabilities().prompt_caching);
}
