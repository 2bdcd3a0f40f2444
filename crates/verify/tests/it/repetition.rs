//! Repetitions: a resumed trial pays for nothing on record, and a replay gives the same bytes without servers.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use serde_json::json;
use wharf_agent::{Limits, ModelErrorKind};
use wharf_protocol::{Redactor, Secret};
use wharf_testkit::{Script, Step};
use wharf_verify::JournalError;
use wharf_verify::journal::StepKind;

use crate::agents::plain_question;
use crate::pipeline_kit::*;

/// Runs a setup, resumes it and replays it. The results must be the same bytes, without any further step.
pub(crate) async fn check_repetitions(setup: &Setup, counts: impl Fn() -> usize) -> Arc<MemoryJournal> {
    let journal = Arc::<MemoryJournal>::default();
    let results = setup.run_with(&journal).await.unwrap();
    let paid = counts();
    for again in [journal.resumed(), journal.replay()] {
        let repeated = setup.run_with(&again).await.unwrap();
        assert_eq!(serde_json::to_string(&repeated).unwrap(), serde_json::to_string(&results).unwrap());
        assert_eq!(again.kinds(), [], "a step on record was executed");
        if again.is_replay.load(Ordering::Relaxed) {
            assert_eq!(setup.workbench.opened.load(Ordering::SeqCst), 0, "a replay opens no servers");
        }
    }
    assert_eq!(counts(), paid);
    journal
}

#[tokio::test(start_paused = true)]
async fn an_agent_with_tools_and_a_judge_with_repairs_repeats_to_the_same_bytes() {
    let script = Script::default()
        .tool(reading("look"))
        .tool(writing("put"))
        .on_call("look", [Step::Wait(300), Step::Text("seen".to_owned())])
        .on_call("put", [Step::Error(-32000, "no \"room\"\n".to_owned())]);
    let both = [("c1", "mcp__s__look", json!({"at": 1})), ("c2", "mcp__s__look", json!({"at": 1}))];
    let answering = Fake::script(
        "fake-1",
        vec![
            Ok(calls(&both)),
            Err(wharf_agent::ModelError {
                retry_after: Some(Duration::from_secs(3)),
                ..error(ModelErrorKind::Overloaded)
            }),
            Ok(calls(&[("c3", "mcp__s__put", json!({"deep": [1.50, {"k": null}]})), ("c4", "nothing", json!([]))])),
            Ok(says("It is Paris.")),
        ],
    );
    let judge = judge(|_, number| Ok(says(&if number == 0 { "Paris".to_owned() } else { right().to_string() })));
    let setup = Setup::new(city_question(), &answering, &judge).server("s", script);
    let journal = check_repetitions(&setup, || answering.count() + judge.count()).await;
    let result = &journal.results()[0];
    assert_eq!((outcome(result).as_str(), result.tool_calls, result.trace.len()), ("passed", 4, 7));
    assert!(result.millis >= 300, "the time of calls is in the result: {}", result.millis);
    assert_eq!(journal.kinds().iter().filter(|kind| **kind == StepKind::Model).count(), 4);
}

#[tokio::test(start_paused = true)]
async fn a_provider_that_failed_on_record_fails_again_in_a_replay_and_is_asked_again_by_a_resumed_run() {
    let answering =
        Fake::new("fake-1", |_, number| if number < 3 { Err(error(ModelErrorKind::Server)) } else { Ok(says("So.")) });
    let setup = Setup::new(plain_question(), &answering, &judge_says(right()));
    let journal = Arc::<MemoryJournal>::default();
    let failed = setup.run_with(&journal).await.unwrap();
    assert_eq!(outcome(&failed[0]), "invalid: server_error at retries_exhausted_autofail");
    let start = tokio::time::Instant::now();
    assert_eq!(setup.run_with(&journal.replay()).await.unwrap(), failed);
    assert_eq!((start.elapsed(), answering.count()), (Duration::ZERO, 3), "a replay does not wait before a retry");
    let resumed = setup.run_with(&journal.resumed()).await.unwrap();
    assert_eq!((outcome(&resumed[0]).as_str(), answering.count()), ("passed", 4));
}

