//! The page in headless Chromium, driven by `peers/report_page.mjs`.

use std::path::PathBuf;
use std::process::Command;

use serde_json::{Value, json};
use wharf_verify::report::HtmlWriter;
use wharf_verify::{UnitId, UnitResult};

use super::hostile;
use super::sample::Sample;

const SAMPLE: Sample = Sample { questions: 20, models: 3, judges: 2, replicates: 3 };
/// Checks of accessibility look at every element, which takes long.
const TINY: Sample = Sample { questions: 3, models: 2, judges: 2, replicates: 2 };

fn root(name: &str) -> PathBuf {
    [env!("CARGO_MANIFEST_DIR"), "../..", name].iter().collect()
}

/// Opens a report and plays a scenario. The page must be silent: no error, no request, no dialog.
fn play(scenario: &str, html: &[u8]) -> Value {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("report.html");
    std::fs::write(&file, html).unwrap();
    let mut node = Command::new(root(".peers/node_modules/node/bin/node"));
    node.arg(root("peers/report_page.mjs")).arg(scenario).arg(&file).arg(folder.path());
    let output = node.output().expect("`scripts/peers` installs it");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}\n{}", String::from_utf8_lossy(&output.stderr));
    let found: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(found["problems"], json!([]), "{scenario}");
    found["seen"].clone()
}

#[test]
fn hostile_texts_are_shown_and_never_executed_in_chromium() {
    let seen = play("hostile", &hostile::html());
    assert_eq!(seen["canary"], Value::Null);
    assert_eq!(seen["units"], 16);
    assert_eq!(seen["foreign_elements"], 0, "no element was made of data");
    assert_eq!(seen["shows_attack_as_text"], true);
    assert_eq!(seen["shows_direction_override"], true, "U+202E is visible");
    assert_eq!(seen["raw_direction_override"], false);
}

#[test]
fn filters_search_and_links_select_units_in_chromium() {
    let seen = play("filters", &SAMPLE.html());
    let units = SAMPLE.all_units();
    let count = |test: &dyn Fn(&wharf_verify::UnitResult) -> bool| units.iter().filter(|unit| test(unit)).count();
    let failed = |unit: &wharf_verify::UnitResult| unit.verdict == wharf_verify::Verdict::Failed;
    let all = units.len();
    assert_eq!(seen["all"], json!(status(all, all)));
    assert_eq!(seen["failed"], json!(status(count(&failed), all)));
    let of_model = count(&|unit| failed(unit) && unit.model.label == "atlas-mini");
    assert_eq!(seen["failed_of_model"], json!(status(of_model, all)));
    let of_keyword =
        count(&|unit| failed(unit) && unit.model.label == "atlas-mini" && unit.keywords.contains(&"tides".into()));
    assert_eq!(seen["with_keyword"], json!(status(of_keyword, all)));
    let limits = count(&|unit| {
        unit.failure.as_ref().is_some_and(|failure| failure.category == wharf_verify::FailureCategory::RecursionLimit)
    });
    assert_eq!(seen["category"], json!(status(limits, all)));
    let by_id = count(&|unit| unit.question.as_str() == "weather-015");
    assert_eq!(seen["search_id"], json!(status(by_id, all)));
    let by_answer =
        count(&|unit| unit.response.as_ref().is_some_and(|response| response.to_lowercase().contains("answer: 45.")));
    assert!(by_answer > 0);
    assert_eq!(seen["search_answer"], json!(status(by_answer, all)));
    assert_eq!(seen["reloaded"], seen["with_keyword"], "the address holds the filter");
    assert_eq!(seen["nothing"], json!("No unit matches. Clear filters"));
}

fn status(found: usize, all: usize) -> String {
    let thousands = |number: usize| {
        if number < 1_000 { number.to_string() } else { format!("{},{:03}", number / 1_000, number % 1_000) }
    };
    format!("{} of {} units", thousands(found), thousands(all))
}

#[test]
fn keys_move_open_and_close_units_in_chromium() {
    let seen = play("keys", &SAMPLE.html());
    let units = SAMPLE.all_units();
    let id = |place: usize| units[place].unit.to_string();
    assert_eq!(seen["third_view"], "Units 360");
    assert_eq!(seen["focused"], json!([id(0), id(1), id(2), id(1)]), "j, j, j, k");
    assert_eq!(seen["opened"], json!(id(1)));
    assert_eq!(seen["next"], json!(id(2)), "j on a unit opens the next one");
    assert_eq!(seen["closed"], json!(null));
    assert_eq!(seen["focus_after_close"], json!(id(2)));
    assert_eq!(seen["search_has_focus"], true);
    assert_eq!(seen["escape_leaves_search"], true);
    assert_eq!(seen["help_open"], json!([true, false]), "? and Escape");
    assert_eq!(seen["page_after_last_row"], json!(id(100)), "j on the last row goes to the next page");
    assert_eq!(seen["themes"], json!(["dark", "light"]));
}

