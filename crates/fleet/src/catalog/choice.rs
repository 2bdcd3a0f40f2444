//! Which tools are used and how they are described: filter, then override, then cap.

use std::borrow::Cow;
use std::collections::HashSet;
use std::sync::Arc;

use wharf_config::ToolChoice;
use wharf_config::{Pattern, ToolNames};
use wharf_protocol::{cut, nearest};

/// The longest description or instructions, in Unicode scalar values, with the mark of a cut.
pub(crate) const LONGEST: usize = 2048;

/// A choice, ready to be applied, and what of it has been of use.
pub(super) struct Chooser<'a> {
    allowed: Option<Vec<Wanted<'a>>>,
    rejected: Vec<Wanted<'a>>,
    descriptions: Vec<(Wanted<'a>, &'a str)>,
}

struct Wanted<'a> {
    written: &'a str,
    pattern: Cow<'a, Pattern>,
    fitted: bool,
}

impl<'a> Wanted<'a> {
    fn filter(pattern: &'a Pattern) -> Self {
        Self { written: pattern.as_str(), pattern: Cow::Borrowed(pattern), fitted: false }
    }

    fn described(written: &'a str) -> Self {
        Self { written, pattern: Cow::Owned(Pattern::new(written)), fitted: false }
    }

    fn fits(&mut self, named: &ToolNames<'_>) -> bool {
        let fits = self.pattern.fits_tool(named);
        self.fitted |= fits;
        fits
    }
}

impl<'a> Chooser<'a> {
    pub(super) fn new(choice: &'a ToolChoice) -> Self {
        let wanted = |names: &'a Vec<Pattern>| names.iter().map(Wanted::filter).collect();
        let mut descriptions: Vec<_> =
            choice.descriptions.iter().map(|(name, words)| (Wanted::described(name), words.as_str())).collect();
        // A name says more than a pattern.
        descriptions.sort_by_key(|(wanted, _)| !wanted.pattern.is_exact());
        Self { allowed: choice.allowed.as_ref().map(wanted), rejected: wanted(&choice.rejected), descriptions }
    }

    /// Whether a tool is used: among the allowed first, and not among the rejected then.
    pub(super) fn takes(&mut self, named: &ToolNames<'_>) -> bool {
        // Each is tried, so that those that fit nothing can be told.
        let any = |all: &mut Vec<Wanted<'_>>| all.iter_mut().fold(false, |any, wanted| wanted.fits(named) | any);
        let allowed = self.allowed.as_mut().is_none_or(any);
        let rejected = any(&mut self.rejected);
        allowed && !rejected
    }

    /// Other words for a tool.
    pub(super) fn description(&mut self, named: &ToolNames<'_>) -> Option<&'a str> {
        let mut found = None;
        for (wanted, words) in &mut self.descriptions {
            if wanted.fits(named) {
                found = found.or(Some(*words));
            }
        }
        found
    }

    /// Names that fit no tool: most of them are slips.
    pub(super) fn unused<'n>(&self, names: &(impl Iterator<Item = &'n str> + Clone)) -> Vec<String> {
        let filters =
            self.allowed.iter().flatten().chain(&self.rejected).map(|wanted| (wanted, "the tool filter names"));
        let overrides = self.descriptions.iter().map(|(wanted, _)| (wanted, "a description is given for"));
        let unused = filters.chain(overrides).filter(|(wanted, _)| !wanted.fitted);
        let told: HashSet<String> = unused
            .map(|(wanted, said)| {
                let near = nearest(wanted.written, names.clone());
                let near = near.map(|near| format!("; did you mean `{near}`?")).unwrap_or_default();
                format!("{said} `{}`, which is no tool here{near}", wanted.written)
            })
            .collect();
        let mut told: Vec<String> = told.into_iter().collect();
        told.sort_unstable();
        told
    }
}

/// A text cut to what is allowed; `None` if it is no longer than that.
pub(super) fn capped(text: &str) -> Option<Arc<str>> {
    cut(text, LONGEST).map(Into::into)
}
