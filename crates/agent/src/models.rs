//! Adapters for model APIs.
//!
//! [`Anthropic`] implements the Messages API, [`OpenAi`] implements Chat Completions in several [`Dialect`]s. They
//! share the HTTP layer (`wire`) and the classification of errors. A provider's message is stored as received and sent
//! back to it byte for byte.
//!
//! [`Providers`] creates a model from a [`ModelSpec`], for example `anthropic:claude-sonnet-4-5`. [`ModelConfig`] is a
//! model in a model file.

mod anthropic;
mod call_ids;
#[cfg(test)]
mod capability_table;
mod config;
mod endpoint;
mod factory;
mod key_destination;
mod openai;
mod openai_embeddings;
mod prices;
mod wire;

pub use anthropic::Anthropic;
pub use config::{InvalidConfig, ModelConfig};
pub use endpoint::{Endpoint, InvalidEndpoint, ProviderTimeouts};
pub use factory::{Interface, InvalidModel, ModelSpec, Providers, ResolvedModel, Unavailable};
pub use key_destination::{KeyVariable, UnsafeKey, is_unencrypted, may_send};
pub use openai::{Dialect, OpenAi};
pub use openai_embeddings::OpenAiEmbeddings;
pub use prices::{Priced, has_price, known_context_window};

/// The image types that all providers accept. Any other type makes them reject the whole request.
const SUPPORTED_IMAGE_TYPES: [&str; 4] = ["image/png", "image/jpeg", "image/gif", "image/webp"];
