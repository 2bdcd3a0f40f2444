//! The arguments of `wharf verify`.

use std::path::PathBuf;

use clap::ValueHint;
use wharf::verify::panel::PanelRule;
use wharf::verify::{Mode, Selection};

use crate::models::timeouts::ModelTimeouts;

/// The longest id of a run.
const MAX_RUN_ID_BYTES: usize = 64;

#[derive(Debug, clap::Args)]
pub(crate) struct Verify {
    #[command(subcommand)]
    pub(super) command: VerifyCommand,
}

#[derive(Debug, clap::Subcommand)]
pub(super) enum VerifyCommand {
    /// Run a benchmark, or resume a run
    Run(Box<VerifyRun>),
    /// Check a benchmark without running it, and estimate what it costs
    Check(Box<Check>),
    /// Score judges against labels that people gave
    JudgeCheck(Box<JudgeCheckArgs>),
    /// Work on runs that another process started, from any machine that reaches their store
    Work(Box<Work>),
    /// Show the runs of a store, or the workers, rate and results of one run
    Status(Status),
    /// Pause a run: workers finish the trials in flight and claim no more
    Pause(RunArgs),
    /// Resume a run that was paused, canceled or stopped, on workers that are running
    Resume(RunArgs),
    /// Cancel a run: workers drop the trials in flight
    Cancel(RunArgs),
    /// Set which run workers serve first
    Priority(PriorityArgs),
    /// Delete a run with its results
    Delete(RunArgs),
    /// Delete old runs, and contents that no run refers to
    Vacuum(VacuumArgs),
    /// Judge recorded runs or message logs against a benchmark, without running anything
    Trace(Box<Trace>),
    /// Convert a checkpoint of karenina to a benchmark, and list what could not be taken over
    Import(ImportArgs),
    /// Convert a benchmark to a checkpoint of karenina, and list what could not be taken over
    Export(Convert),
    /// Write the report of a run: one HTML file that needs no network
    Report(Report),
    /// Compare two runs, and fail if a model became significantly worse
    Compare(Compare),
    /// Save, list, show and delete presets: settings with a name
    Preset(PresetArgs),
}

/// The settings of a run, as flags. They win over all other sources.
#[derive(Debug, Default, clap::Args)]
#[command(next_help_heading = "Settings")]
pub(super) struct SettingsArgs {
    /// Answering model: INTERFACE:NAME, or the id of a model in the --models file (repeatable) [default: all models of
    /// the file that are not judges]
    #[arg(short, long, value_name = "MODEL")]
    pub(super) model: Vec<String>,
    /// File of models with their own servers and settings
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(super) models: Option<PathBuf>,
    /// Judge: INTERFACE:NAME, or the id of a model in the --models file (repeatable)
    #[arg(long, value_name = "MODEL")]
    pub(super) judge: Vec<String>,
    /// What is evaluated [default: template-only]
    #[arg(long, value_name = "MODE", value_enum)]
    pub(super) mode: Option<ModeArg>,
    /// When several judges together pass an answer [default: majority]
    #[arg(long, value_name = "RULE", value_enum)]
    pub(super) panel: Option<PanelArg>,
    /// Let a model judge its own answers
    #[arg(long)]
    pub(super) allow_self_judging: bool,
    /// Ask each model each question this many times [default: that of the benchmark, or 1]
    #[arg(long, value_name = "N")]
    pub(super) replicates: Option<u32>,
    /// Run this many trials at the same time [default: 4]
    #[arg(long, value_name = "N")]
    pub(super) concurrency: Option<u32>,
    /// Begin nothing more after this cost, in US dollars
    #[arg(long, value_name = "USD")]
    pub(super) max_cost: Option<f64>,
    /// Begin nothing more after this number of tokens
    #[arg(long, value_name = "N")]
    pub(super) max_tokens: Option<u64>,
    /// Begin nothing more after this time, in seconds
    #[arg(long, value_name = "SECONDS")]
    pub(super) max_time: Option<f64>,
    /// Fail unless every model reaches this accuracy, in percent
    #[arg(long, value_name = "PERCENT")]
    pub(super) fail_under: Option<f64>,
    /// Never repeat a step that a crash interrupted: its units become indeterminate
    #[arg(long)]
    pub(super) at_most_once: bool,
    /// File of settings
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(super) config: Option<PathBuf>,
    /// Use the settings of a preset
    #[arg(long, value_name = "NAME")]
    pub(super) preset: Option<String>,
}

