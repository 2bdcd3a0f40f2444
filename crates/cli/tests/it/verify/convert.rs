//! `wharf verify import` and `wharf verify export`.

use serde_json::{Value, json};

use super::json_of;
use crate::{Person, screen};

const DECLARED: &str = "class Answer(BaseAnswer):\n    sum: int = VerifiedField(description='The sum', ground_truth=4, \
    verify_with=NumericExact())\n";
const HAND_WRITTEN: &str = "class Answer(BaseAnswer):\n    sum: int = Field(description='The sum')\n\n    \
    def verify(self):\n        return self.sum == 4\n";

fn item(id: &str, template: &str) -> Value {
    json!({
        "@id": id, "dateCreated": "2026-01-02", "dateModified": "2026-01-02",
        "item": {"text": format!("What is {id}?"), "acceptedAnswer": {"text": "4"}, "hasPart": {"name": "t", "text": template}},
    })
}

/// A person with a checkpoint of these questions.
fn person(items: &[Value]) -> Person {
    let person = Person::new();
    let checkpoint =
        json!({"@type": "DataFeed", "name": "sums", "dateCreated": "2026-01-02", "dataFeedElement": items});
    person.write("project/sums.jsonld", &checkpoint.to_string());
    person
}

#[test]
fn an_imported_checkpoint_is_a_valid_benchmark_and_the_rest_is_listed() {
    let person = person(&[item("2+2", DECLARED), item("1+3", HAND_WRITTEN)]);
    let ran = person.run(&["verify", "import", "sums.jsonld", "-o", "sums.json"]);
    insta::assert_snapshot!(screen(&ran), @r"
    exit 0
    --- stdout
    sums.json: 1 of 2 questions; 2 remarks
    --- stderr
    question 1+3: template has a hand-written `verify()`: not taken over
    question 1+3: left out: no template and no trait remain
    ");
    person.write("project/model.yaml", "prompts: {}\n");
    person.write("project/judge.yaml", "prompts: {}\n");
    let models = ["-m", "scripted:model.yaml", "--judge", "scripted:judge.yaml", "--json"];
    let checked = person.run(&[&["verify", "check", "sums.json"], &models[..]].concat());
    assert_eq!((checked.code, &json_of(&checked)["questions"]), (0, &json!(["2+2"])), "{}", checked.err);
    let again = person.run(&["verify", "import", "sums.jsonld", "-o", "sums.json"]);
    assert_eq!(again.code, 2);
    assert!(again.err.contains("hint: use --force to replace it"), "{}", again.err);
    let forced = person.run(&["verify", "import", "sums.jsonld", "-o", "sums.json", "--force"]);
    assert_eq!(forced.code, 0, "{}", forced.err);
}

#[test]
fn the_list_is_machine_readable() {
    let person = person(&[item("2+2", DECLARED), item("1+3", HAND_WRITTEN)]);
    let report = json_of(&person.run(&["verify", "import", "sums.jsonld", "--json"]));
    assert_eq!((&report["found"], &report["questions"], &report["output"]), (&json!(2), &json!(1), &Value::Null));
    assert_eq!(report["file"]["name"], "sums");
    let omitted = &report["omitted"];
    assert_eq!((&omitted[0]["question"], &omitted[0]["kind"]), (&json!("1+3"), &json!("hand_written_verify")));
    assert_eq!(omitted[1]["kind"], "nothing_to_check");
}

#[test]
fn a_checkpoint_of_which_nothing_remains_fails_and_another_file_is_a_usage_error() {
    let person = person(&[item("1+3", HAND_WRITTEN)]);
    let ran = person.run(&["verify", "import", "sums.jsonld", "-o", "sums.json"]);
    assert_eq!(ran.code, 1);
    assert!(ran.err.contains("question 1+3: template has a hand-written `verify()`: not taken over"), "{}", ran.err);
    assert!(ran.err.contains("no question of the checkpoint can be taken over"), "{}", ran.err);
    assert!(ran.err.contains("hint: try --infer-checks"), "{}", ran.err);
    assert!(!person.path("project/sums.json").exists());
    assert_eq!(person.run(&["verify", "import", "sums.jsonld", "--json"]).code, 1);
    person.write("project/other.json", "{\"name\": 1}");
    for file in ["other.json", "missing.json"] {
        assert_eq!(person.run(&["verify", "import", file]).code, 2);
    }
}

#[test]
fn an_exported_benchmark_can_be_imported() {
    let person = person(&[item("2+2", DECLARED)]);
    let imported = person.run(&["verify", "import", "sums.jsonld"]);
    assert_eq!(imported.code, 0, "{}", imported.err);
    person.write("project/sums.json", &imported.out);
    let exported = person.run(&["verify", "export", "sums.json", "-o", "again.jsonld"]);
    assert_eq!((exported.code, exported.out.as_str()), (0, "again.jsonld: 1 question\n"), "{}", exported.err);
    assert!(person.read("project/again.jsonld").contains("verify_with=NumericExact()"));
    let again = person.run(&["verify", "import", "again.jsonld"]);
    let template = |text: &str| serde_json::from_str::<Value>(text).unwrap()["questions"][0]["template"].clone();
    assert_eq!(template(&again.out), template(&imported.out));
}

#[test]
fn a_preset_of_karenina_gives_settings_and_models() {
    let person = person(&[item("2+2", DECLARED)]);
    let imported = person.run(&["verify", "import", "sums.jsonld", "-o", "sums.json"]);
    assert_eq!(imported.code, 0, "{}", imported.err);
    // The digest of the question's text.
    person.write("project/traces.json", &json!({"936dbc8755f623c951d96ea2b03e13bc": "It is 4."}).to_string());
    person.write("project/judge.yaml", "prompts:\n  It is 4.: [{ json: { sum: 4 } }]\n");
    let preset = json!({
        "id": "u", "name": "nightly", "created_at": "2026-01-01", "updated_at": "2026-01-01",
        "config": {
            "answering_models": [{"id": "answers", "interface": "manual", "model_name": "traces.json", "max_retries": 2}],
            "parsing_models": [{"id": "judge", "interface": "scripted", "model_name": "judge.yaml"}],
            "replicate_count": 2, "request_timeout": 120.0,
        },
    });
    person.write("project/preset.json", &preset.to_string());
    let ran = person.run(&["verify", "run", "sums.json", "--config", "preset.json", "--json"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    let report = json_of(&ran);
    assert_eq!((&report["planned"], &report["models"][0]["accuracy"]), (&json!(2), &json!(1.0)));
    assert!(ran.err.contains("preset.json: without effect here: request_timeout"), "{}", ran.err);
}
