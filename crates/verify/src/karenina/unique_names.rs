//! Names that must be unique: those that repeat get a number.

use std::collections::{BTreeSet, HashMap};

/// The longest part of a name that a number is added to, in characters.
const MAX_NUMBERED_CHARS: usize = 100;

/// The names so far.
#[derive(Default)]
pub(super) struct UniqueNames {
    taken: BTreeSet<String>,
    /// The last number of each name: a file may repeat one very often.
    numbers: HashMap<String, usize>,
}

impl UniqueNames {
    /// Returns the name, or one with the next free number after `separator`.
    pub(super) fn take(&mut self, wanted: &str, separator: char) -> String {
        if self.taken.insert(wanted.to_owned()) {
            return wanted.to_owned();
        }
        let short: String = wanted.chars().take(MAX_NUMBERED_CHARS).collect();
        let number = self.numbers.entry(short.clone()).or_insert(1);
        loop {
            *number += 1;
            let name = format!("{short}{separator}{number}");
            if self.taken.insert(name.clone()) {
                return name;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_repeats_gets_the_next_free_number() {
        let mut names = UniqueNames::default();
        let taken: Vec<String> =
            ["a", "a-2", "a", "a", "b", "a"].into_iter().map(|name| names.take(name, '-')).collect();
        assert_eq!(taken, ["a", "a-2", "a-3", "a-4", "b", "a-5"]);
        let long = "x".repeat(300);
        assert_eq!(names.take(&long, ' '), long);
        assert_eq!(names.take(&long, ' '), format!("{} 2", "x".repeat(100)));
    }

    #[test]
    fn a_name_that_repeats_very_often_takes_no_long_time() {
        let mut names = UniqueNames::default();
        for _ in 0..100_000 {
            names.take("a", '-');
        }
        assert_eq!(names.take("a", '-'), "a-100001");
    }
}
