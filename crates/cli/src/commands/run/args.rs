//! The arguments of `wharf run`.

use std::num::NonZeroU32;
use std::path::PathBuf;
use std::time::Duration;

use crate::models::timeouts::ModelTimeouts;

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  wharf run 'What time is it in Tokyo?' --mcp 'time=uvx mcp-server-time'\n  \
        wharf run -m anthropic:claude-sonnet-4-5 --strict --allow 'mcp__git__*' --json 'Commit this'\n  \
        wharf run --models models.yaml -m agent-claude 'Which drugs were approved this year?'\n  \
        wharf run -m scripted:turns.yaml --record run.jsonl 'How much is 1 and 2?'")]
#[expect(clippy::struct_excessive_bools, reason = "each is a switch of the command line")]
pub(crate) struct Run {
    /// Model: `anthropic:NAME`, `openai:NAME`, `openrouter:NAME`, `ollama:NAME`, `openai-endpoint:URL#NAME`,
    /// `manual:FILE` or `scripted:FILE` [default: `WHARF_MODEL`, a provider with an API key, or a local Ollama]
    #[arg(short, long, value_name = "MODEL")]
    pub(super) model: Option<String>,
    /// File of models with their own servers and settings; -m selects one. Ignores configured servers
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    pub(super) models: Option<PathBuf>,
    /// Start the commands of the --models file without approval, and send keys where it says
    #[arg(long, requires = "models")]
    pub(super) trust: bool,
    /// System prompt
    #[arg(long, value_name = "TEXT")]
    pub(super) system: Option<String>,
    /// Fail unless every server connects and the exact model is available
    #[arg(long)]
    pub(super) strict: bool,
    /// Wait this long for servers that are not required, in seconds. Later ones join at the next turn
    #[arg(long, value_name = "SECONDS", value_parser = seconds, default_value = "10")]
    pub(super) wait: Duration,
    /// Limit the number of turns [default: 25]
    #[arg(long, value_name = "N")]
    pub(super) max_turns: Option<NonZeroU32>,
    /// Limit the number of tool calls [default: 50]
    #[arg(long, value_name = "N")]
    pub(super) max_tool_calls: Option<u32>,
    /// Limit the number of input and output tokens
    #[arg(long, value_name = "N")]
    pub(super) max_tokens: Option<u64>,
    /// Summarize the conversation at this many tokens [default: 80 % of the model's context window]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(super) max_context_tokens: Option<u64>,
    /// Limit the cost, in US dollars
    #[arg(long, value_name = "DOLLARS", value_parser = dollars)]
    pub(super) max_cost: Option<f64>,
    /// Limit the duration, in seconds [default: none; 180 for a model of --models with servers]
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    pub(super) max_time: Option<Duration>,
    #[command(flatten)]
    pub(super) timeouts: ModelTimeouts,
    /// Allow calls without asking, for example `mcp__git__*` or `server:git !hint:destructive` (repeatable)
    #[arg(long, value_name = "CONDITION")]
    pub(super) allow: Vec<String>,
    /// Let servers ask you for passwords and other secrets; what you type is not shown
    #[arg(long)]
    pub(super) allow_secrets: bool,
    /// Offer all tools at once, even if they take more than 10 % of the context window
    #[arg(long)]
    pub(super) all_tools: bool,
    /// Describe tools in the prompt, for a model without tool support
    #[arg(long)]
    pub(super) emulate_tools: bool,
    /// Record all model requests and tool calls to a file
    #[arg(long, value_name = "FILE", conflicts_with = "replay")]
    pub(super) record: Option<PathBuf>,
    /// Replay a recording, without a model or servers
    #[arg(long, value_name = "FILE")]
    pub(super) replay: Option<PathBuf>,
    /// Save the run's state to a file, before and after each step
    #[arg(long, value_name = "FILE")]
    pub(super) checkpoint: Option<PathBuf>,
    /// Overwrite existing files of --checkpoint and --record
    #[arg(long)]
    pub(super) force: bool,
    /// Continue with a warning if the run cannot be saved, instead of stopping before the next step
    #[arg(long)]
    pub(super) checkpoint_optional: bool,
    /// Resume a run from its checkpoint, and continue to save it there. Limits given here replace those of the run and
    /// count from its start
    #[arg(long, value_name = "FILE", conflicts_with_all = ["checkpoint", "prompt", "system"])]
    pub(super) resume: Option<PathBuf>,
    /// Output format
    #[arg(long, value_enum, value_name = "FORMAT", default_value_t = Output::Text)]
    pub(super) output: Output,
    /// Prompt for the model; `-` reads it from stdin. Piped text follows the prompt
    pub(super) prompt: Option<String>,
}

impl Run {
    /// Whether the output is JSON even without `--json`.
    pub(crate) fn prints_json(&self) -> bool {
        self.output != Output::Text
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Output {
    /// The answer
    Text,
    /// One JSON value with the whole result
    Json,
    /// One JSON value per event
    StreamJson,
}

fn dollars(text: &str) -> Result<f64, &'static str> {
    match text.trim_start_matches('$').parse::<f64>() {
        Ok(dollars) if dollars.is_finite() && dollars >= 0.0 => Ok(dollars),
        _ => Err("expected an amount in dollars"),
    }
}

fn seconds(text: &str) -> Result<Duration, &'static str> {
    let seconds = text.parse().ok().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    seconds.ok_or("expected a number of seconds, for example 30 or 2.5")
}
