//! One person who is several, and authorization servers that only the entry knows.

use serde_json::json;

use crate::login::{CREDENTIALS, Reader};

#[test]
fn each_profile_has_sign_ins_of_its_own() {
    let reader = Reader::new();
    let code = |arguments: &[&str]| reader.run(arguments).code;
    assert_eq!((code(&["login", "docs"]), code(&["tools"])), (0, 0));
    let told = reader.run(&["tools", "--profile", "work"]);
    assert!(told.code == 3 && told.err.ends_with("hint: sign in: wharf login docs --profile work\n"), "{}", told.err);
    // What one of them was refused is not the other's.
    let asked = reader.server.count("", "");
    assert_eq!((code(&["tools", "--profile", "work"]), reader.server.count("", "")), (3, asked));
    assert_eq!(code(&["tools", "--profile", "home"]), 3);
    assert!(reader.server.count("", "") > asked);

    assert_eq!(code(&["login", "docs", "--profile", "work"]), 0);
    assert_eq!(reader.server.count("GET /authorize", ""), 2);
    let kept = |text: &str| reader.person.read(CREDENTIALS).matches(text).count();
    assert_eq!((code(&["tools", "--profile", "work"]), kept("acc3ss-")), (0, 2));
    let mut by_variable = reader.wharf(&["logout", "docs"]);
    by_variable.env("WHARF_PROFILE", "work");
    assert_eq!(crate::ran(by_variable).err, "signed out of docs\n");
    assert_eq!((code(&["tools"]), kept("acc3ss-")), (0, 1));
    assert_eq!(code(&["tools", "--profile", "default"]), 0);
    let odd = reader.run(&["tools", "--profile", "a/b"]);
    assert!(odd.code == 2 && odd.err.contains("invalid name in --profile or WHARF_PROFILE"), "{}", odd.err);
}

#[test]
fn who_lets_us_in_may_stand_in_the_entry() {
    let other = super::guarded::Guarded::start();
    let elsewhere = other.url().replace("/mcp", "/.well-known/oauth-authorization-server");
    let reader = Reader::with(&json!({"oauth": {"authServerMetadataUrl": elsewhere}}));
    other.state().resource = Some(reader.server.url());
    // The server knows nothing of tokens that others give out.
    let ran = reader.run(&["login", "docs"]);
    assert!(ran.code == 3 && ran.err.contains("signed in, but the server rejects the credentials"), "{}", ran.err);
    assert_eq!((other.count("GET /authorize", ""), reader.server.count("GET /authorize", "")), (1, 0));
    assert_eq!(reader.server.count("GET /.well-known/oauth-authorization-server", ""), 0);
}
