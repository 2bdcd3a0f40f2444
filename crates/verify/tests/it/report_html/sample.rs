//! A run with results that look like those of real models and servers, the same ones every time.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use fastrand::Rng;
use serde_json::{Value, json};
use wharf_agent::{TraceCall, TraceMessage, TraceResult, TraceThinking};
use wharf_protocol::{Json, Role, Usage};
use wharf_verify::assertion::AssertionResult;
use wharf_verify::outcome::{Caveat, ModelIdentity};
use wharf_verify::panel::PanelRule;
use wharf_verify::report::{HtmlInput, HtmlWriter, ReportQuestion};
use wharf_verify::store::{Progress, RunState, RunSummary};
use wharf_verify::template::{FieldResult, TemplateResult};
use wharf_verify::{Failure, FailureCategory, QuestionId, RunId, TrialId, UnitId, UnitResult, Verdict};

/// The size of a sample.
#[derive(Clone, Copy)]
pub(crate) struct Sample {
    pub(crate) questions: usize,
    pub(crate) models: usize,
    pub(crate) judges: usize,
    pub(crate) replicates: u32,
}

struct Subject {
    keyword: &'static str,
    tool: &'static str,
    question: &'static str,
    field: &'static str,
}

const SUBJECTS: [Subject; 8] = [
    Subject {
        keyword: "berths",
        tool: "mcp__harbor__list_berths",
        field: "free_berths",
        question: "How many berths at terminal {} are free for a vessel with a draft of 11.5 m on Tuesday?",
    },
    Subject {
        keyword: "time",
        tool: "mcp__time__convert_time",
        field: "hours_ahead",
        question: "A vessel leaves Rotterdam at 06:{} local time. What is the local time in Singapore at departure?",
    },
    Subject {
        keyword: "manifests",
        tool: "mcp__files__read_file",
        field: "gross_weight_kg",
        question: "What is the gross weight in kilograms of container MSKU-44{} according to its manifest?",
    },
    Subject {
        keyword: "tides",
        tool: "mcp__harbor__tide_table",
        field: "high_water",
        question: "When is the first high water after noon at gauge {}?",
    },
    Subject {
        keyword: "orders",
        tool: "mcp__orders__search",
        field: "open_orders",
        question: "Which open orders of customer {} contain dangerous goods of class 3? Count them.",
    },
    Subject {
        keyword: "history",
        tool: "mcp__git__git_log",
        field: "commit",
        question: "Which commit changed the tariff table for zone {} most recently?",
    },
    Subject {
        keyword: "weather",
        tool: "mcp__weather__forecast",
        field: "wind_kn",
        question: "What is the highest wind speed in knots that is forecast for station {} within 24 hours?",
    },
    Subject {
        keyword: "tariffs",
        tool: "mcp__files__search",
        field: "fee_eur",
        question: "What does it cost to store a reefer container for {} days beyond the free period?",
    },
];

const WORDS: [&str; 40] = [
    "vessel",
    "berth",
    "quay",
    "crane",
    "tide",
    "draft",
    "manifest",
    "container",
    "reefer",
    "tariff",
    "pilot",
    "customs",
    "arrival",
    "departure",
    "window",
    "terminal",
    "depth",
    "meters",
    "station",
    "forecast",
    "order",
    "customer",
    "weight",
    "booking",
    "confirmed",
    "delayed",
    "available",
    "occupied",
    "reserved",
    "inspection",
    "channel",
    "gauge",
    "schedule",
    "according",
    "record",
    "latest",
    "between",
    "current",
    "limit",
    "notice",
];

#[derive(Clone, Copy)]
struct Model {
    label: &'static str,
    interface: &'static str,
    name: &'static str,
    skill: f64,
    /// Dollars per million input tokens.
    price: Option<f64>,
}

