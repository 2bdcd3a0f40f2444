//! What a file of one side says that the other cannot.

use std::fmt;

use serde::Serialize;
use serde_json::{Value, json};

/// Something that was not taken over, or was changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Omission {
    /// What it belongs to.
    pub subject: Subject,
    /// What it is.
    pub omitted: Omitted,
}

/// The part of a benchmark that an omission belongs to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Subject {
    /// The whole benchmark.
    Benchmark,
    /// A question, by its id.
    Question(String),
    /// A trait of all questions.
    Trait(String),
    /// A trait of one question.
    QuestionTrait {
        /// Id of the question.
        question: String,
        /// Name of the trait.
        name: String,
    },
    /// A scenario, by its name.
    Scenario(String),
}

/// What was not taken over, or was changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Omitted {
    /// The template decides with code of its own. The template is left out.
    HandWrittenVerify,
    /// The template decides with code of its own. Its checks were inferred from the types of its fields.
    InferredChecks,
    /// The template scores with code of its own. The weighted mean of its fields is used instead.
    HandWrittenScore,
    /// A method of the template, which may change what its fields contain. The template is left out.
    Method {
        /// Name of the method.
        name: String,
        /// Line in the template.
        line: usize,
    },
    /// The template cannot be read. It is left out.
    UnreadableTemplate {
        /// Line in the template.
        line: usize,
        /// Why.
        reason: &'static str,
    },
    /// The template has no class for answers, or several. It is left out.
    AnswerClasses {
        /// How many there are.
        count: usize,
    },
    /// The class of the template has other bases, or other classes derive from it. The template is left out.
    Inheritance,
    /// A field of the template is not literal. The template is left out.
    NotLiteral {
        /// Name of the field, or of the strategy.
        field: String,
        /// Line in the template.
        line: usize,
    },
    /// A field has a type that Wharf does not have. The template is left out.
    UnknownType {
        /// Name of the field.
        field: String,
    },
    /// A field has a check that Wharf does not have. The template is left out.
    UnknownCheck {
        /// Name of the field.
        field: String,
        /// Name of the check.
        check: String,
    },
    /// A statement of the template without a meaning here. The template is left out.
    Statement {
        /// Line in the template.
        line: usize,
    },
    /// A field without a check. The other fields are taken over.
    UncheckedField {
        /// Name of the field.
        field: String,
    },
    /// The template breaks a rule of Wharf's templates. It is left out.
    InvalidTemplate {
        /// The rule.
        message: String,
    },
    /// Nothing of the question can be checked. The question is left out.
    NothingToCheck,
    /// The question breaks a rule of Wharf's benchmarks. It is left out.
    InvalidQuestion {
        /// The rule.
        message: String,
    },
    /// The question has another id.
    ChangedId {
        /// The id before.
        from: String,
    },
    /// Examples for the model are metadata: a model gets the question only.
    FewShotExamples,
    /// A directory of files for the model is metadata.
    Workspace,
    /// A trait is decided by code. It is left out.
    CallableTrait,
    /// A trait has a kind that is unknown, or does not belong to its place. It is left out.
    TraitKind {
        /// The kind.
        kind: String,
    },
    /// The trait breaks a rule of Wharf's traits. It is left out.
    InvalidTrait {
        /// The rule.
        message: String,
    },
    /// The trait has another name, because another one has the same name.
    ChangedName {
        /// The name before.
        from: String,
    },
    /// An agentic trait has a model of its own. The judge of the run evaluates it.
    TraitModel,
    /// A part of a scenario has no equivalent. The scenario is left out, because its path would be another one.
    Scenario(ScenarioProblem),
    /// A criterion of a scenario has no equivalent. The others are taken over.
    Criterion {
        /// Name of the criterion.
        name: String,
    },
    /// Code that changes the state of a scenario. No condition that was taken over depends on it.
    StateUpdate {
        /// Name of the turn.
        turn: String,
    },
    /// Traits of one turn of a scenario. Those of the benchmark apply to the whole conversation.
    TurnTraits {
        /// Name of the turn.
        turn: String,
    },
    /// A key of a turn without a meaning here.
    TurnKey {
        /// Name of the turn.
        turn: String,
        /// The key.
        key: &'static str,
    },
    /// The description of a criterion. Its check is taken over.
    CriterionDescription {
        /// Name of the criterion.
        name: String,
    },
    /// A key of Wharf's that the other side does not have.
    Key {
        /// The key.
        key: &'static str,
    },
}

