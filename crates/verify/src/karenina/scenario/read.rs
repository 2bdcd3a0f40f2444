//! Reading: a graph of questions becomes the turns of a scenario.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::{END, Edge, NO_ANSWER, Node, ScenarioPart, condition};
use crate::karenina::omission::{Omitted, ScenarioProblem};
use crate::karenina::template_source::{self, HandWritten};
use crate::scenario::PromptText;
use crate::scenario::notation::is_turn_name;

/// A scenario that was read, and what is missing from it.
#[derive(Debug, Default)]
pub(in crate::karenina) struct ScenarioRead {
    pub(in crate::karenina) name: String,
    /// The question with its scenario, in Wharf's notation and without an id. `None` if it is left out.
    pub(in crate::karenina) question: Option<Value>,
    pub(in crate::karenina) omitted: Vec<Omitted>,
}

/// Reads a scenario of a checkpoint.
pub(in crate::karenina) fn read(part: &Value, hand_written: HandWritten) -> ScenarioRead {
    let name = part.get("name").and_then(Value::as_str).unwrap_or_default().to_owned();
    let mut omitted = Vec::new();
    let question = match serde_json::from_value::<ScenarioPart>(part.clone()) {
        Ok(part) => read_part(&part, hand_written, &mut omitted).map_err(Omitted::Scenario),
        Err(error) => Err(Omitted::Scenario(ScenarioProblem::Invalid { message: error.to_string() })),
    };
    match question {
        Ok(question) => ScenarioRead { name, question: Some(question), omitted },
        Err(problem) => {
            omitted.push(problem);
            ScenarioRead { name, question: None, omitted }
        }
    }
}

fn read_part(
    part: &ScenarioPart,
    hand_written: HandWritten,
    omitted: &mut Vec<Omitted>,
) -> Result<Value, ScenarioProblem> {
    let names = turn_names(part)?;
    let mut turns = Vec::new();
    let mut answers = Map::new();
    for (id, node) in &part.nodes {
        let name = names[id.as_str()];
        let edges: Vec<&Edge> = part.edges.iter().filter(|edge| edge.source == *id).collect();
        turns.push(read_turn(node, name, hand_written, omitted).and_then(|turn| read_edges(turn, &edges, name))?);
        let answer = &node.question.accepted_answer.text;
        if !answer.is_empty() && answer != NO_ANSWER {
            answers.insert(name.to_owned(), answer.as_str().into());
        }
    }
    let mut outcome = Vec::new();
    for criterion in &part.outcome_criteria {
        let check = criterion.check.as_ref().filter(|_| criterion.evaluate_source.is_none());
        match check.and_then(condition::read_outcome) {
            Some(when) => {
                outcome.push(json!({"name": criterion.name, "when": when}));
                if !criterion.description.is_empty() {
                    omitted.push(Omitted::CriterionDescription { name: criterion.name.clone() });
                }
            }
            None => omitted.push(Omitted::Criterion { name: criterion.name.clone() }),
        }
    }
    if outcome.is_empty() && !part.outcome_criteria.is_empty() {
        return Err(ScenarioProblem::Criteria);
    }
    let mut scenario = json!({"start": part.entry_node, "turns": turns});
    if !outcome.is_empty() {
        scenario["outcome"] = Value::Array(outcome);
    }
    let mut question = json!({ "scenario": scenario });
    let mut metadata = part.metadata.clone();
    if !part.description.is_empty() {
        metadata.insert("description".to_owned(), part.description.as_str().into());
    }
    if !answers.is_empty() {
        metadata.insert("reference_answers".to_owned(), Value::Object(answers));
    }
    if !metadata.is_empty() {
        question["metadata"] = Value::Object(metadata);
    }
    Ok(question)
}

/// Checks that the names of the turns are names here too: conditions refer to them.
fn turn_names(part: &ScenarioPart) -> Result<BTreeMap<&str, &str>, ScenarioProblem> {
    let names = part.nodes.keys().map(|id| {
        let is_valid = is_turn_name(id) && id != crate::scenario::END;
        if is_valid { Ok((id.as_str(), id.as_str())) } else { Err(ScenarioProblem::TurnName { turn: id.clone() }) }
    });
    names.collect()
}

fn read_turn(
    node: &Node,
    name: &str,
    hand_written: HandWritten,
    omitted: &mut Vec<Omitted>,
) -> Result<Value, ScenarioProblem> {
    let turn = || name.to_owned();
    if node.model_override.as_ref().is_some_and(|value| !value.is_null()) {
        return Err(ScenarioProblem::ModelOverride { turn: turn() });
    }
    if node.tool_filter.as_ref().is_some_and(|value| !value.is_null()) {
        return Err(ScenarioProblem::ToolFilter { turn: turn() });
    }
    if node.state_update_source.is_some() {
        omitted.push(Omitted::StateUpdate { turn: turn() });
    }
    let data = |key: &str| node.question_data.as_ref().and_then(|data| data.get(key)).filter(|value| !value.is_null());
    let has_ratings = node.question.rating.as_ref().is_some_and(|ratings| !ratings.is_empty());
    if has_ratings || data("question_rubric").is_some() || data("question_dynamic_rubric").is_some() {
        omitted.push(Omitted::TurnTraits { turn: turn() });
    }
    for (is_present, key) in [
        (node.agent_identity.is_some(), "agentIdentity"),
        (!node.metadata.is_empty(), "metadata"),
        (node.question.keywords.as_ref().is_some_and(|keywords| !keywords.is_empty()), "keywords"),
    ] {
        if is_present {
            omitted.push(Omitted::TurnKey { turn: turn(), key });
        }
    }
    let text = data("question").and_then(Value::as_str).unwrap_or(&node.question.text);
    let mut read = json!({"name": name, "prompt": PromptText::literal(text)});
    let source = node.question.has_part.as_ref().map(|part| part.text.as_str());
    let source = data("answer_template").and_then(Value::as_str).or(source).unwrap_or_default();
    if !source.trim().is_empty() {
        let template = template_source::read(source, hand_written);
        omitted.extend(template.omitted);
        read["template"] = template.template.ok_or_else(|| ScenarioProblem::Template { turn: turn() })?;
    }
    Ok(read)
}

/// Adds what follows a turn: the first edge without a condition is the one that is followed otherwise.
fn read_edges(mut turn: Value, edges: &[&Edge], name: &str) -> Result<Value, ScenarioProblem> {
    let mut branches = Vec::new();
    let mut next = None;
    for edge in edges {
        if edge.handover.is_some() {
            return Err(ScenarioProblem::Handover { turn: name.to_owned() });
        }
        if edge.condition_source.is_some() {
            return Err(ScenarioProblem::CallableCondition { turn: name.to_owned() });
        }
        let to = if edge.target == END { crate::scenario::END } else { edge.target.as_str() };
        match &edge.condition {
            None | Some(Value::Null) => drop(next.get_or_insert(to)),
            Some(condition) => {
                let when = condition::read_edge(condition);
                let when = when.ok_or_else(|| ScenarioProblem::Condition { turn: name.to_owned() })?;
                branches.push(json!({"when": when, "to": to}));
            }
        }
    }
    if !branches.is_empty() {
        turn["branches"] = Value::Array(branches);
    }
    if let Some(next) = next {
        turn["next"] = next.into();
    }
    Ok(turn)
}
