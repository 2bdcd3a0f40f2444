//! Summaries and result files, read back with readers of the formats.

use parquet::file::reader::{FileReader as _, SerializedFileReader};
use parquet::record::Field;
use serde_json::{Value, json};
use sqlx::{Connection as _, Row as _, SqliteConnection};
use tempfile::TempDir;
use wharf_protocol::Usage;
use wharf_verify::report::{COLUMNS, Format, export, not_passed, summarize};
use wharf_verify::store::{Claim, SqliteStore};
use wharf_verify::{Failure, FailureCategory, RunId, RunStore, Trial, UnitResult, Verdict};

use crate::store_kit::{planned_with, run_id, trials, unit_result};

const LONG: std::time::Duration = std::time::Duration::from_secs(600);

/// A run whose units have the results of `result`.
pub(crate) struct Run {
    folder: TempDir,
    pub(crate) store: SqliteStore,
    pub(crate) id: RunId,
}

impl Run {
    pub(crate) async fn new(trials: &[Trial], result: impl Fn(&Trial, usize) -> UnitResult) -> Self {
        Self::with_settings(json!({"models": ["model-a"]}), trials, result).await
    }

    pub(crate) async fn with_settings(
        settings: Value,
        trials: &[Trial],
        result: impl Fn(&Trial, usize) -> UnitResult,
    ) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let store = SqliteStore::open(&folder.path().join("runs.db")).await.unwrap();
        let id = run_id("run");
        planned_with(&store, &id, trials, settings).await;
        loop {
            let claimed = store.claim(&Claim { run: &id, worker: "a", limit: 100, lease: LONG }).await.unwrap();
            if claimed.is_empty() {
                break;
            }
            for claimed in claimed {
                for place in 0..claimed.trial.units.len() {
                    store.finish_unit(&claimed.lease, &result(&claimed.trial, place)).await.unwrap().await.unwrap();
                }
                store.release(&claimed.lease).await.unwrap();
            }
        }
        Self { folder, store, id }
    }

    pub(crate) fn parts(&self) -> (&SqliteStore, &RunId) {
        (&self.store, &self.id)
    }

    pub(crate) async fn export(&self, format: Format) -> Vec<u8> {
        let mut bytes = Vec::new();
        export(&self.store, &self.id, format, &mut bytes).await.unwrap();
        bytes
    }
}

fn passed(trial: &Trial, place: usize) -> UnitResult {
    unit_result(trial, &trial.units[place].id, Verdict::Passed)
}

/// A unit that failed, with an answer that a spreadsheet would execute.
fn failed(trial: &Trial, place: usize) -> UnitResult {
    let category = FailureCategory::Content;
    let reason = "found \"x\", expected 1\nand more".to_owned();
    let failure = Failure { category, group: category.group(), stage: "verify_template".to_owned(), reason };
    UnitResult {
        failure: Some(failure),
        response: Some("=HYPERLINK(\"http://evil\")".to_owned()),
        ..unit_result(trial, &trial.units[place].id, Verdict::Failed)
    }
}

pub(crate) fn number(trial: &Trial) -> u32 {
    trial.question.as_str().trim_start_matches("question-").parse().unwrap()
}

#[tokio::test]
async fn the_summary_scores_passed_and_failed_units_only_and_counts_an_answer_once() {
    let trials = trials(6, &["judge-a", "judge-b"]);
    let run = Run::new(&trials, |trial, place| {
        let verdict = match number(trial) {
            1..=3 => Verdict::Passed,
            4 => Verdict::Failed,
            5 => Verdict::Invalid,
            _ => Verdict::Indeterminate,
        };
        let judge_usage = Usage { input_tokens: 5, output_tokens: 1, cost_usd: Some(0.002), ..Usage::default() };
        let millis = u64::from(number(trial)) * 100;
        UnitResult { judge_usage, millis, ..unit_result(trial, &trial.units[place].id, verdict) }
    })
    .await;
    let summary = summarize(&run.store, &run.id).await.unwrap();
    let [model] = summary.models.as_slice() else { panic!("one model") };
    assert_eq!((summary.planned, model.units), (12, 12));
    assert_eq!((model.passed, model.failed, model.invalid, model.indeterminate), (6, 2, 2, 2));
    assert_eq!(model.accuracy, Some(0.75), "over the scored units");
    let interval = model.interval.unwrap();
    assert!(interval.low > 0.40 && interval.high < 0.93, "{interval:?}");
    assert_eq!(model.answers.input_tokens, 360, "six answers, each judged twice");
    assert!((model.answers.cost_usd.unwrap() - 0.06).abs() < 1e-9);
    assert_eq!(model.judging.input_tokens, 60, "twelve judgments");
    assert_eq!(model.p50_millis, Some(300));
    let found = not_passed(&run.store, &run.id, 4).await.unwrap();
    assert_eq!((found.first.len(), found.count), (4, 6));
    assert_eq!(found.first[0].question.as_str(), "question-4", "in the order of the plan");
}