#[rustfmt::skip]
const MODELS: [Model; 5] = [
    Model { label: "atlas-large", interface: "anthropic", name: "atlas-large-20260801", skill: 0.93, price: Some(5.0) },
    Model { label: "atlas-mini", interface: "anthropic", name: "atlas-mini-20260801", skill: 0.81, price: Some(0.8) },
    Model { label: "meridian-2", interface: "openai", name: "meridian-2", skill: 0.87, price: Some(2.5) },
    Model { label: "local-12b", interface: "ollama", name: "local-12b-instruct-q4", skill: 0.58, price: None },
    Model { label: "local-12b-no-tools", interface: "ollama", name: "local-12b-instruct-q4", skill: 0.21, price: None },
];

const JUDGES: [(&str, &str); 3] =
    [("judge-a", "atlas-large-20260801"), ("judge-b", "meridian-2"), ("judge-c", "local-70b")];

impl Sample {
    pub(crate) fn units(self) -> usize {
        self.questions * self.models * self.judges.max(1) * self.replicates as usize
    }

    /// Writes the report of the sample.
    pub(crate) fn html(self) -> Vec<u8> {
        let mut writer = HtmlWriter::new(Vec::new(), self.input()).unwrap();
        self.each_unit(|unit| writer.add(&unit).unwrap());
        writer.finish().unwrap()
    }

    pub(crate) fn input(self) -> HtmlInput {
        let units = self.units() as u64;
        HtmlInput {
            run: RunSummary {
                id: RunId("20261116-184653-7f3a".into()),
                benchmark: "harbor-desk".to_owned(),
                created: 1_794_854_813,
                state: RunState::Finished,
                progress: Progress { units, done: units, ..Progress::default() },
            },
            description: Some("Questions that the duty officer of a harbor answers with five servers.".to_owned()),
            questions: (0..self.questions).map(question).collect(),
            panel: PanelRule::Majority,
        }
    }

    /// Calls a function with each result, in the order of a plan.
    pub(crate) fn each_unit(self, mut add: impl FnMut(UnitResult)) {
        for question in 0..self.questions {
            for model in 0..self.models {
                for replicate in 1..=self.replicates {
                    let trial = answered(question, model, replicate);
                    for judge in 0..self.judges.max(1) {
                        add(judged(&trial, judge, self.judges > 0));
                    }
                }
            }
        }
    }

    pub(crate) fn all_units(self) -> Vec<UnitResult> {
        let mut units = Vec::new();
        self.each_unit(|unit| units.push(unit));
        units
    }
}

fn question_id(number: usize) -> QuestionId {
    format!("{}-{:03}", SUBJECTS[number % SUBJECTS.len()].keyword, number + 1).parse().unwrap()
}

fn question(number: usize) -> ReportQuestion {
    let subject = &SUBJECTS[number % SUBJECTS.len()];
    ReportQuestion {
        id: question_id(number),
        question: subject.question.replace("{}", &(10 + number % 80).to_string()),
        answer: Some(format!("{} ({})", truth(number), words(&mut Rng::with_seed(number as u64), 6))),
        keywords: keywords(number),
        digest: None,
    }
}

fn keywords(number: usize) -> Vec<String> {
    let level = ["single-step", "multi-step", "multi-step"][number % 3];
    vec![SUBJECTS[number % SUBJECTS.len()].keyword.to_owned(), level.to_owned()]
}

fn truth(question: usize) -> i64 {
    i64::try_from(question * 7 + 3).unwrap()
}

fn seed(question: usize, model: usize, replicate: u32) -> u64 {
    (question as u64) << 24 | (model as u64) << 12 | u64::from(replicate)
}

fn hex(random: &mut Rng) -> String {
    (0..4).fold(String::new(), |mut text, _| {
        let _ = write!(text, "{:016x}", random.u64(..));
        text
    })
}

fn words(random: &mut Rng, count: usize) -> String {
    (0..count).map(|_| WORDS[random.usize(..WORDS.len())]).collect::<Vec<_>>().join(" ")
}

