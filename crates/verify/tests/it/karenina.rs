//! Checkpoints of karenina become benchmarks, and benchmarks become checkpoints.

use std::path::Path;

use proptest::prelude::*;
use serde_json::{Value, json};
use wharf_verify::Benchmark;
use wharf_verify::karenina::{HandWritten, Import, ImportError, Omitted, export, preset};

/// A template with declared checks, as people write it there.
const DECLARED: &str = r#"
from typing import Literal, Optional
from karenina.schemas.entities import BaseAnswer, VerifiedField
from karenina.schemas import primitives
from karenina.schemas.primitives import *

class Answer(BaseAnswer):
    """What a good answer contains: a # that is no comment."""

    model_config = ConfigDict(extra="allow")

    capital: str = VerifiedField(
        description=(
            "The capital, "  # in two parts
            'as "written"'
        ),
        ground_truth="Wien",
        verify_with=primitives.ExactMatch(normalize=["lowercase", SynonymMap(mapping={"vienna": "wien"})]),
        extraction_hint="Only the \u0063ity",
    )
    people: Optional[int] = VerifiedField("Inhabitants", 2_000_000, NumericTolerance(tolerance=.05), 0.5)
    has_river: bool | None = VerifiedField(description="Whether a river is named", ground_truth=True, verify_with=BooleanMatch())
    rivers: list[str] = VerifiedField(description="Rivers", ground_truth=("Donau", "Wien"), verify_with=SetContainment(mode="superset"))
    size: Literal["small", "large"] = VerifiedField(description="Size", ground_truth="large", verify_with=LiteralMatch())
    cites: bool = VerifiedField(description="Cites", ground_truth=True, verify_with=TraceRegex(pattern=r"\[\d+\]", count_min=2))
    word: str = VerifiedField(description="A word", ground_truth="x", verify_with=RegexMatch(pattern="^w", flags=["IGNORECASE", "S"]))
    change: float = VerifiedField(description="Change", ground_truth="-1.5", verify_with=NumericExact(), weight=1.0)

    class VerificationStrategy:
        verify_strategy = AllOf(conditions=[
            FieldCheck(field="capital"),
            AtLeastN(n=1, conditions=[FieldCheck(field="people"), AnyOf(conditions=[FieldCheck(field="rivers")])]),
        ])
"#;

const HAND_WRITTEN: &str = "class Answer(BaseAnswer):\n    result: int = Field(description=\"The sum\")\n\n    \
    def ground_truth(self):\n        self.correct = {\"result\": 4}\n\n    def verify(self) -> bool:\n        \
    return self.result == self.correct[\"result\"]\n";

fn import(text: &str) -> Result<Import, ImportError> {
    wharf_verify::karenina::import(text, HandWritten::LeaveOut)
}

fn item(id: &str, template: &str, ratings: Value) -> Value {
    let mut item = json!({
        "@type": "DataFeedItem", "@id": id, "dateCreated": "2026-01-02T03:04:05", "dateModified": "2026-01-03T03:04:05",
        "item": {
            "@type": "Question", "text": format!("What about {id}?"),
            "acceptedAnswer": {"@type": "Answer", "text": "Wien"},
            "hasPart": {"@type": "SoftwareSourceCode", "name": "t", "text": template, "programmingLanguage": "Python"},
            "keywords": ["city"],
            "additionalProperty": [{"name": "finished", "value": true}],
        },
    });
    item["item"]["rating"] = ratings;
    item
}

fn checkpoint(items: Vec<Value>) -> Value {
    json!({
        "@context": {"@vocab": "https://schema.org/"}, "@type": "DataFeed", "name": "cities", "description": "Cities",
        "version": "0.1.0", "creator": "A person", "dateCreated": "2026-01-01T00:00:00",
        "dateModified": "2026-01-01T00:00:00", "dataFeedElement": Value::Array(items),
    })
}

