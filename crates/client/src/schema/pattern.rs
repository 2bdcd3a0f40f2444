//! Estimates the size of a compiled regular expression from its text.

/// The weight of a class such as `\w`, which has hundreds of ranges in Unicode.
const CLASS_WEIGHT: u64 = 100;

/// Returns about how many states the pattern compiles to: counted repetitions multiply what they repeat.
pub(super) fn pattern_weight(pattern: &str) -> u64 {
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
            '\\' => match rest.next() {
                Some('w' | 'W' | 'd' | 'D' | 's' | 'S' | 'p' | 'P' | 'b' | 'B') => CLASS_WEIGHT,
                _ => 1,
            },
            '[' => class(&mut rest),
            _ => 1,
        };
        add(&mut groups, atom);
        atom = next;
    }
    groups.iter().fold(atom, |sum, weight| sum.saturating_add(*weight))
}

fn add(groups: &mut [u64], weight: u64) {
    if let Some(last) = groups.last_mut() {
        *last = last.saturating_add(weight);
    }
}

/// Returns the weight of a class in brackets, up to its end.
fn class(rest: &mut impl Iterator<Item = char>) -> u64 {
    let mut weight = 1;
    while let Some(c) = rest.next() {
        match c {
            ']' => break,
            '\\' if matches!(rest.next(), Some('w' | 'W' | 'd' | 'D' | 's' | 'S' | 'p' | 'P')) => {
                weight += CLASS_WEIGHT;
            }
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
        assert!(pattern_weight(r"\w{1,255}") > 25_000);
        assert_eq!(pattern_weight(&"(a{9999})".repeat(2)), 2 * 10_000);
        assert!(pattern_weight(&format!("{}a{}", "(".repeat(50), "){99999}".repeat(50))) == u64::MAX);
    }
}