/// The answer of a model, as its first judge finds it.
fn answered(question: usize, model: usize, replicate: u32) -> UnitResult {
    let mut random = Rng::with_seed(seed(question, model, replicate));
    let Model { label, interface, name, skill, price } = MODELS[model % MODELS.len()];
    let difficulty = Rng::with_seed(question as u64 ^ 0x00d1_ff1c).f64();
    let passes = random.f64() < (skill * 1.25 - difficulty * 0.5).clamp(0.02, 0.995);
    let (verdict, failure, reason) = outcome(&mut random, passes);
    let uses_tools = model != 4;
    let mut unit = UnitResult {
        format: 1,
        unit: UnitId(hex(&mut random).into()),
        trial: TrialId(hex(&mut random).into()),
        question: question_id(question),
        keywords: keywords(question),
        model: identity(label, interface, name),
        judge: None,
        replicate,
        verdict,
        failure,
        reason,
        caveats: if random.u8(..12) == 0 { vec![Caveat::RetriesUsed] } else { vec![] },
        template: None,
        assertions: Vec::new(),
        scenario: None,
        rubric: None,
        judge_reasoning: None,
        excerpts: Vec::new(),
        response: None,
        trace: Vec::new(),
        limit_reached: false,
        turns: 0,
        tool_calls: 0,
        usage: Usage::default(),
        judge_usage: Usage::default(),
        retries: BTreeMap::new(),
        millis: 0,
        tool_set: "5c1f0d9a".to_owned(),
    };
    unit.limit_reached =
        unit.failure.as_ref().is_some_and(|failure| failure.category == FailureCategory::RecursionLimit);
    write_trace(&mut unit, &mut random, question, uses_tools);
    unit.usage = usage(&mut random, unit.turns, price);
    unit.millis = u64::from(unit.turns) * random.u64(400..2_600) * if interface == "ollama" { 3 } else { 1 };
    unit
}

fn identity(label: &str, interface: &str, model: &str) -> ModelIdentity {
    ModelIdentity {
        label: label.to_owned(),
        interface: interface.to_owned(),
        model: model.to_owned(),
        actual_model: Some(model.to_owned()),
    }
}

fn usage(random: &mut Rng, turns: u32, price: Option<f64>) -> Usage {
    let input_tokens = u64::from(turns) * random.u64(900..2_400);
    let output_tokens = u64::from(turns) * random.u64(60..320);
    #[expect(clippy::cast_precision_loss, reason = "small numbers")]
    let cost_usd = price.map(|price| (input_tokens as f64 + output_tokens as f64 * 5.0) * price / 1e6);
    let reasoning_tokens = output_tokens / 4;
    Usage {
        input_tokens,
        output_tokens,
        cache_read_tokens: input_tokens / 3,
        reasoning_tokens,
        cost_usd,
        ..Usage::default()
    }
}

fn outcome(random: &mut Rng, passes: bool) -> (Verdict, Option<Failure>, Option<String>) {
    let failure = |category: FailureCategory, stage: &str, reason: &str| {
        Some(Failure { category, group: category.group(), stage: stage.to_owned(), reason: reason.to_owned() })
    };
    let retry = "the provider responded 429 (rate limit) after 5 attempts";
    match random.u8(..100) {
        0 => (Verdict::Invalid, None, Some("required server `harbor` was not connected".to_owned())),
        1 => (Verdict::Invalid, failure(FailureCategory::RateLimit, "generate_answer", retry), None),
        2 if !passes => {
            (Verdict::Indeterminate, None, Some("a call of `mcp__orders__reserve` was interrupted".to_owned()))
        }
        3 if !passes => {
            let reason = "the judge's output has no field `result` after 2 repairs";
            (Verdict::Invalid, failure(FailureCategory::Parsing, "parse_template", reason), None)
        }
        _ if passes => (Verdict::Passed, None, None),
        4..25 => {
            (Verdict::Failed, failure(FailureCategory::RecursionLimit, "limit_autofail", "25 turns were used"), None)
        }
        25..40 => {
            let reason = "the answer declines: \"I cannot look this up\"";
            (Verdict::Failed, failure(FailureCategory::Abstention, "abstention_check", reason), None)
        }
        40..46 => {
            let reason = "the trace ends with a tool result";
            (Verdict::Failed, failure(FailureCategory::TraceValidation, "trace_validation_autofail", reason), None)
        }
        _ => (
            Verdict::Failed,
            failure(FailureCategory::Content, "verify_template", "field `result`: 41 is not 42"),
            None,
        ),
    }
}

