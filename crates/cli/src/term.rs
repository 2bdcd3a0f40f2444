//! The terminal: data on stdout, messages on stderr, tables, progress and questions.
//!
//! Nothing here knows a command or the configuration.

mod approval;
mod elicitation;
mod field_format;
mod field_value;
mod form_field;
pub(crate) mod input;
mod json_line;
mod labels;
mod line_quoter;
mod message;
mod output;
pub(crate) mod prompt;
mod reported;
pub(crate) mod review;
mod sampling;
mod secret_field;
mod shortened;
mod sign_in_page;
mod startup;
mod status_line;
mod style;
mod table;
mod text;
mod wrap;

pub(crate) use json_line::{file_json_line, json_line};
pub(crate) use line_quoter::{LineQuoter, unlabeled};
pub(crate) use message::{
    QuotedLine, error, heading, hint, line, note, problem, quote, stderr_width, usage_error, warning,
};
pub(crate) use output::{exactly, for_stdout, json, out, redacted_json, terminal_width};
pub(crate) use reported::{json_failure, json_usage_error, set_output, start_report};
pub(crate) use sign_in_page::{BrowserMode, SignInPage};
pub(crate) use startup::{SETTLE_LIMIT, StartupDisplay};
pub(crate) use status_line::{SPINNER, StatusLine, progress_bar};
pub(crate) use style::{DIM, GREEN, RED, YELLOW, painted, stderr_has_color};
pub(crate) use table::{Column, colored_column, table};
pub(crate) use text::{brief, counted, flat, grouped, is_dumb, name, plain, visible};
pub(crate) use wrap::{broken, columns, wrapped};
