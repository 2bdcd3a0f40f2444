//! Where the API key of a model in a file may be sent.
//!
//! A model file is untrusted: it names a base URL, and with it who receives the key. The key of a provider, which is in the
//! environment for all models, therefore goes to that provider's own address only. The key of the user's own endpoint
//! goes to no address of a file, because only the command line names that endpoint.

use wharf_io::address::{self, HTTP_SCHEMES, default_port, is_loopback_host, normalize_host};

use super::{Interface, ModelConfig};

/// Looks up an environment variable.
type Lookup<'a> = &'a dyn Fn(&str) -> Option<String>;

/// An API key that must not be sent where a model file wants it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UnsafeKey {
    /// The base URL is not encrypted, and not on this machine.
    #[error("its API key would be sent to {address} over unencrypted http")]
    Unencrypted {
        /// Scheme, host and port of the base URL.
        address: String,
    },
    /// The file reads the key of a provider for another address.
    #[error("{variable} would be sent to {address}, which is not its provider's address")]
    OtherAddress {
        /// The environment variable.
        variable: String,
        /// Scheme, host and port of the base URL.
        address: String,
    },
}

/// An environment variable that a model file reads for its API key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyVariable {
    /// The name of the variable.
    pub name: String,
    /// Scheme, host and port of the URL that its value is sent to.
    pub address: String,
}

impl ModelConfig {
    /// Returns an environment variable for this model. The variable of its provider's key has the key of the file. If the
    /// file has no key and names another address than the provider's own, it is not set.
    ///
    /// If the file refers to a variable that is not set, the key is empty, so that no other key is sent instead.
    pub fn variable(&self, name: &str, lookup: Lookup<'_>) -> Option<String> {
        if self.key_interface().and_then(Interface::key_variable) != Some(name) {
            return lookup(name);
        }
        match self.api_key() {
            Some(key) => Some(match self.key_variable() {
                Some(other) => lookup(other).unwrap_or_default(),
                None => key.to_owned(),
            }),
            None if self.names_other_address() => None,
            None => lookup(name),
        }
    }

