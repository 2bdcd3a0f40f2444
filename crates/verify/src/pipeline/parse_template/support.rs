//! Deep judgment of a template: excerpts for each field, then the reasoning from them.

use crate::evaluation::{DeepJudgmentOptions, DeepTemplate};
use crate::evidence::{Excerpt, ExcerptRules, Subject};
use crate::judge_prompt::EvidenceItem;
use crate::pipeline::context::UnitContext;
use crate::pipeline::deep_judgment::{Evidence, NoEvidence, Supported, excerpts_text};
use crate::template::Template;

/// What the judge found before it fills the template.
pub(super) struct Support {
    /// The excerpts and the reasoning, for the judge.
    pub(super) notes: String,
    /// The fields that need an excerpt and have none.
    pub(super) without_excerpt: Vec<String>,
}

/// Lets the judge support the fields. `None` if it fills the template directly.
pub(super) async fn collect(
    unit: &mut UnitContext,
    evidence: &Evidence<'_>,
    template: &Template,
) -> Result<Option<Support>, NoEvidence> {
    let options = unit.trial.evaluation.deep_judgment;
    if options.template == DeepTemplate::Disabled {
        return Ok(None);
    }
    let supported: Vec<Supported> = template
        .judged_fields()
        .map(|field| Supported {
            item: EvidenceItem { key: field.name.clone(), description: field.judge_description() },
            subject: Subject::Attribute(super::of_turn(evidence.turn, &field.name)),
        })
        .collect();
    let excerpts: Option<Vec<Excerpt>> = match options.template {
        DeepTemplate::Full => Some(evidence.collect(unit, &supported, rules(&options)).await?),
        DeepTemplate::ReasoningOnly | DeepTemplate::Disabled => None,
    };
    let reasoning = evidence.reasoning(unit, &supported, excerpts.as_deref()).await?;
    let lines = supported.iter().zip(reasoning).map(|(of, text)| format!("{}: {}", of.item.key, text.trim()));
    let reasoning = lines.collect::<Vec<_>>().join("\n");
    let mut notes = format!("Reasoning\n{reasoning}");
    let mut without_excerpt = Vec::new();
    if let Some(excerpts) = excerpts {
        notes = format!("Excerpts\n{}\n\n{notes}", excerpts_text(&supported, &excerpts));
        let subjects = unit.keep_excerpts(&supported, excerpts);
        let without = supported.iter().filter(|of| subjects.contains(&of.subject));
        without_excerpt.extend(without.map(|of| of.item.key.clone()));
    }
    let reasoning = match evidence.turn {
        Some(turn) => format!("{turn}\n{reasoning}"),
        None => reasoning,
    };
    unit.judge_reasoning = Some(match unit.judge_reasoning.take() {
        Some(before) => format!("{before}\n\n{reasoning}"),
        None => reasoning,
    });
    Ok(Some(Support { notes, without_excerpt }))
}

fn rules(options: &DeepJudgmentOptions) -> ExcerptRules {
    ExcerptRules { max: options.max_excerpts as usize, threshold: options.fuzzy_threshold, retries: options.retries }
}