fn message(role: Role, index: usize, content: String) -> TraceMessage {
    TraceMessage {
        role,
        content,
        block_index: index,
        tool_calls: Vec::new(),
        tool_result: None,
        thinking: None,
        usage_metadata: None,
    }
}

fn write_trace(unit: &mut UnitResult, random: &mut Rng, question: usize, uses_tools: bool) {
    let subject = &SUBJECTS[question % SUBJECTS.len()];
    let rounds = if uses_tools { random.usize(1..5) } else { 0 };
    for round in 0..rounds {
        let id = format!("call_{:08x}", random.u32(..));
        let mut call = message(Role::Assistant, unit.trace.len(), String::new());
        if round == 0 {
            call.content = format!("I will look this up with `{}`.", subject.tool);
            let thinking = format!("The question needs the {}. {}.", subject.keyword, words(random, 60));
            call.thinking = Some(TraceThinking { thinking, signature: None });
        }
        let input = json!({"query": words(random, 4), "limit": random.u8(5..50), "station": question % 80});
        call.tool_calls.push(TraceCall {
            id: id.as_str().into(),
            name: subject.tool.into(),
            input: Json::of(&input).unwrap(),
        });
        call.usage_metadata = Some(usage(random, 1, None));
        unit.trace.push(call);
        let is_error = random.u8(..14) == 0;
        let content = if is_error {
            format!("error: timeout after 10 s while reading {}", words(random, 3))
        } else {
            records(random)
        };
        let mut result = message(Role::Tool, unit.trace.len(), content);
        result.tool_result = Some(TraceResult { tool_use_id: id.as_str().into(), is_error, output: None });
        unit.trace.push(result);
    }
    unit.tool_calls = rounds;
    unit.turns = u32::try_from(rounds).unwrap() + 1;
    if unit.limit_reached {
        return;
    }
    let found = if unit.verdict == Verdict::Failed { truth(question) - 1 } else { truth(question) };
    let answer = format!(
        "**Answer: {found}.** According to the latest {} record, {}.\n\n- {}\n- {}\n\nThe value is current as of the last \
         update of the {} server.",
        subject.keyword,
        words(random, 30),
        words(random, 12),
        words(random, 14),
        subject.keyword,
    );
    unit.trace.push(message(Role::Assistant, unit.trace.len(), answer.clone()));
    unit.response = Some(answer);
}

/// The output of a tool: a list of records.
fn records(random: &mut Rng) -> String {
    let rows: Vec<Value> = (0..random.usize(4..18))
        .map(|number| {
            json!({
                "id": format!("{:06x}", random.u32(..0x00ff_ffff)), "row": number, "name": words(random, 2),
                "value": random.u32(..100_000), "updated": format!("2026-11-{:02}T{:02}:{:02}:00Z", random.u8(1..28),
                random.u8(..24), random.u8(..60)), "note": words(random, 5),
            })
        })
        .collect();
    serde_json::to_string_pretty(&rows).unwrap()
}

