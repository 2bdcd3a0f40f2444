//! Profiles, and authorization servers that are named only in the entry.

use serde_json::json;

use crate::login::{CREDENTIALS, Reader};

#[test]
fn each_profile_has_its_own_credentials() {
    let reader = Reader::new();
    let code = |arguments: &[&str]| reader.run(arguments).code;
    assert_eq!((code(&["login", "docs"]), code(&["tools"])), (0, 0));
    let ran = reader.run(&["tools", "--profile", "work"]);
    assert!(ran.code == 3 && ran.err.ends_with("hint: sign in: wharf login docs --profile work\n"), "{}", ran.err);
    // Auth failures of one profile do not affect another.
    let requests = reader.server.count("", "");
    assert_eq!((code(&["tools", "--profile", "work"]), reader.server.count("", "")), (3, requests));
    assert_eq!(code(&["tools", "--profile", "home"]), 3);
    assert!(reader.server.count("", "") > requests);

    assert_eq!(code(&["login", "docs", "--profile", "work"]), 0);
    assert_eq!(reader.server.count("GET /authorize", ""), 2);
    let stored = |text: &str| reader.person.read(CREDENTIALS).matches(text).count();
    assert_eq!((code(&["tools", "--profile", "work"]), stored("acc3ss-")), (0, 2));
    let mut by_variable = reader.wharf(&["logout", "docs"]);
    by_variable.env("WHARF_PROFILE", "work");
    assert_eq!(crate::ran(by_variable).err, "signed out of docs\n");
    assert_eq!((code(&["tools"]), stored("acc3ss-")), (0, 1));
    assert_eq!(code(&["tools", "--profile", "default"]), 0);
    let odd = reader.run(&["tools", "--profile", "a/b"]);
    assert!(odd.code == 2 && odd.err.contains("invalid name in --profile or WHARF_PROFILE"), "{}", odd.err);
}

#[test]
fn the_entry_can_name_the_authorization_server_metadata() {
    let other = super::protected_server::ProtectedServer::start();
    let elsewhere = other.url().replace("/mcp", "/.well-known/oauth-authorization-server");
    let reader = Reader::with(&json!({"oauth": {"authServerMetadataUrl": elsewhere}}));
    other.state().resource = Some(reader.server.url());
    // The server rejects tokens of other issuers.
    let ran = reader.run(&["login", "docs"]);
    assert!(ran.code == 3 && ran.err.contains("signed in, but the server rejects the credentials"), "{}", ran.err);
    assert_eq!((other.count("GET /authorize", ""), reader.server.count("GET /authorize", "")), (1, 0));
    assert_eq!(reader.server.count("GET /.well-known/oauth-authorization-server", ""), 0);
}
