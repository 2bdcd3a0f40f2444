//! Benchmark files: what is read, and every problem with its line, path and fix.

use std::fmt::Write as _;
use std::path::Path;

use proptest::prelude::*;

use crate::corpus;
use wharf_verify::Benchmark;

fn problems(text: &str, file: &str) -> String {
    match Benchmark::parse(text, Path::new(file)) {
        Ok(_) => "valid".to_owned(),
        Err(invalid) => invalid.problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"),
    }
}

#[test]
fn every_problem_is_reported_with_line_path_and_fix() {
    let cases: Vec<_> = corpus::wrong_shapes().into_iter().chain(corpus::wrong_values()).collect();
    assert!(cases.len() > 100, "{} cases", cases.len());
    let mut differences = String::new();
    for case in cases {
        let found = problems(case.file, "x.yaml");
        if found != case.problems {
            let _ = writeln!(differences, "{}\nexpected\n{}\nfound\n{found}\n", case.file, case.problems);
        }
    }
    assert!(differences.is_empty(), "{differences}");
}

fn valid(text: &str, file: &str) -> Benchmark {
    Benchmark::parse(text, Path::new(file)).unwrap_or_else(|invalid| panic!("{invalid}\n{text}"))
}

#[test]
fn valid_files_are_read_and_survive_serialization() {
    for text in corpus::VALID {
        let benchmark = valid(text, "x.yaml");
        let stored = serde_json::to_string(&benchmark).unwrap();
        assert_eq!(serde_json::from_str::<Benchmark>(&stored).unwrap(), benchmark);
        // What is stored is a benchmark file too.
        assert_eq!(valid(&stored, "x.json"), benchmark);
    }
}

#[test]
fn a_benchmark_has_what_its_file_says() {
    let benchmark = valid(include_str!("corpus/city_clock.yaml"), "x.yaml");
    assert_eq!(benchmark.name, "city-clock");
    assert_eq!(benchmark.servers.keys().collect::<Vec<_>>(), ["time", "remote", "local"]);
    assert_eq!(benchmark.defaults.replicates, Some(3));
    let [tokyo, oslo] = benchmark.questions.as_slice() else { panic!("two questions") };
    assert_eq!((tokyo.id.as_str(), tokyo.answer.as_deref()), ("tokyo-offset", Some("9")));
    assert_eq!(tokyo.trace.len(), 3);
    let weights: Vec<f64> = tokyo.template.as_ref().unwrap().fields.iter().map(|field| field.weight).collect();
    assert_eq!(weights, [1.0, 0.5]);
    assert_eq!(oslo.question, "What time is it in Oslo?\nAnswer with hours and minutes.\n");
    assert_eq!(oslo.required_servers[0].as_str(), "maps");
    assert!(benchmark.rubric.contains_key("concise"));
}

#[test]
fn texts_are_read_as_written_and_truths_as_typed() {
    let text = "questions:\n  - id: 007\n    question: yes\n    answer: 9.50\n    template:\n      fields:\n        \
                - {name: f, type: float, description: 1, truth: 9.50, check: numeric_exact}\n";
    let benchmark = valid(text, "folder/quick.yaml");
    let question = &benchmark.questions[0];
    assert_eq!((question.id.as_str(), question.question.as_str()), ("007", "yes"));
    assert_eq!(question.answer.as_deref(), Some("9.50"));
    assert_eq!(question.template.as_ref().unwrap().fields[0].truth, 9.5);
    assert_eq!(benchmark.name, "quick", "the file gives the name");
}