/// The same answer under a judge.
fn judged(trial: &UnitResult, judge: usize, needs_judge: bool) -> UnitResult {
    let mut unit = trial.clone();
    let mut random = Rng::with_seed(trial.millis ^ judge as u64);
    if needs_judge {
        let (label, name) = JUDGES[judge % JUDGES.len()];
        unit.judge = Some(identity(label, "anthropic", name));
        unit.judge_usage = usage(&mut random, 1, Some(3.0));
    }
    if judge > 0 {
        unit.unit = UnitId(hex(&mut random).into());
        if unit.verdict.is_scored() && random.u8(..9) == 0 {
            unit.verdict = if unit.verdict == Verdict::Passed { Verdict::Failed } else { Verdict::Passed };
            let reason = "field `result` differs".to_owned();
            let category = FailureCategory::Content;
            let failed = Failure { category, group: category.group(), stage: "verify_template".to_owned(), reason };
            unit.failure = (unit.verdict == Verdict::Failed).then_some(failed);
        }
    }
    if unit.response.is_some() && unit.verdict.is_scored() {
        unit.template = Some(template(&unit));
        write_evidence(&mut unit);
    }
    let calls = unit.tool_calls;
    unit.assertions = vec![
        AssertionResult {
            assertion: "at most 4 calls".to_owned(),
            passed: calls <= 4,
            reason: None,
            path_efficiency: None,
        },
        AssertionResult {
            assertion: "path efficiency at least 0.4 with 2 calls as the optimum".to_owned(),
            passed: unit.verdict != Verdict::Failed,
            reason: (unit.verdict == Verdict::Failed).then(|| "no calls".to_owned()),
            path_efficiency: (unit.verdict != Verdict::Failed).then_some(0.5),
        },
    ];
    unit
}

/// What a judge says about an answer, with an excerpt of it.
fn write_evidence(unit: &mut UnitResult) {
    let response = unit.response.clone().unwrap_or_default();
    let text: String = response.chars().take(40).collect();
    let end = text.chars().count();
    unit.judge_reasoning =
        Some(format!("The answer begins with {text:?}, which is the value that the question asks for."));
    unit.excerpts = serde_json::from_value(json!([
        {"attribute": "result", "text": text, "similarity": 1.0, "message": unit.trace.len() - 1, "start": 0, "end": end},
    ]))
    .unwrap();
    unit.rubric = serde_json::from_value(json!({"traits": [
        {"name": "concise", "higher_is_better": true, "value": {"boolean": response.len() < 600},
         "reasoning": "The answer has a few sentences and one list."},
        {"name": "helpful", "higher_is_better": true, "value": {"score": {"score": 4, "min": 1, "max": 5}}},
    ]}))
    .unwrap();
}

fn template(unit: &UnitResult) -> TemplateResult {
    let passed = unit.verdict == Verdict::Passed;
    let number: usize = unit.question.as_str().rsplit('-').next().unwrap().parse().unwrap();
    let truth = truth(number - 1);
    let subject = &SUBJECTS[(number - 1) % SUBJECTS.len()];
    let field = |name: &str, passed: bool, extracted: Value, truth: Value| FieldResult {
        similarity: None,
        overruled: None,
        name: name.to_owned(),
        passed: Some(passed),
        score: Some(if passed { 1.0 } else { 0.0 }),
        extracted: Some(extracted),
        truth,
        reason: (!passed).then(|| "the values differ".to_owned()),
    };
    let unknown = FieldResult {
        similarity: None,
        overruled: None,
        name: "mentions_unit".to_owned(),
        passed: None,
        score: None,
        extracted: None,
        truth: json!("kg"),
        reason: Some("the judge extracted nothing".to_owned()),
    };
    let mut fields = vec![
        field(subject.field, passed, json!(if passed { truth } else { truth - 1 }), json!(truth)),
        field("cites_source", true, json!(true), json!(true)),
    ];
    if number.is_multiple_of(5) {
        fields.push(unknown);
    }
    TemplateResult { passed: Some(passed), score: Some(if passed { 1.0 } else { 1.0 / 3.0 }), fields }
}
