//! The consent to a completion that a server requests: the user sees what is sent to the model, and what comes back.

use wharf::agent::Model;
use wharf::{Json, Refusal, ServerName};

use super::elicitation::Form;
use super::shortened::{Line, ends, shortened};
use super::text::{counted, name, with_visible_blanks};
use crate::sampling::SamplingRequest;

/// Asks the user before a request is sent to the model, and before the answer is sent to the server.
pub(super) async fn answer(server: &ServerName, request: &Json, model: &dyn Model) -> Result<Json, Refusal> {
    let request = SamplingRequest::read(request)?;
    let form = Form { server };
    let limit = counted(usize::try_from(request.max_tokens()).unwrap_or(usize::MAX), "token");
    form.say(&format!("requests a completion of {}:{}, at most {limit}", model.interface(), model.name()));
    let messages: Vec<Text> = request.texts().map(|(role, text)| Text { label: role, text }).collect();
    if !is_confirmed(&form, &messages, "send this to the model?").await {
        return Err(Refusal("the user declined the request".to_owned()));
    }
    let completion = request.complete(model).await.map_err(|error| {
        // The text of the provider may name an account, which is none of the server's business.
        form.say(&format!("the model failed: {error}"));
        Refusal("the model failed".to_owned())
    })?;
    let answer = [Text { label: "answer", text: completion.text.clone() }];
    if !is_confirmed(&form, &answer, "send this to the server?").await {
        return Err(Refusal("the user declined the answer".to_owned()));
    }
    Ok(completion.result())
}

async fn is_confirmed(form: &Form<'_>, texts: &[Text], question: &str) -> bool {
    let short = shortened(texts);
    let mut is_cut = short.is_cut;
    short.lines.iter().for_each(|line| form.say(line));
    loop {
        let show = if is_cut { "[s]how everything, " } else { "" };
        match form.ask(&format!("{question} [y]es, {show}[N]o")).await.as_deref() {
            Ok("y" | "Y" | "yes") => return true,
            Ok("s" | "S" | "show") if is_cut => {
                is_cut = false;
                for text in texts {
                    form.say(&text.whole());
                }
            }
            _ => return false,
        }
    }
}

/// Returns a text without line breaks and long blanks, with which it could imitate other rows of the question.
fn visible(text: &str) -> String {
    with_visible_blanks(&name(text))
}

/// A text with its author.
struct Text {
    label: &'static str,
    text: String,
}

impl Line for Text {
    fn whole(&self) -> String {
        format!("{}: {}", self.label, visible(&self.text))
    }

    fn short(&self) -> (String, bool) {
        match ends(&self.text, visible) {
            Some(short) => (format!("{}: {short}", self.label), true),
            None => (self.whole(), false),
        }
    }
}
