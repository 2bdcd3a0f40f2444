//! Estimates from a regular expression's text how large it becomes when it is compiled.
//!
//! jsonschema translates a pattern for the crate `regex` before it is compiled. The estimate follows both, so that no
//! text means less here than there: an estimate that is too low would let a server occupy a thread and its memory.

use std::iter::Peekable;
use std::ops::{Add, AddAssign};
use std::str::Chars;

/// What every pattern takes besides its states: the compiled expression's own memory, and the choice of a strategy.
const PATTERN_STATES: u64 = 100;
/// What a class or a group takes besides its states, however often it is repeated: `regex` looks for literals in each.
const SEARCHED_STATES: u64 = 60;
/// The states of any character, in UTF-8.
const ANY_STATES: u64 = 10;
/// The states of the largest class of Unicode.
const UNICODE_STATES: u64 = 400;
/// The work per byte of a class of Unicode. It has many ranges, but few of its states are active at the same time.
const UNICODE_STEPS: u64 = 100;

/// Each translated escape is followed by another pass over the pattern. So many characters of it take as long as a state.
const TRANSLATED_PER_STATE: u64 = 4;

/// The size of a compiled pattern.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct PatternWeight {
    /// How many states it compiles to, or the time for as many.
    pub(super) states: u64,
    /// The work for each byte of a text: how many states can be active at the same time.
    pub(super) steps: u64,
}

impl PatternWeight {
    const fn of(states: u64, steps: u64) -> Self {
        Self { states, steps }
    }

    fn times(self, times: u64) -> Self {
        Self::of(self.states.saturating_mul(times), self.steps.saturating_mul(times))
    }
}

impl Add for PatternWeight {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self::of(self.states.saturating_add(other.states), self.steps.saturating_add(other.steps))
    }
}

impl AddAssign for PatternWeight {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

/// Returns the size of a pattern: counted repetitions multiply what they repeat.
pub(super) fn pattern_weight(pattern: &str) -> PatternWeight {
    // Comments could hide parts from this estimate. JSON Schema's regular expressions have no flags.
    if has_flag(pattern, 'x') {
        return PatternWeight::of(u64::MAX, u64::MAX);
    }
    let mut scanner = Scanner {
        rest: pattern.chars().peekable(),
        ignores_case: has_flag(pattern, 'i'),
        bracket_is_escaped: false,
        searched: 0,
        translations: 0,
    };
    let weight = scanner.pattern();
    let translated = scanner.translations.saturating_mul(pattern.len() as u64) / TRANSLATED_PER_STATE;
    let fixed = scanner.searched.saturating_mul(SEARCHED_STATES).saturating_add(translated);
    weight + PatternWeight::of(PATTERN_STATES.saturating_add(fixed), 0)
}

/// Whether the pattern has a flag anywhere.
fn has_flag(pattern: &str, flag: char) -> bool {
    let flags = pattern.split("(?").skip(1).map(|rest| rest.split([')', ':']).next().unwrap_or_default());
    flags.into_iter().any(|flags| flags.contains(flag) && flags.chars().all(|c| c.is_ascii_alphabetic() || c == '-'))
}

struct Scanner<'a> {
    rest: Peekable<Chars<'a>>,
    ignores_case: bool,
    /// Whether the translation is inside a class, where it escapes every opening bracket. It takes `[]` for a whole
    /// class, and `regex` takes it for the beginning of one.
    bracket_is_escaped: bool,
    /// The number of classes and groups.
    searched: u64,
    /// The number of escapes that are translated.
    translations: u64,
}

