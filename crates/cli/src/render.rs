//! How things look: errors with what the server said and a hint, tables, and text that cannot play tricks.

use std::io::{IsTerminal as _, Write as _};

use anstyle::{AnsiColor, Style};
use comfy_table::{ContentArrangement, Table, presets};
use rustix::termios::tcgetwinsize;
use wharf::config::{Problem, Severity, SourceLocation};
use wharf::fleet::Scope;
use wharf::{
    CallError, CallErrorKind, ConnectErrorKind, Evidence, ServerName, Session, SessionStatus, SpawnError, fleet,
};

use crate::args::Globals;
use crate::exit::Exit;
use crate::servers::{Misuse, sends_authorization};
use crate::surroundings::variable;

pub(crate) const GREEN: Style = AnsiColor::Green.on_default();
pub(crate) const RED: Style = AnsiColor::Red.on_default().bold();
pub(crate) const YELLOW: Style = AnsiColor::Yellow.on_default().bold();
const CYAN: Style = AnsiColor::Cyan.on_default().bold();
const BOLD: Style = Style::new().bold();
pub(crate) const DIM: Style = Style::new().dimmed();

/// How many of the server's last lines are shown.
const QUOTED: usize = 10;
/// How much of its very last line is shown where there is room for one only.
const LAST_WORDS: usize = 100;

/// Writes text and a line feed to stdout, and tells whether that worked. A reader that has gone away is no error of
/// ours. The writing happens elsewhere: a pipe that nobody reads must not keep us from hearing Ctrl-C.
pub(crate) async fn out(mut text: String) -> Exit {
    text.push('\n');
    exactly(text.into_bytes()).await
}

/// Writes bytes to stdout, and nothing else.
pub(crate) async fn exactly(bytes: Vec<u8>) -> Exit {
    let write = move || {
        let mut stdout = std::io::stdout().lock();
        stdout.write_all(&bytes).and_then(|()| stdout.flush())
    };
    match tokio::task::spawn_blocking(write).await {
        Ok(Err(cause)) if cause.kind() != std::io::ErrorKind::BrokenPipe => {
            error(&format!("stdout cannot be written: {cause}"), &[], None);
            Exit::Failed
        }
        _ => Exit::Done,
    }
}

fn err(text: &str) {
    let _ = writeln!(anstream::stderr(), "{text}");
}

/// A text behind a word, in lines that a terminal has room for.
fn fitting(text: &str, word: &str) -> String {
    let text = plain(text);
    match error_width() {
        Some(width) => crate::wrap::message(&text, word.len(), width),
        None => text,
    }
}

/// How wide the terminal is, if stderr is one.
fn error_width() -> Option<usize> {
    let size = tcgetwinsize(std::io::stderr()).ok()?;
    Some(usize::from(size.ws_col)).filter(|width| *width > 0)
}

/// A text for stdout in a colour, if colours are wanted there.
pub(crate) fn painted(text: &str, style: Style) -> String {
    let is_wanted = anstream::AutoStream::choice(&std::io::stdout()) != anstream::ColorChoice::Never;
    if is_wanted && !text.is_empty() { format!("{style}{text}{style:#}") } else { text.to_owned() }
}

/// Writes one JSON value to stdout, with every part of it that came from a server as it came.
pub(crate) async fn json(value: &impl serde::Serialize) -> Exit {
    match serde_json::to_string(value) {
        Ok(text) => out(text).await,
        Err(cause) => {
            error(&format!("the result cannot be written as JSON: {cause}"), &[], None);
            Exit::Failed
        }
    }
}

/// An error, what the server said before it, and what can be done.
pub(crate) fn error(what: &str, said: &[String], hint: Option<&str>) {
    err(&format!("{RED}error:{RED:#} {}", fitting(what, "error: ")));
    quote(said);
    if let Some(told) = hint {
        self::hint(told);
    }
}

/// The last of what a server said.
fn quote(said: &[String]) {
    for line in &said[said.len().saturating_sub(QUOTED)..] {
        err(&format!("  {DIM}{}", plain(line).replacen('│', &format!("│{DIM:#}"), 1)));
    }
}

