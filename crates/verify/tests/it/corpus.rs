//! Benchmark files of the tests: valid ones, and invalid ones with their exact problems.

/// An invalid file and its problems.
pub(crate) struct Invalid {
    pub(crate) file: &'static str,
    pub(crate) problems: &'static str,
}

/// Files whose shape is wrong. The JSON Schema rejects them too.
pub(crate) fn wrong_shapes() -> Vec<Invalid> {
    cases(include_str!("corpus/wrong_shapes.txt"))
}

/// Files whose shape is right, with values that contradict each other or refer to nothing.
pub(crate) fn wrong_values() -> Vec<Invalid> {
    cases(include_str!("corpus/wrong_values.txt"))
}

fn cases(text: &'static str) -> Vec<Invalid> {
    let cases = text.split("### file\n").skip(1).map(|case| {
        let (file, problems) = case.split_once("\n### problems\n").expect("a file and its problems");
        Invalid { file, problems: problems.trim_end() }
    });
    cases.collect()
}

/// Valid files.
pub(crate) const VALID: [&str; 7] = [
    "name: minimal\nquestions: [{id: q, question: What?, trace: [{max_calls: 1}]}]",
    r#"{"name": "json", "questions": [{"id": "q", "question": "What?", "trace": [{"called": "a", "with": {"x": {"y": [1]}}}]}]}"#,
    include_str!("corpus/city_clock.yaml"),
    include_str!("corpus/every_check.yaml"),
    include_str!("corpus/every_assertion.yaml"),
    include_str!("corpus/every_trait.yaml"),
    include_str!("corpus/every_scenario.yaml"),
];