impl Scanner<'_> {
    fn pattern(&mut self) -> PatternWeight {
        const GROUP: PatternWeight = PatternWeight::of(3, 1);
        const REPETITION: PatternWeight = PatternWeight::of(2, 1);
        // The weights of the open groups, outermost first, and that of the atom that a repetition would repeat.
        let mut groups = vec![PatternWeight::default()];
        let mut atom = PatternWeight::default();
        while let Some(c) = self.rest.next() {
            let next = match c {
                '(' => {
                    self.searched += 1;
                    add(&mut groups, atom);
                    groups.push(GROUP);
                    atom = PatternWeight::default();
                    continue;
                }
                ')' if groups.len() > 1 => {
                    add(&mut groups, atom);
                    atom = groups.pop().unwrap_or_default();
                    continue;
                }
                '{' => {
                    let counts: String = self.rest.by_ref().take_while(|c| *c != '}').collect();
                    let most = counts.split(',').filter_map(|count| count.trim().parse::<u64>().ok()).max();
                    atom = (atom + REPETITION).times(most.unwrap_or(1).max(1));
                    continue;
                }
                // What they repeat can be repeated again.
                '*' | '+' | '?' => {
                    atom += REPETITION;
                    continue;
                }
                '.' => PatternWeight::of(ANY_STATES, 2),
                '\\' => self.escape(),
                '[' => self.class(),
                _ => self.literal(c),
            };
            add(&mut groups, atom);
            atom = next;
        }
        groups.into_iter().fold(atom, PatternWeight::add)
    }

    /// Returns the weight of a character. Without case, it is a class of up to four characters.
    fn literal(&mut self, c: char) -> PatternWeight {
        let states = match (self.ignores_case, c.is_ascii()) {
            (true, true) if c.is_ascii_alphabetic() => 4,
            (true, false) => 16,
            _ => c.len_utf8() as u64,
        };
        if self.ignores_case && c.is_alphabetic() {
            self.searched += 1;
        }
        PatternWeight::of(states, states)
    }

    /// Returns the weight of an escape, with the name or the digits that belong to it.
    fn escape(&mut self) -> PatternWeight {
        let Some(kind) = self.rest.next() else { return PatternWeight::of(1, 1) };
        match kind {
            'p' | 'P' => {
                if self.rest.next_if_eq(&'{').is_some() {
                    self.rest.by_ref().take_while(|c| *c != '}').for_each(drop);
                } else {
                    self.rest.next();
                }
                self.searched += 1;
                // Every range is searched for other cases.
                let times = if self.ignores_case { 4 } else { 1 };
                PatternWeight::of(UNICODE_STATES, UNICODE_STEPS).times(times)
            }
            'x' => self.digits(2),
            'u' => self.digits(4),
            'U' => self.digits(8),
            'c' => {
                self.translations += 1;
                self.rest.next();
                PatternWeight::of(1, 1)
            }
            'w' | 'd' | 'W' | 'D' | 's' | 'S' => {
                self.translations += 1;
                self.searched += 1;
                let weight = match kind {
                    'w' | 'd' => PatternWeight::of(2, 4),
                    'W' | 'D' => PatternWeight::of(12, 12),
                    _ => PatternWeight::of(20, 20),
                };
                weight.times(if self.ignores_case { 3 } else { 1 })
            }
            'b' | 'B' => PatternWeight::of(1, 10),
            _ => self.literal(kind),
        }
    }

    /// Returns the weight of a character that is written as a number.
    fn digits(&mut self, most: usize) -> PatternWeight {
        if self.rest.next_if_eq(&'{').is_some() {
            self.rest.by_ref().take_while(|c| *c != '}').for_each(drop);
        } else {
            (0..most).take_while(|_| self.rest.next_if(char::is_ascii_hexdigit).is_some()).for_each(drop);
        }
        self.literal(char::REPLACEMENT_CHARACTER) + PatternWeight::of(1, 1)
    }

    /// Returns the weight of a class in brackets, up to its end.
    fn class(&mut self) -> PatternWeight {
        // The trie of the first and the last characters of all ranges, in UTF-8, and the states for all others.
        const BOUNDARY: PatternWeight = PatternWeight::of(4, 1);
        const OTHERS: PatternWeight = PatternWeight::of(ANY_STATES, 10);
        // Adding other cases can split a range into many.
        const BOUNDARY_OF_ALL_CASES: PatternWeight = PatternWeight::of(100, 10);
        self.searched += 1;
        self.bracket_is_escaped = true;
        let mut weight = PatternWeight::of(1, 1);
        let mut is_wide = self.rest.next_if_eq(&'^').is_some();
        let mut depth = 1;
        let mut is_first = true;
        while let Some(c) = self.rest.next() {
            match c {
                '[' if !self.bracket_is_escaped => {
                    self.bracket_is_escaped = true;
                    depth += 1;
                    is_wide |= self.rest.next_if_eq(&'^').is_some();
                    is_first = true;
                    continue;
                }
                ']' => {
                    self.bracket_is_escaped = false;
                    if !is_first {
                        depth -= 1;
                        if depth == 0 {
                            break;
                        }
                    }
                    weight += PatternWeight::of(1, 1);
                }
                '\\' => {
                    let kind = self.rest.peek().copied();
                    is_wide |= !matches!(kind, Some('d' | 'w'));
                    weight += self.escape();
                    if self.ignores_case && matches!(kind, Some('x' | 'u' | 'U')) {
                        weight += BOUNDARY_OF_ALL_CASES;
                    }
                }
                _ if c.is_ascii() => weight += PatternWeight::of(if self.ignores_case { 4 } else { 1 }, 1),
                _ => {
                    is_wide = true;
                    weight += if self.ignores_case { BOUNDARY_OF_ALL_CASES } else { BOUNDARY };
                }
            }
            is_first = false;
        }
        if is_wide { weight + OTHERS } else { weight }
    }
}