/// Something that is odd but stops nobody.
pub(crate) fn warning(what: &str) {
    err(&format!("{YELLOW}warning:{YELLOW:#} {}", fitting(what, "warning: ")));
}

/// Something worth knowing.
pub(crate) fn note(what: &str) {
    err(&format!("{DIM}{}{DIM:#}", fitting(what, "")));
}

/// The beginning of something in several lines.
pub(crate) fn heading(what: &str) {
    err(&format!("{BOLD}{}{BOLD:#}", plain(what)));
}

/// A line of it.
pub(crate) fn line(what: &str) {
    err(&plain(what));
}

/// Something that deserves a second look.
pub(crate) fn danger(what: &str) {
    err(&format!("{RED}careful:{RED:#} {}", plain(what)));
}

/// What was asked for makes no sense.
pub(crate) fn misuse(misuse: &Misuse) {
    error(&misuse.what, &[], misuse.hint.as_deref());
}

/// Something about the configuration: where, what, and how to mend it.
pub(crate) fn problem(problem: &Problem) {
    let shown = Problem { hint: None, ..problem.clone() };
    let hint = problem.hint.as_deref();
    match problem.severity {
        Severity::Error => error(&shown.to_string(), &[], hint),
        Severity::Warning => {
            warning(&shown.to_string());
            if let Some(told) = hint {
                self::hint(told);
            }
        }
        Severity::Note => note(&problem.to_string()),
    }
}

/// What can be done.
pub(crate) fn hint(hint: &str) {
    err(&format!("{CYAN}hint:{CYAN:#} {}", fitting(hint, "hint: ")));
}

/// Why a server of a fleet is not connected: an error if it is needed, a warning if it is not, and nothing if nobody
/// wants it.
pub(crate) fn status(status: &fleet::ServerStatus, globals: &Globals) {
    let fleet::ServerStatus { name, state, transport, required, .. } = status;
    let reason = status.reason.as_ref().map(ToString::to_string).unwrap_or_default();
    let of_entry = |error: &CallError| advice_for(error, status.scope, globals);
    match status.error() {
        Some(error) if *required => call_error(error, of_entry(error), *transport != "stdio"),
        None if *state == fleet::ServerState::Disabled => {
            if globals.verbose {
                note(&format!("{name}: {reason}"));
            }
        }
        None if *required => error(&format!("{name}: {state}: {reason}"), &[], None),
        _ if globals.quiet => {}
        None => warning(&format!("{name}: {state}: {reason}")),
        Some(error) => {
            let last = last_words(error).filter(|_| !globals.verbose);
            let last = last.map(|words| format!("; its last words: {words}")).unwrap_or_default();
            warning(&format!("{name}: {state}: {reason}{last}"));
            if globals.verbose {
                quote(&said(error));
            }
            if let Some(told) = of_entry(error).or_else(|| advice(error, *transport != "stdio")) {
                hint(&told);
            }
        }
    }
}

/// A call without an answer, or a server without a connection.
pub(crate) fn call_error(failed: &CallError, hint: Option<String>, remote: bool) {
    let hint = hint.or_else(|| advice(failed, remote));
    error(&format!("{}: {}", failed.server, failed.kind), &said(failed), hint.as_deref());
}

/// The last line a server wrote before it failed, cut.
pub(crate) fn last_words(failed: &CallError) -> Option<String> {
    let line = failed.evidence.stderr.iter().rev().find(|line| !line.trim().is_empty())?;
    Some(brief(line, LAST_WORDS))
}

/// How a person signs in to a server.
pub(crate) fn sign_in(server: &ServerName, scope: Scope, globals: &Globals) -> String {
    // One that is only on this command line has to be on that one, too.
    let again = if scope == Scope::Dynamic { format!(" --mcp {server}=URL") } else { String::new() };
    let profile = globals.profile.as_ref().map(|profile| format!(" --profile {profile}")).unwrap_or_default();
    format!("sign in: wharf login {server}{again}{profile}")
}