/// Why a scenario is left out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ScenarioProblem {
    /// It is not a scenario, or breaks a rule of Wharf's scenarios.
    Invalid {
        /// What is wrong.
        message: String,
    },
    /// The name of a turn is not a name here.
    TurnName {
        /// Name of the turn.
        turn: String,
    },
    /// The template of a turn was not taken over.
    Template {
        /// Name of the turn.
        turn: String,
    },
    /// A branch of a turn is decided by code.
    CallableCondition {
        /// Name of the turn.
        turn: String,
    },
    /// A branch of a turn has a condition without an equivalent.
    Condition {
        /// Name of the turn.
        turn: String,
    },
    /// A turn is answered by another agent, which gets the conversation as a text.
    Handover {
        /// Name of the turn before.
        turn: String,
    },
    /// A turn has models of its own.
    ModelOverride {
        /// Name of the turn.
        turn: String,
    },
    /// A turn has fewer tools than the others.
    ToolFilter {
        /// Name of the turn.
        turn: String,
    },
    /// A turn uses or sets variables.
    Variables {
        /// Name of the turn.
        turn: String,
    },
    /// A turn has assertions on its tool calls.
    Assertions {
        /// Name of the turn.
        turn: String,
    },
    /// A turn has a maximum number of visits.
    MaxVisits {
        /// Name of the turn.
        turn: String,
    },
    /// No criterion has an equivalent.
    Criteria,
}

impl fmt::Display for ScenarioProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Invalid { message } => f.write_str(message),
            Self::TurnName { turn } => write!(f, "{turn:?} is not a name of a turn"),
            Self::Template { turn } => write!(f, "the template of turn `{turn}` is not taken over"),
            Self::CallableCondition { turn } => write!(f, "a branch of turn `{turn}` is a Python function"),
            Self::Condition { turn } => write!(f, "a branch of turn `{turn}` has a condition without an equivalent"),
            Self::Handover { turn } => write!(f, "turn `{turn}` hands over to another agent"),
            Self::ModelOverride { turn } => write!(f, "turn `{turn}` has models of its own"),
            Self::ToolFilter { turn } => write!(f, "turn `{turn}` has a filter of its tools"),
            Self::Variables { turn } => write!(f, "turn `{turn}` has variables"),
            Self::Assertions { turn } => write!(f, "turn `{turn}` has assertions on its tool calls"),
            Self::MaxVisits { turn } => write!(f, "turn `{turn}` has a maximum number of visits"),
            Self::Criteria => f.write_str("none of its criteria is taken over"),
        }
    }
}

impl Omitted {
    /// Returns the name of the kind, as in JSON.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::HandWrittenVerify => "hand_written_verify",
            Self::InferredChecks => "inferred_checks",
            Self::HandWrittenScore => "hand_written_score",
            Self::Method { .. } => "method",
            Self::UnreadableTemplate { .. } => "unreadable_template",
            Self::AnswerClasses { .. } => "answer_classes",
            Self::Inheritance => "inheritance",
            Self::NotLiteral { .. } => "not_literal",
            Self::UnknownType { .. } => "unknown_type",
            Self::UnknownCheck { .. } => "unknown_check",
            Self::Statement { .. } => "statement",
            Self::UncheckedField { .. } => "unchecked_field",
            Self::InvalidTemplate { .. } => "invalid_template",
            Self::NothingToCheck => "nothing_to_check",
            Self::InvalidQuestion { .. } => "invalid_question",
            Self::ChangedId { .. } => "changed_id",
            Self::FewShotExamples => "few_shot_examples",
            Self::Workspace => "workspace",
            Self::CallableTrait => "callable_trait",
            Self::TraitKind { .. } => "trait_kind",
            Self::InvalidTrait { .. } => "invalid_trait",
            Self::ChangedName { .. } => "changed_name",
            Self::TraitModel => "trait_model",
            Self::Scenario(_) => "scenario",
            Self::Criterion { .. } => "criterion",
            Self::StateUpdate { .. } => "state_update",
            Self::TurnTraits { .. } => "turn_traits",
            Self::TurnKey { .. } => "turn_key",
            Self::CriterionDescription { .. } => "criterion_description",
            Self::Key { .. } => "key",
        }
    }
}

