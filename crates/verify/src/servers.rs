//! The servers of a trial: the benchmark's, the question's and the model's, as written.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use wharf_protocol::ServerName;

use crate::benchmark::{Benchmark, Isolation, Question};
use crate::digest::digest;
use crate::model_under_test::{ModelUnderTest, OWN_SERVERS};
use crate::tool_set::ToolSet;

/// The servers of one model for one question.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct ServerSet {
    /// A URL, a command line or a complete entry for each name.
    pub servers: Map<String, Value>,
    /// The other MCP keys of the model: its tool filter, its tool descriptions and its timeouts.
    pub model_keys: Map<String, Value>,
    /// The servers without which a trial is invalid.
    pub required: Vec<ServerName>,
}

/// The tools that were offered when the run was planned, by [`ServerSet::key`].
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ToolSets(pub BTreeMap<String, ToolSet>);

impl ServerSet {
    /// Merges the servers of a question, a benchmark and a model. Of the same name, the model's wins, then the
    /// question's. A manual model has none.
    pub fn of(benchmark: &Benchmark, question: &Question, model: &ModelUnderTest) -> Self {
        if model.settings.is_manual() {
            return Self::default();
        }
        let mut servers = benchmark.servers.clone();
        servers.extend(question.servers.clone());
        servers.extend(model.settings.own_servers().cloned().unwrap_or_default());
        let mut model_keys = model.settings.mcp_keys.clone();
        model_keys.remove(OWN_SERVERS);
        let mut required = benchmark.defaults.required_servers.clone();
        required.extend(question.required_servers.iter().cloned());
        required.sort();
        required.dedup();
        Self { servers, model_keys, required }
    }

    /// Returns the sets that a run opens, each once: the host opens them to find the tools before it plans.
    pub fn all(benchmark: &Benchmark, models: &[ModelUnderTest]) -> Vec<Self> {
        let mut sets: BTreeMap<String, Self> = BTreeMap::new();
        for question in &benchmark.questions {
            for model in models {
                let set = Self::of(benchmark, question, model);
                if set.is_empty() {
                    continue;
                }
                match sets.entry(set.key()) {
                    std::collections::btree_map::Entry::Vacant(entry) => drop(entry.insert(set)),
                    std::collections::btree_map::Entry::Occupied(mut entry) => {
                        let required = &mut entry.get_mut().required;
                        required.extend(set.required);
                        required.sort();
                        required.dedup();
                    }
                }
            }
        }
        sets.into_values().collect()
    }

    /// Whether the model has no servers, and so answers without tools.
    pub fn is_empty(&self) -> bool {
        self.servers.is_empty()
    }

    /// Returns a digest of what is opened. Sets with the same key offer the same tools.
    pub fn key(&self) -> String {
        digest(&(&self.servers, &self.model_keys))
    }

    /// Returns the MCP keys of a model file that describe the whole set.
    pub fn as_model_keys(&self) -> Map<String, Value> {
        let mut keys = self.model_keys.clone();
        keys.insert(OWN_SERVERS.to_owned(), Value::Object(self.servers.clone()));
        keys
    }
}

impl ToolSets {
    /// Returns the tools of a set. A model without servers has no tools.
    pub fn get(&self, servers: &ServerSet) -> Option<&ToolSet> {
        static NO_TOOLS: ToolSet = ToolSet { tools: Vec::new(), instructions: Vec::new() };
        if servers.is_empty() { Some(&NO_TOOLS) } else { self.0.get(&servers.key()) }
    }
}

/// Returns whether the trials of a benchmark share these tools: as configured, or if no tool changes anything.
pub(crate) fn isolation(benchmark: &Benchmark, tools: &ToolSet) -> Isolation {
    let default = if tools.is_read_only() { Isolation::Shared } else { Isolation::Fresh };
    benchmark.defaults.isolation.unwrap_or(default)
}
