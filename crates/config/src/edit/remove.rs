//! Removes one item from an object or a list, with its comma and its line and nothing else. Comments stay: one beside the
//! item may be about something else.

use std::ops::Range;

use jsonc_parser::ast::{Object, Value};
use jsonc_parser::common::Ranged;
use jsonc_parser::{CollectOptions, parse_to_ast};

use crate::entry_name::means;
use crate::jsonc::parse_options;

/// Removes a key from the object at `path`; returns `None` if the key does not exist.
pub(super) fn key(text: &str, path: &[&str], name: &str) -> Option<String> {
    let parsed = parse_to_ast(text, &CollectOptions::default(), &parse_options()).ok()?;
    let object = object(parsed.value.as_ref()?, path)?;
    let index = object.properties.iter().position(|property| property.name.as_str() == name)?;
    let items: Vec<_> = object.properties.iter().map(span).collect();
    Some(remove(text, &items, index))
}

/// Removes the name of a server from a top-level list; returns `None` if the list does not contain it.
pub(super) fn item(text: &str, list: &str, server: &str) -> Option<String> {
    let parsed = parse_to_ast(text, &CollectOptions::default(), &parse_options()).ok()?;
    let list = parsed.value.as_ref()?.as_object()?.get_array(list)?;
    let is_server = |item: &Value<'_>| item.as_string_lit().is_some_and(|literal| means(&literal.value, server));
    let index = list.elements.iter().position(is_server)?;
    let items: Vec<_> = list.elements.iter().map(span).collect();
    Some(remove(text, &items, index))
}

fn object<'a>(value: &'a Value<'a>, path: &[&str]) -> Option<&'a Object<'a>> {
    let object = value.as_object()?;
    match path.split_first() {
        Some((first, rest)) => self::object(&object.get(first)?.value, rest),
        None => Some(object),
    }
}

fn span(item: &impl Ranged) -> Range<usize> {
    item.start()..item.end()
}

fn remove(text: &str, items: &[Range<usize>], index: usize) -> String {
    let item = items[index].clone();
    let own_comma = comma_after(text, item.end);
    let comma_before = index.checked_sub(1).and_then(|previous| comma_after(text, items[previous].end));
    let (removed, other_comma) = match (own_comma, comma_before) {
        (Some(comma), _) if text[item.end..comma].trim().is_empty() => (with_line(text, item.start..comma + 1), None),
        (Some(comma), _) => (with_line(text, item), Some(comma)),
        // The last item is removed with the comma before it and the space between.
        (None, Some(comma)) if text[comma + 1..item.start].trim().is_empty() => (comma..item.end, None),
        (None, comma) => (with_line(text, item), comma),
    };
    // From the end to the beginning, so that offsets stay valid.
    let mut ranges: Vec<_> = other_comma.map(|comma| comma..comma + 1).into_iter().chain([removed]).collect();
    ranges.sort_unstable_by_key(|range| std::cmp::Reverse(range.start));
    let mut left = text.to_owned();
    for range in ranges {
        left.replace_range(range, "");
    }
    left
}

/// Extends a range to the whole line if nothing else is on it, otherwise by the spaces after it.
fn with_line(text: &str, removed: Range<usize>) -> Range<usize> {
    let line = text[..removed.start].rfind('\n').map_or(0, |newline| newline + 1);
    let rest = &text[removed.end..];
    let spaces = rest.len() - rest.trim_start_matches([' ', '\t']).len();
    let line_end = rest.find('\n').filter(|newline| rest[..*newline].trim().is_empty());
    match line_end {
        Some(newline) if text[line..removed.start].trim().is_empty() => line..removed.end + newline + 1,
        Some(_) => removed,
        None => removed.start..removed.end + spaces,
    }
}

/// Returns the offset of the comma after an item, past spaces and comments.
fn comma_after(text: &str, from: usize) -> Option<usize> {
    let mut at = from;
    loop {
        let rest = &text[at..];
        let trimmed = rest.trim_start();
        at += rest.len() - trimmed.len();
        if trimmed.starts_with(',') {
            return Some(at);
        } else if trimmed.starts_with("//") {
            at += trimmed.find('\n')?;
        } else if trimmed.starts_with("/*") {
            at += trimmed.find("*/")? + 2;
        } else {
            return None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, name: &str, left: &str) {
        assert_eq!(key(text, &[], name).as_deref(), Some(left), "{text}");
    }

    #[test]
    fn a_key_is_removed_with_its_comma_and_its_line() {
        check("{\n  \"a\": 1,\n  \"b\": 2\n}", "a", "{\n  \"b\": 2\n}");
        check("{\n  \"a\": 1,\n  \"b\": 2\n}", "b", "{\n  \"a\": 1\n}");
        check("{\n  \"a\": 1,\n  \"b\": 2,\n}", "b", "{\n  \"a\": 1,\n}");
        check("{\"a\": 1, \"b\": 2}", "a", "{\"b\": 2}");
        check("{\"a\": 1, \"b\": 2}", "b", "{\"a\": 1}");
        check("{\r\n  \"a\": 1\r\n}", "a", "{\r\n}");
        check("{\"a\": 1}", "a", "{}");
    }

    #[test]
    fn comments_stay() {
        check("{\n  // one\n  \"a\": 1, // two\n  \"b\": 2\n}", "a", "{\n  // one\n  // two\n  \"b\": 2\n}");
        check("{\"a\": 1 /* x, */, \"b\": 2}", "a", "{/* x, */ \"b\": 2}");
        check("{\"a\": 1, /* y */ \"b\": 2}", "b", "{\"a\": 1 /* y */ }");
        check("{\"a\": 1 // z\n, \"b\": 2}", "b", "{\"a\": 1 // z\n}");
    }

    #[test]
    fn names_are_compared_after_unescaping() {
        check(r#"{"\u0061": 1}"#, "a", "{}");
        assert_eq!(key("{}", &[], "a"), None);
        assert_eq!(key("{\"x\": []}", &["x"], "a"), None);
        assert_eq!(item("{\"l\": [\"a\", /* why */ \"b\"]}", "l", "b").as_deref(), Some("{\"l\": [\"a\" /* why */ ]}"));
    }
}
