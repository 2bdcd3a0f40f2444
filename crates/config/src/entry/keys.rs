//! The keys of an entry: ours, those of other hosts, and those that nobody defines.

use super::super::problem::Severity;
use super::super::server::Scope;
use super::Reading;

/// Longer words are no slip of the finger, and are not shown in full.
const LONGEST_WORD: usize = 64;

/// The keys that mean something here.
pub(crate) const OURS: [&str; 27] = [
    "type",
    "transportType",
    "transport",
    "command",
    "args",
    "env",
    "cwd",
    "url",
    "httpUrl",
    "serverUrl",
    "headers",
    "headersHelper",
    "oauth",
    "timeout",
    "connectTimeout",
    "enabled",
    "disabled",
    "required",
    "protocol",
    "tools",
    "includeTools",
    "excludeTools",
    "bindings",
    "maxOutputTokens",
    "title",
    "displayName",
    "manage",
];

/// Keys of other hosts that would let a server past a person.
const TRUST: [&str; 7] =
    ["approved", "trust", "trusted", "autoApprove", "autoApproveTools", "alwaysAllow", "alwaysApprove"];

/// Keys of other hosts that only describe a server.
const WORDS: [&str; 15] = [
    "$comment",
    "author",
    "category",
    "comment",
    "description",
    "gallery",
    "homepage",
    "icon",
    "icons",
    "name",
    "note",
    "notes",
    "repository",
    "tags",
    "version",
];

/// Keys of other hosts that mean something there.
const OTHERS: [(&str, Severity, &str); 10] = [
    (
        "alwaysLoad",
        Severity::Note,
        "is passed over: which tools are always shown is set for the model, not for a server",
    ),
    ("auth", Severity::Warning, "is passed over: sign in to the server, or send a header"),
    ("authProviderType", Severity::Warning, "is passed over: sign in to the server, or send a header"),
    ("envFile", Severity::Warning, "is not read: put its variables into `env`"),
    ("inputs", Severity::Note, "is passed over: take values from variables, as `${NAME}`"),
    ("dev", Severity::Note, "is passed over: it is for developing a server in an editor"),
    ("sandbox", Severity::Warning, "is passed over: servers are not put into a sandbox"),
    ("sse_read_timeout", Severity::Note, "is passed over: a stream may be silent for five minutes"),
    ("sseReadTimeout", Severity::Note, "is passed over: a stream may be silent for five minutes"),
    ("id", Severity::Note, "is passed over: a server is known by its name"),
];

/// Words that people write for ours, and which no spelling distance would find.
const MEANT: [(&str, &str); 10] = [
    ("arguments", "args"),
    ("cmd", "command"),
    ("endpoint", "url"),
    ("environment", "env"),
    ("envs", "env"),
    ("uri", "url"),
    ("workingDirectory", "cwd"),
    ("working_dir", "cwd"),
    ("allowedTools", "tools"),
    ("isActive", "enabled"),
];

/// Reports every key that is not ours.
pub(super) fn check(reading: &mut Reading<'_>) {
    for (key, at) in reading.at.fields() {
        let problem = if OURS.contains(&key) {
            continue;
        } else if TRUST.contains(&key) {
            let severity = if reading.context.scope == Scope::Project { Severity::Warning } else { Severity::Note };
            at.problem(severity, "is passed over: an entry does not approve itself")
        } else if WORDS.contains(&key) {
            at.note("is passed over: it only describes the server")
        } else if let Some((_, severity, text)) = OTHERS.iter().find(|(other, ..)| *other == key) {
            at.problem(*severity, *text)
        } else {
            let problem = at.warning(format!("`{}` is no key of a server", brief(key)));
            match meant(key, &OURS) {
                Some(ours) => problem.with_hint(format!("did you mean `{ours}`?")),
                None => problem,
            }
        };
        reading.problems.push(problem);
    }
}

/// The key that was probably meant.
fn meant(key: &str, ours: &[&'static str]) -> Option<&'static str> {
    let known = MEANT.iter().find(|(theirs, _)| theirs.eq_ignore_ascii_case(key)).map(|(_, ours)| *ours);
    known.or_else(|| nearest(key, ours))
}

/// As much of a word as a message has room for.
pub(crate) fn brief(word: &str) -> String {
    match word.char_indices().nth(LONGEST_WORD) {
        Some((end, _)) => format!("{}…", &word[..end]),
        None => word.to_owned(),
    }
}

/// The nearest of some words, if one is near enough to be a slip of the finger.
pub(crate) fn nearest(word: &str, known: &[&'static str]) -> Option<&'static str> {
    // Comparing takes time in proportion to the length, and nobody meant one of ours by so long a word.
    if word.len() > LONGEST_WORD {
        return None;
    }
    let plain = |word: &str| word.to_ascii_lowercase().replace(['_', '-'], "");
    let wanted = plain(word);
    let near = |candidate: &&'static str| (strsim::damerau_levenshtein(&wanted, &plain(candidate)), *candidate);
    let (distance, nearest) = known.iter().map(near).min()?;
    (distance <= 1 + wanted.chars().count() / 5 && distance < nearest.len()).then_some(nearest)
}
