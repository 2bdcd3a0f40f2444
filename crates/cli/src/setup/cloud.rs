//! A provider's servers: asked for where somebody says so, and never where an organisation has rules of its own.

use serde_json::Value;
use wharf::config::{CloudText, Problem, RawSetting, Severity, cloud, load};
use wharf::fleet::Scope;

use super::{Setup, approvals};
use crate::network;
use crate::surroundings::variable;

impl Setup {
    /// Asks a provider, if there is one, and reads everything anew with its answer. A provider that does not answer costs
    /// its servers only.
    pub(super) async fn ask_provider(&mut self) {
        let Some(url) = variable(&["WHARF_CLOUD_URL"]).or_else(|| self.loaded.cloud.iter().find_map(address)) else {
            return;
        };
        if !self.loaded.cloud_allowed {
            return;
        }
        match self.fetch(&url).await {
            Ok(text) => {
                self.sources.cloud = Some(text);
                let (approvals, problem) = approvals(&self.places);
                self.loaded = load(&self.sources, &self.variables, &approvals);
                self.loaded.problems.extend(problem);
            }
            Err(reason) => {
                let message = format!("the provider's servers are missing: {reason}");
                // What its query may keep secret is not shown.
                let place = url.split(['?', '#']).next().unwrap_or_default();
                self.loaded.problems.push(Problem::of_file(Severity::Warning, place, message));
            }
        }
    }

    async fn fetch(&self, url: &str) -> Result<CloudText, String> {
        let settings = network::settings(self.session.deadlines.connect, url).map_err(|misuse| misuse.what)?;
        cloud::fetch(url, settings).await
    }
}

/// The address in a `cloud` setting. A project's own file does not decide whom this machine asks.
fn address(setting: &RawSetting) -> Option<String> {
    let trusted = matches!(setting.scope, Scope::Enterprise | Scope::Local | Scope::User);
    let url = match &setting.value {
        Value::Object(cloud) => cloud.get("url")?,
        other => other,
    };
    url.as_str().filter(|_| trusted).map(str::to_owned)
}