/// What can be done about a server that does not let us in, by where it is configured.
pub(crate) fn advice_for(failed: &CallError, scope: Scope, globals: &Globals) -> Option<String> {
    match &failed.kind {
        CallErrorKind::Connect(ConnectErrorKind::Auth(_)) if sends_authorization(globals) => {
            Some("the header that was sent was not accepted".to_owned())
        }
        CallErrorKind::Connect(ConnectErrorKind::Auth(_)) => Some(sign_in(&failed.server, scope, globals)),
        _ => header_advice(failed, scope, None),
    }
}

/// What to send to a server that does not let us in, where it has an entry: it belongs there.
pub(crate) fn header_advice(failed: &CallError, scope: Scope, origin: Option<&SourceLocation>) -> Option<String> {
    let CallErrorKind::Connect(kind) = &failed.kind else { return None };
    let wants = match kind {
        ConnectErrorKind::Auth(_) if scope == Scope::Dynamic => {
            return Some(
                "send what it asks for: -H 'Authorization: Bearer …'; if you did, it was not accepted".to_owned(),
            );
        }
        ConnectErrorKind::Auth(_) => "\"headers\": {\"Authorization\": \"Bearer ${NAME}\"}",
        ConnectErrorKind::Http(status) if status.status == 403 => "\"headers\": {\"HEADER\": \"${NAME}\"}",
        _ => return None,
    };
    if matches!(scope, Scope::Dynamic | Scope::Cloud) {
        return None;
    }
    let place = match origin {
        Some(origin) => format!("{}:{}", origin.file.display(), origin.line),
        None => format!("`wharf get {}` tells where it is", failed.server),
    };
    Some(format!("put what it asks for into its entry ({place}): {wants}; if you did, it was not accepted"))
}

/// The last that a server said before things went wrong.
fn said(failed: &CallError) -> Vec<String> {
    let Evidence { stderr, noise, .. } = &failed.evidence;
    let mut said: Vec<String> = stderr.iter().map(|line| format!("stderr │ {line}")).collect();
    if said.is_empty() {
        said.extend(noise.as_ref().map(|noise| format!("stdout │ {noise}")));
    }
    said
}

/// What can be done about it.
pub(crate) fn advice(failed: &CallError, remote: bool) -> Option<String> {
    if remote { remote_hint(failed) } else { hint_for(&failed.kind, failed.evidence.noise.is_some()) }
}

fn hint_for(kind: &CallErrorKind, noisy: bool) -> Option<String> {
    let hint = match kind {
        CallErrorKind::Connect(ConnectErrorKind::Spawn(reason)) => match &**reason {
            SpawnError::NotFound(command) if command.contains(['~', '$', '=', '&', '|']) => {
                "no shell is involved: write the command and its paths in full, and variables with --env"
            }
            SpawnError::NotFound(_) => "is it installed, and is its folder in PATH?",
            SpawnError::NotExecutable(_) => "is it a program? A script needs `#!` in its first line and `chmod +x`",
            _ => return None,
        },
        CallErrorKind::Connect(ConnectErrorKind::Timeout(_)) if noisy => {
            "it writes text to stdout, where messages belong: does the command start an MCP server over stdio?"
        }
        CallErrorKind::Connect(ConnectErrorKind::Ended(_)) => "run its command by hand to see why it ends",
        CallErrorKind::Connect(ConnectErrorKind::Timeout(_)) => {
            "a first start may have to download; start it once by hand, or give it longer with --connect-timeout SECONDS"
        }
        CallErrorKind::Connect(ConnectErrorKind::Refused(reason)) if is_about_protocol(reason) => {
            "without --protocol it is found out what the server speaks"
        }
        CallErrorKind::Connect(ConnectErrorKind::Refused(reason)) if is_newer(reason) => {
            "it is newer than this program; update it"
        }
        CallErrorKind::Connect(ConnectErrorKind::Refused(_)) => "is it an MCP server?",
        CallErrorKind::Input { .. } | CallErrorKind::Server { code: -32021, .. } => {
            "this command has nobody to ask; use the server from a program with a `Host`"
        }
        CallErrorKind::Timeout { .. } => {
            "look at what the call may have done before you repeat it with a longer --timeout SECONDS"
        }
        CallErrorKind::Lost(_) => "look at what the call may have done before you repeat it",
        CallErrorKind::Output { .. } | CallErrorKind::Malformed(_) => "this is a fault of the server; tell its authors",
        _ => return None,
    };
    Some(hint.to_owned())
}