fn rating(name: &str, kind: &str, range: (f64, f64), properties: &Value) -> Value {
    let properties: Vec<Value> =
        properties.as_object().unwrap().iter().map(|(name, value)| json!({"name": name, "value": value})).collect();
    json!({
        "@type": "Rating", "name": name, "description": format!("About {name}"), "worstRating": range.0,
        "bestRating": range.1, "additionalType": kind, "additionalProperty": properties,
    })
}

fn imported(checkpoint: &Value) -> (Import, Benchmark) {
    let import = import(&checkpoint.to_string()).unwrap();
    let benchmark = Benchmark::parse(&import.file.to_string(), Path::new("x.json")).unwrap();
    (import, benchmark)
}

/// Imports one template; returns it, and what was not taken over.
fn template(source: &str) -> (Value, String) {
    let shared = rating("t", "GlobalRubricTrait", (0.0, 1.0), &json!({}));
    let mut checkpoint = checkpoint(vec![item("q", source, Value::Null)]);
    checkpoint["rating"] = json!([shared]);
    let (import, _) = imported(&checkpoint);
    let omissions: Vec<String> = import.omissions.iter().map(ToString::to_string).collect();
    (import.file["questions"][0]["template"].clone(), omissions.join("\n"))
}

#[test]
fn declared_templates_are_taken_over() {
    let (template, omissions) = template(DECLARED);
    assert_eq!(omissions, "");
    assert_eq!(
        template,
        json!({
            "fields": [
                {"name": "capital", "type": "str", "description": "The capital, as \"written\"",
                 "extraction_hint": "Only the city", "truth": "Wien",
                 "check": {"exact_match": {"normalize": ["lowercase", {"synonyms": {"vienna": "wien"}}]}}},
                {"name": "people", "type": "int", "description": "Inhabitants", "truth": 2_000_000,
                 "check": {"numeric_tolerance": {"tolerance": 0.05}}, "weight": 0.5},
                {"name": "has_river", "type": "bool", "description": "Whether a river is named", "truth": true,
                 "check": "boolean_match"},
                {"name": "rivers", "type": "list_str", "description": "Rivers", "truth": ["Donau", "Wien"],
                 "check": {"set_containment": {"mode": "superset"}}},
                {"name": "size", "type": {"literal": ["small", "large"]}, "description": "Size", "truth": "large",
                 "check": "literal_match"},
                {"name": "cites", "type": "bool", "description": "Cites", "truth": true,
                 "check": {"trace_regex": {"pattern": r"\[\d+\]", "count_min": 2}}},
                {"name": "word", "type": "str", "description": "A word", "truth": "x",
                 "check": {"regex_match": {"pattern": "^w", "flags": ["ignore_case", "dot_all"]}}},
                {"name": "change", "type": "float", "description": "Change", "truth": -1.5, "check": "numeric_exact"},
            ],
            "pass": {"all_of": ["capital", {"at_least_n": {"n": 1, "of": ["people", {"any_of": ["rivers"]}]}}]},
        })
    );
}

#[test]
fn questions_keep_their_texts_and_metadata() {
    let (import, benchmark) = imported(&checkpoint(vec![item("urn:uuid:q-1", DECLARED, Value::Null)]));
    assert_eq!((import.questions_found, import.questions, import.omissions.len()), (1, 1, 0));
    assert_eq!((benchmark.name.as_str(), benchmark.description.as_deref()), ("cities", Some("Cities")));
    assert_eq!(benchmark.metadata["creator"], "A person");
    let question = &benchmark.questions[0];
    assert_eq!((question.id.as_str(), question.answer.as_deref()), ("urn:uuid:q-1", Some("Wien")));
    assert_eq!(
        (question.question.as_str(), &question.keywords),
        ("What about urn:uuid:q-1?", &vec!["city".to_owned()])
    );
    assert_eq!(question.metadata["date_created"], "2026-01-02T03:04:05");
}

