//! A simple handwritten loop: a pooled HTTP client, JSON values, and nothing else.

use serde_json::{Value, json};

/// Requests a response, runs its tool calls, and repeats until the response has none.
#[derive(Clone)]
pub(super) struct HandwrittenLoop {
    pub(super) http: reqwest::Client,
    pub(super) url: String,
    pub(super) stream: bool,
}

impl HandwrittenLoop {
    pub(super) async fn run(&self) -> String {
        let mut messages = vec![json!({"role": "user", "content": "How much?"})];
        for _ in 0..25 {
            let response = self.request(&messages).await;
            let calls =
                response["content"].as_array().into_iter().flatten().filter(|block| block["type"] == "tool_use");
            let results: Vec<Value> = calls
                .map(|call| {
                    let sum = call["input"]["a"].as_i64().unwrap_or(0) + call["input"]["b"].as_i64().unwrap_or(0);
                    json!({"type": "tool_result", "tool_use_id": call["id"], "content": sum.to_string()})
                })
                .collect();
            if results.is_empty() {
                let blocks = response["content"].as_array().into_iter().flatten();
                return blocks.filter_map(|block| block["text"].as_str()).collect();
            }
            messages.push(json!({"role": "assistant", "content": response["content"]}));
            messages.push(json!({"role": "user", "content": results}));
        }
        String::new()
    }

    async fn request(&self, messages: &[Value]) -> Value {
        let body = json!({"model": "instant", "max_tokens": 16384, "stream": self.stream, "messages": messages,
            "tools": [{"name": "add", "description": "Adds.", "input_schema": {"type": "object",
                "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}}}}]});
        let request =
            self.http.post(&self.url).header("x-api-key", "made-up").header("content-type", "application/json");
        let text = async { request.body(body.to_string()).send().await?.text().await }.await.expect("a response");
        if self.stream { assemble(&text) } else { serde_json::from_str(&text).expect("JSON") }
    }
}

/// Assembles a response from its events.
fn assemble(text: &str) -> Value {
    let mut blocks = Vec::<Value>::new();
    let mut arguments = String::new();
    for data in text.lines().filter_map(|line| line.strip_prefix("data: ")) {
        let event: Value = serde_json::from_str(data).expect("JSON");
        match event["type"].as_str() {
            Some("content_block_start") => {
                blocks.push(event["content_block"].clone());
                arguments.clear();
            }
            Some("content_block_delta") => {
                let last = blocks.last_mut().expect("a block");
                if let Some(text) = event["delta"]["text"].as_str() {
                    let before = last["text"].as_str().unwrap_or_default();
                    last["text"] = format!("{before}{text}").into();
                }
                arguments.push_str(event["delta"]["partial_json"].as_str().unwrap_or_default());
            }
            Some("content_block_stop") if !arguments.is_empty() => {
                blocks.last_mut().expect("a block")["input"] = serde_json::from_str(&arguments).expect("JSON");
            }
            _ => {}
        }
    }
    json!({"content": blocks})
}
