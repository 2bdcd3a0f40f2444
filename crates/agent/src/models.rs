//! The models behind wires: how each provider is asked, and what its answers mean.
//!
//! [`Anthropic`] speaks the Messages API, [`OpenAi`] speaks Chat Completions in all its [`Dialect`]s. Both share one way
//! over HTTP (`wire`), one set of errors and one rule: what a provider said is kept as it was written, and said to it
//! again byte for byte.
//! [`Providers`] makes the one that somebody names, and [`ModelConfig`] is how files name them.

mod anthropic;
mod config;
mod endpoint;
mod factory;
mod ids;
mod openai;
mod prices;
#[cfg(test)]
mod table;
mod wire;

pub use anthropic::Anthropic;
pub use config::{InvalidConfig, ModelConfig};
pub use endpoint::{Endpoint, InvalidEndpoint, ProviderTimeouts};
pub use factory::{Interface, InvalidModel, ModelSpec, Providers, ResolvedModel, Unavailable};
pub use openai::{Dialect, OpenAi};
pub use prices::Priced;

/// The images that providers take; any other makes them refuse the whole request.
const IMAGES: [&str; 4] = ["image/png", "image/jpeg", "image/gif", "image/webp"];
