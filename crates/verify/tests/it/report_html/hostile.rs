//! A run in which every text is an attack.

use serde_json::json;
use wharf_agent::{TraceCall, TraceThinking};
use wharf_protocol::Json;
use wharf_verify::assertion::AssertionResult;
use wharf_verify::outcome::ModelIdentity;
use wharf_verify::report::{HtmlInput, HtmlWriter};
use wharf_verify::{RunId, TrialId, UnitId, UnitResult};

use super::parts::markup;
use super::sample::Sample;

const SAMPLE: Sample = Sample { questions: 2, models: 2, judges: 2, replicates: 2 };

/// Each one sets `canary` if any part of the page is parsed or executed. No attack contains a character that ids forbid.
pub(crate) const ATTACKS: [&str; 8] = [
    "<img src=x onerror=\"canary=1\">",
    "</script><script>canary=1</script>",
    "\"><svg onload=canary=1>",
    "' autofocus onfocus='canary=1' x='",
    "javascript:canary=1",
    "<!--<script>canary=1//-->",
    "</textarea></title></style><iframe srcdoc='<script>parent.canary=1</script>'>",
    "\u{202e}<a href=\"https://evil.test/\u{2028}\">\u{2066}&lt;b&gt;${canary=1}{{canary=1}}__proto__\u{feff}\u{e0041}",
];

fn attack(place: usize) -> String {
    ATTACKS[place % ATTACKS.len()].to_owned()
}

/// Creates a report whose every text is hostile, and one of its texts huge.
pub(crate) fn html() -> Vec<u8> {
    let mut input: HtmlInput = SAMPLE.input();
    input.run.id = RunId(attack(1).into());
    input.run.benchmark = attack(0);
    input.description = Some(attack(7));
    for (place, question) in input.questions.iter_mut().enumerate() {
        question.id = format!("{place}{}", attack(place)).parse().unwrap();
        question.question = ATTACKS.join("\n");
        question.answer = Some(attack(place + 1));
        question.keywords = vec![attack(place + 2), "__proto__".to_owned()];
    }
    let ids: Vec<_> = input.questions.iter().map(|question| question.id.clone()).collect();
    let mut writer = HtmlWriter::new(Vec::new(), input).unwrap();
    let sample = SAMPLE.input();
    for (place, mut unit) in SAMPLE.all_units().into_iter().enumerate() {
        let number = sample.questions.iter().position(|question| question.id == unit.question).unwrap();
        unit.question = ids[number].clone();
        spoil(&mut unit, place);
        writer.add(&unit).unwrap();
    }
    writer.finish().unwrap()
}

fn identity(model: &ModelIdentity) -> ModelIdentity {
    ModelIdentity {
        label: format!("{}{}", attack(model.label.len()), model.label),
        interface: attack(2),
        model: attack(3),
        actual_model: Some(attack(4)),
    }
}

fn spoil(unit: &mut UnitResult, place: usize) {
    unit.unit = UnitId(format!("{place:02}{}", attack(place)).into());
    unit.trial = TrialId(format!("{}{}", attack(place), unit.trial).into());
    unit.keywords = vec![attack(place), "constructor".to_owned()];
    unit.model = identity(&unit.model);
    unit.judge = unit.judge.as_ref().map(identity);
    unit.reason = Some(attack(place));
    if let Some(failure) = &mut unit.failure {
        failure.stage = attack(place);
        failure.reason = attack(place + 1);
    }
    unit.response =
        Some(format!("{}\u{0}\u{1b}[31m{}", attack(place), "x".repeat(if place == 0 { 300_000 } else { 10 })));
    unit.retries = [("__proto__".to_owned(), 1), (attack(place), 2)].into();
    unit.tool_set = attack(place);
    unit.assertions = vec![AssertionResult {
        assertion: attack(place),
        passed: false,
        reason: Some(attack(place + 1)),
        path_efficiency: None,
    }];
    for field in unit.template.iter_mut().flat_map(|template| &mut template.fields) {
        field.name = attack(place);
        field.extracted = Some(json!({ attack(1): [attack(2)] }));
        field.truth = json!(attack(3));
        field.reason = Some(attack(4));
        field.similarity = Some(0.9);
        field.overruled = Some(attack(5));
    }
    unit.judge_reasoning = Some(attack(place));
    unit.excerpts = serde_json::from_value(json!([
        {"attribute": attack(place), "text": attack(0), "quoted": attack(place + 1), "similarity": 0.9, "message": 0,
         "start": 0, "end": attack(0).chars().count()},
        {"name": attack(place + 2), "text": attack(place + 3), "similarity": 1.0, "start": 0, "end": 1_000_000},
    ]))
    .unwrap();
    unit.rubric = serde_json::from_value(json!({"traits": [
        {"name": attack(place), "value": {"class": {"index": 0, "name": attack(place + 1)}}, "reasoning": attack(place + 2)},
        {"name": attack(place + 3), "value": {"object": {attack(4): [attack(5)], "__proto__": attack(6)}}},
        {"name": attack(place + 4), "absent": attack(place + 5)},
        {"name": attack(place + 5), "failed": attack(place + 6)},
        {"name": "__proto__", "value": {"metrics": {"metrics": {}, "tp": [attack(1)], "fn": [attack(2)], "fp": [attack(3)]}}},
    ]}))
    .unwrap();
    if place % 2 == 1 {
        unit.scenario = serde_json::from_value(json!({
            "end": "stopped", "steering_judge": attack(place), "state": {attack(1): attack(2), "__proto__": [attack(3)]},
            "outcome": [{"name": attack(place), "passed": false, "reason": attack(place + 1)}],
            "turns": [
                {"turn": attack(place), "prompt": ATTACKS.join("\n"), "response": attack(4), "messages": unit.trace.len(),
                 "passed": false, "template": unit.template, "assertions": unit.assertions},
                {"turn": attack(place + 1), "prompt": attack(5), "messages": 7},
            ],
        }))
        .unwrap();
    }
    for message in &mut unit.trace {
        message.content = ATTACKS.join("\n");
        message.thinking = Some(TraceThinking { thinking: attack(place), signature: None });
        for call in &mut message.tool_calls {
            let input = Json::of(&json!({ attack(5): attack(6), "__proto__": attack(0) })).unwrap();
            *call = TraceCall { id: call.id.clone(), name: attack(place).into(), input };
        }
        if let Some(result) = &mut message.tool_result {
            result.output = Some(Json::of(&json!({"content": [{"type": "text", "text": attack(1)}]})).unwrap());
        }
    }
}

#[test]
fn no_text_of_a_run_is_in_the_markup() {
    let html = String::from_utf8(html()).unwrap();
    let ordinary = String::from_utf8(SAMPLE.html()).unwrap();
    assert_eq!(markup(&html), markup(&ordinary), "the page is the same for every run");
}
