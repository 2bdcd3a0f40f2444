//! Writing: the turns of a scenario become a graph of questions.

use serde_json::{Map, Value};

use super::{Criterion, END, Edge, NO_ANSWER, Node, ScenarioPart, condition};
use crate::benchmark::Question;
use crate::karenina::checkpoint::{self, Answer, SourceCode};
use crate::karenina::omission::{Omitted, ScenarioProblem};
use crate::karenina::template_source;
use crate::scenario::{DEFAULT_MAX_TURNS, Scenario, Turn};

/// Writes a scenario, and adds what the other side cannot say to `omitted`. `None` if it is left out.
pub(in crate::karenina) fn write(
    question: &Question,
    scenario: &Scenario,
    omitted: &mut Vec<Omitted>,
) -> Option<ScenarioPart> {
    match write_part(question, scenario, omitted) {
        Ok(part) => Some(part),
        Err(problem) => {
            omitted.push(Omitted::Scenario(problem));
            None
        }
    }
}

fn write_part(
    question: &Question,
    scenario: &Scenario,
    omitted: &mut Vec<Omitted>,
) -> Result<ScenarioPart, ScenarioProblem> {
    let mut metadata = question.metadata.clone();
    let description = match metadata.shift_remove("description") {
        Some(Value::String(description)) => description,
        _ => String::new(),
    };
    let answers = match metadata.shift_remove("reference_answers") {
        Some(Value::Object(answers)) => answers,
        _ => Map::new(),
    };
    let mut edges = Vec::new();
    let mut nodes = std::collections::BTreeMap::new();
    for turn in &scenario.turns {
        nodes.insert(turn.name.clone(), write_turn(turn, answers.get(&turn.name))?);
        edges.extend(write_edges(turn)?);
    }
    let mut outcome_criteria = Vec::new();
    for criterion in &scenario.outcome {
        match condition::write_outcome(&criterion.when) {
            Some(check) => outcome_criteria.push(Criterion {
                name: criterion.name.clone(),
                description: String::new(),
                check: Some(check),
                evaluate_source: None,
            }),
            None => omitted.push(Omitted::Criterion { name: criterion.name.clone() }),
        }
    }
    if outcome_criteria.is_empty() && !scenario.outcome.is_empty() {
        return Err(ScenarioProblem::Criteria);
    }
    if scenario.max_turns != DEFAULT_MAX_TURNS {
        omitted.push(Omitted::Key { key: "max_turns" });
    }
    Ok(ScenarioPart {
        kind: Some("karenina:Scenario".to_owned()),
        name: question.id.to_string(),
        description,
        entry_node: scenario.first_turn().map(|turn| turn.name.clone()).unwrap_or_default(),
        nodes,
        edges,
        outcome_criteria,
        metadata,
    })
}

fn write_turn(turn: &Turn, answer: Option<&Value>) -> Result<Node, ScenarioProblem> {
    let name = || turn.name.clone();
    let has_state = !turn.set.is_empty() || turn.prompt.variables().next().is_some();
    let Some(text) = turn.prompt.as_literal().filter(|_| !has_state) else {
        return Err(ScenarioProblem::Variables { turn: name() });
    };
    if !turn.trace.is_empty() {
        return Err(ScenarioProblem::Assertions { turn: name() });
    }
    if turn.max_visits.is_some() {
        return Err(ScenarioProblem::MaxVisits { turn: name() });
    }
    Ok(Node {
        kind: Some("karenina:ScenarioNode".to_owned()),
        id: name(),
        question: checkpoint::Question {
            kind: Some("Question".to_owned()),
            text,
            accepted_answer: Answer {
                kind: Some("Answer".to_owned()),
                text: answer.and_then(Value::as_str).unwrap_or(NO_ANSWER).to_owned(),
            },
            has_part: Some(SourceCode {
                kind: Some("SoftwareSourceCode".to_owned()),
                name: format!("{} template", turn.name),
                text: turn.template.as_ref().map(template_source::write).unwrap_or_default(),
                programming_language: Some("Python".to_owned()),
            }),
            rating: None,
            additional_property: None,
            keywords: None,
        },
        model_override: None,
        tool_filter: None,
        state_update_source: None,
        question_data: None,
        agent_identity: None,
        metadata: Map::new(),
    })
}

fn write_edges(turn: &Turn) -> Result<Vec<Edge>, ScenarioProblem> {
    let edge = |to: &str, condition: Option<Value>| Edge {
        source: turn.name.clone(),
        target: if to == crate::scenario::END { END.to_owned() } else { to.to_owned() },
        condition,
        condition_source: None,
        handover: None,
    };
    let mut edges = Vec::new();
    for branch in &turn.branches {
        let condition = condition::write_edge(&branch.when);
        let condition = condition.ok_or_else(|| ScenarioProblem::Condition { turn: turn.name.clone() })?;
        edges.push(edge(&branch.to, Some(condition)));
    }
    // There, conditions need an edge that is followed otherwise.
    edges.push(edge(turn.next.as_deref().unwrap_or(crate::scenario::END), None));
    Ok(edges)
}