#[test]
fn all_problems_of_a_file_are_reported_at_once() {
    let text = "\
nmae: clock
questions:
  - id: a
    question: ''
    trace: [{max_calls: x}]
  - id: a
    question: What?
    template:
      fields:
        - {name: f, type: int, description: d, truth: '1', check: numeric_exact}
        - {name: g, type: int, description: d, truth: 1, check: numeric_exakt}
  - id: c
    question: What?
    rubric: [missing]
";
    insta::assert_snapshot!(problems(text, "x.yaml"), @r#"
    line 1: nmae: unknown key "nmae" (did you mean `name`?)
    line 4: questions[0].question: the text must not be empty
    line 5: questions[0].trace[0].max_calls: expected an integer, found "x"
    line 6: questions[1].id: duplicate id "a": first used on line 3
    line 11: questions[1].template.fields[1].check: unknown check "numeric_exakt" (did you mean `numeric_exact`?)
    line 14: questions[2].rubric[0]: unknown trait "missing" (define it under `rubric` of the benchmark)
    "#);
}

#[test]
fn lines_of_json_have_a_header_or_none() {
    let with_header = "{\"name\": \"lines\", \"defaults\": {\"replicates\": 2}}\n\n\
        {\"id\": \"a\", \"question\": \"A?\", \"trace\": [{\"max_calls\": 1}]}\n\
        {\"id\": \"b\", \"question\": \"B?\", \"trace\": [{\"max_calls\": 1}]}\n";
    let benchmark = valid(with_header, "x.jsonl");
    assert_eq!((benchmark.name.as_str(), benchmark.questions.len()), ("lines", 2));
    assert_eq!(benchmark.defaults.replicates, Some(2));
    let without = with_header.lines().skip(1).collect::<Vec<_>>().join("\n");
    let benchmark = valid(&without, "many.NDJSON");
    assert_eq!((benchmark.name.as_str(), benchmark.questions.len()), ("many", 2));
}

#[test]
fn problems_of_lines_name_the_line_of_the_file() {
    let text = "{\"nmae\": \"x\"}\n{\"id\": \"a\", \"question\": \"A?\"}\n\n{\"id\": \n{\"id\": \"a\", \"question\": 1, \
        \"trace\": [{\"calls\": 1}]}\n";
    insta::assert_snapshot!(problems(text, "x.jsonl"), @r#"
    line 1: nmae: unknown key "nmae" (did you mean `name`?)
    line 2: questions[0]: the question has nothing to check (add `template`, `trace` or `rubric`)
    line 4: unclosed bracket '{'
    line 5: questions[1].trace[0].calls: unknown key "calls" (did you mean `called`?)
    line 5: questions[1].id: duplicate id "a": first used on line 2
    "#);
    assert_eq!(problems("", "x.jsonl"), "questions: the file has no questions");
    assert_eq!(problems("{\"name\": \"x\"}", "x.jsonl"), "line 1: questions: the file has no questions");
    let header =
        "{\"name\": \"x\", \"questions\": []}\n{\"id\": \"a\", \"question\": \"A?\", \"trace\": [{\"max_calls\": 1}]}";
    assert!(problems(header, "x.jsonl").starts_with("line 1: questions: unknown key \"questions\""));
}

#[test]
fn long_lists_of_problems_are_cut() {
    let text = format!("questions:\n{}", "  - {}\n".repeat(500));
    let found = problems(&text, "x.yaml");
    assert_eq!(found.lines().count(), 101);
    assert_eq!(found.lines().last(), Some("900 more problems"));
}

#[test]
fn files_have_a_maximum_size() {
    let large = format!("name: {}", "x".repeat(33 * 1024 * 1024));
    assert_eq!(problems(&large, "x.yaml"), "the file is larger than 32 MiB (split it into several benchmarks)");
}

#[test]
fn aliases_that_multiply_end_early() {
    let mut bomb = "a0: &a0 [x, x, x]\n".to_owned();
    for level in 1..30 {
        let inner = format!("*a{}", level - 1);
        let _ = writeln!(bomb, "a{level}: &a{level} [{inner}, {inner}, {inner}, {inner}, {inner}, {inner}]");
    }
    bomb.push_str("questions: [{id: q, question: What?, template: {fields: [{name: f, truth: *a29}]}}]\n");
    assert!(problems(&bomb, "x.yaml").contains("the file becomes too many values"));
}

#[test]
fn a_long_text_that_aliases_repeat_ends_early() {
    let text = "x".repeat(500_000);
    let aliases = vec!["*t"; 5_000].join(", ");
    let bomb = format!(
        "servers: {{s: {{command: &t {text}}}}}\nquestions: [{{id: q, question: What?, trace: [{{called: f, with: {{a: [{aliases}]}}}}]}}]\n"
    );
    assert!(problems(&bomb, "x.yaml").contains("the file becomes too many values"));
}

#[test]
fn nesting_texts_and_lists_are_limited() {
    let deep = format!("questions: {}", "[".repeat(10_000));
    assert!(problems(&deep, "x.yaml").contains("line 1"));
    let long = format!("questions: [{{id: q, question: {}, trace: [{{max_calls: 1}}]}}]", "x".repeat(1_000_001));
    assert_eq!(
        problems(&long, "x.yaml"),
        "line 1: questions[0].question: the text must have at most 1000000 characters"
    );
    let many = format!("questions: [{}]", "1, ".repeat(100_001));
    assert_eq!(problems(&many, "x.yaml"), "line 1: questions: the list must have at most 100000 items, found 100001");
    let lines = "1\n".repeat(100_001);
    assert!(problems(&lines, "x.jsonl").contains("more problems"));
}

#[test]
fn many_questions_are_read() {
    let mut lines = String::new();
    for n in 0..20_000 {
        let _ = writeln!(lines, "{{\"id\": \"q{n}\", \"question\": \"What?\", \"trace\": [{{\"max_calls\": 1}}]}}");
    }
    assert_eq!(valid(&lines, "x.jsonl").questions.len(), 20_000);
}

proptest! {
    #[test]
    fn reading_never_panics(text in "\\PC{0,200}", aimed in "([ \\n\\-:{}\\[\\],&*|>'\"#]|questions|id|question|template|fields|check|trace|rubric|called|\\.inf|0x|<<){0,60}") {
        for text in [&text, &aimed] {
            let _ = Benchmark::parse(text, Path::new("x.yaml"));
            let _ = Benchmark::parse(text, Path::new("x.jsonl"));
        }
    }

    /// Replaces parts of valid files: most of what is left is almost a benchmark.
    #[test]
    fn damaged_files_are_reported_or_read(
        file in prop::sample::select(corpus::VALID.to_vec()), at in any::<prop::sample::Index>(), length in 0_usize..30,
        part in prop_oneof!["[\\-:{}\\[\\], a-z0-9]{0,8}", Just("\n".to_owned()), Just("null".to_owned()), Just("-1e999".to_owned())],
    ) {
        let characters: Vec<char> = file.chars().collect();
        let start = at.index(characters.len());
        let end = (start + length).min(characters.len());
        let damaged: String = characters[..start].iter().chain(part.chars().collect::<Vec<_>>().iter()).chain(&characters[end..]).collect();
        match Benchmark::parse(&damaged, Path::new("x.yaml")) {
            Ok(benchmark) => {
                for question in &benchmark.questions {
                    if let Some(template) = &question.template {
                        prop_assert!(template.validate().is_ok());
                        let _ = template.evaluate(&serde_json::Map::new(), "response");
                    }
                }
            }
            Err(invalid) => {
                prop_assert!(!invalid.problems.is_empty());
                let lines = damaged.lines().count() + 1;
                for problem in &invalid.problems {
                    prop_assert!(problem.line <= lines, "{problem}");
                    prop_assert!(!problem.message.is_empty() && !problem.message.contains('\n'), "{problem}");
                    prop_assert!(problem.message.chars().count() < 1000, "{problem}");
                }
            }
        }
    }
}
