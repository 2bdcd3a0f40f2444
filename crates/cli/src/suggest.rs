//! "Did you mean": the most similar name.

/// Returns the name most similar to `wanted`, if one is similar enough.
pub(crate) fn nearest<'a>(wanted: &str, names: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let scored =
        names.into_iter().map(|name| (strsim::jaro_winkler(&wanted.to_lowercase(), &name.to_lowercase()), name));
    let best = scored.max_by(|one, two| one.0.total_cmp(&two.0));
    best.filter(|(score, _)| *score > 0.75).map(|(_, name)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_similar_name_is_suggested_and_a_different_one_is_not() {
        let names = ["git_status", "git_log", "echo"];
        assert_eq!(nearest("gitlog", names), Some("git_log"));
        assert_eq!(nearest("Echo", names), Some("echo"));
        assert_eq!(nearest("weather", names), None);
    }
}