#[tokio::test]
async fn json_lines_hold_every_result_in_the_order_of_the_plan() {
    let trials = trials(600, &["judge"]);
    let run = Run::new(&trials, passed).await;
    let text = String::from_utf8(run.export(Format::JsonLines).await).unwrap();
    let read: Vec<UnitResult> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let expected: Vec<UnitResult> = trials.iter().map(|trial| passed(trial, 0)).collect();
    assert_eq!(read, expected, "more than one page");
}

#[tokio::test]
async fn json_has_a_version_the_summary_and_the_results() {
    let run = Run::new(
        &trials(2, &[""]),
        |trial, place| {
            if number(trial) == 1 { passed(trial, place) } else { failed(trial, place) }
        },
    )
    .await;
    let report: Value = serde_json::from_slice(&run.export(Format::Json).await).unwrap();
    let keys: Vec<&String> = report.as_object().unwrap().keys().collect();
    assert_eq!(
        keys,
        ["version", "run", "benchmark", "created", "settings", "planned", "models", "flaky", "keywords", "results"]
    );
    assert_eq!((&report["version"], &report["run"]), (&json!(1), &json!("run")));
    assert_eq!(report["models"][0]["accuracy"], 0.5);
    assert_eq!(report["results"][1]["failure"]["category"], "content");
    let empty = Run::new(&[], passed).await;
    let report: Value = serde_json::from_slice(&empty.export(Format::Json).await).unwrap();
    assert_eq!((&report["models"], &report["results"]), (&json!([]), &json!([])));
}

/// Parses CSV text of RFC 4180.
fn rows(text: &str) -> Vec<Vec<String>> {
    let mut rows = vec![vec![String::new()]];
    let mut is_quoted = false;
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        let row = rows.last_mut().unwrap();
        match c {
            '"' if is_quoted && chars.peek() == Some(&'"') => {
                chars.next();
                row.last_mut().unwrap().push('"');
            }
            '"' => is_quoted = !is_quoted,
            ',' if !is_quoted => row.push(String::new()),
            '\r' if !is_quoted => {}
            '\n' if !is_quoted => rows.push(vec![String::new()]),
            c => row.last_mut().unwrap().push(c),
        }
    }
    assert_eq!(rows.pop(), Some(vec![String::new()]), "the last line ends");
    rows
}

#[tokio::test]
async fn csv_cells_cannot_become_formulas_and_numbers_stay_numbers() {
    let starts = ["=1+1", "+1", "-1", "@x", "\tx", "\rx", "plain, with comma", "quote \" inside"];
    let trials = trials(8, &[""]);
    let run = Run::new(&trials, |trial, place| {
        let response = starts[number(trial) as usize - 1].to_owned();
        UnitResult { response: Some(response), ..failed(trial, place) }
    })
    .await;
    let text = String::from_utf8(run.export(Format::Csv).await).unwrap();
    let rows = rows(&text);
    assert_eq!(rows[0], COLUMNS.iter().map(|column| column.name).collect::<Vec<_>>());
    let cell = |row: usize, name: &str| &rows[row][COLUMNS.iter().position(|column| column.name == name).unwrap()];
    for (place, start) in starts.iter().enumerate() {
        let guard = if place < 6 { "'" } else { "" };
        assert_eq!(cell(place + 1, "response"), &format!("{guard}{start}"));
    }
    assert_eq!((cell(1, "input_tokens").as_str(), cell(1, "cost_usd").as_str()), ("60", "0.01"));
    assert_eq!(cell(1, "reason"), "found \"x\", expected 1\nand more");
    assert_eq!((cell(1, "judge").as_str(), cell(1, "limit_reached").as_str()), ("", "false"));
}