impl fmt::Display for Omitted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::HandWrittenVerify => f.write_str("template has a hand-written `verify()`: not taken over"),
            Self::InferredChecks => f.write_str(
                "template has a hand-written `verify()`: checks inferred from the types of the fields; review them",
            ),
            Self::HandWrittenScore => {
                f.write_str("hand-written `verify_granular()`: the weighted mean of the fields is used")
            }
            Self::Method { name, line } => {
                write!(f, "method `{name}()` in line {line} of the template: template not taken over")
            }
            Self::UnreadableTemplate { line, reason } => {
                write!(f, "template cannot be read: {reason}, in line {line}: not taken over")
            }
            Self::AnswerClasses { count: 0 } => f.write_str("template has no answer class: not taken over"),
            Self::AnswerClasses { count } => write!(f, "template has {count} answer classes: not taken over"),
            Self::Inheritance => f.write_str("template uses inheritance: not taken over"),
            Self::NotLiteral { field, line } => {
                write!(f, "`{field}` in line {line} of the template is not literal: template not taken over")
            }
            Self::UnknownType { field } => {
                write!(f, "field `{field}` has an unsupported type: template not taken over")
            }
            Self::UnknownCheck { field, check } => {
                write!(f, "field `{field}` has the unknown check `{check}`: template not taken over")
            }
            Self::Statement { line } => {
                write!(f, "statement in line {line} of the template: template not taken over")
            }
            Self::UncheckedField { field } => write!(f, "field `{field}` has no check: not taken over"),
            Self::InvalidTemplate { message } => write!(f, "template not taken over: {message}"),
            Self::NothingToCheck => f.write_str("left out: no template and no trait remain"),
            Self::InvalidQuestion { message } => write!(f, "left out: {message}"),
            Self::ChangedId { from } => write!(f, "the id was {from:?}"),
            Self::FewShotExamples => f.write_str("few-shot examples are metadata: the model does not get them"),
            Self::Workspace => f.write_str("the workspace is metadata: the model does not get it"),
            Self::CallableTrait => f.write_str("the trait is a Python function: not taken over"),
            Self::TraitKind { kind } => write!(f, "unsupported kind of trait `{kind}`: not taken over"),
            Self::InvalidTrait { message } => write!(f, "not taken over: {message}"),
            Self::ChangedName { from } => write!(f, "the name was {from:?}, which another trait has"),
            Self::TraitModel => f.write_str("the model of the trait is not taken over: the judge of the run is used"),
            Self::Scenario(problem) => write!(f, "left out: {problem}"),
            Self::Criterion { name } => write!(f, "criterion {name:?} has no equivalent: not taken over"),
            Self::StateUpdate { turn } => {
                write!(f, "`state_update` of turn `{turn}` is a Python function: not taken over")
            }
            Self::TurnTraits { turn } => write!(f, "traits of turn `{turn}`: not taken over"),
            Self::TurnKey { turn, key } => write!(f, "`{key}` of turn `{turn}`: not taken over"),
            Self::CriterionDescription { name } => write!(f, "description of criterion {name:?}: not taken over"),
            Self::Key { key } => write!(f, "`{key}` is not taken over"),
        }
    }
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Benchmark => f.write_str("benchmark"),
            Self::Question(id) => write!(f, "question {id}"),
            Self::Trait(name) => write!(f, "trait {name}"),
            Self::QuestionTrait { question, name } => write!(f, "question {question}: trait {name}"),
            Self::Scenario(name) => write!(f, "scenario {name}"),
        }
    }
}

impl fmt::Display for Omission {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.subject, self.omitted)
    }
}

impl Serialize for Omission {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let (question, of_trait, scenario) = match &self.subject {
            Subject::Benchmark => (None, None, None),
            Subject::Question(id) => (Some(id), None, None),
            Subject::Trait(name) => (None, Some(name), None),
            Subject::QuestionTrait { question, name } => (Some(question), Some(name), None),
            Subject::Scenario(name) => (None, None, Some(name)),
        };
        let mut shown = json!({"kind": self.omitted.kind(), "message": self.omitted.to_string()});
        for (key, value) in [("question", question), ("trait", of_trait), ("scenario", scenario)] {
            if let Some(value) = value {
                shown[key] = Value::from(value.as_str());
            }
        }
        shown.serialize(serializer)
    }
}