/// Tells who a server says it is, and what is spoken with it.
pub(crate) fn spoken(session: &Session) {
    if let SessionStatus::Connected(info) = &*session.status().borrow() {
        let said = format!("{}: {} {}, protocol {}", session.name(), info.name, info.version, info.protocol());
        note(&plain(&said));
    }
}

/// Whether a server speaks, only nothing that we have heard of.
fn is_newer(reason: &str) -> bool {
    reason.contains(": this client supports ")
}

/// Whether a server that was refused speaks, only not as it was told to.
fn is_about_protocol(reason: &str) -> bool {
    reason.starts_with("it does not support the ") || reason.starts_with("it supports only the ")
}

/// The same for a server at an address.
fn remote_hint(failed: &CallError) -> Option<String> {
    let hint = match &failed.kind {
        CallErrorKind::Connect(kind) => match kind {
            ConnectErrorKind::Auth(_) => return Some(format!("sign in: wharf login {}", failed.server)),
            ConnectErrorKind::Http(status) if (300..400).contains(&status.status) => "use the address it is at now",
            ConnectErrorKind::Http(status) if status.status == 403 => {
                "it does not let us in; if it wants a header, send it: -H 'NAME: VALUE'"
            }
            ConnectErrorKind::Http(status) if status.status == 429 => {
                "it wants to be asked less often; try again later"
            }
            ConnectErrorKind::Http(status) if status.status >= 500 => {
                "the server, or something before it, is in trouble; try again later"
            }
            ConnectErrorKind::Refused(reason) if is_newer(reason) => "it is newer than this program; update it",
            ConnectErrorKind::Refused(reason) if is_about_protocol(reason) => {
                "without --protocol it is found out what the server speaks"
            }
            ConnectErrorKind::Http(_) | ConnectErrorKind::Refused(_) => {
                "is there an MCP server at this address? Most have it at /mcp; older ones, with one long stream of events, \
                at /sse"
            }
            ConnectErrorKind::Transport(reason) if reason.contains("by proxy") => {
                "the proxy is that of HTTPS_PROXY, HTTP_PROXY or ALL_PROXY; NO_PROXY=HOST goes around it"
            }
            ConnectErrorKind::Transport(reason) if reason.contains("cannot be reached") => {
                "is it running, and is the address right?"
            }
            ConnectErrorKind::Unusable(reason) if reason.contains("UnknownIssuer") => {
                "a certificate of your own can be trusted with SSL_CERT_FILE=FILE"
            }
            ConnectErrorKind::Timeout(_) => {
                "is there an MCP server at this address? It can be given longer with --connect-timeout SECONDS"
            }
            ConnectErrorKind::Ended(_) => "is the address right, and should it be https:// or wss://?",
            _ => return None,
        },
        CallErrorKind::Http(status) if status.refused() => return None,
        CallErrorKind::Http(_) => "look at what the call may have done before you repeat it",
        other => return hint_for(other, false),
    };
    Some(hint.to_owned())
}

/// A reason as a sentence about the thing: "it has no name", but "its `name` is a number".
pub(crate) fn about(reason: &str) -> String {
    format!("{} {reason}", if reason.starts_with('`') { "its" } else { "it" })
}

/// A table as wide as the terminal, or as wide as it needs to be when nobody looks.
pub(crate) fn table(head: &[&str], rows: Vec<Vec<String>>) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Dynamic);
    if let Some(width) = terminal_width() {
        table.set_width(width);
    }
    table.set_header(head.iter().map(|title| title.to_uppercase()));
    for row in rows {
        table.add_row(row.iter().map(|cell| plain(cell)));
    }
    let last = head.len().saturating_sub(1);
    for (index, column) in table.column_iter_mut().enumerate() {
        column.set_padding((0, if index == last { 0 } else { 2 }));
    }
    let lines: Vec<String> = table.lines().map(|line| line.trim_end().to_owned()).collect();
    lines.join("\n")
}

