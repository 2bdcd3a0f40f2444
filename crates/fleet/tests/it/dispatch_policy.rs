//! Policies, conditions and approvals.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use wharf_client::{BoxFuture, ClientCapabilities, ElicitationAnswer, InProcess, Session, SessionOptions};
use wharf_fleet::dispatch::{
    ApprovalAnswer, Condition, Dispatcher, Policy, Question, QuestionKind, TimedPrompt, UserAnswer, UserPrompt, host,
};
use wharf_fleet::{Catalog, Entry, Settings};
use wharf_testkit::{Script, Scripted, Step, soon};

use crate::dispatch_kit::{Fake, Recorder, catalog, condition, notes, read, server_tools};

/// Answers each question with the next answer, and records the questions.
pub(crate) struct Person {
    answers: Mutex<Vec<ApprovalAnswer>>,
    asked: Mutex<Vec<String>>,
}

impl Person {
    fn new(answers: impl Into<Vec<ApprovalAnswer>>) -> Arc<Self> {
        Arc::new(Self { answers: Mutex::new(answers.into()), asked: Mutex::default() })
    }

    fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap().clone()
    }
}

impl UserPrompt for Person {
    fn ask(&self, question: Question) -> BoxFuture<'_, UserAnswer> {
        let (words, answer) = match question.kind {
            QuestionKind::Approve(request) => {
                let answer = UserAnswer::Approval(self.answers.lock().unwrap().remove(0));
                (format!("{} {} because {}", request.name, request.arguments, request.why), answer)
            }
            QuestionKind::Elicit { server, elicitation } => {
                let answer = ElicitationAnswer::Accept(Some(json!({"n": 7}).into()));
                (format!("{server} elicits: {}", elicitation.message), UserAnswer::Form(answer))
            }
            QuestionKind::Sample { server, request } => {
                let answer = json!({"role": "assistant", "content": {"type": "text", "text": "yes"}, "model": "m"});
                (format!("{server} samples: {request}"), UserAnswer::Sample(Ok(answer.into())))
            }
        };
        self.asked.lock().unwrap().push(words);
        Box::pin(async { answer })
    }

    fn capabilities(&self) -> ClientCapabilities {
        ClientCapabilities { elicitation: true, sampling: true, roots: false }
    }
}

fn entry(name: &str, annotations: Value) -> Arc<Entry> {
    notes(name, annotations, Fake::echo())
}

fn holds(text: &str, entry: &Entry, arguments: Value) -> bool {
    condition(text).matches(entry, &arguments.into())
}

#[test]
fn all_terms_of_a_condition_must_match() {
    let entry = entry("delete_note", json!({"destructiveHint": true}));
    for text in [
        "",
        "*",
        "delete_*",
        "mcp__notes",
        "mcp__notes__.*",
        "server:no*",
        "hint:destructive|unknown",
        "arg.what=a*",
        "!server:mail",
        "delete_note hint:destructive arg.what=ab",
        "x|delete_note",
        "arg.deep.er=1",
        "arg.what=\"a b\"|ab",
        "!!delete_note",
        "\"/(write|delete)_.*/\"",
    ] {
        assert!(holds(text, &entry, json!({"what": "ab", "deep": {"er": 1}})), "{text}");
    }
    for text in [
        "delete",
        "server:notes hint:read-only",
        "!delete_note",
        "hint:unknown",
        "arg.what=b*",
        "arg.none=*",
        "arg.what=/ab/",
        "/delete/",
        "mcp__note",
        "!arg.what=ab",
        "x|y",
    ] {
        assert!(!holds(text, &entry, json!({"what": "ab"})), "{text}");
    }
}

#[test]
fn argument_terms_look_into_arrays_and_ignore_case() {
    let entry = entry("move", json!({}));
    let arguments = json!({"Paths": ["/home/a", ["/etc/passwd"]], "jobs": [{"Options": {"force": true}}], "none": []});
    for text in
        ["arg.paths=/etc/*", "arg.PATHS=/home/*", "arg.jobs.options.force=true", "arg.none=[]", "!arg.paths=/etc/*"]
    {
        assert!(holds(text, &entry, arguments.clone()), "{text}");
    }
    for text in ["arg.paths=/root/*", "!arg.paths=/*", "arg.jobs.force=true", "!arg.jobs.options.force=true"] {
        assert!(!holds(text, &entry, arguments.clone()), "{text}");
    }
}

