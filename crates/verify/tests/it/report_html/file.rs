//! The file: valid, self-contained, small, and complete.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use wharf_agent::TraceCall;
use wharf_protocol::Json;
use wharf_verify::UnitResult;
use wharf_verify::report::HtmlWriter;

use super::parts::{chunks, inline, list, markup, overview};
use super::sample::Sample;

const SMALL: Sample = Sample { questions: 9, models: 3, judges: 2, replicates: 2 };

fn html(sample: Sample) -> String {
    String::from_utf8(sample.html()).unwrap()
}

fn report_of(units: &[UnitResult]) -> String {
    let mut writer = HtmlWriter::new(Vec::new(), SMALL.input()).unwrap();
    for unit in units {
        writer.add(unit).unwrap();
    }
    String::from_utf8(writer.finish().unwrap()).unwrap()
}

#[test]
fn long_reasons_of_assertions_are_cut() {
    let one = Sample { questions: 1, models: 1, judges: 1, replicates: 1 };
    let size = |chars: usize| {
        // Text that does not compress.
        let text: String = (0..chars).map(|_| fastrand::alphanumeric()).collect();
        let reason = json!([{"assertion": "called x", "passed": false, "reason": text}]);
        let mut unit = one.all_units().remove(0);
        unit.assertions = serde_json::from_value(reason.clone()).unwrap();
        let turn = json!({"turn": "t", "prompt": "?", "messages": 0, "assertions": reason});
        unit.scenario = serde_json::from_value(json!({"end": "completed", "turns": [turn]})).unwrap();
        report_of(&[unit]).len()
    };
    let (short, long) = (size(10), size(3_000_000));
    assert!(long < short + 400_000, "{short} {long}");
}

#[test]
fn the_policy_allows_this_script_and_style_and_nothing_else() {
    let html = html(SMALL);
    let hash = |source: &str| format!("'sha256-{}'", STANDARD.encode(Sha256::digest(source)));
    let (script, style) = (hash(inline(&html, "script")), hash(inline(&html, "style")));
    let policy = format!(
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; script-src {script}; style-src {style}; \
         img-src data:; base-uri 'none'; form-action 'none'\">"
    );
    let head = html.split_once("<style>").unwrap().0;
    assert!(head.contains(&policy), "{head}");
    let markup = markup(&html);
    assert_eq!(markup.matches("<script").count(), 1, "one script");
    for source in [inline(&html, "script"), inline(&html, "style")] {
        assert!(!source.contains("</script") && !source.contains("</style") && !source.contains("<!--"));
    }
    let without_sources = markup.replace(inline(&html, "script"), "").replace(inline(&html, "style"), "");
    for way_out in [" src=", "url(", "@import", " onload", " onerror", "<iframe", "<object", "<form"] {
        assert!(!without_sources.contains(way_out), "{way_out}");
    }
    let style = inline(&html, "style");
    assert!(!style.contains("url(") && !style.contains("@import"));
    let script = inline(&html, "script");
    for parser in [
        "innerHTML",
        "outerHTML",
        "insertAdjacentHTML",
        "document.write",
        "eval(",
        "Function(",
        "fetch(",
        "XMLHttpRequest",
    ] {
        assert!(!script.contains(parser), "{parser}");
    }
    assert!(
        html.starts_with("<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<meta http-equiv")
    );
    assert!(html.ends_with("</script>\n</body>\n</html>\n"));
}

#[test]
fn a_thousand_units_with_traces_take_less_than_three_megabytes() {
    let sample = Sample { questions: 125, models: 4, judges: 1, replicates: 2 };
    assert_eq!(sample.units(), 1_000);
    let mut writer = HtmlWriter::new(Vec::new(), sample.input()).unwrap();
    let mut plain = 0;
    sample.each_unit(|unit| {
        plain += serde_json::to_string(&unit).unwrap().len();
        writer.add(&unit).unwrap();
    });
    let html = writer.finish().unwrap();
    assert!(plain > 5_000_000, "the sample must have ordinary traces: {plain}");
    assert!(html.len() < 3_000_000, "{}", html.len());
    // For a look at the page.
    std::fs::write(Path::new(env!("CARGO_TARGET_TMPDIR")).join("report.html"), html).unwrap();
}

