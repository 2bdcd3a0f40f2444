//! Logs of runs that already happened are evaluated like answers of models.

use std::path::Path;

use serde_json::{Value, json};
use wharf_agent::TraceMessage;
use wharf_protocol::{Message, Role};
use wharf_verify::assertion::TraceFacts;
use wharf_verify::logged::{LogErrorKind, LoggedModels, Logs};
use wharf_verify::{Assertion, Benchmark, ToolSet};

fn benchmark() -> Benchmark {
    let text = "name: sums\nquestions:\n  - id: sum\n    question: How much is 2+2?\n    trace: [{ called: add }]\n  - id: \
        color\n    question: Which color?\n    trace: [{ not_called: paint }]\n";
    Benchmark::parse(text, Path::new("x.yaml")).unwrap()
}

fn openai() -> Value {
    json!([
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": [{"type": "text", "text": "How much is 2+2?"}]},
        {"role": "assistant", "content": null, "tool_calls": [
            {"id": "c1", "type": "function", "function": {"name": "add", "arguments": "{\"a\": 2, \"b\": 2}"}}]},
        {"role": "tool", "tool_call_id": "c1", "content": "4"},
        {"role": "assistant", "content": "It is 4."},
    ])
}

fn anthropic() -> Value {
    json!({
        "model": "claude",
        "messages": [
            {"role": "user", "content": "How much is 2+2?"},
            {"role": "assistant", "content": [
                {"type": "thinking", "thinking": "Add.", "signature": "s"},
                {"type": "tool_use", "id": "c1", "name": "add", "input": {"a": 2, "b": 2}}]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c1", "content": [{"type": "text", "text": "4"}]}]},
        ],
        "response": {"role": "assistant", "content": [{"type": "text", "text": "It is 4."}]},
    })
}

fn models(text: &str, question: Option<&str>) -> Result<LoggedModels, LogErrorKind> {
    let models = Logs::parse(text).and_then(|logs| logs.models(&benchmark(), question));
    models.map_err(|error| error.kind)
}

/// Returns the answer and the tools that were called, as the pipeline sees them.
fn run(models: &LoggedModels, prompt: &str) -> (String, Vec<String>) {
    let prepared = models.models[0].model.prepared(&[Message::text(Role::User, prompt)]).unwrap().unwrap();
    let calls = prepared.messages.iter().flat_map(Message::calls);
    let calls = calls.map(|call| format!("{}{}", call.name, call.arguments.to_value().unwrap())).collect();
    (prepared.messages.last().unwrap().plain_text(), calls)
}

#[test]
fn every_format_is_detected() {
    let responses = json!({
        "model": "gpt", "input": "How much is 2+2?",
        "output": [
            {"type": "reasoning", "summary": []},
            {"type": "function_call", "call_id": "c1", "name": "add", "arguments": "{\"a\":2,\"b\":2}"},
            {"type": "function_call_output", "call_id": "c1", "output": "4"},
            {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "It is 4."}]},
        ],
    });
    let completion = json!({
        "request": {"messages": [openai()[0], openai()[1], openai()[2], openai()[3]]},
        "response": {"model": "gpt", "choices": [{"message": {"role": "assistant", "content": "It is 4."}}]},
    });
    let own = json!({
        "version": 1, "model": "m", "prompt": "How much is 2+2?", "trace_messages": [
            {"role": "assistant", "content": "", "tool_calls": [{"id": "c1", "name": "add", "input": {"a": 2, "b": 2}}]},
            {"role": "tool", "content": "4", "tool_result": {"tool_use_id": "c1"}},
            {"role": "assistant", "content": "It is 4."}],
    });
    let result = json!({"format": 1, "question": "sum", "model": {"label": "m"}, "trace": own["trace_messages"]});
    let report = json!({"version": 1, "results": [result]});
    let per_line =
        openai().as_array().unwrap().iter().map(|message| format!("{message}\n")).collect::<Vec<_>>().concat();
    for text in [
        openai().to_string(),
        serde_json::to_string_pretty(&openai()).unwrap(),
        per_line,
        json!({"messages": openai()}).to_string(),
        anthropic().to_string(),
        responses.to_string(),
        completion.to_string(),
        own.to_string(),
        report.to_string(),
        format!("{result}\n"),
    ] {
        let models = models(&text, None).unwrap();
        let expected = ("It is 4.".to_owned(), vec![r#"add{"a":2,"b":2}"#.to_owned()]);
        assert_eq!(run(&models, "How much is 2+2?"), expected, "{text}");
    }
}

#[test]
fn a_cassette_is_one_conversation() {
    let message = |role: &str, text: &str| {
        serde_json::to_value(Message::text(serde_json::from_value(json!(role)).unwrap(), text)).unwrap()
    };
    let lines = [
        json!({"cassette": 1}),
        json!({"ask": {"from": 0, "messages": [message("user", "Which color?")], "options": {}},
               "answer": {"message": message("assistant", "One moment."), "model": "m"}}),
        json!({"ask": {"from": 1, "messages": [message("assistant", "One moment.")], "options": {}},
               "answer": {"message": message("assistant", "Red."), "model": "m"}}),
    ];
    let text = lines.iter().map(|line| format!("{line}\n")).collect::<Vec<_>>().concat();
    let models = models(&text, None).unwrap();
    assert_eq!(models.models[0].label, "m");
    assert_eq!(run(&models, "Which color?").0, "Red.");
}

#[test]
fn many_conversations_name_their_questions_and_repeated_ones_have_their_own_model() {
    let line = |question: &str, model: &str, text: &str| {
        json!({"question_id": question, "model": model, "messages": [{"role": "assistant", "content": text}]})
            .to_string()
    };
    let text =
        [line("sum", "a", "4"), line("color", "a", "red"), line("sum", "b", "5"), line("sum", "a", "3")].join("\n");
    let models = models(&text, None).unwrap();
    let labels: Vec<&str> = models.models.iter().map(|model| model.label.as_str()).collect();
    assert_eq!(labels, ["a", "a (2)", "b"]);
    assert_eq!(models.questions().len(), 2);
    assert_ne!(models.models[0].settings.file_digest, models.models[1].settings.file_digest);
}

#[test]
fn the_question_is_the_given_one_the_named_one_or_the_one_of_the_text() {
    let answer = json!([{"role": "assistant", "content": "4"}]);
    assert_eq!(models(&answer.to_string(), None).err(), Some(LogErrorKind::NoQuestion));
    assert!(models(&answer.to_string(), Some("sum")).is_ok());
    let named = json!({"question": "Which color?", "messages": answer});
    assert_eq!(models(&named.to_string(), None).unwrap().questions().first().unwrap().as_str(), "color");
    let unknown = LogErrorKind::UnknownQuestion { id: "colour".to_owned(), nearest: Some("color".to_owned()) };
    assert_eq!(models(&answer.to_string(), Some("colour")).err(), Some(unknown.clone()));
    assert_eq!(unknown.to_string(), "unknown question `colour`; did you mean `color`?");
    let two = format!("{named}\n{named}\n");
    assert_eq!(models(&two, Some("sum")).err(), Some(LogErrorKind::Several(2)));
}

#[test]
fn errors_say_what_is_wrong_and_where() {
    let error = |text: &str| Logs::parse(text).unwrap_err().to_string();
    assert_eq!(error(" \n"), "the log is empty");
    assert!(error("{\n").contains("line 1: invalid JSON"), "{}", error("{\n"));
    assert!(error("42").starts_with("unknown format"));
    assert!(error(r#"{"a": 1}"#).starts_with("unknown format"));
    assert_eq!(error(r#"[{"role": "user", "content": "hi"}]"#), "the conversation has no message of a model");
    assert_eq!(error(r#"[{"role": "wizard", "content": "hi"}]"#), "message 1: unknown role `wizard`");
    let call = r#"[{"role": "assistant", "tool_calls": [{"id": "a", "function": {}}]}]"#;
    assert_eq!(error(call), "message 1: a tool call has no `name`");
    let result = r#"[{"role": "assistant", "content": "x"}, {"role": "tool", "content": "x"}]"#;
    assert_eq!(error(result), "message 2: a result of a tool has no id of its call");
    let second =
        "{\"messages\": [{\"role\": \"assistant\", \"content\": \"x\"}]}\n{\"messages\": [{\"content\": 1}]}\n";
    assert_eq!(error(second), "line 2: message 1: it has no `role`");
    assert!(error(&format!("[{}", "[".repeat(100_000))).contains("recursion limit"));
    assert_eq!(error(&" ".repeat(65 << 20)), "the log is larger than 64 MiB");
}

#[test]
fn tools_that_a_log_does_not_call_may_have_been_offered() {
    let benchmark = benchmark();
    let assertion = |index: usize| -> &Assertion { &benchmark.questions[index].trace[0] };
    let facts = TraceFacts { messages: &[], tools: None };
    assert!(assertion(1).check(&facts).passed, "nothing was called");
    assert!(!assertion(0).check(&facts).passed);
    for (name, expected) in
        [("add", true), ("mcp__calc__add", true), ("mcp__calc__add_all", false), ("mcp__add", false)]
    {
        let call =
            json!([{"role": "assistant", "content": "", "tool_calls": [{"id": "1", "name": name, "input": {}}]}]);
        let messages: Vec<TraceMessage> = serde_json::from_value(call).unwrap();
        let facts = TraceFacts { messages: &messages, tools: None };
        assert_eq!(assertion(0).check(&facts).passed, expected, "{name}");
        assert!(!assertion(0).check(&TraceFacts { tools: Some(&ToolSet::default()), ..facts }).passed || name == "add");
    }
}
