//! The arrows between the crates, as ARCHITECTURE.md draws them.

use std::collections::BTreeSet;
use std::path::Path;

/// What each crate may depend on, outside its tests.
const ARROWS: [(&str, &[&str]); 7] = [
    ("protocol", &[]),
    ("io", &[]),
    ("client", &["wharf-io", "wharf-protocol"]),
    ("server", &[]),
    ("testkit", &[]),
    ("wharf", &["wharf-client", "wharf-io", "wharf-protocol", "wharf-server"]),
    ("cli", &["wharf"]),
];

fn dependencies(manifest: &str) -> BTreeSet<&str> {
    let section = manifest.split("\n[").find(|section| section.starts_with("dependencies]"));
    let names = section.into_iter().flat_map(str::lines).filter_map(|line| line.split(['.', ' ', '=']).next());
    names.filter(|name| name.starts_with("wharf") || *name == "rmcp" || *name == "tokio").collect()
}

#[test]
fn every_arrow_between_crates_is_one_that_was_decided() {
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
        assert!(used.is_subset(&allowed), "{name} depends on {used:?}; decided is {allowed:?}");
    }
}

#[test]
fn the_words_know_no_runtime_and_the_client_no_foreign_client() {
    let manifest = |name: &str| {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(name).join("Cargo.toml");
        std::fs::read_to_string(path).expect("a manifest")
    };
    assert!(!dependencies(&manifest("protocol")).contains("tokio"));
    assert!(!dependencies(&manifest("client")).contains("rmcp"));
}