fn add(groups: &mut [PatternWeight], weight: PatternWeight) {
    if let Some(last) = groups.last_mut() {
        *last += weight;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn states(pattern: &str) -> u64 {
        pattern_weight(pattern).states
    }

    #[test]
    fn an_estimate_is_never_below_the_states_of_the_compiled_pattern() {
        // Counted by the compiler of `regex-automata` 0.4.18, after the translation by jsonschema 0.60.2.
        let compiled = [
            (".{3000}0", 24_018),
            ("(a|.){700}", 8_409),
            ("(?i)[a-z]{900}", 3_605),
            ("(?i)k{900}", 2_705),
            ("(?i)θ{100}", 305),
            ("(?i)(straße|foo){300}", 4_805),
            ("(?i)[Ā-ɏ]{10}", 95),
            (r"(?i)\S{100}", 1_705),
            ("[a-z]{900}", 905),
            ("[\u{100}-\u{10ffff}]{800}", 6_405),
            (r"[\u0100-\U0010ffff]{800}", 6_405),
            ("[\u{801}-\u{10fffe}]{100}", 1_105),
            (r"[\x{100}\x{200}\x{3000}\x{20000}]{100}", 405),
            ("[^a]{60}", 485),
            ("[^ĀĂ]{100}", 905),
            (r"\pL{60}N", 17_919),
            (r"[\pL]{60}", 17_918),
            (r"(?i)\pL{20}", 5_973),
            (r"\p{Gr_Base}{10}", 3_437),
            (r"\p{Cn}{10}", 3_117),
            (r"\P{Greek}{100}", 2_705),
            (r"\w{900}", 905),
            (r"(?i)\w{100}", 405),
            (r"\s{900}", 9_005),
            (r"\S{900}", 15_314),
            (r"\D{900}", 7_205),
            ("é{900}", 1_805),
            ("(a?){900}", 3_605),
            ("(a*)*{300}", 1_805),
        ];
        for (pattern, compiled) in compiled {
            assert!(states(pattern) >= compiled, "{pattern}: {} < {compiled}", states(pattern));
            assert!(states(pattern) < 30 * compiled, "{pattern}: {} > 30 * {compiled}", states(pattern));
        }
    }

    #[test]
    fn nested_repetitions_multiply_and_those_in_a_row_add_up() {
        assert!(states("^((a{100}){100}){100}$") > 1_000_000);
        assert!(states("(a{1000})?{1000}") > 1_000_000, "what is repeated once can be repeated again");
        assert!(states("(a{1000})+{1000}") > 1_000_000);
        assert!(states(&"(a{9999})".repeat(2)) > 2 * 10_000);
        assert_eq!(states(&format!("{}a{}", "(".repeat(50), "){99999}".repeat(50))), u64::MAX);
        assert_eq!(states("(?x)(a # [\n){1000} # ]"), u64::MAX);
    }

    #[test]
    fn a_class_ends_where_the_translated_pattern_ends_it() {
        for heavy in ["[[](.{1000}){1000}]", "[[a](.{1000}){1000}]", "[^[](.{1000}){1000}]", r"[\][](.{1000}){1000}]"] {
            assert!(states(heavy) > 1_000_000, "{heavy}: {}", states(heavy));
        }
        for light in ["[]{9999999}]", "[^]{9999999}]", "[][{9999999}]]", "[[{9999999}]"] {
            assert!(states(light) < 1_000, "{light}: {}", states(light));
        }
    }

    #[test]
    fn every_translated_escape_takes_another_pass() {
        for escape in [r"\d", r"\cA", r"[\s]"] {
            let (short, long) = (states(&escape.repeat(100)), states(&escape.repeat(10_000)));
            assert!(long > 1_000 * short || long > 10_000_000, "{escape}: {short}, {long}");
        }
        assert!(states(&"[01]".repeat(10_000)) > 500_000);
    }

    #[test]
    fn ordinary_patterns_are_light() {
        let uuid = "^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$";
        let date = r"^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(\.\d+)?(Z|[+-]\d{2}:\d{2})$";
        let email = r"^[\w.!#$%&'*+/=?^`{|}~-]+@[a-zA-Z0-9-]+(?:\.[a-zA-Z0-9-]+)*$";
        for pattern in [uuid, date, email, "^.{1,100}$", r"^\w{1,255}$", r"^\S+$", r"^\u{41}{3}\x{42}$"] {
            assert!(states(pattern) < 2_500, "{pattern}: {}", states(pattern));
            assert!(pattern_weight(pattern).steps < 2_500, "{pattern}: {}", pattern_weight(pattern).steps);
        }
        // The largest that are likely: any letters and digits up to a common limit.
        assert!(states(r"^[\p{L}\p{N} ]{1,255}$") < 250_000);
    }
}
