//! Estimates the size of a compiled regular expression from its text.

use std::iter::Peekable;
use std::str::Chars;

/// The weight of a class such as `\w`, which has hundreds of ranges in Unicode.
const CLASS_WEIGHT: u64 = 1_000;

/// Returns about how many states the pattern compiles to: counted repetitions multiply what they repeat.
pub(super) fn pattern_weight(pattern: &str) -> u64 {
    if ignores_spaces(pattern) {
        return u64::MAX;
    }
    // The weights of the open groups, outermost first, and that of the atom that a repetition would repeat.
    let mut groups = vec![0_u64];
    let mut atom = 0_u64;
    let mut rest = pattern.chars().peekable();
    while let Some(c) = rest.next() {
        let next = match c {
            '(' => {
                add(&mut groups, atom);
                groups.push(1);
                atom = 0;
                continue;
            }
            ')' if groups.len() > 1 => {
                add(&mut groups, atom);
                atom = groups.pop().unwrap_or_default();
                continue;
            }
            '{' => {
                let counts: String = rest.by_ref().take_while(|c| *c != '}').collect();
                let most = counts.split(',').filter_map(|count| count.trim().parse::<u64>().ok()).max();
                atom = atom.saturating_mul(most.unwrap_or(1).max(1));
                continue;
            }
            '\\' => escape(&mut rest),
            '[' => class(&mut rest),
            _ => 1,
        };
        add(&mut groups, atom);
        atom = next;
    }
    groups.iter().fold(atom, |sum, weight| sum.saturating_add(*weight))
}

/// Whether the pattern has the flag `x`, with which comments could hide parts from this estimate. JSON Schema's regular
/// expressions have no flags.
fn ignores_spaces(pattern: &str) -> bool {
    let flags = pattern.split("(?").skip(1).map(|rest| rest.split([')', ':']).next().unwrap_or_default());
    flags.into_iter().any(|flags| flags.contains('x') && flags.chars().all(|c| c.is_ascii_alphabetic() || c == '-'))
}

fn add(groups: &mut [u64], weight: u64) {
    if let Some(last) = groups.last_mut() {
        *last = last.saturating_add(weight);
    }
}

/// Returns the weight of an escape, with the name or the digits that belong to it.
fn escape(rest: &mut Peekable<Chars<'_>>) -> u64 {
    let Some(kind) = rest.next() else { return 1 };
    if matches!(kind, 'p' | 'P' | 'x' | 'u' | 'U') {
        if rest.next_if_eq(&'{').is_some() {
            rest.by_ref().take_while(|c| *c != '}').for_each(drop);
        } else if matches!(kind, 'p' | 'P') {
            rest.next();
        }
    }
    if matches!(kind, 'w' | 'W' | 'd' | 'D' | 's' | 'S' | 'p' | 'P' | 'b' | 'B') { CLASS_WEIGHT } else { 1 }
}

/// Returns the weight of a class in brackets, up to its end. Classes can be nested, and a bracket at the beginning is an
/// element.
fn class(rest: &mut Peekable<Chars<'_>>) -> u64 {
    // A negated class contains nearly everything.
    let mut weight = if rest.next_if_eq(&'^').is_some() { CLASS_WEIGHT } else { 1 };
    if rest.next_if_eq(&']').is_some() {
        weight += 1;
    }
    let mut depth = 1;
    while let Some(c) = rest.next() {
        match c {
            '[' => depth += 1,
            ']' if depth == 1 => break,
            ']' => depth -= 1,
            '\\' => weight += escape(rest),
            _ => weight += 1,
        }
    }
    weight
}

#[cfg(test)]
mod tests {
    use super::pattern_weight;

    #[test]
    fn nested_repetitions_multiply_and_those_in_a_row_add_up() {
        let uuid = "^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$";
        assert!(pattern_weight(uuid) < 500, "{}", pattern_weight(uuid));
        assert!(pattern_weight("^((a{100}){100}){100}$") > 1_000_000);
        assert!(pattern_weight(r"\w{1,255}") > 250_000);
        for heavy in [r"\pL{60}", r"\p{L}{60}", r"[\pL]{60}", r"[]\w]{60}", r"[[\w]a]{60}", "[^a]{60}"] {
            assert!(pattern_weight(heavy) >= 60_000, "{heavy}: {}", pattern_weight(heavy));
        }
        assert!(pattern_weight(r"^\u{41}{3}\x{42}$") < 20);
        assert_eq!(pattern_weight("(?x)(a # [\n){1000} # ]"), u64::MAX);
        assert!(pattern_weight("(?:x|y)(?<name>z)") < 20);
        assert_eq!(pattern_weight(&"(a{9999})".repeat(2)), 2 * 10_000);
        assert!(pattern_weight(&format!("{}a{}", "(".repeat(50), "){99999}".repeat(50))) == u64::MAX);
    }
}