    /// Returns the variable of the provider's key, if it is set and not used because the file names another address.
    pub fn withheld_variable(&self, lookup: Lookup<'_>) -> Option<&'static str> {
        let name = self.key_interface()?.key_variable()?;
        let is_withheld = self.api_key().is_none() && self.names_other_address() && lookup(name).is_some();
        is_withheld.then_some(name)
    }

    /// Returns the variable that the file reads for its key, and where its value is sent.
    pub fn read_variable(&self) -> Option<KeyVariable> {
        let name = self.key_variable()?.to_owned();
        Some(KeyVariable { name, address: self.address()? })
    }

    /// Checks that the key of the file may be sent to its base URL.
    ///
    /// # Errors
    /// Returns an error if the connection is not encrypted, or if the key is that of another provider.
    pub fn check_key(&self) -> Result<(), UnsafeKey> {
        let Some(address) = self.address().filter(|_| self.api_key().is_some()) else { return Ok(()) };
        if is_unencrypted(&address) {
            return Err(UnsafeKey::Unencrypted { address });
        }
        match self.key_variable() {
            Some(variable) if !may_send(variable, &address) => {
                Err(UnsafeKey::OtherAddress { variable: variable.to_owned(), address })
            }
            _ => Ok(()),
        }
    }

    /// Returns the interface whose key is used.
    fn key_interface(&self) -> Option<Interface> {
        match self.known_interface().ok()? {
            // Its fallback.
            Interface::ClaudeCode => Some(Interface::Anthropic),
            interface => Some(interface),
        }
    }

    /// Whether the file names a base URL other than the provider's own.
    fn names_other_address(&self) -> bool {
        let own = self.key_interface().and_then(Interface::default_url).and_then(origin);
        let named = self.spec().ok().and_then(|spec| spec.base_url);
        // An invalid URL is reported later, and matches no provider.
        named.is_some_and(|url| own.is_none() || origin(&url) != own)
    }

    /// Returns scheme, host and port of the model's URL.
    fn address(&self) -> Option<String> {
        let named = self.spec().ok().and_then(|spec| spec.base_url);
        match named {
            Some(url) => origin(&url),
            None => self.key_interface()?.default_url().and_then(origin),
        }
    }
}

/// Returns whether a file may send a variable to an address. The key of a provider is for that provider only, and the key
/// of the user's own endpoint is for no address that a file names. Any other variable is the file's to name.
pub fn may_send(variable: &str, address: &str) -> bool {
    match Interface::ALL.into_iter().find(|interface| interface.key_variable() == Some(variable)) {
        None => true,
        Some(provider) => {
            let own = provider.default_url().and_then(origin);
            own.is_some() && origin(address) == own
        }
    }
}

/// Returns scheme, host and port of a URL, in one form for all ways to write them.
fn origin(url: &str) -> Option<String> {
    let uri = address::parse(url.trim(), HTTP_SCHEMES).ok()?;
    let scheme = uri.scheme_str()?;
    let host = normalize_host(uri.host()?);
    match address::explicit_port(&uri).ok()?.filter(|port| default_port(scheme) != Some(*port)) {
        Some(port) => Some(format!("{scheme}://{host}:{port}")),
        None => Some(format!("{scheme}://{host}")),
    }
}

/// Returns whether what is sent to an address can be read on its way: it is neither encrypted nor on this machine.
pub fn is_unencrypted(address: &str) -> bool {
    let Ok(uri) = address::parse(address.trim(), &["http", "https", "ws", "wss"]) else { return false };
    matches!(uri.scheme_str(), Some("http" | "ws")) && !uri.host().is_some_and(is_loopback_host)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn model(text: &str) -> ModelConfig {
        ModelConfig::parse(text, &[]).unwrap().remove(0)
    }

    fn ambient(name: &str) -> Option<String> {
        ["ANTHROPIC_API_KEY", "OPENAI_API_KEY", "OPENAI_ENDPOINT_API_KEY", "MINE", "ANTHROPIC_BASE_URL"]
            .contains(&name)
            .then(|| format!("value of {name}"))
    }

    #[test]
    fn only_remote_addresses_without_tls_are_unencrypted() {
        for address in ["http://192.0.2.1/mcp", "HTTP://evil.test", "ws://evil.test/mcp", "http://[2001:db8::1]:80/"] {
            assert!(is_unencrypted(address), "{address}");
        }
        for address in
            ["https://evil.test", "wss://evil.test", "http://127.0.0.1:1/", "http://[::1]/", "ws://localhost"]
        {
            assert!(!is_unencrypted(address), "{address}");
        }
    }

    #[test]
    fn an_ambient_key_is_not_sent_to_a_base_url_of_the_file() {
        for (text, name) in [
            ("{model_name: m, interface: claude_tool, anthropic_base_url: 'https://evil.test'}", "ANTHROPIC_API_KEY"),
            (
                "{model_name: m, interface: claude_agent_sdk, anthropic_base_url: 'https://evil.test'}",
                "ANTHROPIC_API_KEY",
            ),
            (
                "{model_name: m, interface: claude_tool, anthropic_base_url: 'https://api.anthropic.com.evil.test'}",
                "ANTHROPIC_API_KEY",
            ),
            (
                "{model_name: m, interface: claude_tool, anthropic_base_url: 'https://api.anthropic.com:444'}",
                "ANTHROPIC_API_KEY",
            ),
            (
                "{model_name: m, interface: claude_tool, anthropic_base_url: 'http://api.anthropic.com'}",
                "ANTHROPIC_API_KEY",
            ),
            (
                "{model_name: m, interface: claude_tool, anthropic_base_url: 'https://api.anthropic.com@evil.test'}",
                "ANTHROPIC_API_KEY",
            ),
            ("{model_name: m, interface: openai, endpoint_base_url: 'https://evil.test'}", "OPENAI_API_KEY"),
            (
                "{model_name: m, interface: openai_endpoint, endpoint_base_url: 'https://evil.test'}",
                "OPENAI_ENDPOINT_API_KEY",
            ),
        ] {
            let model = model(text);
            assert_eq!(
                (model.variable(name, &ambient), model.withheld_variable(&ambient)),
                (None, Some(name)),
                "{text}"
            );
            assert!(model.variable("MINE", &ambient).is_some(), "other variables are not affected");
        }
        for text in [
            "{model_name: m, interface: claude_tool}",
            "{model_name: m, interface: claude_tool, anthropic_base_url: 'https://API.anthropic.com:443/v1'}",
        ] {
            let model = model(text);
            let key = model.variable("ANTHROPIC_API_KEY", &ambient);
            assert_eq!((key.as_deref(), model.withheld_variable(&ambient)), (Some("value of ANTHROPIC_API_KEY"), None));
        }
    }

    #[test]
    fn a_key_of_the_file_is_not_sent_unencrypted() {
        let check = |url: &str| {
            model(&format!("{{model_name: m, interface: openai, endpoint_base_url: '{url}', endpoint_api_key: k}}"))
                .check_key()
        };
        let address = "http://gpu.test:8000".to_owned();
        assert_eq!(check("http://gpu.test:8000/v1"), Err(UnsafeKey::Unencrypted { address }));
        for fine in ["https://gpu.test/v1", "http://127.0.0.1:8000/v1", "http://localhost/v1", "http://[::1]:1/v1"] {
            assert_eq!(check(fine), Ok(()), "{fine}");
        }
        assert_eq!(
            model("{model_name: m, interface: openai, endpoint_base_url: 'http://gpu.test'}").check_key(),
            Ok(())
        );
    }

    #[test]
    fn a_variable_of_the_file_is_named_with_its_address_and_is_not_another_providers_key() {
        let endpoint = |variable: &str, url: &str| {
            model(&format!(
                "{{model_name: m, interface: openai_endpoint, endpoint_base_url: '{url}', endpoint_api_key: '${{{variable}}}'}}"
            ))
        };
        let mine = endpoint("MINE", "https://proxy.test:8443/v1");
        let address = "https://proxy.test:8443".to_owned();
        assert_eq!(mine.read_variable(), Some(KeyVariable { name: "MINE".to_owned(), address: address.clone() }));
        assert_eq!(
            (mine.check_key(), mine.variable("OPENAI_ENDPOINT_API_KEY", &ambient).as_deref()),
            (Ok(()), Some("value of MINE"))
        );
        let variable = "ANTHROPIC_API_KEY".to_owned();
        let taken = endpoint("ANTHROPIC_API_KEY", "https://proxy.test:8443/v1").check_key();
        assert_eq!(taken, Err(UnsafeKey::OtherAddress { variable, address }));
        let own_endpoint = endpoint("OPENAI_ENDPOINT_API_KEY", "https://evil.test/v1").check_key();
        let (variable, address) = ("OPENAI_ENDPOINT_API_KEY".to_owned(), "https://evil.test".to_owned());
        assert_eq!(own_endpoint, Err(UnsafeKey::OtherAddress { variable, address }));
        assert!(!may_send("OPENAI_ENDPOINT_API_KEY", "https://evil.test/mcp"));
        assert_eq!(endpoint("OPENROUTER_API_KEY", "https://openrouter.ai/api/v1").check_key(), Ok(()));
        let other =
            model("{model_name: m, interface: claude_tool, anthropic_api_key: '${OPENAI_API_KEY}'}").check_key();
        assert!(matches!(other, Err(UnsafeKey::OtherAddress { .. })), "{other:?}");
        assert_eq!(model("{model_name: m, interface: claude_tool, anthropic_api_key: k}").read_variable(), None);
    }
}
