//! Signing in to servers: OAuth 2.1 as MCP uses it, from the first refusal to a token that renews itself.

mod browser;
mod callback;
mod store;
