//! The form that a judge fills for traits, and the check of what it returns.

use serde_json::{Map, Value, json};

use super::{ClassValue, ScoreValue, TraitValue};
use crate::benchmark::{LiteralTrait, NamedTrait, ScoreTrait, TraitKind};
use crate::object_schema::compile;
use crate::problem::shown_json;

/// The maximum length of an error of the JSON Schema validator, in characters: it quotes the value.
const MAX_ERROR_CHARS: usize = 300;

/// What a judge says about a trait.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct TraitJudgment {
    pub(crate) value: TraitValue,
    /// `None` for objects, whose schema has no place for it.
    pub(crate) reasoning: Option<String>,
}

/// Whether the concept of a trait is present in an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Presence {
    pub(crate) is_present: bool,
    pub(crate) reason: String,
}

/// Returns the JSON Schema for traits that share a request. An object is alone, and its schema is the form.
pub(crate) fn schema(traits: &[&NamedTrait]) -> Value {
    if let [NamedTrait { definition, .. }] = traits
        && let TraitKind::LlmStructured(structured) = &definition.kind
    {
        return structured.schema.clone();
    }
    let reasoning = json!({"type": "string", "description": "The reasoning, in a few sentences, before the value."});
    object(traits, |of| (("reasoning", reasoning.clone()), ("value", value_schema(&of.definition.kind))))
}

/// Returns the JSON Schema of the check whether concepts are present.
pub(crate) fn presence_schema(traits: &[&NamedTrait]) -> Value {
    let reason = json!({"type": "string", "description": "The reason, in one sentence."});
    let present = json!({"type": "boolean", "description": "Whether the concept is present in the answer."});
    object(traits, |_| (("reason", reason.clone()), ("present", present.clone())))
}

/// Returns the key of a trait in a form. Names of traits have any characters, and providers restrict keys.
fn key(index: usize) -> String {
    format!("trait_{}", index + 1)
}