#[tokio::test]
async fn parquet_columns_are_typed_and_read_back() {
    let trials = trials(300, &["judge"]);
    let run =
        Run::new(&trials, |trial, place| if number(trial) == 1 { failed(trial, place) } else { passed(trial, place) })
            .await;
    let file = run.folder.path().join("results.parquet");
    std::fs::write(&file, run.export(Format::Parquet).await).unwrap();
    let reader = SerializedFileReader::new(std::fs::File::open(&file).unwrap()).unwrap();
    assert_eq!(reader.num_row_groups(), 2, "a row group per page");
    let rows: Vec<Vec<(String, Field)>> = reader
        .get_row_iter(None)
        .unwrap()
        .map(|row| row.unwrap().get_column_iter().map(|(name, field)| (name.clone(), field.clone())).collect())
        .collect();
    assert_eq!(rows.len(), 300);
    let names: Vec<&str> = rows[0].iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, COLUMNS.iter().map(|column| column.name).collect::<Vec<_>>());
    let field = |row: usize, name: &str| rows[row].iter().find(|(found, _)| found == name).unwrap().1.clone();
    assert_eq!(field(0, "response"), Field::Str("=HYPERLINK(\"http://evil\")".to_owned()), "as it is");
    assert_eq!(field(0, "failure_category"), Field::Str("content".to_owned()));
    assert_eq!(field(1, "failure_category"), Field::Null);
    assert_eq!((field(299, "input_tokens"), field(299, "cost_usd")), (Field::Long(60), Field::Double(0.01)));
    assert_eq!(field(299, "limit_reached"), Field::Bool(false));
    assert_eq!(field(299, "question"), Field::Str("question-300".to_owned()));
}

/// Every query of the guide runs, and the view has the columns that the guide lists.
#[tokio::test]
async fn the_queries_of_the_guide_run_on_the_file() {
    let run =
        Run::new(
            &trials(4, &["judge"]),
            |trial, place| {
                if number(trial) == 4 { failed(trial, place) } else { passed(trial, place) }
            },
        )
        .await;
    run.store.close().await.unwrap();
    let url = format!("sqlite://{}?mode=ro", run.folder.path().join("runs.db").display());
    let mut connection = SqliteConnection::connect(&url).await.unwrap();
    let guide = include_str!("../../../../docs/verification.md");
    let queries: Vec<&str> = guide.split("```sql\n").skip(1).map(|rest| rest.split("```").next().unwrap()).collect();
    assert!(queries.len() >= 3, "{queries:?}");
    for query in &queries {
        let rows = sqlx::raw_sql(sqlx::AssertSqlSafe(*query)).fetch_all(&mut connection).await;
        assert!(!rows.unwrap_or_else(|error| panic!("{query}: {error}")).is_empty(), "{query}");
    }
    let columns =
        sqlx::raw_sql("SELECT name FROM pragma_table_info('result')").fetch_all(&mut connection).await.unwrap();
    for column in columns {
        let name: String = column.get(0);
        assert!(guide.contains(&format!("`{name}`")), "docs/verification.md does not list `{name}`");
    }
}

#[test]
fn the_guide_lists_every_column_and_every_setting() {
    let guide = include_str!("../../../../docs/verification.md");
    for column in COLUMNS {
        assert!(guide.contains(&format!("`{}`", column.name)), "column {}", column.name);
    }
    for key in wharf_verify::VerificationConfig::KEYS {
        let variable = format!("WHARF_VERIFY_{}", key.to_ascii_uppercase());
        assert!(guide.contains(&format!("| `{key}` |")) && guide.contains(&format!("`{variable}`")), "{key}");
    }
}