#[test]
fn code_is_never_taken_over_and_always_listed() {
    let field = |value: &str| format!("class A(BaseAnswer):\n    x: int = {value}\n");
    let exact = "VerifiedField(description='d', ground_truth=1, verify_with=NumericExact())";
    let cases = [
        (HAND_WRITTEN.to_owned(), "template has a hand-written `verify()`: not taken over"),
        (format!("{}\n    def verify(self): return True\n", field(exact)), "hand-written `verify()`"),
        (format!("{}\n    def model_post_init(self, c): pass\n", field(exact)), "method `model_post_init()` in line 4"),
        (
            field("VerifiedField(description='d', ground_truth=load(), verify_with=NumericExact())"),
            "`x` in line 2 of the template is not literal",
        ),
        (
            field("VerifiedField(description='d', ground_truth=1, verify_with=PRIMITIVE)"),
            "`x` in line 2 of the template is not literal",
        ),
        (field("VerifiedField(description=f'{d}', ground_truth=1, verify_with=NumericExact())"), "not literal"),
        (
            field("VerifiedField(description='d', ground_truth=[i for i in y], verify_with=NumericExact())"),
            "not literal",
        ),
        (field("VerifiedField(description='d', ground_truth=1, verify_with=Homemade())"), "unknown check `Homemade`"),
        (
            field("VerifiedField(description='d', ground_truth='a', verify_with=RegexMatch(pattern='(?<=a)b'))"),
            "template not taken over: template.fields[0].check",
        ),
        (format!("class A(BaseAnswer):\n    x: dict = {exact}\n"), "field `x` has an unsupported type"),
        (format!("{}\n    if True:\n        y: int = 1\n", field(exact)), "statement in line 4"),
        (format!("{}\n    print('x')\n", field(exact)), "statement in line 4"),
        (format!("{}{}", field(exact), field(exact)), "2 answer classes"),
        (format!("@patched\n{}", field(exact)), "statement in line 1"),
        (format!("{}\nA.verify = other\n", field(exact)), "statement in line 4"),
        (format!("{}\nclass B(A):\n    pass\n", field(exact)), "template uses inheritance"),
        (field(exact).replace("(BaseAnswer)", "(BaseAnswer, Mixin)"), "template uses inheritance"),
        ("import os\n".to_owned(), "no answer class"),
        ("class A(BaseAnswer):\n    pass\n".to_owned(), "no field has a check"),
        ("class A(BaseAnswer:\n".to_owned(), "a bracket is not closed"),
        ("class A(BaseAnswer):\n    x: str = 'open\n".to_owned(), "a string is not closed"),
        ("class A(BaseAnswer):\n    x: int = 0x1\n".to_owned(), "a number cannot be read"),
    ];
    for (source, expected) in cases {
        let (read, omissions) = template(&source);
        assert_eq!(read, Value::Null, "{source}");
        assert!(omissions.contains(expected), "{source}\n{omissions}");
        assert!(omissions.starts_with("question q: "), "{omissions}");
    }
}

