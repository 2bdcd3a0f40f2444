//! Outputs that are too long for a model.

use std::sync::Arc;

use serde_json::{Value, json};
use wharf_client::{CallErrorKind, SchemaViolation};
use wharf_fleet::dispatch::{AfterCall, BeforeCall, Dispatcher, Spill};
use wharf_fleet::{Catalog, Policy, Settings};
use wharf_protocol::{ContentKind, Json, ToolOutput};
use wharf_testkit::soon;

use crate::dispatch_hooks::FixedHook;
use crate::dispatch_kit::{Fake, Recorder, call, catalog, notes, read, server_tools};

const NAME: &str = "mcp__notes__add";

fn answering(result: Value) -> Arc<Fake> {
    Fake::new(move |_| Ok(ToolOutput::from_json(&Json::from(result.clone())).unwrap()))
}

fn text(text: &str) -> Value {
    json!({"content": [{"type": "text", "text": text}]})
}

async fn output(dispatcher: &Dispatcher, result: Value) -> ToolOutput {
    let catalog = catalog(vec![notes("add", json!({}), answering(result))]);
    soon(dispatcher.call(&catalog, &call(NAME, json!({"what": "x"})))).await.unwrap()
}

/// A dispatcher that shows ten tokens, which are forty characters.
fn short() -> (Dispatcher, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let spill = Spill::new(folder.path()).unwrap();
    (Dispatcher::default().with_max_output_tokens(10).with_spill(spill), folder)
}

#[tokio::test]
async fn an_output_within_the_limit_is_passed_on_without_a_copy() {
    let sent = ToolOutput::from_json(&Json::from(text("short"))).unwrap();
    let ours = sent.clone();
    let catalog = catalog(vec![notes("add", json!({}), Fake::new(move |_| Ok(ours.clone())))]);
    let got = soon(Dispatcher::default().call(&catalog, &call(NAME, json!({"what": "x"})))).await.unwrap();
    assert!(std::ptr::eq(got.raw.as_str(), sent.raw.as_str()));
    let (dispatcher, _folder) = short();
    assert_eq!(output(&dispatcher, text(&"é".repeat(40))).await.text(), "é".repeat(40), "characters count, not bytes");
}