/// What is evaluated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum ModeArg {
    /// Templates and assertions
    #[value(alias = "template_only")]
    TemplateOnly,
    /// Templates, assertions and traits
    #[value(alias = "template_and_rubric")]
    TemplateAndRubric,
    /// Traits
    #[value(alias = "rubric_only")]
    RubricOnly,
}

impl ModeArg {
    pub(super) fn mode(self) -> Mode {
        match self {
            Self::TemplateOnly => Mode::TemplateOnly,
            Self::TemplateAndRubric => Mode::TemplateAndRubric,
            Self::RubricOnly => Mode::RubricOnly,
        }
    }
}

/// When several judges together pass an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum PanelArg {
    /// More than half of them pass it
    Majority,
    /// All of them pass it
    Unanimity,
}

impl PanelArg {
    pub(super) fn rule(self) -> PanelRule {
        match self {
            Self::Majority => PanelRule::Majority,
            Self::Unanimity => PanelRule::Unanimity,
        }
    }
}

/// Which questions are asked.
#[derive(Debug, Default, clap::Args)]
pub(super) struct SelectionArgs {
    /// Ask only the question with this id (repeatable)
    #[arg(long, value_name = "ID")]
    pub(super) only: Vec<String>,
    /// Ask only questions with this keyword (repeatable)
    #[arg(long, value_name = "KEYWORD")]
    pub(super) keyword: Vec<String>,
    /// Ask only the first N questions
    #[arg(long, value_name = "N")]
    pub(super) limit: Option<usize>,
}

impl SelectionArgs {
    pub(super) fn selection(&self) -> Selection {
        Selection { only: self.only.clone(), keywords: self.keyword.clone(), limit: self.limit }
    }
}

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    wharf verify run benchmark.yaml -m anthropic:claude-sonnet-4-5 --judge openai:gpt-5\n  \
    wharf verify run benchmark.yaml --models models.yaml --judge judge --replicates 3 --max-cost 5\n  \
    wharf verify run benchmark.yaml --models models.yaml --judge judge --resume\n  \
    wharf verify run benchmark.yaml --models models.yaml --judge judge --output results.csv --fail-under 80")]
pub(crate) struct VerifyRun {
    /// Benchmark file: YAML, JSON or JSONL
    #[arg(value_name = "BENCHMARK", value_hint = ValueHint::FilePath)]
    pub(super) benchmark: PathBuf,
    #[command(flatten)]
    pub(super) selection: SelectionArgs,
    /// Resume a run, by default the latest one with the same questions, models and judges: nothing on record is paid
    /// again
    #[arg(long, value_name = "RUN", num_args = 0..=1, default_missing_value = "")]
    pub(super) resume: Option<String>,
    /// Run units of a verdict again, with new requests; resumes a run
    #[arg(long, value_name = "VERDICT", value_enum)]
    pub(super) rerun: Vec<RerunArg>,
    /// Write results to a file: .json, .jsonl, .csv, .parquet, .html, .md or .xml (JUnit); a directory gets logs of
    /// Inspect (repeatable)
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(super) output: Vec<PathBuf>,
    /// Record all model requests and tool calls of the run to a file
    #[arg(long, value_name = "FILE", conflicts_with = "replay", value_hint = ValueHint::FilePath)]
    pub(super) record: Option<PathBuf>,
    /// Replay a recording, without models or servers
    #[arg(long, value_name = "FILE", conflicts_with_all = ["resume", "rerun"], value_hint = ValueHint::FilePath)]
    pub(super) replay: Option<PathBuf>,
    #[command(flatten)]
    pub(super) store: StoreArgs,
    /// Id of the new run; processes that start the same run with the same id create it once and share it
    #[arg(long, value_name = "ID", value_parser = run_id, conflicts_with_all = ["resume", "rerun", "replay"])]
    pub(super) run_id: Option<String>,
    /// Create the run for workers, and exit without working on it
    #[arg(long, conflicts_with_all = ["output", "record", "replay"])]
    pub(super) submit_only: bool,
    /// Allow calls without asking, for example `mcp__git__*` (repeatable)
    #[arg(long, value_name = "CONDITION")]
    pub(super) allow: Vec<String>,
    /// Start the commands of the benchmark and the --models file without approval, and send keys where they say
    #[arg(long)]
    pub(super) trust: bool,
    #[command(flatten)]
    pub(super) timeouts: ModelTimeouts,
    #[command(flatten)]
    pub(super) settings: SettingsArgs,
}