#[test]
fn checks_are_inferred_only_on_request_and_only_from_literal_truths() {
    let source = "class Answer(BaseAnswer):\n    city: str = Field(description='The city')\n    is_large: bool\n    \
        parts: list[str] = Field(description='Parts')\n    note: str = Field(description='A note')\n\n    \
        def model_post_init(self, context):\n        self.correct = {'city': 'Wien', 'is_large': 1, 'parts': ['a']}\n\n    \
        def verify(self):\n        return self.city == self.correct['city']\n";
    let infer = |source: &str| {
        let checkpoint = checkpoint(vec![item("q", source, Value::Null)]);
        wharf_verify::karenina::import(&checkpoint.to_string(), HandWritten::Infer)
    };
    let import = infer(source).unwrap();
    let fields = &import.file["questions"][0]["template"]["fields"];
    let checks: Vec<_> = fields.as_array().unwrap().iter().map(|field| (&field["name"], &field["check"])).collect();
    let expected = [("city", "exact_match"), ("is_large", "boolean_match"), ("parts", "set_containment")];
    assert_eq!(
        checks,
        expected.map(|(name, check)| (json!(name), json!(check))).each_ref().map(|(name, check)| (name, check))
    );
    assert_eq!((&fields[0]["truth"], &fields[1]["truth"]), (&json!("Wien"), &json!(true)));
    assert_eq!(import.omissions.iter().map(|one| one.omitted.kind()).collect::<Vec<_>>(), ["inferred_checks"]);
    for computed in [
        source.replace("'Wien'", "load()"),
        source.replace("self.correct = {", "other = {"),
        source.replace("'parts': ['a']", "'other': 1"),
        source.replace("        self.correct", "        self.correct = {}\n        self.correct"),
    ] {
        assert!(matches!(infer(&computed), Err(ImportError::NothingLeft { .. })), "{computed}");
    }
}

#[test]
fn what_has_no_effect_on_the_verdict_is_listed_and_the_template_taken_over() {
    let source = "class A(BaseAnswer):\n    note: str = Field(description='n')\n    \
        x: int = VerifiedField(description='d', ground_truth=1, verify_with=NumericExact())\n    \
        def verify_granular(self): return 0.5\n";
    let (read, omissions) = template(source);
    assert_eq!(read["fields"].as_array().unwrap().len(), 1);
    assert_eq!(
        omissions,
        "question q: field `note` has no check: not taken over\n\
         question q: hand-written `verify_granular()`: the weighted mean of the fields is used"
    );
}

#[test]
fn hostile_templates_end_in_a_listed_omission() {
    let deep = format!("class A(BaseAnswer):\n    x: int = {}1{}\n", "[".repeat(50_000), "]".repeat(50_000));
    let classes =
        (0..200).map(|depth| format!("{}class A(BaseAnswer):\n", " ".repeat(depth))).collect::<Vec<_>>().concat();
    let long = format!("class A(BaseAnswer):\n    x: str = '{}'\n", "a".repeat(300 * 1024));
    for source in [deep, classes, long, "\\".to_owned(), "'''".to_owned(), "\"\\".to_owned(), "1e999".to_owned()] {
        let (read, omissions) = template(&source);
        assert_eq!(read, Value::Null);
        assert!(omissions.contains("not taken over"), "{omissions}");
    }
}

fn all_traits() -> Vec<Value> {
    let schema = json!({"type": "object", "properties": {"tone": {"type": "string"}}});
    vec![
        rating(
            "yes",
            "karenina:GlobalRubricTrait",
            (0.0, 1.0),
            &json!({
            "deep_judgment_enabled": true, "deep_judgment_excerpt_enabled": true, "deep_judgment_max_excerpts": 3,
            "deep_judgment_fuzzy_match_threshold": 0.8, "deep_judgment_excerpt_retry_attempts": 1,
            "deep_judgment_search_enabled": false, "higher_is_better": false}),
        ),
        rating("score", "karenina:GlobalRubricTrait", (1.0, 5.0), &json!({"higher_is_better": true})),
        rating(
            "class",
            "karenina:GlobalLLMRubricTrait",
            (0.0, 1.0),
            &json!({
            "kind": "literal", "classes": {"dull": "Not lively", "lively": "Lively"}, "higher_is_better": true}),
        ),
        rating(
            "object",
            "karenina:GlobalLLMRubricTrait",
            (0.0, 0.0),
            &json!({
            "kind": {"type": "template", "schema": schema}, "higher_is_better": null}),
        ),
        rating(
            "pattern",
            "karenina:GlobalRegexTrait",
            (0.0, 1.0),
            &json!({
            "pattern": r"\d", "case_sensitive": false, "invert_result": true, "higher_is_better": true}),
        ),
        rating(
            "metric",
            "karenina:GlobalMetricRubricTrait",
            (0.0, 1.0),
            &json!({
            "metrics": ["precision", "f1"], "repeated_extraction": false, "evaluation_mode": "tp_only",
            "tp_instructions": ["names the river"], "higher_is_better": null}),
        ),
        rating(
            "agent",
            "karenina:GlobalAgenticRubricTrait",
            (1.0, 3.0),
            &json!({
            "kind": "score", "min_score": 1, "max_score": 3, "higher_is_better": true, "context_mode": "trace_only",
            "materialize_trace": true, "persist_trace": false, "max_turns": 4, "timeout_seconds": 30}),
        ),
        rating(
            "if there",
            "karenina:GlobalDynamicRubricTrait",
            (0.0, 1.0),
            &json!({
            "dynamic_trait_type": "llm", "summary": "a river", "higher_is_better": true}),
        ),
    ]
}