#[tokio::test]
async fn path_rules_hold_for_every_spelling_of_a_path() {
    let policy = json!({"mode": "cautious", "deny": ["arg.path=/etc/*", "arg.path=src/secret/*"],
        "allow": ["arg.path=/home/me/project/*", "arg.path=src/*", "arg.note=* !arg.note=/root/* !arg.note=*/.ssh/*"]});
    let policy: Policy = serde_json::from_value(policy).unwrap();
    let tools = json!([{"name": "t", "inputSchema": {}}]);
    let fake = Fake::echo();
    let catalog = Catalog::new(vec![server_tools("s", Settings::default(), tools, fake.clone())], Vec::new());
    let dispatcher = Dispatcher::new(policy);
    let outcome = async |arguments: Value| match read(&dispatcher, &catalog, "mcp__s__t", arguments).await {
        text if text.contains("denied by the policy") => "denied",
        text if text.contains("approval") => "asked",
        text if text.starts_with("error") => "failed",
        _ => "called",
    };
    for path in [
        json!("//etc/passwd"),
        json!("/./etc/passwd"),
        json!("/tmp/../etc/passwd"),
        json!("/home/me/project/../../../etc/shadow"),
        json!("file:///etc/passwd"),
        json!("file://localhost/%65tc/passwd"),
        json!(" /etc/passwd"),
        json!({"p": "/etc/passwd"}),
        json!([{"p": ["/tmp//../etc/passwd"]}]),
        json!("src//secret/key"),
    ] {
        assert_eq!(outcome(json!({"path": path})).await, "denied", "{path}");
    }
    for path in ["/home/me/project/../secret", "/home/me/project/..", "src/../x", "src/../../x", "../src/x", "src/.."] {
        assert_eq!(outcome(json!({"path": path})).await, "asked", "{path}");
    }
    for path in ["/home/me/project/a", "/home/me/project/b/../c", "/home/me/project/./a", "src/a", "src/b/../c"] {
        assert_eq!(outcome(json!({"path": path})).await, "called", "{path}");
    }
    assert_eq!(outcome(json!({"note": "//root/x"})).await, "asked");
    assert_eq!(outcome(json!({"note": "../../.ssh/id_rsa"})).await, "asked");
    assert_eq!(outcome(json!({"note": {"n": "/root/x"}})).await, "asked");
    assert_eq!(outcome(json!({"note": "a // b"})).await, "called");
}

#[tokio::test]
async fn a_rule_allows_a_list_only_if_it_allows_every_element() {
    let policy = json!({"mode": "cautious", "allow": ["arg.what=/home/*"], "deny": ["arg.what=/etc/*"]});
    let policy: Policy = serde_json::from_value(policy).unwrap();
    let tools = json!([{"name": "t", "inputSchema": {}}]);
    let fake = Fake::echo();
    let catalog = Catalog::new(vec![server_tools("s", Settings::default(), tools, fake.clone())], Vec::new());
    let dispatcher = Dispatcher::new(policy);
    let outcome = async |what: Value| read(&dispatcher, &catalog, "mcp__s__t", json!({"what": what})).await;
    assert!(!outcome(json!(["/home/a", "/home/b"])).await.starts_with("error"));
    assert!(outcome(json!(["/home/a", "/root/b"])).await.contains("approval"));
    assert!(outcome(json!(["/home/a", "/etc/b"])).await.contains("denied by the policy"));
    assert_eq!(fake.calls().len(), 1);
    // A server may ignore a name in another case, and an element without the argument.
    let policy = json!({"mode": "cautious", "allow": ["arg.dry_run=true", "arg.jobs.dry_run=true"]});
    let careful = Dispatcher::new(serde_json::from_value(policy).unwrap());
    for arguments in [json!({"DRY_RUN": true}), json!({"jobs": [{"dry_run": true}, {"target": "prod"}]})] {
        assert!(read(&careful, &catalog, "mcp__s__t", arguments).await.contains("approval"));
    }
    let allowed = json!({"jobs": [{"dry_run": true}, {"dry_run": true, "target": "prod"}]});
    assert!(!read(&careful, &catalog, "mcp__s__t", allowed).await.starts_with("error"));
    // A server may use either of two names that differ in case.
    let both = json!({"what": "/home/a", "WHAT": "/root/b"});
    assert!(read(&dispatcher, &catalog, "mcp__s__t", both).await.contains("approval"));
}

