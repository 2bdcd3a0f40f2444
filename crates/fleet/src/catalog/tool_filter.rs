//! Selects and describes tools: filter, then override, then cap.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::Arc;

use wharf_config::{Pattern, ToolChoice, ToolNames};
use wharf_protocol::{cut, nearest};

/// The maximum length of descriptions and instructions in Unicode scalar values, with the mark of the cut.
pub(crate) const MAX_DESCRIPTION_CHARS: usize = 2048;

/// A [`ToolChoice`] that records which of its patterns matched a tool.
pub(super) struct ToolFilter<'a> {
    allowed: Option<Vec<TrackedPattern<'a>>>,
    rejected: Vec<TrackedPattern<'a>>,
    descriptions: Vec<(TrackedPattern<'a>, &'a str)>,
}

struct TrackedPattern<'a> {
    text: &'a str,
    pattern: Cow<'a, Pattern>,
    matched: bool,
}

impl<'a> TrackedPattern<'a> {
    fn of_filter(pattern: &'a Pattern) -> Self {
        Self { text: pattern.as_str(), pattern: Cow::Borrowed(pattern), matched: false }
    }

    fn of_description(text: &'a str) -> Self {
        Self { text, pattern: Cow::Owned(Pattern::new(text)), matched: false }
    }

    fn matches(&mut self, names: &ToolNames<'_>) -> bool {
        let matches = self.pattern.fits_tool(names);
        self.matched |= matches;
        matches
    }
}

impl<'a> ToolFilter<'a> {
    pub(super) fn new(choice: &'a ToolChoice) -> Self {
        let tracked = |patterns: &'a Vec<Pattern>| patterns.iter().map(TrackedPattern::of_filter).collect();
        let mut descriptions: Vec<_> = choice
            .descriptions
            .iter()
            .map(|(name, text)| (TrackedPattern::of_description(name), text.as_str()))
            .collect();
        // An exact name is more specific than a pattern.
        descriptions.sort_by_key(|(tracked, _)| !tracked.pattern.is_exact());
        Self { allowed: choice.allowed.as_ref().map(tracked), rejected: tracked(&choice.rejected), descriptions }
    }

    /// Whether a tool is used: it is allowed and not rejected.
    pub(super) fn selects(&mut self, names: &ToolNames<'_>) -> bool {
        // Every pattern is tried, so that those without a match are known.
        let any =
            |all: &mut Vec<TrackedPattern<'_>>| all.iter_mut().fold(false, |any, tracked| tracked.matches(names) | any);
        let allowed = self.allowed.as_mut().is_none_or(any);
        let rejected = any(&mut self.rejected);
        allowed && !rejected
    }

    /// Returns the description that overrides a tool's own.
    pub(super) fn description(&mut self, names: &ToolNames<'_>) -> Option<&'a str> {
        let mut found = None;
        for (tracked, text) in &mut self.descriptions {
            if tracked.matches(names) {
                found = found.or(Some(*text));
            }
        }
        found
    }

    /// Returns a message for each pattern that matched no tool; most of them are misspelled.
    pub(super) fn unused<'n>(&self, names: &(impl Iterator<Item = &'n str> + Clone)) -> BTreeSet<String> {
        let filters = self.allowed.iter().flatten().chain(&self.rejected).map(|tracked| (tracked, "tool filter"));
        let overrides = self.descriptions.iter().map(|(tracked, _)| (tracked, "description override"));
        let unused = filters.chain(overrides).filter(|(tracked, _)| !tracked.matched);
        unused
            .map(|(tracked, setting)| {
                let near = nearest(tracked.text, names.clone());
                let hint = near.map(|near| format!("; did you mean `{near}`?")).unwrap_or_default();
                format!("{setting} `{}` matches no tool{hint}", tracked.text)
            })
            .collect()
    }
}

/// Cuts a text to the maximum length; `None` if it is not longer.
pub(super) fn capped(text: &str) -> Option<Arc<str>> {
    cut(text, MAX_DESCRIPTION_CHARS).map(Into::into)
}