/// A table with the cells of one column in colours, where they are wanted. `next` is the title of the column behind it.
pub(crate) fn coloured(table: &str, (title, next): (&str, &str), style: impl Fn(&str) -> Option<Style>) -> String {
    let head = table.lines().next().unwrap_or_default();
    let place = |title: &str| head.find(&title.to_uppercase()).map(|at| head[..at].chars().count());
    let (Some(from), Some(to)) = (place(title), place(next)) else { return table.to_owned() };
    let line = |line: &str| {
        let cell: String = line.chars().skip(from).take(to.saturating_sub(from)).collect();
        let words = cell.trim_end();
        let Some(style) = style(words) else { return line.to_owned() };
        let before: String = line.chars().take(from).collect();
        let after: String = line.chars().skip(from + words.chars().count()).collect();
        format!("{before}{}{after}", painted(words, style))
    };
    table.lines().map(line).collect::<Vec<_>>().join("\n")
}

/// One line on a terminal that says what is going on, and is gone when it is over.
pub(crate) struct Transient {
    wanted: bool,
    shown: bool,
}

impl Transient {
    pub(crate) fn new(quiet: bool) -> Self {
        Self { wanted: !quiet && std::io::stderr().is_terminal(), shown: false }
    }

    pub(crate) fn show(&mut self, text: &str) {
        if self.wanted {
            let width = tcgetwinsize(std::io::stderr()).map_or(80, |size| usize::from(size.ws_col));
            draw(&brief(&format!("… {text}"), width.saturating_sub(1)));
            self.shown = true;
        }
    }
}

impl Drop for Transient {
    fn drop(&mut self) {
        if self.shown {
            draw("");
        }
    }
}

/// Replaces the line the cursor is on.
fn draw(line: &str) {
    let mut stderr = std::io::stderr();
    let _ = write!(stderr, "\r\u{1b}[K{line}");
    let _ = stderr.flush();
}

/// How wide the terminal is, if stdout is one.
pub(crate) fn terminal_width() -> Option<u16> {
    tcgetwinsize(std::io::stdout()).ok().map(|size| size.ws_col).filter(|width| *width > 0)
}

/// Text from a server, as it is for a pipe, and harmless for a terminal.
pub(crate) fn for_stdout(text: String) -> String {
    if std::io::stdout().is_terminal() { plain(&text) } else { text }
}

/// Text from a server, with everything a terminal would act on made visible. Ends of lines and tabs stay.
pub(crate) fn plain(text: &str) -> String {
    let visible = |c: char| match c {
        '\n' | '\t' => c.to_string(),
        c if c.is_control() || is_bidi(c) => format!("\\u{{{:x}}}", u32::from(c)),
        c => c.to_string(),
    };
    text.replace("\r\n", "\n").chars().map(visible).collect()
}

/// The same in one line: ends of lines and tabs are made visible, too.
pub(crate) fn flat(text: &str) -> String {
    plain(text).replace('\n', "\\n").replace('\t', "\\t")
}

/// The characters that turn text around, so that it reads as something else.
fn is_bidi(c: char) -> bool {
    matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{200e}' | '\u{200f}')
}

/// Whether a terminal can only go forward.
pub(crate) fn is_dumb() -> bool {
    variable(&["TERM"]).is_none_or(|terminal| terminal == "dumb")
}

/// The first line of a text, cut to `longest` characters.
pub(crate) fn brief(text: &str, longest: usize) -> String {
    let line = text.trim().lines().next().unwrap_or_default().trim_end();
    if line.chars().count() <= longest {
        return plain(line);
    }
    let cut: String = line.chars().take(longest.saturating_sub(1)).collect();
    plain(&format!("{}…", cut.trim_end()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_terminal_would_act_on_is_made_visible() {
        let text = "a\u{1b}[31mred\u{1b}]52;c;x\u{7}\r\nb\tc\u{202e}d\rover";
        assert_eq!(plain(text), "a\\u{1b}[31mred\\u{1b}]52;c;x\\u{7}\nb\tc\\u{202e}d\\u{d}over");
    }

    #[test]
    fn a_long_line_is_cut_and_the_cut_is_marked() {
        assert_eq!(brief("  Ünïcödé is counted in characters\nmore", 10), "Ünïcödé i…");
        assert_eq!(brief("short", 10), "short");
    }
}
