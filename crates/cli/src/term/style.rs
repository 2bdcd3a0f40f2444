//! Colors.

use anstyle::{AnsiColor, Style};

pub(crate) const GREEN: Style = AnsiColor::Green.on_default();
pub(crate) const RED: Style = AnsiColor::Red.on_default().bold();
pub(crate) const YELLOW: Style = AnsiColor::Yellow.on_default().bold();
pub(crate) const CYAN: Style = AnsiColor::Cyan.on_default().bold();
pub(crate) const BOLD: Style = Style::new().bold();
pub(crate) const DIM: Style = Style::new().dimmed();

/// Whether stderr shows colors.
pub(crate) fn stderr_has_color() -> bool {
    anstream::AutoStream::choice(&std::io::stderr()) != anstream::ColorChoice::Never
}

/// Colors a text for stdout, if stdout shows colors.
pub(crate) fn painted(text: &str, style: Style) -> String {
    let has_color = anstream::AutoStream::choice(&std::io::stdout()) != anstream::ColorChoice::Never;
    if has_color && !text.is_empty() { format!("{style}{text}{style:#}") } else { text.to_owned() }
}