#[tokio::test(start_paused = true)]
async fn the_time_limit_ends_a_repetition_at_the_same_point() {
    let limited = |setup: &mut Setup| {
        setup.models[0].settings.limits = Limits { time: Some(Duration::from_secs(10)), ..Limits::default() };
    };
    // In a model request.
    let slow = Fake::slow("fake-1", Duration::from_secs(60), |_, _| Ok(says("So.")));
    let mut setup = Setup::new(plain_question(), &slow, &judge_says(right()));
    limited(&mut setup);
    let journal = check_repetitions(&setup, || slow.count()).await;
    let result = &journal.results()[0];
    assert_eq!(outcome(result), "failed: recursion_limit at limit_autofail");
    assert_eq!(result.failure.as_ref().unwrap().reason, "the limit of 10 s was reached");
    assert_eq!((result.limit_reached, result.millis), (true, 10_000));

    let folder = tempfile::tempdir().unwrap();
    let written = folder.path().join("written");
    // In tool calls, one of them finished, one in flight, one not started.
    let script = Script::default()
        .tool(reading("quick"))
        .tool(reading("hang"))
        .tool(writing("put"))
        .on_call("quick", [Step::Wait(4_000), Step::Text("seen".to_owned())])
        .on_call("hang", [Step::Hang])
        .on_call("put", [Step::Touch(written.display().to_string()), Step::Text("written".to_owned())]);
    let turn =
        [("c1", "mcp__s__quick", json!({})), ("c2", "mcp__s__hang", json!({})), ("c3", "mcp__s__put", json!({}))];
    let answering = Fake::script("fake-1", vec![Ok(calls(&turn)), Ok(says("So."))]);
    let mut setup = Setup::new(plain_question(), &answering, &judge_says(right())).server("s", script);
    limited(&mut setup);
    let journal = check_repetitions(&setup, || answering.count()).await;
    let result = &journal.results()[0];
    assert_eq!(outcome(result), "failed: recursion_limit at limit_autofail");
    assert_eq!((answering.count(), result.trace.len()), (1, 4));
    assert_eq!(result.trace[1].content, "seen");
    assert!(result.trace[2].content.contains("the limit of 10 s was reached"), "{}", result.trace[2].content);
    assert!(!written.exists(), "a call was begun after the limit");
    assert!(result.trace[3].content.contains("the limit of 10 s was reached"), "{}", result.trace[3].content);
}

#[tokio::test(start_paused = true)]
async fn recorded_time_counts_toward_the_time_limit_of_a_resumed_run() {
    let slow = Fake::slow("fake-1", Duration::from_secs(6), |_, number| {
        Ok(if number == 0 { calls(&[("c1", "mcp__s__echo", json!({"text": "x"}))]) } else { says("So.") })
    });
    let mut setup = Setup::new(plain_question(), &slow, &judge_says(right())).server("s", Script::good());
    setup.models[0].settings.limits = Limits { time: Some(Duration::from_secs(10)), ..Limits::default() };
    let journal = Arc::<MemoryJournal>::default();
    *journal.refuse_from.lock().unwrap() = Some((2, JournalError::LeaseLost));
    assert_eq!(setup.run_with(&journal).await, Err(JournalError::LeaseLost));
    let result = setup.run_with(&journal.resumed()).await.unwrap().remove(0);
    assert_eq!(outcome(&result), "failed: recursion_limit at limit_autofail");
}

/// Adds an item, lists the items, and answers. The server stores the items in its memory: a new one has none.
fn items(write: serde_json::Value) -> (Setup, Arc<Fake>, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let listed = folder.path().join("listed").display().to_string();
    let script = Script::default()
        .tool(write)
        .tool(reading("list_items"))
        .on_call("add_item", [Step::Text("added".to_owned())])
        .on_call("list_items", [Step::Touch(listed), Step::Text("no items".to_owned())]);
    let answering = Fake::script(
        "fake-1",
        vec![
            Ok(calls(&[("c1", "mcp__s__add_item", json!({"item": "tea"}))])),
            Ok(calls(&[("c2", "mcp__s__list_items", json!({}))])),
            Ok(says("There is nothing.")),
        ],
    );
    let setup = Setup::new(plain_question(), &answering, &judge_says(right())).server("s", script);
    (setup, answering, folder)
}

