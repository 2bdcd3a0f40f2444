//! "Did you mean": finds the known name that is most similar to an unknown one.

/// Longer names are not typing errors, and comparing them takes time that grows with the square of their length.
const MAX_NAME_BYTES: usize = 128;

/// Returns the name that `wanted` is a misspelling of: the one with the fewest typing errors, if they are few for the
/// length of the name. Case, `_` and `-` do not matter. Among equally similar names the first in the alphabet is returned.
pub fn nearest<'a>(wanted: &str, names: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    if wanted.len() > MAX_NAME_BYTES {
        return None;
    }
    let wanted = normalize(wanted);
    let length = wanted.chars().count();
    let max_distance = 1 + length / 5;
    let distance = |name: &str| {
        let name = normalize(name);
        let name_length = name.chars().count();
        // The distance is at least the difference of the lengths.
        if name_length.abs_diff(length) > max_distance {
            return None;
        }
        let distance = strsim::damerau_levenshtein(&wanted, &name);
        (distance <= max_distance && distance < name_length).then_some(distance)
    };
    names.into_iter().filter_map(|name| Some((distance(name)?, name))).min().map(|(_, name)| name)
}

fn normalize(name: &str) -> String {
    name.to_lowercase().replace(['_', '-'], "")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_similar_name_is_suggested_and_a_different_one_is_not() {
        let names = ["git_status", "git_log", "echo"];
        assert_eq!(nearest("gitlog", names), Some("git_log"));
        assert_eq!(nearest("Echo", names), Some("echo"));
        assert_eq!(nearest("ecko", names), Some("echo"));
        assert_eq!(nearest("git_satus", names), Some("git_status"));
        assert_eq!(nearest("weather", names), None);
        assert_eq!(nearest("", names), None);
        assert_eq!(nearest("echo", []), None);
    }

    #[test]
    fn longer_names_may_have_more_errors() {
        assert_eq!(nearest("ad", ["add"]), Some("add"));
        assert_eq!(nearest("dmeo", ["demo"]), Some("demo"));
        assert_eq!(nearest("guthib", ["github"]), Some("github"));
        assert_eq!(nearest("mod", ["add"]), None);
        assert_eq!(nearest("x", ["y"]), None);
    }

    #[test]
    fn the_first_in_the_alphabet_of_equally_similar_names_is_suggested() {
        assert_eq!(nearest("tool", ["tool2", "tool1"]), Some("tool1"));
    }

    #[test]
    fn a_very_long_name_gets_no_suggestion() {
        let long = "a".repeat(MAX_NAME_BYTES + 1);
        assert_eq!(nearest(&long, [long.as_str()]), None);
    }
}
