//! "Did you mean": the nearest of the names there are.

/// How alike two names have to be for one to have been meant.
const ALIKE: f64 = 0.8;

/// The name nearest to `wanted`, if one is near enough to have been meant.
pub(crate) fn nearest<'a>(wanted: &str, names: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let wanted = wanted.to_lowercase();
    let scored = names.map(|name| (strsim::jaro_winkler(&wanted, &name.to_lowercase()), name));
    let best = scored.max_by(|one, two| one.0.total_cmp(&two.0));
    best.filter(|(score, _)| *score > ALIKE).map(|(_, name)| name)
}
