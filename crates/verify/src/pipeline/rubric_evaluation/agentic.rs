//! Traits that an agent investigates: it looks with tools that only read, and then fills the form of the trait.

use std::sync::Arc;
use std::time::Duration;

use wharf_agent::NoTools;
use wharf_protocol::ToolSource;

use super::judging::{Asked, Ended, Judging};
use crate::benchmark::{
    AgenticResult, AgenticTrait, ContextMode, LiteralTrait, LlmTrait, NamedTrait, ScoreTrait, StructuredTrait, Trait,
    TraitKind,
};
use crate::journaled::{Denials, RequestContext};
use crate::judge::{Investigation, NoContext};
use crate::judge_prompt::{TraitNotes, investigate};
use crate::pipeline::answering::open_tools;
use crate::rubric::TraitResult;
use crate::stage_name::StageName;
use crate::workbench::ReadOnlyTools;

/// What the form of a trait shows instead of an answer that the agent may not see.
const NOT_SHOWN: &str = "(not shown)";

impl Judging<'_> {
    /// Lets an agent investigate a trait, and evaluates it from what the agent found.
    pub(super) async fn investigate(&mut self, of: &NamedTrait, agentic: &AgenticTrait) -> Result<TraitResult, Ended> {
        let sees_answer = agentic.context_mode != ContextMode::WorkspaceOnly;
        let findings = match self.findings(of, agentic, sees_answer).await? {
            Ok(findings) => findings,
            Err(reason) => return Ok(super::judging::failed(of, reason)),
        };
        let definition = Trait { kind: judged_kind(agentic), ..of.definition.clone() };
        let judged = NamedTrait { name: of.name.clone(), definition };
        let shown = if sees_answer { None } else { Some(std::mem::replace(&mut self.text, NOT_SHOWN.to_owned())) };
        let notes = TraitNotes { findings: Some(&findings), ..TraitNotes::default() };
        let judgments = self.judge_together(&[&judged], notes).await;
        if let Some(text) = shown {
            self.text = text;
        }
        Ok(super::judging::result(of, judgments?.pop().unwrap_or_else(|| Err("no value".to_owned()))))
    }

    async fn findings(
        &mut self,
        of: &NamedTrait,
        agentic: &AgenticTrait,
        sees_answer: bool,
    ) -> Result<Asked<String>, Ended> {
        if let Some(error) = &self.failure {
            return Ok(Err(error.to_string()));
        }
        let trial = Arc::clone(&self.trial);
        let denials = Arc::<Denials>::default();
        let has_tools = agentic.context_mode != ContextMode::TraceOnly;
        let opened = if has_tools { Some(open_tools(&trial, &denials).await) } else { None };
        let (tools, context): (Arc<dyn ToolSource>, Arc<dyn RequestContext>) = match &opened {
            Some(opened) => {
                let offered = Arc::clone(&opened.offered);
                (Arc::new(ReadOnlyTools(Arc::clone(&offered) as _)), offered)
            }
            None => (Arc::new(NoTools), Arc::new(NoContext)),
        };
        let description = of.definition.description.as_ref().or(of.definition.summary.as_ref()).unwrap_or(&of.name);
        let answer = sees_answer.then_some(self.text.as_str());
        let investigation = Investigation {
            messages: investigate(&self.question, answer, description),
            tools,
            context,
            denials,
            turns: agentic.max_turns,
            time: Duration::from_secs(agentic.timeout_seconds.into()),
        };
        let found = match self.unit.needed_judge(StageName::RubricEvaluation) {
            Ok(judge) => Ok(judge.investigate(investigation).await),
            Err(error) => Err(Ended::Error(error)),
        };
        if let Some(opened) = opened {
            opened.close().await;
        }
        self.asked(found?)
    }
}

/// Returns the kind of a trait whose form has the values of an agentic one.
fn judged_kind(agentic: &AgenticTrait) -> TraitKind {
    let judge = LlmTrait::default();
    match agentic.result {
        AgenticResult::Boolean => TraitKind::LlmBoolean(judge),
        AgenticResult::Score => TraitKind::LlmScore(ScoreTrait { min: agentic.min, max: agentic.max, judge }),
        AgenticResult::Literal => TraitKind::LlmLiteral(LiteralTrait { classes: agentic.classes.clone(), judge }),
        AgenticResult::Structured => {
            TraitKind::LlmStructured(StructuredTrait { schema: agentic.schema.clone().unwrap_or_default(), judge })
        }
    }
}