#[test]
fn a_unit_page_shows_everything_of_its_result_in_chromium() {
    let seen = play("unit", &SAMPLE.html());
    let units = SAMPLE.all_units();
    let unit = units.iter().find(|unit| unit.unit.to_string() == seen["id"].as_str().unwrap()).unwrap();
    let text = seen["text"].as_str().unwrap();
    let failure = unit.failure.as_ref().unwrap();
    assert!(text.contains(&failure.reason) && text.contains(failure.category.as_str()), "{text}");
    assert!(text.contains(unit.response.as_deref().unwrap()), "the whole answer");
    for call in unit.trace.iter().flat_map(|message| &message.tool_calls) {
        assert!(text.contains(&*call.name));
    }
    assert_eq!(seen["calls"], unit.tool_calls);
    assert_eq!(
        seen["failed_calls"],
        unit.trace.iter().filter_map(|message| message.tool_result.as_ref()).filter(|result| result.is_error).count()
    );
    assert_eq!(seen["fields"], unit.template.as_ref().unwrap().fields.len());
    assert_eq!(seen["assertions"], unit.assertions.len());
    assert_eq!(seen["same_question"], 18, "3 models, 3 replicates, 2 judges");
    assert!(seen["cut"].as_u64().unwrap() > 0 && seen["cut_after_expanding"] == 0);
    assert_eq!(seen["unknown"], "This report has no unit nosuchunit. All units");
    assert_eq!(seen["by_prefix"], seen["id"]);
}

/// A run of scenarios: every unit has its messages in two turns.
fn scenarios(sample: &Sample) -> Vec<u8> {
    let mut writer = HtmlWriter::new(Vec::new(), sample.input()).unwrap();
    for mut unit in sample.all_units() {
        let first = unit.trace.len() / 2;
        let turn = |name: &str, messages: usize| {
            json!({"turn": name, "prompt": format!("This is {name}."), "messages": messages, "passed": name == "ask",
                "template": unit.template, "assertions": unit.assertions})
        };
        let turns = [turn("ask", first), turn("doubt", unit.trace.len() - first)];
        let outcome = json!([{"name": "stands firm", "passed": false, "reason": "`doubt` failed"}]);
        unit.scenario = serde_json::from_value(json!({"end": "completed", "turns": turns, "outcome": outcome,
            "state": {"city": "Oslo", "hours": [1, 2.5]}, "steering_judge": "judge-a"}))
        .unwrap();
        (unit.template, unit.assertions) = (None, Vec::new());
        writer.add(&unit).unwrap();
    }
    writer.finish().unwrap()
}

#[test]
fn the_turns_of_a_scenario_are_shown_in_order_in_chromium() {
    let seen = play("conversation", &scenarios(&SAMPLE));
    assert_eq!(seen["headings"], json!(["1. ask passed", "2. doubt failed"]));
    assert_eq!(seen["prompts"], json!(["This is ask.", "This is doubt."]));
    let messages: Vec<u64> = serde_json::from_value(seen["messages"].clone()).unwrap();
    assert!(messages.len() == 2 && messages.iter().all(|count| *count > 0), "{seen}");
    let facts = seen["facts"].as_str().unwrap();
    for text in ["ask → doubt", "judge-a", "\"Oslo\"", "[1,2.5]", "stands firm", "`doubt` failed"] {
        assert!(facts.contains(text), "{facts}");
    }
    assert_eq!(seen["answers"], 0, "the answer is in its turn");
    let seen = play("accessible", &scenarios(&TINY));
    assert_eq!((&seen["violations"], &seen["wider_than_phone"]), (&json!([]), &json!([])));
}

