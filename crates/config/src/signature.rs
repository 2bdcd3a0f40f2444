//! Whether two entries configure the same server.

use crate::address;
use crate::server::{Server, StdioConfig, TransportConfig};

/// What identifies a server, whatever its name: its URL, or its process.
///
/// Contains values of variables, so it is only compared, never displayed.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(crate) struct Signature(Vec<String>);

impl Signature {
    pub(crate) fn of(server: &Server) -> Self {
        Self(match &server.transport {
            TransportConfig::Http(remote) | TransportConfig::Sse(remote) | TransportConfig::WebSocket(remote) => {
                vec!["url".into(), address::normalize(&remote.url)]
            }
            TransportConfig::Stdio(stdio) => process("stdio".into(), stdio),
            TransportConfig::Managed(managed) => {
                process(format!("managed {}:{}{}", managed.host, managed.port, managed.path), &managed.launch)
            }
            TransportConfig::Custom(name, _) => vec!["custom".into(), name.to_string()],
        })
    }
}

/// Includes the counts, so that an argument cannot be mistaken for a variable.
fn process(kind: String, config: &StdioConfig) -> Vec<String> {
    let cwd = config.cwd.as_ref().map(|cwd| cwd.to_string_lossy().into_owned());
    let counts = format!("{} {} {}", config.args.len(), config.env.len(), cwd.is_some());
    let mut parts = vec![kind, counts, config.command.clone()];
    parts.extend(config.args.iter().cloned());
    parts.extend(config.env.iter().flat_map(|(name, value)| [name.clone(), value.expose().to_owned()]));
    parts.extend(cwd);
    parts
}