#[tokio::test]
async fn a_long_output_is_cut_at_a_character_and_says_how_to_read_the_rest() {
    let (dispatcher, _folder) = short();
    let recorder = Arc::new(Recorder::default());
    let dispatcher = dispatcher.with_trace(recorder.clone());
    insta::assert_snapshot!(output(&dispatcher, text(&"日é".repeat(50))).await.text(), @r#"
    日é日é日é日é日é日é日é日é日é日é日é日é日é日é日é日é日é日é日é日é
    [The text of this output has 100 characters; only the first 40 are shown. Read the rest with the tool `read_output`: {"id": "out-1", "offset": 40}.]
    "#);
    assert!(
        recorder.steps().contains(r#"{"step":"cut","from":100,"to":40,"kept_as":"out-1"}"#),
        "{}",
        recorder.steps()
    );
}

#[tokio::test]
async fn an_output_of_more_than_10000_tokens_is_traced_as_large() {
    let steps = async |dispatcher: Dispatcher, result: Value| {
        let recorder = Arc::new(Recorder::default());
        output(&dispatcher.with_trace(recorder.clone()), result).await;
        recorder.steps()
    };
    let at_limit = text(&"é".repeat(40_003));
    let large = text(&"é".repeat(40_004));
    assert!(!steps(Dispatcher::default(), at_limit).await.contains("large_output"));
    let step = r#"{"step":"large_output","tokens":10001}"#;
    assert!(steps(Dispatcher::default(), large.clone()).await.contains(step));
    let structured = json!({"content": [], "structuredContent": {"x": "y".repeat(40_000)}});
    assert!(steps(Dispatcher::default(), structured).await.contains("large_output"));
    // The size before a cut counts. The user may read as much as there is.
    assert!(steps(Dispatcher::default().with_max_output_tokens(10), large.clone()).await.contains(step));
    assert!(!steps(Dispatcher::default().with_unlimited_outputs(), large).await.contains("large_output"));
}

#[tokio::test]
async fn without_a_store_the_rest_is_dropped_and_the_output_says_so() {
    insta::assert_snapshot!(output(&Dispatcher::default().with_max_output_tokens(2), text("0123456789")).await.text(), @"
    01234567
    [The text of this output has 10 characters; only the first 8 are shown. The rest is not available (outputs are not stored). Request less if the tool allows it.]
    ");
}

#[tokio::test]
async fn content_other_than_text_survives_and_resources_keep_their_uri() {
    let (dispatcher, _folder) = short();
    let blocks = json!({"isError": true, "_meta": {"k": 1}, "content": [
        {"type": "text", "text": "a".repeat(30)},
        {"type": "image", "data": "aGk=".repeat(100), "mimeType": "image/png"},
        {"type": "resource", "resource": {"uri": "file:///x", "mimeType": "text/plain", "text": "b".repeat(30)}},
        {"type": "resource", "resource": {"uri": "file:///y", "text": "c".repeat(30)}},
        {"type": "text", "text": "d".repeat(30)},
        {"type": "resource_link", "uri": "https://example.com/z", "name": "z"}]});
    let output = output(&dispatcher, blocks).await;
    insta::assert_snapshot!(output.text(), @r#"
    aaaaaaaaaaaaaaaaaaaaaaaaaaaaaa
    [image, image/png, 299 bytes]
    bbbbbbbbbb

    [link to https://example.com/z]
    [The text of this output has 120 characters; only the first 40 are shown. Read the rest with the tool `read_output`: {"id": "out-1", "offset": 41}.]
    "#);
    assert!(output.is_error && output.meta.is_some());
    assert!(
        output
            .content
            .iter()
            .any(|block| matches!(&block.kind, ContentKind::Resource { uri, .. } if uri == "file:///y"))
    );
    let again = ToolOutput::from_json(&output.raw).unwrap();
    assert_eq!(again.text(), output.text(), "the raw result says the same");
}

#[tokio::test]
async fn structured_content_over_the_limit_is_left_out_and_stored() {
    let (dispatcher, _folder) = short();
    let long: Vec<u32> = (0..30).collect();
    let both =
        output(&dispatcher, json!({"content": [{"type": "text", "text": "thirty"}], "structuredContent": long})).await;
    assert!(both.structured.is_none());
    insta::assert_snapshot!(both.text(), @r#"
    thirty
    [The structured content of this output has 81 characters and is left out. Read the rest with the tool `read_output`: {"id": "out-1", "offset": 0}.]
    "#);
    let alone = output(&dispatcher, json!({"structuredContent": long})).await;
    insta::assert_snapshot!(alone.text(), @r#"
    [0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,1
    [The structured content of this output has 81 characters and is left out except for its beginning. Read the rest with the tool `read_output`: {"id": "out-2", "offset": 40}.]
    "#);
    let short = output(&dispatcher, json!({"structuredContent": {"n": 1}})).await;
    assert_eq!(short.structured.unwrap().as_str(), r#"{"n":1}"#);
}

#[tokio::test]
async fn read_output_reads_the_rest_in_parts() {
    let folder = tempfile::tempdir().unwrap();
    let dispatcher = Dispatcher::default().with_max_output_tokens(100).with_spill(Spill::new(folder.path()).unwrap());
    let whole: String = (0..1000).map(|number| format!("é{number} ")).collect::<Vec<_>>().concat();
    let entries = vec![dispatcher.read_output().unwrap(), notes("add", json!({}), answering(text(&whole)))];
    let catalog = catalog(entries);
    assert!(
        read(&dispatcher, &catalog, NAME, json!({"what": "x"}))
            .await
            .contains("`read_output`: {\"id\": \"out-1\", \"offset\": 400}")
    );
    let mut offset = 0;
    let mut got = String::new();
    while offset < whole.chars().count() {
        let part =
            read(&dispatcher, &catalog, "read_output", json!({"id": "out-1", "offset": offset, "length": 1_000_000}))
                .await;
        assert!(part.chars().count() <= 400, "{part}");
        let (text, _) = part.rsplit_once("\n[Characters").unwrap();
        got.push_str(text);
        offset += text.chars().count();
    }
    assert_eq!(got, whole);
    let reads = [
        json!({"id": "out-1", "offset": 2, "length": 5}),
        json!({"id": "out-1", "offset": 99_999}),
        json!({"id": "out-2"}),
        json!({"id": "../../etc/passwd"}),
        json!({"id": "out-1", "offset": -1}),
    ];
    let mut outputs = Vec::new();
    for arguments in reads {
        outputs.push(read(&dispatcher, &catalog, "read_output", arguments).await);
    }
    insta::assert_snapshot!(outputs.join("\n"), @r#"
     é1 é
    [Characters 2 to 7 of 4890; continue with offset 7.]

    [Characters 4890 to 4890 of 4890; end of output.]
    error: unknown output `out-2`
    error: unknown output `../../etc/passwd`
    error: `read_output` was not called: its arguments do not match its schema: at `/offset`: -1 is less than the minimum of 0. Fix them and call it again. Its schema: {"type":"object","required":["id"],"additionalProperties":false,"properties":{"id":{"type":"string","description":"The id that the cut output names."},"offset":{"type":"integer","minimum":0,"description":"The first character to read, counted from 0."},"length":{"type":"integer","minimum":1,"description":"The number of characters to read; default and maximum: 240."}}}
    "#);
}

#[tokio::test]
async fn the_oldest_output_makes_room_and_dropping_the_store_removes_all() {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = tempfile::tempdir().unwrap();
    let spill = Spill::with_capacity(folder.path(), 250).unwrap();
    let dispatcher = Dispatcher::default().with_max_output_tokens(10).with_spill(spill.clone());
    let catalog =
        catalog(vec![dispatcher.read_output().unwrap(), notes("add", json!({}), answering(text(&"x".repeat(100))))]);
    for _ in 0..3 {
        read(&dispatcher, &catalog, NAME, json!({"what": "x"})).await;
    }
    let outputs = read(&dispatcher, &catalog, "read_output", json!({"id": "out-1"})).await;
    assert!(outputs.starts_with("error: the output `out-1` was removed"), "{outputs}");
    assert!(read(&dispatcher, &catalog, "read_output", json!({"id": "out-3", "length": 1})).await.starts_with('x'));
    assert!(spill.store("x".repeat(300)).await.unwrap_err().contains("larger than"));
    let files = || walk(folder.path());
    assert_eq!(files().len(), 3, "two outputs and the lock");
    assert!(files().iter().all(|file| file.metadata().unwrap().permissions().mode() & 0o777 == 0o600));
    drop((spill, dispatcher, catalog));
    assert!(files().is_empty() && std::fs::read_dir(folder.path()).unwrap().count() == 0);
}

fn walk(folder: &std::path::Path) -> Vec<std::path::PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    entries.flat_map(|path| if path.is_dir() { walk(&path) } else { vec![path] }).collect()
}

#[tokio::test]
async fn a_tool_requests_more_only_where_the_user_has_set_no_limit() {
    let tools = json!([{"name": "a", "inputSchema": {}}, {"name": "b", "inputSchema": {}, "_meta": {"anthropic/maxResultSizeChars": 50}},
        {"name": "c", "inputSchema": {}, "_meta": {"anthropic/maxResultSizeChars": 9_000_000}}]);
    let lengths = async |dispatcher: Dispatcher, of_server: Option<usize>| {
        let settings = Settings { max_output_tokens: of_server, ..Settings::default() };
        let server_tools = server_tools("s", settings, tools.clone(), answering(text(&"x".repeat(600_000))));
        let catalog = Catalog::new(vec![server_tools], Vec::new());
        let mut lengths = Vec::new();
        for name in ["a", "b", "c"] {
            let output = soon(dispatcher.call(&catalog, &call(&format!("mcp__s__{name}"), json!({})))).await.unwrap();
            lengths.push(output.content[0].as_text().unwrap().len());
        }
        lengths
    };
    assert_eq!(lengths(Dispatcher::default(), None).await, [100_000, 50, 500_000]);
    assert_eq!(lengths(Dispatcher::default(), Some(25)).await, [100, 50, 100]);
    assert_eq!(lengths(Dispatcher::default().with_max_output_tokens(25), None).await, [100, 50, 100]);
    assert_eq!(lengths(Dispatcher::default().with_max_output_tokens(10), Some(25)).await, [100, 50, 100]);
}

#[tokio::test]
async fn long_uris_names_and_types_do_not_evade_the_limit() {
    let long = "x".repeat(2_000_000);
    let link = |uri: &str| json!({"type": "resource_link", "uri": uri, "name": "n"});
    let outputs = [
        json!({"content": [{"type": "image", "data": "AA==", "mimeType": long}]}),
        json!({"content": [link(&long)]}),
        json!({"content": [{"type": "resource", "resource": {"uri": long, "blob": "AA=="}}]}),
        json!({"content": vec![link(&"y".repeat(4_000)); 1_000]}),
    ];
    for sent in outputs {
        let got = output(&Dispatcher::default(), sent).await;
        let described: usize = got.content.iter().map(|block| block.describe().len()).sum();
        assert!(described < 110_000, "{described}");
        assert!(got.raw.as_str().len() < 200_000, "{}", got.raw.as_str().len());
        assert!(got.text().contains("is too long"), "{}", got.text().len());
    }
    let few = output(&Dispatcher::default(), json!({"content": [link("file:///a"), link("file:///b")]})).await;
    assert_eq!(few.content.len(), 2);
}

/// The stored outputs; the lock beside them is empty.
fn stored(folder: &std::path::Path) -> Vec<String> {
    let texts = walk(folder).into_iter().map(|path| std::fs::read_to_string(path).unwrap());
    texts.filter(|text| !text.is_empty()).collect()
}

#[tokio::test]
async fn hooks_see_the_whole_output_and_what_they_withhold_cannot_be_read_back() {
    let secret = format!("{}the secret", "x".repeat(100));
    let (dispatcher, folder) = short();
    let guard = FixedHook::new("guard", "", BeforeCall::proceed(), AfterCall::Block("it holds a secret".into()));
    let quote = FixedHook::new("quote", "", BeforeCall::proceed(), AfterCall::Annotate("it says: the secret".into()));
    let dispatcher = dispatcher.with_hook(quote).with_hook(guard.clone());
    let withheld = output(&dispatcher, text(&secret)).await;
    assert!(withheld.is_error && !withheld.text().contains("out-"), "{}", withheld.text());
    assert!(!withheld.text().contains("the secret"), "{}", withheld.text());
    assert!(guard.saw().last().unwrap().ends_with("the secret"), "{:?}", guard.saw());
    assert!(stored(folder.path()).is_empty(), "the withheld output is stored");
    let read_back = catalog(vec![dispatcher.read_output().unwrap()]);
    let answer = read(&dispatcher, &read_back, "read_output", json!({"id": "out-1"})).await;
    assert!(!answer.contains("secret the"), "{answer}");

    let (dispatcher, folder) = short();
    let replacing = AfterCall::Replace(ToolOutput::said("y".repeat(100)));
    let dispatcher = dispatcher.with_hook(FixedHook::new("edit", "", BeforeCall::proceed(), replacing));
    let replaced = output(&dispatcher, text(&secret)).await;
    assert!(replaced.text().starts_with(&"y".repeat(40)) && replaced.text().contains("out-1"), "{}", replaced.text());
    assert_eq!(stored(folder.path()), ["y".repeat(100)], "only the replaced output is stored");

    let (dispatcher, _folder) = short();
    let note = FixedHook::new("note", "", BeforeCall::proceed(), AfterCall::Annotate("checked".into()));
    let noted = output(&dispatcher.with_hook(note), text(&secret)).await;
    assert!(noted.text().ends_with("\nchecked"), "an annotation is not cut: {}", noted.text());
}

#[tokio::test]
async fn the_trace_does_not_quote_an_output_that_a_hook_withholds_or_replaces() {
    let misfit = || {
        Fake::new(|_| {
            let output = Json::from(json!({"content": [], "structuredContent": {"n": "the secret"}}));
            let fault = SchemaViolation::at("/n", "\"the secret\" is not a number");
            let output = Box::new(ToolOutput::from_json(&output).unwrap());
            Err(CallErrorKind::Output { tool: "add".into(), fault, output })
        })
    };
    let traced = async |after: AfterCall| {
        let recorder = Arc::new(Recorder::default());
        let hook = FixedHook::new("guard", "", BeforeCall::proceed(), after);
        let dispatcher = Dispatcher::new(Policy::permissive()).with_trace(recorder.clone()).with_hook(hook);
        let catalog = catalog(vec![notes("add", json!({}), misfit())]);
        read(&dispatcher, &catalog, "mcp__notes__add", json!({"what": "x"})).await;
        recorder.lines()
    };
    assert!(traced(AfterCall::Keep).await.contains("is not a number"));
    for after in [AfterCall::Block("no".into()), AfterCall::Replace(ToolOutput::said("redacted"))] {
        let lines = traced(after).await;
        assert!(lines.contains("output_misfit") && !lines.contains("the secret"), "{lines}");
    }
}
