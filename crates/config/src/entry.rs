//! One server's entry: from what somebody wrote to a [`Server`] that nothing is left to guess about.
//!
//! Everything that is wrong is reported at once, each with its place. An error costs this server and no other.

pub(crate) mod keys;
mod reach;
mod settings;

use std::path::Path;

use wharf_protocol::ServerName;

use super::expand::{Unexpanded, Variables};
use super::hidden;
use super::problem::Problem;
use super::server::{Scope, Server, SourceLocation};
use super::text::{At, Kind};
use super::written::RawEntry;

/// Entries of longer names, in bytes, are not even read.
const LONGEST_NAME: usize = 256;

/// What an entry is read with.
#[derive(Clone, Copy)]
pub(crate) struct Context<'a> {
    pub(crate) scope: Scope,
    pub(crate) variables: &'a Variables,
    /// The project's folder, which relative folders are relative to.
    pub(crate) base: Option<&'a Path>,
    /// Whether the entry is only to be written down: what a variable holds by then is not known yet.
    pub(crate) to_keep: bool,
}

/// What came of an entry.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    /// The name as written.
    pub(crate) name: String,
    pub(crate) origin: SourceLocation,
    /// The server; `None` if one of the problems is an error.
    pub(crate) found: Option<(Server, RawEntry)>,
    pub(crate) problems: Vec<Problem>,
    /// Whether variables were left in it, since it is switched off. It must not be run like that.
    pub(crate) is_incomplete: bool,
    /// What it says about being needed and being on, also where the rest cannot be understood.
    pub(crate) required: bool,
    pub(crate) enabled: bool,
}

/// Reads the entry of a name.
pub(crate) fn read(name: &str, at: &At<'_>, context: Context<'_>) -> Entry {
    let origin = SourceLocation { file: at.file().to_owned(), line: at.line() };
    let mut reading = Reading {
        at: at.clone(),
        context,
        problems: Vec::new(),
        is_off: false,
        is_incomplete: false,
        is_required: false,
    };
    let parsed = reading.name(name);
    // Nobody means a name as long as a page, and every problem would repeat it.
    let found = if name.len() > LONGEST_NAME { None } else { reading.server() };
    let Reading { is_incomplete, is_required: required, is_off, .. } = reading;
    let mut problems = reading.problems;
    for problem in &mut problems {
        problem.server = Some(name.to_owned());
    }
    let found = match (parsed, found) {
        (Some(name), Some((mut server, written))) if !problems.iter().any(Problem::is_error) => {
            server.name = name;
            server.origin = Some(origin.clone());
            Some((server, written))
        }
        _ => None,
    };
    Entry { name: name.to_owned(), origin, found, problems, is_incomplete, required, enabled: !is_off }
}

/// How much of what the eye does not see a text may have.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Care {
    /// None: an address, a command, a header.
    Strict,
    /// Lines, as keys and documents have them.
    Lines,
    /// Whatever a program understands; only what no program can be given is refused.
    Argument,
}

/// An entry while it is read.
struct Reading<'a> {
    at: At<'a>,
    context: Context<'a>,
    problems: Vec<Problem>,
    /// Whether the entry is switched off: then a variable that is not set harms nobody.
    is_off: bool,
    /// Whether variables were left as they are written.
    is_incomplete: bool,
    /// Whether the entry says that it is needed.
    is_required: bool,
}

impl<'a> Reading<'a> {
    fn name(&mut self, name: &str) -> Option<ServerName> {
        let error = match name.parse() {
            Ok(name) => return Some(name),
            Err(error) => error,
        };
        let mut problem = self.at.error(error.to_string());
        if let Some(like) = hidden::looks_like(name) {
            problem.message = format!("{error}; it looks like `{like}` and is not");
        }
        if let Some(valid) = hidden::valid_name(name) {
            problem = problem.with_hint(format!("call it `{valid}`"));
        }
        self.problems.push(problem);
        None
    }

    fn server(&mut self) -> Option<(Server, RawEntry)> {
        if !self.at.is_object() {
            let problem = self.at.wrong_type("an object with `command` or `url`");
            let hint = match self.at.text() {
                Some(text) if text.contains("://") => "write it as {\"url\": …}",
                Some(_) => "write it as {\"command\": …, \"args\": […]}",
                None => "write {\"command\": …} or {\"url\": …}",
            };
            self.problems.push(problem.with_hint(hint));
            return None;
        }
        for repeated in self.at.repeated() {
            self.problems.push(repeated.error("is there twice").with_hint("keep one"));
        }
        keys::check(self);
        let settings = settings::read(self);
        self.is_off = !settings.enabled;
        self.is_required = settings.required;
        let (reach, written) = reach::read(self)?;
        // The name is put in by whoever knows that it is one.
        let nameless: ServerName = "unnamed".parse().ok()?;
        Some((Server { settings, ..Server::new(nameless, self.context.scope, reach) }, written))
    }