#[test]
fn the_script_is_small() {
    let html = html(SMALL);
    assert!(inline(&html, "script").len() < 120_000);
}

#[test]
fn every_result_survives_the_round_trip() {
    let html = html(SMALL);
    let units = SMALL.all_units();
    let details = list(&html, "details");
    assert_eq!(details.len(), units.len());
    for (unit, detail) in units.iter().zip(&details) {
        check_detail(unit, detail);
    }
    let rows = list(&html, "rows");
    let overview = overview(&html);
    for (unit, row) in units.iter().zip(&rows) {
        let name = |list: &str, key: &str, place: usize| {
            overview[list][usize::try_from(row[place].as_u64().unwrap()).unwrap()][key].clone()
        };
        assert_eq!(row[0], unit.unit.to_string());
        assert_eq!(name("questions", "id", 1), unit.question.as_str());
        assert_eq!(name("models", "label", 2), unit.model.label);
        assert_eq!(name("judges", "label", 3), unit.judge.as_ref().unwrap().label);
        assert_eq!(row[4], unit.replicate);
        assert_eq!(row[5], serde_json::to_value(unit.verdict).unwrap());
        assert_eq!(row[8], unit.millis);
    }
    let texts = list(&html, "texts");
    for (unit, text) in units.iter().zip(&texts) {
        assert_eq!(text, unit.response.as_deref().unwrap_or_default());
    }
    let question = &overview["questions"][0];
    let expected = &SMALL.input().questions[0];
    assert_eq!(question["question"], expected.question);
    assert_eq!(question["answer"], expected.answer.clone().unwrap());
}

#[test]
fn objects_of_traits_are_text_and_long_reasoning_is_cut() {
    let mut unit = SMALL.all_units().remove(0);
    unit.judge_reasoning = Some("r".repeat(200_000));
    unit.rubric = serde_json::from_value(json!({"traits": [
        {"name": "t", "value": {"object": {"n": 12_345_678_901_234_567_890_u64}}, "reasoning": "s".repeat(200_000)},
    ]}))
    .unwrap();
    let mut writer = HtmlWriter::new(Vec::new(), SMALL.input()).unwrap();
    writer.add(&unit).unwrap();
    let detail = list(&String::from_utf8(writer.finish().unwrap()).unwrap(), "details").remove(0);
    let found = &detail["rubric"]["traits"][0];
    assert_eq!(found["value"]["object"], "{\"n\":12345678901234567890}", "a script would round the number");
    for text in [&detail["judge_reasoning"], &found["reasoning"]] {
        assert!(text.as_str().unwrap().ends_with("… [100000 more characters are in the store]"));
    }
}

fn check_detail(unit: &UnitResult, detail: &Value) {
    let expected = serde_json::to_value(unit).unwrap();
    for (key, value) in expected.as_object().unwrap() {
        match key.as_str() {
            "trace" | "template" => {}
            key => assert_eq!(&detail[key], value, "{key}"),
        }
    }
    for (message, shown) in unit.trace.iter().zip(detail["trace"].as_array().unwrap()) {
        assert_eq!(shown["content"], message.content);
        assert_eq!(shown["thinking"].as_str(), message.thinking.as_ref().map(|thinking| thinking.thinking.as_str()));
        let calls = shown["calls"].as_array().map(Vec::as_slice).unwrap_or_default();
        assert_eq!(calls.len(), message.tool_calls.len());
        for (call, shown) in message.tool_calls.iter().zip(calls) {
            assert_eq!(
                (shown["name"].as_str(), shown["input"].as_str()),
                (Some(&*call.name), Some(call.input.as_str()))
            );
        }
        let result = message.tool_result.as_ref();
        assert_eq!(shown["result"]["is_error"].as_bool(), result.map(|result| result.is_error));
    }
    assert_eq!(detail["trace"].as_array().unwrap().len(), unit.trace.len());
    let fields = unit.template.iter().flat_map(|template| &template.fields);
    for (place, field) in fields.enumerate() {
        let shown = &detail["template"]["fields"][place];
        assert_eq!(shown["truth"], field.truth.to_string());
        assert_eq!(shown["extracted"].as_str(), field.extracted.as_ref().map(ToString::to_string).as_deref());
    }
}

