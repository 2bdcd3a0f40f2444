//! When two servers are one and the same.

use super::address;
use super::server::{Server, StdioConfig, TransportConfig};

/// What tells a server from others, whatever it is called: its address, or the process that it is.
///
/// It holds values of variables, so it is compared and never shown.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(crate) struct Signature(Vec<String>);

impl Signature {
    pub(crate) fn of(server: &Server) -> Self {
        Self(match &server.reach {
            TransportConfig::Http(remote) | TransportConfig::Sse(remote) | TransportConfig::WebSocket(remote) => {
                vec!["url".into(), address::normal(&remote.url)]
            }
            TransportConfig::Stdio(launch) => process("stdio".into(), launch),
            TransportConfig::Managed(manage) => {
                process(format!("managed {}:{}{}", manage.host, manage.port, manage.path), &manage.launch)
            }
            TransportConfig::Custom(name, _) => vec!["custom".into(), name.to_string()],
        })
    }
}

/// Counts keep an argument from passing for a variable.
fn process(kind: String, launch: &StdioConfig) -> Vec<String> {
    let cwd = launch.cwd.as_ref().map(|cwd| cwd.to_string_lossy().into_owned());
    let counts = format!("{} {} {}", launch.args.len(), launch.env.len(), cwd.is_some());
    let mut parts = vec![kind, counts, launch.command.clone()];
    parts.extend(launch.args.iter().cloned());
    parts.extend(launch.env.iter().flat_map(|(name, value)| [name.clone(), value.expose().to_owned()]));
    parts.extend(cwd);
    parts
}
