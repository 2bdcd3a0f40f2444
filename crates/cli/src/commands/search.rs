//! `wharf search`: find servers in the MCP registry.

use serde::Serialize;
use wharf::config::registry::{FoundServers, LifecycleStatus, RegistryError, RegistryServer};

use super::listing::description;
use crate::config::Setup;
use crate::config::registry::registry;
use crate::exit::Exit;
use crate::globals::Globals;
use crate::interrupt::dropped_on_interrupt;
use crate::term;

#[derive(Debug, clap::Args)]
#[command(
    after_help = "The registry is https://registry.modelcontextprotocol.io, or the one in WHARF_REGISTRY_URL or in \
        `registry` of your configuration.\n\nExamples:\n  wharf search github\n  wharf search weather forecast --limit 5"
)]
pub(crate) struct Search {
    /// Words that the name, the title or the description contains; one of them must be in the name
    #[arg(value_name = "WORD", required = true)]
    words: Vec<String>,
    /// Number of servers to show
    #[arg(long, value_name = "COUNT", default_value_t = 20)]
    limit: usize,
}

/// The layout of `--json`.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct JsonSearch<'a> {
    version: u32,
    registry: &'a str,
    servers: Vec<JsonServer<'a>>,
    has_more: bool,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct JsonServer<'a> {
    name: &'a str,
    version: &'a str,
    title: Option<&'a str>,
    description: &'a str,
    repository: Option<&'a str>,
    status: &'static str,
    distribution: Vec<&'a str>,
}

pub(crate) async fn run(globals: &Globals, search: Search) -> Exit {
    dropped_on_interrupt(Box::pin(find(globals, &search))).await
}

async fn find(globals: &Globals, search: &Search) -> Exit {
    let registry = match Setup::read(globals).and_then(|setup| registry(&setup)) {
        Ok(registry) => registry,
        Err(error) => return term::usage_error(&error),
    };
    let found = match registry.search(&search.words, search.limit.max(1)).await {
        Ok(found) => found,
        Err(error) => {
            let message = match error {
                // The cause names the address.
                RegistryError::Unreachable(_) => error.to_string(),
                _ => format!("{}: {error}", registry.url()),
            };
            term::error(&message, &[], None);
            return Exit::Failed;
        }
    };
    if globals.json {
        let servers = found.servers.iter().map(json_server).collect();
        let result = JsonSearch { version: 1, registry: registry.url(), servers, has_more: found.has_more };
        return term::json(&result).await;
    }
    print(globals, search, &found).await
}

fn json_server(server: &RegistryServer) -> JsonServer<'_> {
    JsonServer {
        name: &server.name,
        version: &server.version,
        title: server.title.as_deref(),
        description: &server.description,
        repository: server.repository.as_deref(),
        status: server.status.as_str(),
        distribution: server.distribution(),
    }
}

async fn print(globals: &Globals, search: &Search, found: &FoundServers) -> Exit {
    let words = search.words.join(" ");
    if found.servers.is_empty() {
        if !globals.quiet {
            term::note(&format!("no server matches `{}`; the registry searches names", term::name(&words)));
        }
        return Exit::Done;
    }
    let row = |server: &RegistryServer| {
        let text = description(&server.description, globals);
        let text = match server.status {
            LifecycleStatus::Active => text,
            status => format!("({}) {text}", status.as_str()),
        };
        vec![term::name(&server.name), term::name(&server.version), term::name(&server.distribution().join(", ")), text]
    };
    let rows = found.servers.iter().map(row).collect();
    let written = term::out(term::table(&["server", "version", "as", "description"], rows)).await;
    if !globals.quiet {
        if found.has_more {
            term::note("more servers match; show them with --limit, or search for another word");
        }
        term::hint("add one: wharf add SERVER");
    }
    written
}