/// Where runs are stored.
#[derive(Debug, clap::Args)]
pub(crate) struct StoreArgs {
    /// File, or `postgres://` URL, that stores the runs [default: `$XDG_STATE_HOME/wharf/verify.db`]
    /// [env: `WHARF_VERIFY_STORE`]
    #[arg(id = "store", long = "store", value_name = "FILE|URL", value_hint = ValueHint::FilePath)]
    pub(super) location: Option<PathBuf>,
}

/// Which units `--rerun` runs again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum RerunArg {
    /// Units that failed
    Failed,
    /// Units that are invalid
    Invalid,
    /// Units that are indeterminate
    Indeterminate,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Check {
    /// Benchmark file: YAML, JSON or JSONL
    #[arg(value_name = "BENCHMARK", value_hint = ValueHint::FilePath)]
    pub(super) benchmark: PathBuf,
    #[command(flatten)]
    pub(super) selection: SelectionArgs,
    #[command(flatten)]
    pub(super) settings: SettingsArgs,
}

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    wharf verify judge-check benchmark.yaml labels.jsonl --judge openai:gpt-5\n  \
    wharf verify judge-check benchmark.yaml labels.yaml --models models.yaml --judge a --judge b --json")]
pub(crate) struct JudgeCheckArgs {
    /// Benchmark file: YAML, JSON or JSONL
    #[arg(value_name = "BENCHMARK", value_hint = ValueHint::FilePath)]
    pub(super) benchmark: PathBuf,
    /// File of labels: YAML, JSON or JSONL
    #[arg(value_name = "LABELS", value_hint = ValueHint::FilePath)]
    pub(super) labels: PathBuf,
    #[command(flatten)]
    pub(super) store: StoreArgs,
    /// Send keys where the --models file says
    #[arg(long)]
    pub(super) trust: bool,
    #[command(flatten)]
    pub(super) timeouts: ModelTimeouts,
    #[command(flatten)]
    pub(super) settings: SettingsArgs,
}

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    wharf verify work --store postgres://wharf@db/runs\n  \
    wharf verify work --store postgres://wharf@db/runs --models models.yaml --slots 16\n  \
    wharf verify work --store postgres://wharf@db/runs --run 20261117-090112-01bc --stop-when-empty")]
pub(crate) struct Work {
    /// Work on this run only, until it is finished [default: all running runs, by priority, and new ones]
    #[arg(long, value_name = "RUN")]
    pub(super) run: Option<String>,
    /// Run this many trials at the same time [default: the concurrency of the run]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(super) slots: Option<u32>,
    /// Exit when no run has trials for this worker
    #[arg(long)]
    pub(super) stop_when_empty: bool,
    /// Model file of this machine: keys and servers of models with the same names
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(super) models: Option<PathBuf>,
    /// Benchmark file of this machine: entries of servers
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(super) benchmark: Option<PathBuf>,
    #[command(flatten)]
    pub(super) store: StoreArgs,
    /// Allow calls without asking, for example `mcp__git__*` (repeatable)
    #[arg(long, value_name = "CONDITION")]
    pub(super) allow: Vec<String>,
    /// Start the commands of --models and --benchmark without approval, and send keys where the run says
    #[arg(long)]
    pub(super) trust: bool,
    #[command(flatten)]
    pub(super) timeouts: ModelTimeouts,
}

#[derive(Debug, clap::Args)]
pub(crate) struct RunArgs {
    /// Id of the run
    #[arg(value_name = "RUN")]
    pub(super) run: String,
    #[command(flatten)]
    pub(super) store: StoreArgs,
}

#[derive(Debug, clap::Args)]
pub(crate) struct PriorityArgs {
    /// Id of the run
    #[arg(value_name = "RUN")]
    pub(super) run: String,
    /// The higher number goes first; a new run has 0
    #[arg(value_name = "N", allow_negative_numbers = true)]
    pub(super) priority: i64,
    #[command(flatten)]
    pub(super) store: StoreArgs,
}

