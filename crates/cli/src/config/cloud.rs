//! The servers of a cloud provider.

use std::time::Duration;

use serde_json::Value;
use wharf::config::{CloudText, Loaded, Problem, RawSetting, Severity, cloud};
use wharf::fleet::Scope;

use super::network;
use crate::env::variable;

/// Returns the provider's URL, if one is configured and the organization allows it.
pub(super) fn url(loaded: &Loaded) -> Option<String> {
    let url = variable(&["WHARF_CLOUD_URL"]).or_else(|| loaded.cloud.iter().find_map(url_of_setting))?;
    loaded.cloud_allowed.then_some(url)
}

/// The URL of a `cloud` setting. A project's own file does not decide where this machine connects.
fn url_of_setting(setting: &RawSetting) -> Option<String> {
    if !matches!(setting.scope, Scope::Enterprise | Scope::Local | Scope::User) {
        return None;
    }
    let url = match &setting.value {
        Value::Object(cloud) => cloud.get("url")?,
        other => other,
    };
    url.as_str().map(str::to_owned)
}

/// Requests the provider's servers.
pub(super) async fn fetch(url: &str, connect: Duration) -> Result<CloudText, Problem> {
    let fetched = async {
        let settings = network::settings(connect, url).map_err(|error| error.message)?;
        cloud::fetch(url, settings).await
    };
    fetched.await.map_err(|reason| {
        // The query may hold a secret.
        let place = url.split(['?', '#']).next().unwrap_or_default();
        Problem::of_file(Severity::Warning, place, format!("cannot load the provider's servers: {reason}"))
    })
}