#[test]
fn every_kind_of_trait_is_taken_over() {
    let mut checkpoint = checkpoint(vec![item("q", "", Value::Null)]);
    checkpoint["rating"] = Value::Array(all_traits());
    let (import, benchmark) = imported(&checkpoint);
    assert_eq!(import.omissions, []);
    assert_eq!(benchmark.defaults.rubric.len(), 8);
    insta::assert_snapshot!(serde_json::to_string_pretty(&import.file["rubric"]).unwrap());
}

#[test]
fn traits_that_are_code_unknown_or_invalid_are_listed() {
    let ratings = json!([
        rating("function", "karenina:QuestionSpecificCallableTrait", (0.0, 1.0), &json!({"callable_code": "aaaa"})),
        rating("misplaced", "karenina:GlobalRubricTrait", (0.0, 1.0), &json!({})),
        rating("look", "karenina:QuestionSpecificRegexTrait", (0.0, 1.0), &json!({"pattern": "(?=a)"})),
        rating("fine", "QuestionSpecificRubricTrait", (0.0, 1.0), &json!({})),
        rating(
            "own",
            "karenina:QuestionSpecificAgenticRubricTrait",
            (0.0, 1.0),
            &json!({"kind": "boolean", "model_override": {}})
        ),
    ]);
    let (import, _) = imported(&checkpoint(vec![item("q", "", ratings)]));
    assert_eq!(import.file["questions"][0]["rubric"], json!(["fine", "own"]));
    let kinds: Vec<_> = import.omissions.iter().map(|omission| omission.omitted.kind()).collect();
    assert_eq!(kinds, ["callable_trait", "trait_kind", "invalid_trait", "trait_model"]);
    let shown = serde_json::to_value(&import.omissions[2]).unwrap();
    assert_eq!(
        (&shown["question"], &shown["trait"], &shown["kind"]),
        (&json!("q"), &json!("look"), &json!("invalid_trait"))
    );
    assert!(shown["message"].as_str().unwrap().contains("look-around"), "{shown}");
}

#[test]
fn traits_of_the_same_name_stay_apart() {
    let tone = |description: &str| {
        let mut rating = rating("tone", "karenina:QuestionSpecificRubricTrait", (0.0, 1.0), &json!({}));
        rating["description"] = description.into();
        json!([rating])
    };
    let items = vec![item("a", "", tone("calm")), item("b", "", tone("loud")), item("c", "", tone("calm"))];
    let (import, benchmark) = imported(&checkpoint(items));
    let names: Vec<&str> = benchmark.questions.iter().map(|question| question.rubric[0].as_str()).collect();
    assert_eq!(names, ["tone", "tone 2", "tone"]);
    assert_eq!(
        import.omissions[0].to_string(),
        "question b: trait tone 2: the name was \"tone\", which another trait has"
    );
}

