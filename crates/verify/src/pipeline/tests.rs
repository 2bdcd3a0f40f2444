//! Tests of the list of stages.

use wharf_protocol::BoxFuture;

use super::*;
use crate::evaluation::{DeepJudgmentOptions, Mode};

struct Fake(StageName, &'static [Artifact], &'static [Artifact]);

impl Stage for Fake {
    fn name(&self) -> StageName {
        self.0
    }

    fn needs(&self) -> &'static [Artifact] {
        self.1
    }

    fn makes(&self) -> &'static [Artifact] {
        self.2
    }

    fn run<'a>(&'a self, _: &'a mut UnitContext) -> BoxFuture<'a, Result<(), StageError>> {
        Box::pin(std::future::ready(Ok(())))
    }
}

fn check(stages: Vec<Fake>) -> Result<(), InvalidPipeline> {
    let stages = stages.into_iter().map(|stage| Box::new(stage) as Box<dyn Stage>).collect();
    Pipeline::from_stages(stages).map(drop)
}

#[test]
fn the_default_list_has_the_stages_in_their_order() {
    let pipeline = Pipeline::new(&EvaluationOptions::default()).unwrap();
    insta::assert_snapshot!(pipeline.to_string(), @"
    1. validate_template, makes template
    2. generate_answer, makes answer
    3. limit_autofail, needs answer
    4. trace_validation_autofail, needs answer
    5. retries_exhausted_autofail, needs answer
    6. parse_template, needs template, answer, makes extraction
    7. verify_template, needs template, answer, extraction, makes verification
    8. embedding_check, needs verification
    9. finalize, makes result
    ");
}

#[test]
fn optional_checks_stand_before_the_judge_fills_the_template() {
    let options = EvaluationOptions { abstention_check: true, sufficiency_check: true, ..EvaluationOptions::default() };
    let names: Vec<_> = Pipeline::new(&options).unwrap().stages().map(|stage| stage.name).collect();
    let at = |name| names.iter().position(|other| *other == name).unwrap();
    assert_eq!(names.len(), 11);
    assert!(at(StageName::RetriesExhaustedAutofail) < at(StageName::AbstentionCheck));
    assert!(at(StageName::AbstentionCheck) < at(StageName::SufficiencyCheck));
    assert!(at(StageName::SufficiencyCheck) < at(StageName::ParseTemplate));
}

#[test]
fn the_mode_decides_about_the_stages_of_templates_and_traits() {
    use StageName::{DeepJudgmentAutofail, DeepJudgmentRubricAutofail, EmbeddingCheck, Finalize, RubricEvaluation};
    let both = EvaluationOptions { mode: Mode::TemplateAndRubric, ..EvaluationOptions::default() };
    let names: Vec<_> = Pipeline::new(&both).unwrap().stages().map(|stage| stage.name).collect();
    assert_eq!(names[names.len() - 4..], [EmbeddingCheck, RubricEvaluation, DeepJudgmentRubricAutofail, Finalize]);
    let deep_judgment = DeepJudgmentOptions {
        template: DeepTemplate::Full,
        rubric: DeepRubric::Disabled,
        ..DeepJudgmentOptions::default()
    };
    let deep = EvaluationOptions { deep_judgment, ..both };
    let names: Vec<_> = Pipeline::new(&deep).unwrap().stages().map(|stage| stage.name).collect();
    assert_eq!(names[names.len() - 4..], [EmbeddingCheck, DeepJudgmentAutofail, RubricEvaluation, Finalize]);
    let rubric = EvaluationOptions { mode: Mode::RubricOnly, sufficiency_check: true, ..EvaluationOptions::default() };
    insta::assert_snapshot!(Pipeline::new(&rubric).unwrap().to_string(), @"
    1. generate_answer, makes answer
    2. limit_autofail, needs answer
    3. trace_validation_autofail, needs answer
    4. retries_exhausted_autofail, needs answer
    5. rubric_evaluation, needs answer, makes rubric
    6. deep_judgment_rubric_autofail, needs rubric
    7. finalize, makes result
    ");
}

#[test]
fn a_list_is_checked_before_it_runs() {
    use {Artifact as A, StageName as S};
    let finalize = || Fake(S::Finalize, &[], &[A::Result]);
    let generate = || Fake(S::GenerateAnswer, &[], &[A::Answer]);
    let limit = || Fake(S::LimitAutofail, &[A::Answer], &[]);
    assert_eq!(check(vec![generate(), limit(), finalize()]), Ok(()));
    assert_eq!(check(vec![]), Err(InvalidPipeline::NoFinalize));
    assert_eq!(check(vec![generate(), limit()]), Err(InvalidPipeline::NoFinalize));
    let missing = InvalidPipeline::Missing { stage: S::LimitAutofail, artifact: A::Answer };
    assert_eq!(missing.to_string(), "stage `limit_autofail` needs the answer, and no earlier stage makes it");
    assert_eq!(check(vec![limit(), finalize()]), Err(missing));
    let misplaced = |stage| Err(InvalidPipeline::Misplaced(stage));
    assert_eq!(check(vec![generate(), generate(), finalize()]), misplaced(S::GenerateAnswer));
    assert_eq!(check(vec![finalize(), generate(), finalize()]), misplaced(S::GenerateAnswer));
    let validate = Fake(S::ValidateTemplate, &[], &[A::Template]);
    assert_eq!(check(vec![generate(), validate, finalize()]), misplaced(S::ValidateTemplate));
}
