//! The dependencies between the crates, as ARCHITECTURE.md defines them.

use std::collections::BTreeSet;
use std::path::Path;

use crate::files;

/// The allowed dependencies of each crate, outside its tests.
const ARROWS: [(&str, &[&str]); 12] = [
    ("protocol", &[]),
    ("io", &[]),
    ("auth", &["wharf-io", "wharf-protocol"]),
    ("client", &["wharf-auth", "wharf-io", "wharf-protocol"]),
    ("server", &[]),
    ("config", &["wharf-client", "wharf-io", "wharf-protocol"]),
    // A fleet's hooks and managed servers are processes, which `io` starts.
    ("fleet", &["wharf-auth", "wharf-client", "wharf-config", "wharf-io", "wharf-protocol"]),
    ("agent", &["wharf-io", "wharf-protocol"]),
    ("verify", &["wharf-agent", "wharf-config", "wharf-fleet", "wharf-io", "wharf-protocol"]),
    ("testkit", &[]),
    (
        "wharf",
        &[
            "wharf-agent",
            "wharf-auth",
            "wharf-client",
            "wharf-config",
            "wharf-fleet",
            "wharf-io",
            "wharf-protocol",
            "wharf-server",
            "wharf-verify",
        ],
    ),
    ("cli", &["wharf"]),
];

fn dependencies(manifest: &str) -> BTreeSet<&str> {
    let section = manifest.split("\n[").find(|section| section.starts_with("dependencies]"));
    let names = section.into_iter().flat_map(str::lines).filter_map(|line| line.split(['.', ' ', '=']).next());
    names.filter(|name| name.starts_with("wharf") || *name == "rmcp" || *name == "tokio").collect()
}

#[test]
fn crates_only_have_allowed_dependencies() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let there: BTreeSet<String> = std::fs::read_dir(&crates)
        .expect("the crates")
        .map(|entry| entry.expect("a crate").file_name().to_string_lossy().into_owned())
        .collect();
    let drawn = ARROWS.iter().map(|(name, _)| (*name).to_owned()).collect();
    assert_eq!(there, drawn);
    for (name, allowed) in ARROWS {
        let manifest = std::fs::read_to_string(crates.join(name).join("Cargo.toml")).expect("a manifest");
        let used: BTreeSet<&str> =
            dependencies(&manifest).into_iter().filter(|used| used.starts_with("wharf")).collect();
        let allowed: BTreeSet<&str> = allowed.iter().copied().collect();
        assert!(used.is_subset(&allowed), "{name} depends on {used:?}; allowed are {allowed:?}");
    }
}

#[test]
fn protocol_has_no_runtime_and_client_no_third_party_client() {
    let manifest = |name: &str| {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(name).join("Cargo.toml");
        std::fs::read_to_string(path).expect("a manifest")
    };
    assert!(!dependencies(&manifest("protocol")).contains("tokio"));
    assert!(!dependencies(&manifest("client")).contains("rmcp"));
}

#[test]
fn only_client_and_server_depend_on_the_era() {
    let words = ["legacy", "modern", "2024-11-05", "2025-", "2026-07-28", "server/discover", "\"initialize\""];
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut looked_at = Vec::new();
    for name in ["protocol", "io", "auth", "config", "fleet", "wharf", "cli"] {
        files(&crates.join(name).join("src"), &mut looked_at);
    }
    for path in &looked_at {
        let text = std::fs::read_to_string(path).expect("a file").to_lowercase();
        // Names of third-party modules do not count.
        let text = text.replace("hyper_util::client::legacy", "");
        // The cli names a file for the cache of the client, and knows nothing of its contents.
        let text = text.replace("era_cache", "");
        let found: Vec<_> = words.iter().filter(|word| text.contains(**word)).collect();
        let era = text.split(|c: char| !c.is_alphanumeric()).any(|word| matches!(word, "era" | "eras"));
        assert!(found.is_empty() && !era, "{}: {found:?}", path.display());
    }
    assert!(looked_at.len() > 30, "{}", looked_at.len());
}