#[test]
fn an_invalid_condition_names_the_position_and_the_error() {
    let refusal = |text: &str| text.parse::<Condition>().unwrap_err().to_string();
    let all =
        ["hint:dangerous", "a sever:x", "a arg.path", "arg.=x", "a \"b", "a||b", "server:", "x /a|b/", "\"/a(|b/\""]
            .map(refusal);
    insta::assert_snapshot!(all.join("\n"), @r#"
    invalid condition `hint:dangerous`: at character 6: unknown hint `dangerous`: expected destructive, read-only, idempotent, open-world, unknown
    invalid condition `a sever:x`: at character 3: unknown prefix `sever:`; did you mean `server:`?
    invalid condition `a arg.path`: at character 3: missing `=PATTERN`: expected `arg.NAME=PATTERN`
    invalid condition `arg.=x`: at character 5: missing argument name after `arg.`
    invalid condition `a "b`: at character 3: unclosed quotation mark
    invalid condition `a||b`: at character 1: empty alternative
    invalid condition `server:`: at character 1: empty alternative
    invalid condition `x /a|b/`: at character 3: invalid regular expression `/a`: expected an expression between two slashes; quote blanks and bars with quotation marks
    invalid condition `"/a(|b/"`: at character 1: invalid regular expression `/a(|b/`: unclosed group
    "#);
    assert!(serde_json::from_str::<Condition>("\"hint:x\"").is_err());
}

/// The decisions about calls of a read-only, an unhinted and a destructive tool.
async fn verdicts(policy: Value) -> String {
    let policy: Policy = serde_json::from_value(policy).unwrap();
    let recorder = Arc::new(Recorder::default());
    let dispatcher = Dispatcher::new(policy).with_trace(recorder.clone());
    let hints =
        [("read", json!({"readOnlyHint": true})), ("some", json!({})), ("wipe", json!({"destructiveHint": true}))];
    let mut outputs = Vec::new();
    for (name, annotations) in hints {
        let catalog = catalog(vec![entry(name, annotations)]);
        read(&dispatcher, &catalog, &format!("mcp__notes__{name}"), json!({"what": "x"})).await;
        let step: Value = serde_json::from_str(&recorder.steps()).unwrap();
        outputs.push(format!("{name}: {} by {}", step["step"].as_str().unwrap(), step["by"].as_str().unwrap()));
    }
    outputs.join("\n")
}

#[tokio::test]
async fn the_mode_decides_by_hints_if_no_rule_matches() {
    insta::assert_snapshot!(verdicts(json!({"mode": "permissive"})).await, @"
    read: allowed by permissive mode
    some: allowed by permissive mode
    wipe: allowed by permissive mode
    ");
    insta::assert_snapshot!(verdicts(json!({})).await, @"
    read: allowed by standard mode
    some: allowed by standard mode
    wipe: asked by standard mode: the tool is destructive
    ");
    insta::assert_snapshot!(verdicts(json!({"mode": "cautious"})).await, @"
    read: allowed by cautious mode: the tool is read-only
    some: asked by cautious mode: the tool is not read-only
    wipe: asked by cautious mode: the tool is not read-only
    ");
}

#[tokio::test]
async fn a_rule_that_denies_wins_over_one_that_asks_and_that_over_one_that_allows() {
    let lists = json!({"mode": "cautious", "allow": ["mcp__notes"], "ask": ["some|wipe"], "deny": ["wipe"]});
    insta::assert_snapshot!(verdicts(lists).await, @"
    read: allowed by mcp__notes
    some: asked by some|wipe
    wipe: denied by wipe
    ");
    let rules = json!({"mode": "cautious", "rules": [{"when": "*", "then": "allow", "name": "all is well"},
        {"when": "hint:destructive", "then": "deny"}]});
    insta::assert_snapshot!(verdicts(rules).await, @"
    read: allowed by all is well
    some: allowed by all is well
    wipe: denied by hint:destructive
    ");
    assert!(serde_json::from_value::<Policy>(json!({"alow": []})).is_err());
}

#[tokio::test]
async fn cached_decisions_apply_only_to_the_policy_that_made_them() {
    let fake = Fake::echo();
    let catalog = catalog(vec![notes("send", json!({}), fake.clone()), notes("look", json!({}), fake.clone())]);
    let dispatcher = |policy: Value| Dispatcher::new(serde_json::from_value(policy).unwrap());
    let open = dispatcher(json!({"allow": ["send", "look"]}));
    let closed = dispatcher(json!({"allow": ["look"], "deny": ["send"]}));
    let careful = dispatcher(json!({"deny": ["send arg.what=secret"]}));
    let refuses = async |dispatcher: &Dispatcher, tool: &str, what: &str| {
        read(dispatcher, &catalog, &format!("mcp__notes__{tool}"), json!({"what": what})).await.starts_with("error:")
    };
    // In turns and repeatedly: the policies share the tools and nothing else.
    for _ in 0..3 {
        assert!(!refuses(&open, "send", "news").await && !refuses(&open, "send", "news").await);
        assert!(refuses(&closed, "send", "news").await && refuses(&closed, "send", "news").await);
        assert!(!refuses(&closed, "look", "news").await);
        // A decision that depends on arguments is made for each call.
        assert!(!refuses(&careful, "send", "news").await && refuses(&careful, "send", "secret").await);
        assert!(refuses(&careful, "send", "secret").await && !refuses(&careful, "send", "news").await);
    }
}

#[tokio::test]
async fn without_a_user_a_call_that_needs_approval_is_refused() {
    let fake = Fake::echo();
    let catalog = catalog(vec![notes("wipe", json!({"destructiveHint": true}), fake.clone())]);
    let outputs = read(&Dispatcher::default(), &catalog, "mcp__notes__wipe", json!({"what": "x"})).await;
    insta::assert_snapshot!(outputs, @"error: `mcp__notes__wipe` was not called: it requires approval, and no user can be asked");
    assert!(fake.calls().is_empty(), "nothing reaches the server");
}

#[tokio::test]
async fn the_user_is_asked_for_each_call_or_once_for_all() {
    let person = Person::new([ApprovalAnswer::No("not today".into()), ApprovalAnswer::Yes, ApprovalAnswer::YesAlways]);
    let fake = Fake::echo();
    let catalog = catalog(vec![notes("wipe", json!({"destructiveHint": true}), fake.clone())]);
    let dispatcher = Dispatcher::default().with_user_prompt(person.clone());
    let mut outputs = Vec::new();
    for number in 0..5 {
        outputs.push(read(&dispatcher, &catalog, "mcp__notes__wipe", json!({"what": number.to_string()})).await);
    }
    insta::assert_snapshot!(outputs.join("\n"), @r#"
    error: `mcp__notes__wipe` was not called: not today
    {"what":"1"}
    {"what":"2"}
    {"what":"3"}
    {"what":"4"}
    "#);
    insta::assert_snapshot!(person.asked().join("\n"), @r#"
    mcp__notes__wipe {"what":"0"} because standard mode: the tool is destructive
    mcp__notes__wipe {"what":"1"} because standard mode: the tool is destructive
    mcp__notes__wipe {"what":"2"} because standard mode: the tool is destructive
    "#);
}

/// Answers after a while.
struct Thoughtful(Duration);

impl UserPrompt for Thoughtful {
    fn ask(&self, _: Question) -> BoxFuture<'_, UserAnswer> {
        Box::pin(async {
            tokio::time::sleep(self.0).await;
            UserAnswer::Approval(ApprovalAnswer::Yes)
        })
    }

    fn capabilities(&self) -> ClientCapabilities {
        ClientCapabilities::default()
    }
}

#[tokio::test(start_paused = true)]
async fn the_duration_of_a_call_excludes_the_time_of_the_user() {
    let prompt = Arc::new(TimedPrompt::new(Arc::new(Thoughtful(Duration::from_secs(5)))));
    let catalog = catalog(vec![notes("wipe", json!({"destructiveHint": true}), Fake::echo())]);
    let recorder = Arc::<Recorder>::default();
    let dispatcher = Dispatcher::default().with_user_prompt(prompt.clone()).with_trace(recorder.clone());
    let start = tokio::time::Instant::now();
    for _ in 0..2 {
        read(&dispatcher, &catalog, "mcp__notes__wipe", json!({"what": "x"})).await;
        assert!(recorder.millis() < 1_000, "{}", recorder.millis());
    }
    assert_eq!((start.elapsed().as_secs(), prompt.time_asked().as_secs()), (10, 10));
}

#[tokio::test]
async fn a_changed_tool_needs_a_new_approval() {
    let person = Person::new([ApprovalAnswer::YesAlways, ApprovalAnswer::No(String::new())]);
    let dispatcher = Dispatcher::default().with_user_prompt(person.clone());
    let wipe = |more: &str| {
        let annotations = json!({"destructiveHint": true, "x": more});
        catalog(vec![notes("wipe", annotations, Fake::echo())])
    };
    read(&dispatcher, &wipe("a"), "mcp__notes__wipe", json!({"what": "x"})).await;
    let outputs = read(&dispatcher, &wipe("b"), "mcp__notes__wipe", json!({"what": "x"})).await;
    assert_eq!(outputs, "error: `mcp__notes__wipe` was not called: the user rejected the call.");
}

#[tokio::test]
async fn a_tool_that_requires_user_interaction_asks_each_time_unless_denied() {
    let tools = json!([{"name": "pay", "inputSchema": {}, "_meta": {"anthropic/requiresUserInteraction": true}}]);
    let server_tools = server_tools("bank", Settings::default(), tools, Fake::echo());
    let catalog = wharf_fleet::Catalog::new(vec![server_tools], Vec::new());
    let person = Person::new([ApprovalAnswer::YesAlways, ApprovalAnswer::Yes]);
    let policy: Policy = serde_json::from_value(json!({"mode": "permissive", "allow": ["*"]})).unwrap();
    let dispatcher = Dispatcher::new(policy).with_user_prompt(person.clone());
    for _ in 0..2 {
        assert_eq!(read(&dispatcher, &catalog, "mcp__bank__pay", json!({})).await, "{}");
    }
    assert_eq!(person.asked().len(), 2);
    let policy: Policy = serde_json::from_value(json!({"deny": ["pay"]})).unwrap();
    let outputs = read(&Dispatcher::new(policy), &catalog, "mcp__bank__pay", json!({})).await;
    assert!(outputs.starts_with("error: `mcp__bank__pay` was not called: denied by the policy"), "{outputs}");
}

#[tokio::test]
async fn requests_of_a_server_go_to_the_same_user_prompt() {
    let person = Person::new([]);
    let form = json!({"message": "how many?", "requestedSchema": {"type": "object", "properties": {"n": {"type": "integer"}}}});
    let script = Script::good().any_tool("ask").any_tool("think");
    let script = script.on_call("ask", [Step::Ask("elicitation/create".into(), form), Step::EchoAnswer]);
    let sample = json!({"messages": [], "maxTokens": 5});
    let script = script.on_call("think", [Step::Ask("sampling/createMessage".into(), sample), Step::EchoAnswer]);
    let server = Scripted::new(script);
    let transport = InProcess::new(move |stream| server.clone().serve(stream));
    let name: wharf_protocol::ServerName = "true".parse().unwrap();
    let outputs = Arc::new(Mutex::new(0));
    let count = Arc::clone(&outputs);
    let host = host(name.clone(), person.clone(), move |_| *count.lock().unwrap() += 1);
    let session = Session::new(name, transport, host, SessionOptions::default());
    let answer = soon(session.call("ask", &json!({}).into())).await.unwrap();
    assert!(answer.text().contains("accept") && answer.text().contains('7'), "{}", answer.text());
    let answer = soon(session.call("think", &json!({}).into())).await.unwrap();
    assert!(answer.text().contains("yes"), "{}", answer.text());
    assert_eq!(person.asked()[0], "true elicits: how many?");
    assert!(person.asked()[1].starts_with("true samples: "));
}

#[test]
fn a_condition_reports_unknown_servers() {
    let strangers = |text: &str| {
        let condition: Condition = text.parse().unwrap();
        condition.unknown_servers(&["git", "my.docs", "a__b"]).join(" ")
    };
    assert_eq!(strangers("mcp__gti__* server:git"), "gti");
    assert_eq!(strangers("mcp__gti|mcp__git|server"), "gti");
    assert_eq!(strangers("server:mail|doc*"), "mail doc*");
    // Each of these may match a tool.
    for text in ["", "*", "mcp__*", "mcp__g*", "mcp__my_docs__x", "mcp__a__b__*", "search", "!mcp__gti__*", "server:*"]
    {
        assert_eq!(strangers(text), "", "{text}");
    }
}