#[test]
fn arguments_keep_their_digits_and_their_depth() {
    let mut unit = SMALL.all_units().swap_remove(0);
    let deep = format!("{}1{}", "[".repeat(120), "]".repeat(120));
    for input in ["{\"id\": 123456789012345678901234567890}", &deep] {
        let call = TraceCall { id: "c".into(), name: "t".into(), input: Json::parse(input).unwrap() };
        unit.trace[0].tool_calls = vec![call];
        let html = report_of(std::slice::from_ref(&unit));
        assert_eq!(list(&html, "details")[0]["trace"][0]["calls"][0]["input"], input);
    }
}

#[test]
fn a_huge_text_is_cut_and_says_so() {
    let mut unit = SMALL.all_units().swap_remove(0);
    unit.response = Some("ä".repeat(5_000_000));
    unit.trace[1].content = "b".repeat(5_000_000);
    let html = report_of(&[unit]);
    assert!(html.len() < 400_000, "{}", html.len());
    let detail = &list(&html, "details")[0];
    for text in [&detail["response"], &detail["trace"][1]["content"]] {
        assert!(text.as_str().unwrap().ends_with("… [4900000 more characters are in the store]"));
    }
}

#[test]
fn a_question_that_the_benchmark_no_longer_has_is_shown_by_its_id() {
    let mut unit = SMALL.all_units().swap_remove(0);
    unit.question = "removed".parse().unwrap();
    let html = report_of(&[unit.clone(), unit]);
    let overview = overview(&html);
    let questions = overview["questions"].as_array().unwrap();
    assert_eq!(questions.len(), SMALL.questions + 1);
    assert_eq!(questions[SMALL.questions]["id"], "removed");
    assert_eq!(list(&html, "rows").iter().map(|row| row[1].as_u64().unwrap()).collect::<Vec<_>>(), [9, 9]);
}

#[test]
fn a_run_without_results_is_a_valid_report() {
    let html = report_of(&[]);
    let kinds: Vec<String> = chunks(&html).into_iter().map(|chunk| chunk.kind).collect();
    assert_eq!(kinds, ["overview"]);
}

/// A file that only counts what it gets.
struct Counter(Arc<AtomicUsize>);

impl std::io::Write for Counter {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.fetch_add(bytes.len(), Ordering::Relaxed);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[test]
fn traces_are_written_while_results_are_added() {
    let sample = Sample { questions: 100, models: 4, judges: 1, replicates: 1 };
    let written = Arc::new(AtomicUsize::new(0));
    let mut writer = HtmlWriter::new(Counter(Arc::clone(&written)), sample.input()).unwrap();
    let mut sizes = Vec::new();
    sample.each_unit(|unit| {
        writer.add(&unit).unwrap();
        sizes.push(written.load(Ordering::Relaxed));
    });
    let before = sizes[sizes.len() - 1];
    writer.finish().unwrap();
    let left = written.load(Ordering::Relaxed) - before;
    // What is left is the last chunk of each kind, the rows of 4,096 units and the page's script.
    assert!(left < 250_000, "{left} bytes were held until the end, {before} were not");
    assert!(before > 500_000, "{before}");
    let longest_pause = sizes.chunk_by(|a, b| a == b).map(<[usize]>::len).max().unwrap();
    assert!(longest_pause <= 64, "{longest_pause} units were held");
}

#[test]
fn the_built_page_belongs_to_its_sources() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("report-web");
    let digests = std::fs::read_to_string(folder.join("dist/digests")).unwrap();
    let mut listed: Vec<PathBuf> = Vec::new();
    for line in digests.lines() {
        let (digest, name) = line.split_once("  ").unwrap();
        let bytes = std::fs::read(folder.join(name)).unwrap();
        let found = Sha256::digest(bytes).iter().fold(String::new(), |text, byte| format!("{text}{byte:02x}"));
        assert_eq!(found, digest, "{name} changed: run `npm run build` in crates/verify/report-web");
        listed.push(folder.join(name));
    }
    for entry in std::fs::read_dir(folder.join("src")).unwrap() {
        let path = entry.unwrap().path();
        assert!(listed.contains(&path), "{} is not in the build: run `npm run build`", path.display());
    }
    let lock = std::fs::read_to_string(folder.join("package-lock.json")).unwrap();
    assert!(!lock.contains("\"resolved\""), "the lock file must not name a registry");
}
