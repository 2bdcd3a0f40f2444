//! The words of names, descriptions and queries, reduced to their stems.

use std::collections::{HashMap, HashSet};
use std::sync::LazyLock;

/// Words that say nothing about a tool.
const STOP_WORDS: &str = "a about all also an and any are as at be been but by can could do does for from given has have he her \
    how i if in into is it its let like may me my need not now of on one or our out over please she should so some than that the \
    their them then there these they this to up us use used using want was way we were why what when where which who will with would \
    you your";

/// Verbs and nouns that tools and users have several words for.
const SYNONYMS: [&str; 52] = [
    "delete remove erase drop destroy discard trash",
    "create add new make insert open",
    "list enumerate show browse all",
    "get fetch retrieve read view load show look",
    "search find query lookup locate",
    "update edit modify change set patch rewrite",
    "rename move",
    "send post publish notify tell",
    "write save store put",
    "message chat text conversation",
    "folder directory",
    "file document",
    "picture image screenshot photo snapshot capture",
    "page site website webpage url web",
    "repo repository project",
    "pull merge pr",
    "ticket issue bug",
    "run execute start launch trigger invoke",
    "stop kill terminate end cancel abort close",
    "click press tap",
    "type fill enter input",
    "database db",
    "table collection",
    "row record entry document",
    "email mail",
    "time clock hour pm date timezone",
    "place location address",
    "coordinates latitude longitude geocode",
    "route direction travel drive navigate way",
    "distance far kilometer mile",
    "error exception crash failure",
    "log output print console",
    "count number many total",
    "user person member people profile",
    "commit history",
    "compare diff difference",
    "undo reset revert rollback discard unstage",
    "comment reply note remark",
    "crawl scrape extract",
    "summary summarize overview",
    "cluster kubernetes k8s",
    "container pod",
    "answer solution fix",
    "link relation connect",
    "column field property schema",
    "slow fast performance speed",
    "copy duplicate clone fork",
    "big large size bytes",
    "approve reject accept review",
    "high height altitude elevation",
    "remember memory observation",
    "forget delete remove",
];

static STOPS: LazyLock<HashSet<&str>> = LazyLock::new(|| STOP_WORDS.split_whitespace().collect());

static SYNONYM_STEMS: LazyLock<HashMap<String, Vec<String>>> = LazyLock::new(|| {
    let mut stems: HashMap<String, Vec<String>> = HashMap::new();
    for group in SYNONYMS {
        let group: Vec<String> = group.split(' ').map(stem).collect();
        for (position, word) in group.iter().enumerate() {
            let others = group.iter().enumerate().filter(|(other, _)| *other != position);
            stems.entry(word.clone()).or_default().extend(others.map(|(_, other)| other.clone()));
        }
    }
    stems
});

/// Returns the stems of words that may mean the same.
pub(super) fn synonyms(stem: &str) -> &'static [String] {
    SYNONYM_STEMS.get(stem).map_or(&[], Vec::as_slice)
}

/// Calls `each` with the stem of each word of a text. `camelCase` and `snake_case` names are several words.
pub(super) fn for_each_stem(text: &str, mut each: impl FnMut(String)) {
    let mut word = String::new();
    let mut letters = text.chars().peekable();
    let mut before = None::<char>;
    let mut end = |word: &mut String| {
        if !word.is_empty() && !STOPS.contains(word.as_str()) {
            each(stem(word));
        }
        word.clear();
    };
    while let Some(letter) = letters.next() {
        if letter.is_alphanumeric() {
            let was_small = before.is_some_and(|before| before.is_lowercase() || before.is_numeric());
            let mut begins_word = || letters.peek().is_some_and(|next| next.is_lowercase());
            let was_capital = before.is_some_and(char::is_uppercase);
            if letter.is_uppercase() && (was_small || (was_capital && begins_word())) {
                end(&mut word);
            }
            word.extend(letter.to_lowercase());
        } else {
            end(&mut word);
        }
        before = Some(letter);
    }
    end(&mut word);
}

/// Reduces a word in small letters to its stem: without the endings of English nouns and verbs.
fn stem(word: &str) -> String {
    if !word.is_ascii() || word.len() < 4 {
        return word.to_owned();
    }
    let singular = match word {
        word if word.ends_with("ies") && word.len() > 4 => format!("{}y", &word[..word.len() - 3]),
        word if ["sses", "xes", "ches", "shes"].iter().any(|end| word.ends_with(end)) => {
            word[..word.len() - 2].to_owned()
        }
        word if word.ends_with('s') && !["ss", "us", "is"].iter().any(|end| word.ends_with(end)) => {
            word[..word.len() - 1].to_owned()
        }
        word => word.to_owned(),
    };
    let without = |ending: &str, least: usize| singular.strip_suffix(ending).filter(|rest| rest.len() >= least);
    let root = without("ing", 3).or_else(|| without("ed", 3)).or_else(|| without("ion", 4)).unwrap_or(&singular);
    let root = root.strip_suffix('e').filter(|rest| rest.len() >= 3).unwrap_or(root);
    // `running` and `run`, `planned` and `plan`.
    let letters = root.as_bytes();
    let is_doubled =
        root.len() < singular.len() && letters.len() > 3 && letters[letters.len() - 1] == letters[letters.len() - 2];
    let is_doubled = is_doubled && !matches!(letters[letters.len() - 1], b'l' | b's' | b'e');
    root[..root.len() - usize::from(is_doubled)].to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stems(text: &str) -> String {
        let mut stems = Vec::new();
        for_each_stem(text, |stem| stems.push(stem));
        stems.join(" ")
    }

    #[test]
    fn names_and_sentences_have_the_same_words() {
        assert_eq!(stems("getHTTPResponse list_k8s-pods"), "get http respons list k8s pod");
        assert_eq!(stems("Creates and deleted; creating, deletion of queries"), "creat delet creat delet query");
        assert_eq!(stems("running runs run planned boxes statuses"), "run run run plan box status");
        assert_eq!(stems("Ünïcode 日本語 é"), "ünïcode 日本語 é");
    }
}
