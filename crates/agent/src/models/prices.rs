//! What answers cost, and how much models take: from a table that comes with the program, never from a network.

use std::sync::Arc;

use genai_prices::{Calculator, PriceRequest, UsageKey};
use wharf_protocol::{BoxFuture, Usage};

use crate::{Capabilities, Model, ModelError, ModelRequest, ModelResponse};

/// A model whose answers are priced, where its provider does not say what they cost and the table does.
pub struct Priced {
    model: Arc<dyn Model>,
    provider: Option<&'static str>,
}

impl Priced {
    /// Prices the answers of a model.
    pub fn new(model: Arc<dyn Model>) -> Self {
        let provider = match model.interface() {
            "anthropic" => Some("anthropic"),
            "openai" => Some("openai"),
            "openrouter" => Some("openrouter"),
            // Whoever is behind any other address, nobody knows what they take for it.
            _ => None,
        };
        Self { model, provider }
    }

    fn cost(&self, answer: &ModelResponse) -> Option<f64> {
        let (provider, usage) = (self.provider?, tokens(&answer.usage));
        let price = |model: &str| {
            let request = PriceRequest::new(model, &usage).with_provider_id(provider);
            Calculator::bundled().calculate(&request).ok().map(|price| price.total_price)
        };
        price(&answer.model).or_else(|| price(self.model.name()))
    }
}

#[expect(clippy::cast_precision_loss, reason = "nobody is sent so many tokens")]
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

    fn ask<'a>(&'a self, ask: &'a ModelRequest<'a>) -> BoxFuture<'a, Result<ModelResponse, ModelError>> {
        Box::pin(async move {
            let mut answer = self.model.ask(ask).await?;
            if answer.usage.cost_usd.is_none() {
                answer.usage.cost_usd = self.cost(&answer);
            }
            Ok(answer)
        })
    }

    fn window(&self) -> BoxFuture<'_, Option<u64>> {
        Box::pin(async move {
            if let Some(window) = self.model.window().await {
                return Some(window);
            }
            let provider = Calculator::bundled().providers().find(|one| Some(one.id()) == self.provider)?;
            let models = provider.models();
            models.filter(|model| model.id() == self.model.name()).find_map(genai_prices::ModelInfo::context_window)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ModelOptions, StopReason};
    use wharf_protocol::{Message, Role};

    /// Answers once, and may say what that cost.
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

        fn ask<'a>(&'a self, _: &'a ModelRequest<'a>) -> BoxFuture<'a, Result<ModelResponse, ModelError>> {
            let usage = Usage {
                input_tokens: 100_000,
                output_tokens: 1_000,
                cache_read_tokens: 100_000,
                cost_usd: self.2,
                ..Usage::default()
            };
            let (message, model) = (Message::text(Role::Assistant, "yes"), self.1.to_owned());
            Box::pin(std::future::ready(Ok(ModelResponse {
                message,
                stop: StopReason::EndTurn,
                model,
                id: None,
                usage,
            })))
        }
    }

    async fn cost(interface: &'static str, name: &'static str, said: Option<f64>) -> Option<f64> {
        let ask = ModelRequest {
            messages: &[],
            tools: &[],
            known: &[],
            options: &ModelOptions::default(),
            listener: &|_| {},
        };
        Priced::new(Arc::new(Fixed(interface, name, said))).ask(&ask).await.unwrap().usage.cost_usd
    }

    #[tokio::test]
    async fn what_a_provider_does_not_say_is_looked_up_and_never_made_up() {
        // A hundred thousand from the cache at $0.30 a million, and a thousand out at $15.
        let known = cost("anthropic", "claude-sonnet-4-5", None).await.unwrap();
        assert!((known - 0.045).abs() < 1e-9, "{known}");
        assert_eq!(cost("openrouter", "anything", Some(0.25)).await, Some(0.25));
        assert_eq!(cost("anthropic", "no-such-model-at-all", None).await, None);
        assert_eq!(cost("ollama", "claude-sonnet-4-5", None).await, None);
    }

    #[tokio::test]
    async fn what_a_model_takes_is_known_for_those_in_the_table() {
        let window = async |interface, name| Priced::new(Arc::new(Fixed(interface, name, None))).window().await;
        assert!(window("anthropic", "claude-sonnet-4-5").await.is_some_and(|tokens| tokens >= 100_000));
        assert_eq!(window("ollama", "claude-sonnet-4-5").await, None);
    }
}
