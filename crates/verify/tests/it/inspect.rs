//! Results as logs of Inspect.

use serde_json::{Value, json};
use wharf_verify::report::inspect_logs;
use wharf_verify::{Trial, Verdict};

use crate::report::Run;
use crate::store_kit::{trials, unit_result};

async fn logs(run: &Run) -> Vec<(String, Value)> {
    let (store, id) = run.parts();
    let mut read = Vec::new();
    for log in inspect_logs(store, id).await.unwrap() {
        let mut bytes = Vec::new();
        log.write(store, id, &mut bytes).await.unwrap();
        read.push((log.file_name.clone(), serde_json::from_slice(&bytes).unwrap()));
    }
    read
}

#[tokio::test]
async fn a_log_has_a_sample_per_trial_and_a_score_per_judge() {
    let settings = json!({"benchmark": {"questions": [{"id": "question-1", "question": "How much?", "answer": "42"}]}});
    let verdicts = [[Verdict::Passed, Verdict::Failed], [Verdict::Invalid, Verdict::Indeterminate]];
    let result = |trial: &Trial, place: usize| {
        let question = usize::from(trial.question.as_str() != "question-1");
        let mut unit = unit_result(trial, &trial.units[place].id, verdicts[question][place]);
        unit.millis = 2500;
        unit.reason = (question == 1).then(|| "the server was missing".to_owned());
        unit.trace = serde_json::from_value(json!([
            {"role": "assistant", "content": "", "thinking": {"thinking": "Hm."},
             "tool_calls": [{"id": "1", "name": "add", "input": {"a": 1}}, {"id": "2", "name": "add", "input": "no object"}]},
            {"role": "tool", "content": "boom", "tool_result": {"tool_use_id": "1", "is_error": true}},
            {"role": "assistant", "content": "It is 42."},
        ]))
        .unwrap();
        unit
    };
    let run = Run::with_settings(settings, &trials(2, &["judge-a", "judge-b"]), result).await;
    let logs = logs(&run).await;
    let [(name, log)] = logs.as_slice() else { panic!("one model, one log") };
    assert!(
        std::path::Path::new(name).extension().is_some_and(|extension| extension == "json")
            && name.contains("_a-benchmark-model-a_"),
        "{name}"
    );
    assert_eq!(
        (&log["version"], &log["eval"]["model"], &log["eval"]["task"]),
        (&json!(2), &json!("scripted/scripted"), &json!("a-benchmark"))
    );
    let samples = log["samples"].as_array().unwrap();
    assert_eq!(samples.len(), 2);
    let first = &samples[0];
    assert_eq!((&first["input"], &first["target"], &first["epoch"]), (&json!("How much?"), &json!("42"), &json!(1)));
    assert_eq!(
        (&first["scores"]["judge-a"]["value"], &first["scores"]["judge-b"]["value"]),
        (&json!("C"), &json!("I"))
    );
    let messages = first["messages"].as_array().unwrap();
    let roles: Vec<_> = messages.iter().map(|message| message["role"].as_str().unwrap()).collect();
    assert_eq!(roles, ["user", "assistant", "tool", "assistant"]);
    assert_eq!(messages[1]["tool_calls"][1]["arguments"], json!({"input": "no object"}));
    assert_eq!((&messages[2]["function"], &messages[2]["error"]["message"]), (&json!("add"), &json!("boom")));
    // What is not scored here is not scored there, and says why.
    let second = &samples[1];
    assert_eq!(second["scores"], json!({}));
    assert!(second["error"]["message"].as_str().unwrap().contains("judge-a: the server was missing"));
    let scores = log["results"]["scores"].as_array().unwrap();
    assert_eq!(scores[0]["metrics"]["accuracy"]["value"], json!(1.0));
    assert_eq!((&scores[1]["metrics"]["accuracy"]["value"], &scores[1]["unscored_samples"]), (&json!(0.0), &json!(1)));
    assert_eq!(log["results"]["total_samples"], json!(2));
    assert_eq!(log["stats"]["model_usage"]["scripted/scripted"]["input_tokens"], json!(120), "an answer counts once");
    // The viewer shows the difference as the duration; without an end it shows `NaN`.
    let second_of = |time: &str| log["stats"][time].as_str().unwrap()[17..19].parse::<u64>().unwrap();
    assert_eq!((60 + second_of("completed_at") - second_of("started_at")) % 60, 5, "the time of a trial counts once");
    assert_eq!(first["total_time"], json!(2.5));
}

#[tokio::test]
async fn a_sample_of_a_scenario_has_every_turn_and_the_tokens_of_all_judges() {
    let settings = json!({"benchmark": {"questions": [{"id": "question-1", "question": "Hello {{name}}."}]}});
    let result = |trial: &Trial, place: usize| {
        let mut unit = unit_result(trial, &trial.units[place].id, Verdict::Passed);
        unit.judge_usage.input_tokens = 5;
        unit.trace = serde_json::from_value(json!([
            {"role": "assistant", "content": "", "tool_calls": [{"id": "f", "name": "one", "input": {}}]},
            {"role": "tool", "content": "1", "tool_result": {"tool_use_id": "f", "is_error": false}},
            {"role": "assistant", "content": "", "tool_calls": [{"id": "f", "name": "two", "input": {}}]},
            {"role": "tool", "content": "2", "tool_result": {"tool_use_id": "f", "is_error": false}},
            {"role": "assistant", "content": "Done."},
        ]))
        .unwrap();
        unit.scenario = serde_json::from_value(json!({"end": "completed", "turns": [
            {"turn": "ask", "prompt": "Hello Ann.", "messages": 2}, {"turn": "more", "prompt": "More.", "messages": 3}]}))
        .unwrap();
        unit
    };
    let run = Run::with_settings(settings, &trials(1, &["judge-a", "judge-b"]), result).await;
    let sample = &logs(&run).await[0].1["samples"][0];
    assert_eq!(sample["input"], "Hello Ann.");
    let shown: Vec<String> = sample["messages"]
        .as_array()
        .unwrap()
        .iter()
        .map(|of| {
            format!("{} {}", of["role"].as_str().unwrap(), of["function"].as_str().or(of["content"].as_str()).unwrap())
        })
        .collect();
    let expected =
        ["user Hello Ann.", "assistant ", "tool one", "user More.", "assistant ", "tool two", "assistant Done."];
    assert_eq!(shown, expected);
    assert_eq!(sample["scores"]["judge-a"]["metadata"]["scenario"]["turns"][1]["turn"], "more");
    // The answering model and both judges have the same name.
    assert_eq!(sample["model_usage"]["scripted/scripted"]["input_tokens"], json!(60 + 5 + 5));
}

#[tokio::test]
async fn the_name_of_a_log_stays_in_its_directory() {
    let mut hostile = trials(1, &[""]);
    hostile[0].model = "../../x\u{0}y".to_owned();
    let run = Run::new(&hostile, |trial, place| unit_result(trial, &trial.units[place].id, Verdict::Passed)).await;
    let logs = logs(&run).await;
    assert!(!logs[0].0.contains(['/', '\0', '.']) || logs[0].0.matches('.').count() == 1, "{}", logs[0].0);
    assert_eq!(logs[0].1["samples"][0]["scores"]["checks"]["value"], "C");
    assert_eq!(logs[0].1["samples"][0]["input"], "question-1", "without the benchmark, the id");
}