#[test]
fn calls_with_the_same_id_have_their_own_results_in_chromium() {
    let mut writer = HtmlWriter::new(Vec::new(), TINY.input()).unwrap();
    for mut unit in TINY.all_units() {
        unit.trace = serde_json::from_value(json!([
            {"role": "assistant", "content": "", "tool_calls": [{"id": "f", "name": "look_up", "input": {"at": "first"}}]},
            {"role": "tool", "content": "output-of-first", "tool_result": {"tool_use_id": "f", "is_error": false}},
            {"role": "assistant", "content": "", "tool_calls": [{"id": "f", "name": "look_up", "input": {"at": "second"}}]},
            {"role": "tool", "content": "output-of-second", "tool_result": {"tool_use_id": "f", "is_error": false}},
            {"role": "tool", "content": "output-of-none", "tool_result": {"tool_use_id": "f", "is_error": false}},
        ]))
        .unwrap();
        unit.excerpts.clear();
        writer.add(&unit).unwrap();
    }
    let seen = play("calls", &writer.finish().unwrap());
    let calls: Vec<String> = serde_json::from_value(seen["calls"].clone()).unwrap();
    assert_eq!(calls.len(), 2, "{seen}");
    for (call, name) in calls.iter().zip(["first", "second"]) {
        assert!(call.contains(name) && call.contains(&format!("output-of-{name}")), "{call}");
    }
    assert_eq!(seen["messages"], 3, "two turns, and a result without a call");
}

#[test]
fn details_load_when_a_unit_is_opened_in_chromium() {
    let seen = play("lazy", &SAMPLE.html());
    assert_eq!(seen["loaded_at_start"], 0);
    assert_eq!(seen["loaded_after_one"], 1);
    assert_eq!(seen["loaded_after_neighbor"], 1, "the neighbor is in the same chunk");
    assert!(seen["chunks"].as_u64().unwrap() > 4);
}

#[test]
fn ten_thousand_units_open_in_chromium() {
    let sample = Sample { questions: 25, models: 4, judges: 1, replicates: 2 };
    let mut writer = HtmlWriter::new(Vec::new(), sample.input()).unwrap();
    let units = sample.all_units();
    for copy in 0..10_000 / units.len() {
        for unit in &units {
            // Details are loaded one chunk at a time; the number of units is what counts here.
            let unit = UnitResult {
                unit: UnitId(format!("{copy:02}{}", unit.unit).into()),
                question: format!("{}-{copy}", unit.question).parse().unwrap(),
                trace: unit.trace.first().cloned().into_iter().collect(),
                response: unit.response.as_ref().map(|response| response.chars().take(80).collect()),
                template: None,
                rubric: None,
                excerpts: Vec::new(),
                ..unit.clone()
            };
            writer.add(&unit).unwrap();
        }
    }
    let seen = play("large", &writer.finish().unwrap());
    assert_eq!(seen["units"], "Units 10,000", "{seen}");
    assert_eq!(seen["last"][0], seen["last"][1]);
    for view in ["list", "matrix"] {
        assert!(seen[view].as_u64().unwrap() < 10_000, "a view shows one page: {seen}");
    }
}

#[test]
fn the_page_has_no_accessibility_violations_in_chromium() {
    let seen = play("accessible", &TINY.html());
    assert_eq!(seen["checked"], 12, "overview, matrix, units and a unit, in light, dark and on a phone");
    assert_eq!(seen["violations"], json!([]));
    assert_eq!(seen["wider_than_phone"], json!([]), "no page scrolls sideways");
}

#[test]
fn excerpts_are_marked_where_they_stand_and_traits_are_listed_in_chromium() {
    let seen = play("excerpts", &SAMPLE.html());
    let answer = [
        json!(["supports concise", "Twice 42: 🚢 ", "42"]),
        json!(["supports wrong place", ". ", "Before"]),
        json!(["supports hours", " ", "a verbatim <b>excerpt</b>"]),
    ];
    let first = json!(["supports hours", "In the trace: ", "a verbatim <b>excerpt</b>"]);
    let second = answer[..2].to_vec();
    assert_eq!(
        seen["marks"],
        json!([answer.to_vec(), vec![first], second].concat()),
        "answer, first and second message"
    );
    assert_eq!((&seen["reasoning"], &seen["quoted"]), (&json!(true), &json!(true)));
    let traits: Vec<&str> = seen["traits"].as_array().unwrap().iter().map(|row| row.as_str().unwrap()).collect();
    assert_eq!(traits.len(), 6);
    assert_eq!(traits[..3], ["polite no It is <i>rude</i>.", "depth 4 of 1 to 5", "tone formal"]);
    assert!(traits[3].starts_with("items {") && traits[3].contains("crane"), "{}", traits[3]);
    assert_eq!(traits[4..], ["tides not present No tide is mentioned.", "broken not evaluated The judge refused."]);
}
