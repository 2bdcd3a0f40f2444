//! The prompts of deep judgment: excerpts first, then the reasoning from them.

use serde_json::{Map, Value, json};
use wharf_protocol::{Message, Role};

use super::data::{self, Delimited};
use super::{JudgePrompt, JudgedAnswer, Section, prompt_with};
use crate::evidence::MAX_EXCERPT_CHARS;

/// What a judge gives excerpts for.
#[derive(Clone, Debug)]
pub(crate) struct EvidenceItem {
    /// Its key in the form.
    pub(crate) key: String,
    /// What it means, for the judge.
    pub(crate) description: String,
}

/// Asks the judge for excerpts of the answer, at most `max` for each item.
pub(crate) fn collect_excerpts(judged: JudgedAnswer<'_>, items: &[EvidenceItem], max: usize) -> JudgePrompt {
    let task = format!(
        "You read an answer to a question and copy the excerpts of the answer that each item of the form can be decided \
         from: at most {max} for each item, the most relevant ones first, each of at most {MAX_EXCERPT_CHARS} characters. \
         Copy them character by character, without leaving out or changing anything; every excerpt is searched in the \
         answer. Use an empty list if the answer contains nothing about an item. Do not decide anything yet."
    );
    let list = json!({"type": "array", "items": {"type": "string"}});
    prompt_with(
        &task,
        judged,
        &[],
        form(items, |item| {
            let mut list = list.clone();
            list["description"] = item.description.clone().into();
            list
        }),
    )
}

/// Shows the judge which of its excerpts were not found, and asks for others.
pub(crate) fn replace_excerpts(prompt: &mut JudgePrompt, answer: &str, missing: &[&str]) {
    let missing: Vec<String> = missing.iter().map(|text| format!("- {text}")).collect();
    let missing = missing.join("\n");
    let data = Delimited::new([answer, &missing]);
    let text = format!(
        "These excerpts are not in the answer:\n{}\nFill the whole form again. Keep the other excerpts, and replace these \
         by text that is copied from the answer, or leave them out.",
        data.section("missing", &missing)
    );
    prompt.messages.push(Message::text(Role::Assistant, data::capped(answer)));
    prompt.messages.push(Message::text(Role::User, text));
}

/// Asks the judge for its reasoning about each item, from the excerpts if there are any.
pub(crate) fn explain(judged: JudgedAnswer<'_>, items: &[EvidenceItem], excerpts: Option<&str>) -> JudgePrompt {
    let task = "You read an answer to a question and write for each item of the form, in a few sentences, what the answer \
        says about it and what follows from that. Do not judge whether the answer is true, and add nothing that you know \
        yourself. If the answer does not contain something, say so.";
    let sections: Vec<Section<'_>> = excerpts
        .map(|text| Section { name: "excerpts", what: "the excerpts of the answer", text })
        .into_iter()
        .collect();
    prompt_with(task, judged, &sections, form(items, |item| json!({"type": "string", "description": item.description})))
}

fn form(items: &[EvidenceItem], property: impl Fn(&EvidenceItem) -> Value) -> Value {
    let properties: Map<String, Value> = items.iter().map(|item| (item.key.clone(), property(item))).collect();
    let required: Vec<&String> = properties.keys().collect();
    json!({"type": "object", "additionalProperties": false, "required": required, "properties": properties})
}