#[test]
fn questions_without_anything_to_check_are_left_out() {
    let mut few_shot = item("b", DECLARED, Value::Null);
    few_shot["item"]["additionalProperty"] =
        json!([{"name": "few_shot_examples", "value": "[{\"question\": \"a\", \"answer\": \"b\"}]"}]);
    let items = vec![
        item("a", HAND_WRITTEN, Value::Null),
        few_shot,
        item("b", DECLARED, Value::Null),
        item("c\n", DECLARED, Value::Null),
    ];
    let (import, benchmark) = imported(&checkpoint(items));
    assert_eq!((import.questions_found, benchmark.questions.len()), (4, 3));
    assert_eq!(benchmark.questions[0].metadata["few_shot_examples"][0]["answer"], "b");
    let kinds: Vec<_> = import.omissions.iter().map(|omission| omission.omitted.kind()).collect();
    assert_eq!(kinds, ["hand_written_verify", "nothing_to_check", "few_shot_examples", "changed_id", "changed_id"]);
    assert_eq!(benchmark.questions[1].id.as_str(), "b-2");
    let Err(ImportError::NothingLeft { questions_found: 1, omissions }) =
        self::import(&checkpoint(vec![item("a", HAND_WRITTEN, Value::Null)]).to_string())
    else {
        panic!("nothing is left")
    };
    assert_eq!(omissions.last().unwrap().omitted, Omitted::NothingToCheck);
}

