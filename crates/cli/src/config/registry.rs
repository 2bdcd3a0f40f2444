//! The MCP registry that is used: the organization's, that of the environment, the configured one, or the official one.

use wharf::config::registry::{OFFICIAL_REGISTRY, Registry};
use wharf::config::{Loaded, RawSetting};
use wharf::fleet::Scope;

use super::network;
use super::setup::Setup;
use crate::env::variable;
use crate::error::{UsageError, usage_error};

/// The variable with the URL of a registry.
const VARIABLE: &str = "WHARF_REGISTRY_URL";

/// Returns the client of the registry.
pub(crate) fn registry(setup: &Setup) -> Result<Registry, UsageError> {
    let url = url(&setup.loaded);
    let settings = network::settings(setup.session.deadlines.connect, &url)?;
    Registry::new(&url, settings).map_err(|error| {
        let hint = format!("fix `registry` in your configuration, or {VARIABLE}");
        usage_error(error.to_string(), Some(&hint))
    })
}

fn url(loaded: &Loaded) -> String {
    let text = |setting: &RawSetting| setting.value.as_str().map(str::to_owned);
    let (enterprise, others): (Vec<&RawSetting>, Vec<&RawSetting>) =
        loaded.registry.iter().partition(|setting| setting.scope == Scope::Enterprise);
    // A project's own file does not decide where this machine connects; loading has left its setting out.
    let organization = enterprise.into_iter().find_map(text);
    let configured = || others.into_iter().find_map(text);
    organization.or_else(|| variable(&[VARIABLE])).or_else(configured).unwrap_or_else(|| OFFICIAL_REGISTRY.to_owned())
}
