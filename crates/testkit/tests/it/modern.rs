//! The two third-party servers of the 2026-07-28 revision: both respond and offer the same, so that a test can run against
//! both.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Command, Stdio};

use serde_json::{Value, json};
use wharf_testkit::{peers, rmcp_server};

fn python() -> Command {
    let root = peers();
    let mut python = Command::new(root.join(".peers/py2/bin/python"));
    python.arg(root.join("peers/mcp2_modern.py"));
    python
}

/// Sends requests to a stdio server in order and returns the results. The server must end with its input.
fn results(mut server: Command, requests: &[(&str, Value)]) -> Vec<Value> {
    let mut child = server.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let mut stdout = BufReader::new(child.stdout.take().unwrap()).lines();
    let ask = |(method, params): &(&str, Value)| {
        let mut params = params.clone();
        params["_meta"] = json!({
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {"extensions": {"io.modelcontextprotocol/tasks": {}}},
        });
        writeln!(stdin, "{}", json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params})).unwrap();
        let answer: Value = serde_json::from_str(&stdout.next().unwrap().unwrap()).unwrap();
        answer["result"].clone()
    };
    let results = requests.iter().map(ask).collect();
    drop(stdin);
    assert_eq!(child.wait().unwrap().code(), Some(0));
    results
}

#[test]
fn both_peers_are_discovered_without_a_handshake() {
    for (server, name) in [(python(), "wharf-peer-mcp2-modern"), (Command::new(rmcp_server()), "wharf-peer-rmcp")] {
        let found = &results(server, &[("server/discover", json!({}))])[0];
        assert_eq!(found["_meta"]["io.modelcontextprotocol/serverInfo"]["name"], name);
        let versions = found["supportedVersions"].as_array().unwrap();
        assert!(versions.contains(&json!("2026-07-28")), "{versions:?}");
        assert_eq!(found["capabilities"]["extensions"], json!({"io.modelcontextprotocol/tasks": {}}));
    }
}

#[test]
fn both_peers_offer_the_same() {
    let lists = ["tools/list", "prompts/list", "resources/list", "resources/templates/list"];
    let requests = lists.map(|list| (list, json!({})));
    let [python, rmcp] = [python(), Command::new(rmcp_server())].map(|server| {
        let offers = results(server, &requests).into_iter();
        offers.map(|mut list| {
            // Only the name of the server may differ.
            list.as_object_mut().unwrap().remove("_meta");
            list
        })
    });
    for ((list, python), rmcp) in lists.into_iter().zip(python).zip(rmcp) {
        assert_eq!(python, rmcp, "{list}");
        assert_eq!(python["resultType"], "complete");
    }
}