#[test]
fn files_that_are_not_checkpoints_are_errors() {
    let error = |text: &str| import(text).unwrap_err().to_string();
    assert!(error("{").starts_with("invalid checkpoint: EOF"), "{}", error("{"));
    assert!(error("[]").starts_with("invalid checkpoint"));
    assert_eq!(error(r#"{"name": "x"}"#), "invalid checkpoint: missing field `dataFeedElement` at line 1 column 13");
    assert_eq!(
        error(r#"{"@type": "Person", "name": "x", "dataFeedElement": []}"#),
        "invalid checkpoint: `@type` is not `DataFeed`"
    );
    assert_eq!(error(&" ".repeat(33 << 20)), "the checkpoint is larger than 32 MiB");
    assert!(error(&format!("{{\"creator\":{}", "[".repeat(10_000))).contains("recursion limit"));
}

#[test]
fn an_exported_benchmark_is_imported_as_it_was() {
    let mut checkpoint = checkpoint(vec![
        item("a", DECLARED, Value::Null),
        item(
            "b",
            "",
            json!([rating(
                "own",
                "karenina:QuestionSpecificRubricTrait",
                (0.0, 1.0),
                &json!({"higher_is_better": true})
            ),]),
        ),
    ]);
    checkpoint["rating"] = Value::Array(all_traits());
    checkpoint["dataFeedElement"][0]["item"]["additionalProperty"] = json!([
        {"name": "finished", "value": false}, {"name": "author", "value": "{\"name\": \"A\"}"},
        {"name": "custom_level", "value": 3},
    ]);
    let (_, benchmark) = imported(&checkpoint);
    let exported = export(&benchmark);
    assert_eq!(exported.omissions, []);
    let (again, benchmark_again) = imported(&exported.file);
    assert_eq!(again.omissions, []);
    assert_eq!(benchmark_again, benchmark);
    assert_eq!(export(&benchmark_again), exported, "an export is the same every time");
}

#[test]
fn every_check_survives_export_and_import() {
    let check = |name: &str, kind: Value, truth: Value, check: Value| json!({"name": name, "type": kind, "description": "d", "truth": truth, "check": check});
    let fields = json!([
        check(
            "a",
            json!("str"),
            json!("x"),
            json!({"contains_any": {"substrings": ["a", "\"b\\\n"], "normalize": ["strip"]}})
        ),
        check("b", json!("str"), json!("x"), json!({"contains_all": {"substrings": ["a"]}})),
        check("c", json!("str"), json!("x"), json!({"semantic_match": {"threshold": 0.9}})),
        check("d", json!("float"), json!(1.5), json!({"numeric_range": {"min": 1, "exclusive_min": true}})),
        check("e", json!("int"), json!(-3), json!({"numeric_minimum": {"exclusive": true}})),
        check("f", json!("int"), json!(3), json!("numeric_maximum")),
        check(
            "g",
            json!("float"),
            json!(3),
            json!({"numeric_graded": {"cutoff": 0.3, "full_credit": 0.1, "decay": "quadratic"}})
        ),
        check("h", json!("float"), json!(3), json!({"numeric_range_graded": {"min": 1, "max": 2, "margin": 0.5}})),
        check("i", json!("float"), json!(3), json!({"numeric_threshold_graded": {"direction": "min", "margin": 0.5}})),
        check("j", json!("list_str"), json!(["a", "b"]), json!("ordered_match")),
        check("k", json!("date"), json!("2026-11-16"), json!({"date_match": {"format": "%Y-%m-%d"}})),
        check("l", json!("str"), json!("2026-11-16"), json!({"date_tolerance": {"tolerance": 2, "unit": "hours"}})),
        check("m", json!("date"), json!("2026-11-16"), json!({"date_range": {"min": "2026-01-01"}})),
        check("n", json!("bool"), json!(false), json!({"trace_contains": {"substring": "a'b"}})),
        check("o", json!("bool"), json!(true), json!({"trace_length": {"min": 1, "max": 9, "unit": "words"}})),
        check("p", json!("str"), json!("multi\nline \"\"\" \u{7} text"), json!({"exact_match": {"normalize": []}})),
    ]);
    let file = json!({"name": "all", "questions": [{"id": "q", "question": "Q?", "answer": "A", "template": {"fields": fields}}]});
    let benchmark = Benchmark::parse(&file.to_string(), Path::new("x.json")).unwrap();
    let (again, benchmark_again) = imported(&export(&benchmark).file);
    assert_eq!(again.omissions, []);
    assert_eq!(benchmark_again.questions[0].template, benchmark.questions[0].template);
}

#[test]
fn what_a_checkpoint_cannot_say_is_listed() {
    let file = json!({
        "name": "x", "servers": {"demo": "wharf:demo"}, "defaults": {"replicates": 2, "isolation": "fresh"},
        "questions": [{"id": "q", "question": "Q?", "rubric": ["t"], "trace": [{"max_calls": 1}], "required_servers": ["demo"]}],
        "rubric": {"t": {"kind": "llm_boolean", "description": "d", "include_ground_truth": true}},
    });
    let benchmark = Benchmark::parse(&file.to_string(), Path::new("x.json")).unwrap();
    let omissions: Vec<String> = export(&benchmark).omissions.iter().map(ToString::to_string).collect();
    assert_eq!(
        omissions,
        [
            "benchmark: `servers` is not taken over",
            "benchmark: `defaults.replicates` is not taken over",
            "benchmark: `defaults.isolation` is not taken over",
            "trait t: `include_ground_truth` is not taken over",
            "question q: `trace` is not taken over",
            "question q: `required_servers` is not taken over",
        ]
    );
}

#[test]
fn a_preset_is_a_file_of_settings_with_its_models() {
    let model = |id: &str, name: &str| {
        json!({"id": id, "model_provider": "openai", "model_name": name, "interface": "langchain", "temperature": 0.1,
            "system_prompt": null, "max_retries": 2, "extra_kwargs": null})
    };
    let file = json!({
        "id": "u", "name": "nightly", "description": null, "created_at": "2026-01-01", "updated_at": "2026-01-01",
        "config": {
            "answering_models": [model("a", "gpt-5"), model("j", "gpt-5-mini")],
            "parsing_models": [model("j", "gpt-5-mini"), model("a", "another")],
            "replicate_count": 3, "evaluation_mode": "template_and_rubric", "abstention_enabled": true,
            "async_enabled": false, "async_max_workers": 8, "deep_judgment_mode": "full", "sufficiency_enabled": "maybe", "rubric_trait_names": null, "request_timeout": 120.0,
        },
    });
    let read = preset(&file.to_string()).unwrap();
    let list = |names: [&str; 2]| Some(names.map(str::to_owned).to_vec());
    assert_eq!((&read.config.models, &read.config.judges), (&list(["a", "j"]), &list(["j", "a (2)"])));
    assert_eq!((read.config.replicates, read.config.concurrency), (Some(3), Some(1)));
    assert_eq!(read.config.abstention_enabled, Some(true));
    assert_eq!(read.models.len(), 3, "a model that answers and judges is one model");
    assert_eq!(
        read.models[0],
        json!({"id": "a", "model_provider": "openai", "model_name": "gpt-5", "interface": "langchain", "temperature": 0.1})
    );
    assert_eq!(read.ignored, ["sufficiency_enabled", "request_timeout"]);
    assert_eq!(preset(&file["config"].to_string()), Some(read));
    for other in ["models: []", "{\"replicates\": 2}", "[]", "{\"parsing_models\": 1}"] {
        assert_eq!(preset(other), None, "{other}");
    }
}

/// Parts of templates, and what breaks them.
fn fragment() -> impl Strategy<Value = String> {
    let parts = [
        "class A(BaseAnswer):\n",
        "    x: int = ",
        "VerifiedField(",
        "description='d', ",
        "ground_truth=",
        "verify_with=",
        "NumericExact()",
        "1",
        "-",
        ".5",
        "1e",
        "0x",
        "'",
        "\"\"\"",
        "r'",
        "f'",
        "\\",
        "\\x",
        "\\u00",
        "\\N{",
        "(",
        ")",
        "[",
        "]",
        "{",
        "}",
        ":",
        ",",
        "=",
        "|",
        "@",
        "#",
        "\n",
        "\r\n",
        "\t",
        "    ",
        "def verify(self):\n",
        "...",
        "None",
        "é",
        "日",
        "\u{0}",
    ];
    prop_oneof![4 => proptest::sample::select(parts.to_vec()).prop_map(str::to_owned), 1 => ".{0,6}"]
}

/// Characters that end a Python string, begin a comment or escape others.
fn awkward() -> impl Strategy<Value = char> {
    prop_oneof![
        any::<char>(),
        proptest::sample::select(vec!['"', '\'', '\\', '\n', '\r', '#', '{', '(', ')', 'a', ' '])
    ]
}

proptest! {
    #[test]
    fn any_source_text_is_a_valid_template_or_a_listed_omission(parts in proptest::collection::vec(fragment(), 0..40)) {
        let source = parts.concat();
        let (read, omissions) = template(&source);
        let is_empty = source.trim().is_empty();
        prop_assert!(!read.is_null() || is_empty || omissions.contains("not taken over"), "{source:?}\n{omissions}");
    }

    #[test]
    fn texts_of_a_benchmark_never_become_code(characters in proptest::collection::vec(awkward(), 1..30)) {
        let text = String::from_iter(characters);
        prop_assume!(!text.trim().is_empty());
        let field = json!({"name": "a", "type": "str", "description": text, "truth": text, "check": "exact_match",
            "extraction_hint": text});
        let file = json!({"name": "x", "questions": [{"id": "q", "question": "Q?", "template": {"fields": [field]}}]});
        // Not every character may occur in a benchmark.
        let Ok(benchmark) = Benchmark::parse(&file.to_string(), Path::new("x.json")) else { return Ok(()) };
        let exported = export(&benchmark).file;
        let source = exported["dataFeedElement"][0]["item"]["hasPart"]["text"].as_str().unwrap();
        prop_assert_eq!(source.lines().count(), 13, "{}", source);
        let (_, again) = imported(&exported);
        prop_assert_eq!(&again.questions[0].template, &benchmark.questions[0].template);
    }
}