    fn error(&mut self, at: &At<'_>, message: impl Into<String>, hint: impl Into<String>) {
        self.problems.push(at.error(message).with_hint(hint));
    }

    /// A text, if it is one.
    fn text(&mut self, at: &At<'a>) -> Option<&'a str> {
        let text = at.text();
        if text.is_none() {
            let problem = at.wrong_type("a text");
            self.problems.push(match &at.node.kind {
                Kind::Bool(value) => problem.with_hint(format!("write \"{value}\"")),
                // Without the number itself, which may be a secret.
                Kind::Number(_) => problem.with_hint("put it into quotes"),
                _ => problem,
            });
        }
        text
    }

    /// The texts of a list.
    fn texts(&mut self, at: &At<'a>) -> Vec<(At<'a>, &'a str)> {
        if !at.is_list() {
            let problem = at.wrong_type("a list of texts");
            self.problems.push(match at.text() {
                // Without the words themselves, one of which may be a secret.
                Some(_) => problem.with_hint("write each word as an item of its own: [\"…\", \"…\"]"),
                None => problem,
            });
        }
        at.items().filter_map(|item| self.text(&item).map(|text| (item, text))).collect()
    }

    /// The texts of an object.
    fn named_texts(&mut self, at: &At<'a>) -> Vec<(&'a str, At<'a>, &'a str)> {
        self.object(at);
        at.fields().filter_map(|(key, value)| self.text(&value).map(|text| (key, value, text))).collect()
    }

    /// Reports what is no object, and keys that repeat.
    fn object(&mut self, at: &At<'a>) {
        if !at.is_object() {
            self.problems.push(at.wrong_type("an object"));
        }
        for repeated in at.repeated() {
            self.problems.push(repeated.error("is there twice").with_hint("keep one"));
        }
    }

    fn switch(&mut self, key: &str) -> Option<bool> {
        let at = self.at.field(key)?;
        if let Kind::Bool(value) = at.node.kind {
            return Some(value);
        }
        self.problems.push(at.wrong_type("true or false"));
        None
    }

    /// A text with its variables put in, and nothing in it that the eye does not see.
    fn expanded(&mut self, at: &At<'_>, text: &str, care: Care) -> Option<String> {
        if !self.is_clean(at, text, care, "") {
            return None;
        }
        let expanded = match self.context.variables.expand(text) {
            Ok(expanded) => expanded,
            Err(unexpanded) => return self.unexpanded(at, text, unexpanded),
        };
        (expanded == text || self.is_clean(at, &expanded, care, "with what its variables hold, it "))
            .then_some(expanded)
    }

    fn unexpanded(&mut self, at: &At<'_>, text: &str, unexpanded: Unexpanded) -> Option<String> {
        let problem = match unexpanded {
            Unexpanded::Unset(name) if self.context.to_keep && name != "IFS" => {
                let message = format!("the variable {name} is not set now; the server will not start until it is");
                self.problems.push(at.warning(message));
                self.is_incomplete = true;
                return Some(text.to_owned());
            }
            Unexpanded::Unset(name) if self.is_off => {
                self.problems.push(at.warning(format!("the variable {name} is not set")));
                self.is_incomplete = true;
                return Some(text.to_owned());
            }
            Unexpanded::Unset(name) if name == "IFS" => {
                at.error("`${IFS}` hides blanks from the eye of a reader").with_hint("write the blanks")
            }
            Unexpanded::Unset(name) => at
                .error(format!("the variable {name} is not set"))
                .with_hint(format!("set it, or give a default: `${{{name}:-default}}`")),
            Unexpanded::Malformed(found) if found.starts_with("${input:") => at
                .error(format!("`{found}` asks a question, which only an editor can"))
                .with_hint("take it from a variable: `${NAME}`"),
            Unexpanded::Malformed(found) => at
                .error(format!("`{found}` is no variable"))
                .with_hint("write `${NAME}` or `${NAME:-default}`, or `$${` for a plain `${`"),
        };
        self.problems.push(problem);
        None
    }

    fn is_clean(&mut self, at: &At<'_>, text: &str, care: Care, subject: &str) -> bool {
        if text.contains('\0') {
            self.error(at, format!("{subject}has a NUL character"), "no program can be given one; remove it");
            return false;
        }
        let Some(found) = hidden::find(text) else { return true };
        let harmless = match care {
            Care::Strict => false,
            Care::Lines => found.is_inner_break,
            Care::Argument => true,
        };
        if !harmless {
            self.error(at, format!("{subject}{}", found.what), "remove it");
            return false;
        }
        let document = text.starts_with("-----BEGIN") || text.trim_start().starts_with(['{', '[']);
        let blank = care == Care::Argument && text.chars().all(|c| !super::problem::is_hidden(c));
        if !document && !blank {
            self.problems.push(at.warning(format!("{subject}{}", found.what)));
        }
        true
    }
}
