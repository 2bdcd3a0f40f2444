//! Costs and context windows from a built-in table, without network access.

use std::sync::Arc;

use genai_prices::{Calculator, PriceRequest, UsageKey};
use wharf_protocol::{BoxFuture, Usage};

use crate::{Capabilities, Model, ModelError, ModelRequest, ModelResponse};

/// A model with costs from the table, for providers that do not report them.
pub struct Priced {
    model: Arc<dyn Model>,
}

impl Priced {
    /// Adds costs to the responses of a model.
    pub fn new(model: Arc<dyn Model>) -> Self {
        Self { model }
    }

    fn cost(&self, response: &ModelResponse) -> Option<f64> {
        cost_of(self.model.interface(), [&response.model, self.model.name()], &response.usage)
    }
}

/// Returns the name of an interface's provider in the table.
fn provider(interface: &str) -> Option<&'static str> {
    match interface {
        "anthropic" => Some("anthropic"),
        "openai" => Some("openai"),
        "openrouter" => Some("openrouter"),
        // Prices at other endpoints are unknown.
        _ => None,
    }
}

/// Returns whether the cost of a model's requests is known: its provider reports it, or the table has a price.
pub fn has_price(interface: &str, name: &str) -> bool {
    interface == "openrouter"
        || cost_of(interface, [name, name], &Usage { input_tokens: 1, ..Usage::default() }).is_some()
}

/// Returns the cost of a request, under the first of the names that the table knows.
pub(super) fn cost_of(interface: &str, names: [&str; 2], usage: &Usage) -> Option<f64> {
    let provider = provider(interface)?;
    let usage = tokens(usage);
    let price = |model: &str| {
        let request = PriceRequest::new(model, &usage).with_provider_id(provider);
        Calculator::bundled().calculate(&request).ok().map(|price| price.total_price)
    };
    names.into_iter().find_map(price)
}

/// Returns the context window of a model in tokens, if the table knows it. It does not depend on what a provider reports.
pub fn known_context_window(interface: &str, name: &str) -> Option<u64> {
    let provider = provider(interface)?;
    let provider = Calculator::bundled().providers().find(|one| one.id() == provider)?;
    let models = provider.models().filter(|model| is_version_of(name, model.id()));
    // A longer name is a more exact one.
    let known = models.filter_map(|model| Some((model.id().len(), model.context_window()?)));
    known.max_by_key(|(length, _)| *length).map(|(_, window)| window)
}

/// Returns whether a name is that of a model, perhaps with the date of its version.
fn is_version_of(name: &str, model: &str) -> bool {
    let Some(rest) = name.strip_prefix(model) else { return false };
    let is_date = |rest: &str| !rest.is_empty() && rest.chars().all(|c| c.is_ascii_digit() || c == '-');
    rest.is_empty() || rest == "-latest" || rest.strip_prefix(['-', '@']).is_some_and(is_date)
}

#[expect(clippy::cast_precision_loss, reason = "token counts are far below 2^52")]
fn tokens(usage: &Usage) -> genai_prices::Usage {
    genai_prices::Usage::from([
        (UsageKey::INPUT_TOKENS, usage.input_tokens as f64),
        (UsageKey::OUTPUT_TOKENS, usage.output_tokens as f64),
        (UsageKey::CACHE_READ_TOKENS, usage.cache_read_tokens as f64),
        (UsageKey::CACHE_WRITE_TOKENS, usage.cache_write_tokens as f64),
    ])
}

impl Model for Priced {
    fn interface(&self) -> &str {
        self.model.interface()
    }

    fn name(&self) -> &str {
        self.model.name()
    }

    fn capabilities(&self) -> Capabilities {
        self.model.capabilities()
    }

    fn complete<'a>(&'a self, request: &'a ModelRequest<'a>) -> BoxFuture<'a, Result<ModelResponse, ModelError>> {
        Box::pin(async move {
            let mut response = self.model.complete(request).await?;
            if response.usage.cost_usd.is_none() {
                response.usage.cost_usd = self.cost(&response);
            }
            Ok(response)
        })
    }

    fn context_window(&self) -> BoxFuture<'_, Option<u64>> {
        Box::pin(async move {
            // The table needs no request.
            match known_context_window(self.model.interface(), self.model.name()) {
                Some(window) => Some(window),
                None => self.model.context_window().await,
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ModelOptions, StopReason};
    use wharf_protocol::{Message, Role};

    /// Always returns the same response: interface, model name, and reported cost.
    struct Fixed(&'static str, &'static str, Option<f64>);

    impl Model for Fixed {
        fn interface(&self) -> &str {
            self.0
        }

        fn name(&self) -> &str {
            self.1
        }

        fn capabilities(&self) -> Capabilities {
            Capabilities::default()
        }

        fn complete<'a>(&'a self, _: &'a ModelRequest<'a>) -> BoxFuture<'a, Result<ModelResponse, ModelError>> {
            let usage = Usage {
                input_tokens: 100_000,
                output_tokens: 1_000,
                cache_read_tokens: 100_000,
                cost_usd: self.2,
                ..Usage::default()
            };
            let response = ModelResponse {
                message: Message::text(Role::Assistant, "yes"),
                stop: StopReason::EndTurn,
                model: self.1.to_owned(),
                id: None,
                usage,
            };
            Box::pin(std::future::ready(Ok(response)))
        }
    }

    async fn cost(interface: &'static str, name: &'static str, reported: Option<f64>) -> Option<f64> {
        let request = ModelRequest {
            messages: &[],
            instructions: &[],
            tools: &[],
            all_tools: &[],
            options: &ModelOptions::default(),
            purpose: crate::RequestPurpose::TURN,
            on_delta: &|_| {},
        };
        Priced::new(Arc::new(Fixed(interface, name, reported))).complete(&request).await.unwrap().usage.cost_usd
    }

    #[tokio::test]
    async fn unreported_costs_come_from_the_table_and_are_never_guessed() {
        // 100,000 cached tokens at $0.30 per million, and 1,000 output tokens at $15 per million.
        let known = cost("anthropic", "claude-sonnet-4-5", None).await.unwrap();
        assert!((known - 0.045).abs() < 1e-9, "{known}");
        assert_eq!(cost("openrouter", "anything", Some(0.25)).await, Some(0.25));
        assert_eq!(cost("anthropic", "no-such-model-at-all", None).await, None);
        assert_eq!(cost("ollama", "claude-sonnet-4-5", None).await, None);
    }

    #[tokio::test]
    async fn the_context_window_is_known_for_models_of_the_table() {
        let window = async |interface, name| Priced::new(Arc::new(Fixed(interface, name, None))).context_window().await;
        assert!(window("anthropic", "claude-sonnet-4-5").await.is_some_and(|tokens| tokens >= 100_000));
        assert_eq!(window("ollama", "claude-sonnet-4-5").await, None);
        let dated = known_context_window("anthropic", "claude-sonnet-4-5-20250929");
        assert_eq!((dated.is_some(), dated), (true, known_context_window("anthropic", "claude-sonnet-4-5")));
        assert_eq!(known_context_window("anthropic", "claude-sonnet-4-5-other"), None);
    }
}