#[tokio::test(start_paused = true)]
async fn a_trial_whose_servers_are_gone_after_a_write_is_indeterminate_and_not_scored() {
    let idempotent =
        json!({"name": "add_item", "inputSchema": {"type": "object"}, "annotations": {"idempotentHint": true}});
    for (write, refused_from) in [(writing("add_item"), 2), (writing("add_item"), 3), (idempotent, 2)] {
        let (setup, answering, folder) = items(write);
        let journal = Arc::<MemoryJournal>::default();
        *journal.refuse_from.lock().unwrap() = Some((refused_from, JournalError::LeaseLost));
        assert_eq!(setup.run_with(&journal).await, Err(JournalError::LeaseLost));
        let resumed = journal.resumed();
        let result = setup.run_with(&resumed).await.unwrap().remove(0);
        assert_eq!(outcome(&result), "indeterminate");
        let reason = "the trial was interrupted after calls that may have changed its servers, and its servers have \
                      been started again";
        assert_eq!(result.reason.as_deref(), Some(reason));
        assert!(!folder.path().join("listed").exists(), "a call reached the new servers");
        assert_eq!(answering.count(), 2, "nothing on record is paid again");
        let replayed = setup.run_with(&resumed.replay()).await.unwrap();
        assert_eq!(replayed, [result]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_resumed_trial_goes_on_if_nothing_of_its_servers_is_lost() {
    // Only the answer is missing: no call needs the servers.
    let (setup, answering, _folder) = items(writing("add_item"));
    let journal = Arc::<MemoryJournal>::default();
    *journal.refuse_from.lock().unwrap() = Some((4, JournalError::LeaseLost));
    assert_eq!(setup.run_with(&journal).await, Err(JournalError::LeaseLost));
    assert_eq!(outcome(&setup.run_with(&journal.resumed()).await.unwrap()[0]), "passed");
    assert_eq!(answering.count(), 3);
    // The call before the interruption changed nothing, or the trials share their servers.
    for (write, isolation) in [(reading("add_item"), "fresh"), (writing("add_item"), "shared")] {
        let (mut setup, _answering, folder) = items(write);
        setup.benchmark.defaults.isolation = serde_json::from_value(json!(isolation)).unwrap();
        let journal = Arc::<MemoryJournal>::default();
        *journal.refuse_from.lock().unwrap() = Some((2, JournalError::LeaseLost));
        assert_eq!(setup.run_with(&journal).await, Err(JournalError::LeaseLost));
        assert_eq!(outcome(&setup.run_with(&journal.resumed()).await.unwrap()[0]), "passed", "{isolation}");
        assert!(folder.path().join("listed").exists());
    }
}

#[tokio::test(start_paused = true)]
async fn invalid_units_repeat_to_the_same_bytes_although_the_servers_are_back() {
    let answering = Fake::answering("So.");
    let setup = Setup::new(plain_question(), &answering, &judge_says(right())).server("s", Script::good());
    *setup.workbench.refuse.lock().unwrap() = Some("not yet".to_owned());
    let journal = Arc::<MemoryJournal>::default();
    let invalid = setup.run_with(&journal).await.unwrap();
    setup.workbench.refuse.lock().unwrap().take();
    for again in [journal.resumed(), journal.replay()] {
        assert_eq!(setup.run_with(&again).await.unwrap(), invalid);
    }
    assert_eq!(answering.count(), 0);
}

type Change = fn(&mut Setup);

#[tokio::test(start_paused = true)]
async fn a_changed_request_never_gets_the_result_of_another_one() {
    // The digests of all steps: two requests of the model, one tool call, one request of the judge.
    let digests = async |change: Change| {
        let call = calls(&[("c1", "mcp__s__echo", json!({"text": "x"}))]);
        let answering = Fake::script("fake-1", vec![Ok(call), Ok(says("So."))]);
        let mut setup = Setup::new(city_question(), &answering, &judge_says(right())).server("s", Script::good());
        change(&mut setup);
        let journal = Arc::<MemoryJournal>::default();
        setup.run_with(&journal).await.unwrap();
        let executed = journal.executed.lock().unwrap();
        executed.iter().map(|step| step.request.clone()).collect::<Vec<_>>()
    };
    let same = digests(|_| {}).await;
    assert_eq!(same.len(), 4);
    // How a request is transferred and cached does not change the answer.
    let unchanged: [Change; 3] = [
        |setup| setup.models[0].settings.options.stream = false,
        |setup| setup.models[0].settings.middleware.prompt_caching.enabled = false,
        |setup| setup.judges[0].settings.middleware.prompt_caching.enabled = false,
    ];
    for change in unchanged {
        assert_eq!(digests(change).await, same);
    }
    let changed: [(Change, [bool; 4]); 6] = [
        (|setup| setup.models[0].settings.system_prompt = Some("Be brief.".to_owned()), [true, false, true, false]),
        (|setup| setup.benchmark.questions[0].question.push('?'), [true, false, true, true]),
        (|setup| setup.models[0].settings.options.temperature = Some(0.5), [true, false, true, false]),
        (|setup| setup.models[0].settings.options.max_tokens = 7, [true, false, true, false]),
        (|setup| setup.judges[0].settings.options.temperature = Some(0.5), [false, false, false, true]),
        (
            |setup| {
                let more = Script::good().tool(reading("more"));
                Arc::get_mut(&mut setup.workbench).unwrap().scripts.insert("s".to_owned(), more);
            },
            [true, false, true, false],
        ),
    ];
    for (index, (change, expected)) in changed.into_iter().enumerate() {
        let other = digests(change).await;
        let differs: Vec<bool> = same.iter().zip(&other).map(|(one, other)| one != other).collect();
        assert_eq!(differs, expected, "change {index}");
    }
}

#[tokio::test(start_paused = true)]
async fn equal_requests_of_a_trial_are_different_steps() {
    // The same id and arguments twice: the second call is not answered with the result of the first.
    let script = Script::default()
        .tool(writing("put"))
        .once("tools/call", [Step::Text("first".to_owned())])
        .on("tools/call", [Step::Text("second".to_owned())]);
    let call = ("c", "mcp__s__put", json!({}));
    let answering =
        Fake::script("fake-1", vec![Ok(calls(std::slice::from_ref(&call))), Ok(calls(&[call])), Ok(says("So."))]);
    let setup = Setup::new(plain_question(), &answering, &judge_says(right())).server("s", script);
    let journal = check_repetitions(&setup, || answering.count()).await;
    let result = &journal.results()[0];
    assert_eq!((result.trace[1].content.as_str(), result.trace[3].content.as_str()), ("first", "second"));
}

#[tokio::test(start_paused = true)]
async fn the_digests_of_requests_do_not_depend_on_secrets() {
    let digests = async |secret: &str| {
        let call = calls(&[("c", "mcp__s__echo", json!({"text": format!("key {secret}")}))]);
        let answering = Fake::script("fake-1", vec![Ok(call), Ok(says("So."))]);
        let mut setup = Setup::new(plain_question(), &answering, &judge_says(right())).server("s", Script::good());
        setup.redactor = Redactor::new([Secret::new(secret.to_owned())]);
        let journal = Arc::<MemoryJournal>::default();
        setup.run_with(&journal).await.unwrap();
        let executed = journal.executed.lock().unwrap();
        executed.iter().map(|step| step.request.clone()).collect::<Vec<_>>()
    };
    let one = digests("sk-0123456789-one").await;
    assert_eq!(one.len(), 3);
    assert_eq!(one, digests("sk-9876543210-two").await);
}

#[tokio::test(start_paused = true)]
async fn only_open_units_are_judged_again() {
    let answering = Fake::answering("It is Paris.");
    let (one, two) = (judge_says(right()), judge_says(right()));
    let mut setup = Setup::new(city_question(), &answering, &one);
    setup.judges.push(judge_model("two", &two));
    let journal = Arc::<MemoryJournal>::default();
    let tool_sets = setup.tool_sets().await;
    let plan = setup.plan(&tool_sets).unwrap();
    let runner = setup.runner(tool_sets);
    let trial = plan.trials().next().unwrap();
    let second = [trial.units[1].id.clone()];
    wharf_verify::TrialRunner::run(&runner, &trial, &second, journal.of(&trial)).await.unwrap();
    assert_eq!((one.count(), two.count(), journal.results().len()), (0, 1, 1));
}