type Property = (&'static str, Value);

fn object(traits: &[&NamedTrait], properties: impl Fn(&NamedTrait) -> (Property, Property)) -> Value {
    let entry = |(index, of): (usize, &&NamedTrait)| {
        let ((first, first_schema), (second, second_schema)) = properties(of);
        let description = match &of.definition.description {
            Some(description) => format!("{}: {}", of.name, description.trim()),
            None => of.definition.summary.clone().unwrap_or_else(|| of.name.clone()),
        };
        let schema = json!({"type": "object", "description": description, "additionalProperties": false,
            "required": [first, second], "properties": {first: first_schema, second: second_schema}});
        (key(index), schema)
    };
    let properties: Map<String, Value> = traits.iter().enumerate().map(entry).collect();
    let required: Vec<&String> = properties.keys().collect();
    json!({"type": "object", "additionalProperties": false, "required": required, "properties": properties})
}

fn value_schema(kind: &TraitKind) -> Value {
    match kind {
        TraitKind::LlmScore(ScoreTrait { min, max, .. }) => {
            json!({"type": "integer", "description": format!("An integer from {min} to {max}.")})
        }
        TraitKind::LlmLiteral(LiteralTrait { classes, .. }) => {
            let names: Vec<&String> = classes.iter().map(|class| &class.name).collect();
            let meanings: Vec<String> =
                classes.iter().map(|class| format!("{}: {}", class.name, class.description.trim())).collect();
            let description = format!("The class that applies, or null if none does.\n{}", meanings.join("\n"));
            json!({"anyOf": [{"type": "string", "enum": names}, {"type": "null"}], "description": description})
        }
        _ => json!({"type": "boolean", "description": "Whether the description applies to the answer."}),
    }
}

/// Reads a judge's object: one result for each trait, or what is wrong with it.
pub(crate) fn read(traits: &[&NamedTrait], answer: &Value) -> Vec<Result<TraitJudgment, String>> {
    if let [NamedTrait { definition, .. }] = traits
        && let TraitKind::LlmStructured(structured) = &definition.kind
    {
        return vec![read_object(&structured.schema, answer)];
    }
    let read = |(index, of): (usize, &&NamedTrait)| {
        let key = key(index);
        let problem = |text: String| format!("`{key}`: {text}");
        let entry = answer.get(&key).ok_or_else(|| problem("missing".to_owned()))?;
        let reasoning = entry.get("reasoning").and_then(Value::as_str);
        let reasoning = reasoning.ok_or_else(|| problem("expected `reasoning` as text".to_owned()))?;
        let value = entry.get("value").ok_or_else(|| problem("expected a `value`".to_owned()))?;
        let value = read_value(&of.definition.kind, value).map_err(problem)?;
        Ok(TraitJudgment { value, reasoning: Some(reasoning.to_owned()) })
    };
    traits.iter().enumerate().map(read).collect()
}

/// Reads the check whether concepts are present.
pub(crate) fn read_presence(traits: &[&NamedTrait], answer: &Value) -> Result<Vec<Presence>, String> {
    let read = |index: usize| {
        let key = key(index);
        let entry = answer.get(&key).ok_or_else(|| format!("`{key}`: missing"))?;
        let is_present = entry.get("present").and_then(Value::as_bool);
        let is_present = is_present.ok_or_else(|| format!("`{key}`: expected `present` as a boolean"))?;
        let reason = entry.get("reason").and_then(Value::as_str).unwrap_or_default().to_owned();
        Ok(Presence { is_present, reason })
    };
    (0..traits.len()).map(read).collect()
}

fn read_value(kind: &TraitKind, value: &Value) -> Result<TraitValue, String> {
    match kind {
        TraitKind::LlmBoolean(_) => value
            .as_bool()
            .map(TraitValue::Boolean)
            .ok_or_else(|| format!("expected a boolean, found {}", shown_json(value))),
        TraitKind::LlmScore(ScoreTrait { min, max, .. }) => {
            let score = whole(value).filter(|score| (min..=max).contains(&score));
            let score =
                score.ok_or_else(|| format!("expected an integer from {min} to {max}, found {}", shown_json(value)))?;
            Ok(TraitValue::Score(ScoreValue { score, min: *min, max: *max }))
        }
        TraitKind::LlmLiteral(LiteralTrait { classes, .. }) => {
            if value.is_null() {
                return Ok(TraitValue::Class(ClassValue { index: -1, name: None }));
            }
            let text = value.as_str().unwrap_or_default().trim().to_lowercase();
            let index = classes.iter().position(|class| class.name.trim().to_lowercase() == text);
            let index = index.filter(|_| value.is_string()).ok_or_else(|| {
                let names: Vec<String> = classes.iter().map(|class| format!("{:?}", class.name)).collect();
                format!("expected one of {} or null, found {}", names.join(", "), shown_json(value))
            })?;
            let name = Some(classes[index].name.clone());
            Ok(TraitValue::Class(ClassValue { index: i64::try_from(index).unwrap_or(-1), name }))
        }
        TraitKind::LlmStructured(_) | TraitKind::Regex(_) | TraitKind::Metric(_) | TraitKind::Agentic(_) => {
            Err("has another form".to_owned())
        }
    }
}

fn read_object(schema: &Value, answer: &Value) -> Result<TraitJudgment, String> {
    let validator = compile(schema)?;
    match validator.validate(answer) {
        Ok(()) => Ok(TraitJudgment { value: TraitValue::Object(answer.clone()), reasoning: None }),
        Err(error) => {
            let path = error.instance_path().to_string();
            let text: String = error.to_string().chars().take(MAX_ERROR_CHARS).collect();
            Err(if path.is_empty() { text } else { format!("`{path}`: {text}") })
        }
    }
}

/// Reads an integer, also one that is written as a float.
#[expect(clippy::cast_possible_truncation, reason = "the number is whole and below 2^53")]
fn whole(value: &Value) -> Option<i64> {
    let float = || value.as_f64().filter(|number| number.fract() == 0.0 && number.abs() < 9_007_199_254_740_992.0);
    value.as_i64().or_else(|| float().map(|number| number as i64))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(definition: Value) -> NamedTrait {
        NamedTrait { name: "tone".to_owned(), definition: serde_json::from_value(definition).unwrap() }
    }

    fn value(definition: &Value, value: &Value) -> String {
        let of = named(definition.clone());
        let answer = json!({"trait_1": {"reasoning": "r", "value": value}});
        match read(&[&of], &answer).remove(0) {
            Ok(judgment) => serde_json::to_string(&judgment.value).unwrap(),
            Err(error) => error,
        }
    }

    #[test]
    fn every_kind_accepts_its_values_and_rejects_others_with_the_reason() {
        let boolean = json!({"kind": "llm_boolean", "description": "d"});
        let score = json!({"kind": "llm_score", "description": "d", "min": 0, "max": 10});
        let default_score = json!({"kind": "llm_score", "description": "d"});
        let class = json!({"kind": "llm_literal", "description": "d", "classes": [
            {"name": "low", "description": "x"}, {"name": "High", "description": "z"}]});
        let found = [
            value(&boolean, &json!(true)),
            value(&boolean, &json!("yes")),
            value(&boolean, &json!(null)),
            value(&score, &json!(10)),
            value(&score, &json!(7.0)),
            value(&score, &json!(11)),
            value(&score, &json!(6.5)),
            value(&default_score, &json!(0)),
            value(&default_score, &json!("x".repeat(200))),
            value(&class, &json!("high ")),
            value(&class, &json!(null)),
            value(&class, &json!("medium")),
            value(&class, &json!(1)),
        ];
        insta::assert_snapshot!(found.join("\n"), @r#"
        {"boolean":true}
        `trait_1`: expected a boolean, found "yes"
        `trait_1`: expected a boolean, found null
        {"score":{"score":10,"min":0,"max":10}}
        {"score":{"score":7,"min":0,"max":10}}
        `trait_1`: expected an integer from 0 to 10, found 11
        `trait_1`: expected an integer from 0 to 10, found 6.5
        `trait_1`: expected an integer from 1 to 5, found 0
        `trait_1`: expected an integer from 1 to 5, found "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx…
        {"class":{"index":1,"name":"High"}}
        {"class":{"index":-1}}
        `trait_1`: expected one of "low", "High" or null, found "medium"
        `trait_1`: expected one of "low", "High" or null, found 1
        "#);
    }

    #[test]
    fn an_object_must_match_its_schema() {
        let of = named(json!({"kind": "llm_structured", "description": "d", "schema":
            {"type": "object", "required": ["a"], "properties": {"a": {"type": "string"}}}}));
        assert_eq!(schema(&[&of])["required"], json!(["a"]), "the form is the schema itself");
        let judgment = read(&[&of], &json!({"a": "x"})).remove(0).unwrap();
        assert_eq!(judgment, TraitJudgment { value: TraitValue::Object(json!({"a": "x"})), reasoning: None });
        assert_eq!(read(&[&of], &json!({"a": 1})).remove(0).unwrap_err(), "`/a`: 1 is not of type \"string\"");
        assert!(read(&[&of], &json!({"a": vec![0; 5000]})).remove(0).unwrap_err().len() < 400);
    }

    #[test]
    fn forms_are_closed_and_require_everything() {
        let traits = [
            named(json!({"kind": "llm_boolean", "description": "Friendly"})),
            named(json!({"kind": "llm_score", "description": "How much"})),
        ];
        let traits: Vec<&NamedTrait> = traits.iter().collect();
        for form in [schema(&traits), presence_schema(&traits)] {
            assert_eq!(
                (&form["required"], &form["additionalProperties"]),
                (&json!(["trait_1", "trait_2"]), &json!(false))
            );
            assert_eq!(form["properties"]["trait_1"]["description"], "tone: Friendly");
        }
        let missing = read(&traits, &json!({"trait_1": {"reasoning": 1, "value": true}}));
        assert_eq!(missing[0], Err("`trait_1`: expected `reasoning` as text".to_owned()));
        assert_eq!(missing[1], Err("`trait_2`: missing".to_owned()));
        let presence = read_presence(&traits, &json!({"trait_1": {"present": true}, "trait_2": {"present": "yes"}}));
        assert_eq!(presence, Err("`trait_2`: expected `present` as a boolean".to_owned()));
    }
}