#[derive(Debug, clap::Args)]
pub(crate) struct VacuumArgs {
    /// Delete runs that were created more than this many days ago and that no worker has trials of
    #[arg(long, value_name = "DAYS")]
    pub(super) older_than: Option<u32>,
    #[command(flatten)]
    pub(super) store: StoreArgs,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Status {
    /// Run to show [default: a list of all runs]
    #[arg(value_name = "RUN")]
    pub(super) run: Option<String>,
    #[command(flatten)]
    pub(super) store: StoreArgs,
}

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    wharf verify trace run.json --benchmark benchmark.yaml --question tokyo --judge openai:gpt-5\n  \
    wharf verify trace logs.jsonl --benchmark benchmark.yaml --judge openai:gpt-5 --output report.html")]
pub(crate) struct Trace {
    /// Log: messages of `OpenAI` or Anthropic, results of Wharf or a cassette, as JSON or JSON Lines
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(super) file: PathBuf,
    /// Benchmark file with the questions that the log answers
    #[arg(long, value_name = "BENCHMARK", value_hint = ValueHint::FilePath)]
    pub(super) benchmark: PathBuf,
    /// Id of the question that the log answers [default: what the log says, or the question with its first message]
    #[arg(long, value_name = "ID")]
    pub(super) question: Option<String>,
    /// Resume a run, the latest one of this benchmark by default: nothing on record is paid again
    #[arg(long, value_name = "RUN", num_args = 0..=1, default_missing_value = "")]
    pub(super) resume: Option<String>,
    /// Write results to a file or directory, as `wharf verify run` does (repeatable)
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(super) output: Vec<PathBuf>,
    #[command(flatten)]
    pub(super) store: StoreArgs,
    /// Send keys where the --models file says
    #[arg(long)]
    pub(super) trust: bool,
    #[command(flatten)]
    pub(super) timeouts: ModelTimeouts,
    #[command(flatten)]
    pub(super) settings: SettingsArgs,
}

#[derive(Debug, clap::Args)]
pub(crate) struct ImportArgs {
    #[command(flatten)]
    pub(super) convert: Convert,
    /// Infer checks from the types of fields where a template has a hand-written `verify()` with literal truths
    #[arg(long)]
    pub(super) infer_checks: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Convert {
    /// File to convert
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(super) file: PathBuf,
    /// File to write [default: stdout]
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(super) output: Option<PathBuf>,
    /// Replace an existing file
    #[arg(short, long, requires = "output")]
    pub(super) force: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Report {
    /// Run to report [default: the latest one]
    #[arg(value_name = "RUN")]
    pub(super) run: Option<String>,
    /// File to write: .html, .md, .xml (JUnit), .json, .jsonl, .csv or .parquet; a directory gets logs of
    /// Inspect [default: report-RUN.html]
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(super) output: Option<PathBuf>,
    #[command(flatten)]
    pub(super) store: StoreArgs,
}

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    wharf verify compare 20261116-184653-7f3a 20261117-090112-01bc\n  \
    wharf verify compare RUN RUN --model-a careful --model-b hasty\n  \
    wharf verify compare BASE CHANGE --store base.db --store-b change.db")]
pub(crate) struct Compare {
    /// First run: the baseline
    #[arg(value_name = "A")]
    pub(super) a: String,
    /// Second run
    #[arg(value_name = "B")]
    pub(super) b: String,
    /// Compare this model of A [default: models with the same label]
    #[arg(long, value_name = "LABEL")]
    pub(super) model_a: Option<String>,
    /// Compare with this model of B [default: models with the same label]
    #[arg(long, value_name = "LABEL")]
    pub(super) model_b: Option<String>,
    /// Compare runs with different questions, checks, judges or tools
    #[arg(long)]
    pub(super) allow_different: bool,
    #[command(flatten)]
    pub(super) store: StoreArgs,
    /// File or URL that stores run B [default: that of --store]
    #[arg(long, value_name = "FILE|URL", value_hint = ValueHint::FilePath)]
    pub(super) store_b: Option<PathBuf>,
}

#[derive(Debug, clap::Args)]
pub(crate) struct PresetArgs {
    #[command(subcommand)]
    pub(super) command: PresetCommand,
}

#[derive(Debug, clap::Subcommand)]
pub(super) enum PresetCommand {
    /// Save the settings of this command line under a name
    Save(Box<SavePreset>),
    /// List presets
    List,
    /// Show a preset
    Show(PresetName),
    /// Delete a preset
    Delete(PresetName),
}

#[derive(Debug, clap::Args)]
pub(super) struct SavePreset {
    /// Name of the preset
    pub(super) name: String,
    /// What it is for
    #[arg(long, value_name = "TEXT")]
    pub(super) description: Option<String>,
    #[command(flatten)]
    pub(super) settings: SettingsArgs,
}

#[derive(Debug, clap::Args)]
pub(super) struct PresetName {
    /// Name of the preset
    pub(super) name: String,
}

/// Reads the id of a run.
fn run_id(text: &str) -> Result<String, String> {
    let is_valid = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    if text.is_empty() || text.len() > MAX_RUN_ID_BYTES || !text.bytes().all(is_valid) {
        return Err(format!("expected 1 to {MAX_RUN_ID_BYTES} letters, digits, `-`, `_` or `.`"));
    }
    Ok(text.to_owned())
}
