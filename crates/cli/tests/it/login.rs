//! `wharf login` and `wharf logout` with a scripted browser, and stored credentials in all other commands.

mod auth_failures;
mod authenticate;
mod chromium;
mod profiles;
mod protected_server;

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};

use crate::{PROJECT, Person, RunOutput, USER, demo_entry, ran, run_output};
use protected_server::{ProtectedServer, SECRETS};

const CREDENTIALS: &str = "home/.local/state/wharf/auth/credentials.json";

/// A user with the server `docs` and a browser that follows all redirects.
struct Reader {
    server: ProtectedServer,
    person: Person,
}

impl Reader {
    fn new() -> Self {
        Self::with(&json!({"required": true}))
    }

    fn with(more: &Value) -> Self {
        let server = ProtectedServer::start();
        let mut entry = json!({"type": "http", "url": server.url()});
        entry.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let person = Person::new().with(USER, "docs", &entry);
        person.write("browser", "curl -sL \"$2\"\n");
        Self { server, person }
    }

    fn wharf(&self, arguments: &[&str]) -> Command {
        let mut command = self.person.wharf(arguments);
        command.env("BROWSER", self.browser());
        command
    }

    fn browser(&self) -> String {
        format!("sh '{}' --new-window", self.person.path("browser").display())
    }

    /// Runs the binary and asserts that it prints no secrets.
    fn run(&self, arguments: &[&str]) -> RunOutput {
        assert_no_secrets(ran(self.wharf(arguments)))
    }

    /// Runs the binary and formats the output without the parts that differ between runs.
    fn screen(&self, arguments: &[&str]) -> String {
        let ran = self.run(arguments);
        let text = self.person.screen(&ran);
        let url = self.server.url();
        text.lines()
            // Printed by binaries with keychain support if there is no keychain.
            .filter(|line| !line.starts_with("no keychain available"))
            .map(|line| if line.contains("/authorize?") { "URL".to_owned() } else { without_age(line) })
            .collect::<Vec<_>>()
            .join("\n")
            .replace(&url, "http://docs.test/mcp")
            .replace(url.trim_end_matches("/mcp"), "http://docs.test")
    }

    fn login(&self) {
        let ran = self.run(&["login", "docs"]);
        assert_eq!(ran.code, 0, "{}", ran.err);
    }

    /// Starts a login without a browser and reads up to the authorization URL.
    fn start_login(&self) -> (Child, BufReader<std::process::ChildStderr>, String) {
        let mut child = self.wharf(&["login", "docs", "--no-browser"]).stdin(Stdio::piped()).spawn().unwrap();
        let mut err = BufReader::new(child.stderr.take().unwrap());
        let mut url = String::new();
        while !url.contains("/authorize?") {
            url.clear();
            assert_ne!(err.read_line(&mut url).unwrap(), 0, "no authorization URL");
        }
        (child, err, url.trim().to_owned())
    }
}

/// Replaces the age of a cached auth failure.
fn without_age(line: &str) -> String {
    let printed =
        line.split_once("cached from ").and_then(|(before, printed)| Some((before, printed.split_once(" s ago")?.1)));
    printed.map_or_else(|| line.to_owned(), |(before, after)| format!("{before}cached from N s ago{after}"))
}

fn assert_no_secrets(ran: RunOutput) -> RunOutput {
    for secret in SECRETS {
        assert!(!ran.out.contains(secret) && !ran.err.contains(secret), "{secret}: {}", crate::screen(&ran));
    }
    ran
}

/// Returns the redirect target of a page.
fn redirect_target(url: &str) -> String {
    let curl = ["-s", "-o", "/dev/null", "-w", "%{redirect_url}", url];
    String::from_utf8(Command::new("curl").args(curl).output().unwrap().stdout).unwrap()
}

fn wait_for(child: Child, mut err: BufReader<std::process::ChildStderr>) -> RunOutput {
    let mut rest = String::new();
    err.read_to_string(&mut rest).unwrap();
    let ran = run_output(&child.wait_with_output().unwrap());
    assert_no_secrets(RunOutput { err: rest, ..ran })
}

#[test]
fn every_command_uses_the_stored_credentials() {
    let reader = Reader::new();
    insta::assert_snapshot!(reader.screen(&["list"]), @r#"
    exit 3
    --- stdout
    SERVER  SCOPE  TRANSPORT  STATE         TOOLS  DETAILS
    docs    user   http       ! needs-auth         authorization required (HTTP 401): challenge `Bearer resource_metadata="http://docs.test/.well-known/oauth-protected-resource/mcp"`
    --- stderr
    hint: sign in: wharf login docs
    "#);
    insta::assert_snapshot!(reader.screen(&["tools"]), @r"
    exit 3
    --- stdout
    --- stderr
    error: docs: authorization required (HTTP 401): cached from N s ago; without a sign-in the next attempt is in 15 min
    hint: sign in: wharf login docs
    ");
    insta::assert_snapshot!(reader.screen(&["call", "docs", "answer"]), @r"
    exit 3
    --- stdout
    --- stderr
    error: docs: authorization required (HTTP 401): cached from N s ago; without a sign-in the next attempt is in 15 min
    hint: sign in: wharf login docs
    ");
    insta::assert_snapshot!(reader.screen(&["login", "docs"]), @r"
    exit 0
    --- stdout
    --- stderr
    opening a browser to sign in to docs; if none appears, open this URL:
    URL
    signed in to docs: 2 tools
    ");
    let called = reader.run(&["call", "docs", "answer"]);
    assert_eq!((called.code, called.out.as_str(), called.err.as_str()), (0, "42\n", ""));
    for command in
        [&["tools", "docs"][..], &["list", "--json"], &["get", "docs"], &["get", "docs", "--json"], &["doctor"]]
    {
        let ran = reader.run(command);
        assert_eq!(ran.code, 0, "{command:?}: {}", ran.err);
    }
    assert_eq!(reader.server.count("GET /authorize", ""), 1);
    insta::assert_snapshot!(reader.screen(&["login", "docs"]), @r"
    exit 0
    --- stdout
    --- stderr
    already signed in to docs: 2 tools
    hint: to use another account, sign out first: wharf logout docs
    ");
    assert_eq!(
        reader.run(&["login", "docs", "--json"]).out,
        "{\"version\":1,\"name\":\"docs\",\"signedIn\":true,\"tools\":2}\n"
    );
}

/// With keychain support, on a system without a keychain.
#[cfg(feature = "keychain")]
#[test]
fn without_a_keychain_credentials_are_stored_in_a_file() {
    let reader = Reader::new();
    let ran = reader.run(&["login", "docs"]);
    let file = reader.person.path(CREDENTIALS);
    let end = format!("; storing credentials in {}, readable only by you\n", file.display());
    assert!(ran.code == 0 && ran.err.starts_with("no keychain available (") && ran.err.contains(&end), "{}", ran.err);
    assert!(reader.person.read(CREDENTIALS).contains("acc3ss-"));
    // Printed only when credentials are stored.
    assert_eq!(reader.run(&["tools"]).err, "");
}

#[test]
fn credentials_are_readable_only_by_their_owner() {
    let reader = Reader::new();
    reader.login();
    let mode = |name: &str| reader.person.path(name).metadata().unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(CREDENTIALS), mode("home/.local/state/wharf/auth")), (0o600, 0o700));
    assert!(reader.person.read(CREDENTIALS).contains("acc3ss-"));
    // Another config root has its own credentials.
    let root = reader.person.path("root");
    let mcp = format!("docs={}", reader.server.url());
    let elsewhere = ["--config-root", root.to_str().unwrap(), "--mcp", &mcp];
    assert_eq!(reader.run(&[&["tools"][..], &elsewhere].concat()).code, 3);
    let ran = reader.run(&[&["login", "docs"][..], &elsewhere].concat());
    assert!(ran.code == 0 && root.join("auth/credentials.json").is_file(), "{}", ran.err);
    assert_eq!(reader.run(&[&["tools"][..], &elsewhere].concat()).code, 0);
}

#[test]
fn without_a_browser_the_redirect_url_can_be_pasted() {
    let reader = Reader::new();
    let (mut child, err, url) = reader.start_login();
    let back = redirect_target(&url);
    // An empty line and a wrong URL come first.
    let pasted = format!("\nhttps://example.com/\n{back}\n");
    child.stdin.take().unwrap().write_all(pasted.as_bytes()).unwrap();
    let ran = wait_for(child, err);
    assert!(ran.code == 0 && ran.err.contains("signed in to docs: 2 tools"), "{}", ran.err);
    let wrong = "warning: this is not the redirect URL; paste the whole URL, it begins with http://";
    assert!(ran.err.contains(wrong), "{}", ran.err);
    assert_eq!(reader.run(&["tools"]).code, 0);
}

#[test]
fn a_manually_opened_browser_is_redirected_to_the_callback() {
    let reader = Reader::new();
    let (mut child, err, url) = reader.start_login();
    // There is no input on stdin.
    drop(child.stdin.take());
    assert!(Command::new("curl").args(["-sL", &url]).output().unwrap().status.success());
    let ran = wait_for(child, err);
    assert!(ran.code == 0 && ran.err.contains("signed in to docs: 2 tools"), "{}", ran.err);
}

#[test]
fn login_falls_back_to_pasting_when_no_browser_opens() {
    let reader = Reader::new();
    let mut command = reader.wharf(&["login", "docs"]);
    command.env("BROWSER", "no-such-browser").env("PATH", "/nowhere").stdin(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut err = BufReader::new(child.stderr.take().unwrap());
    let mut printed = String::new();
    let mut line = String::new();
    while !line.contains("paste the URL") {
        line.clear();
        assert_ne!(err.read_line(&mut line).unwrap(), 0, "{printed}");
        printed.push_str(&line);
    }
    assert!(printed.contains("cannot open a browser: `no-such-browser`: not found"), "{printed}");
    let url = printed.lines().find(|line| line.contains("/authorize?")).unwrap();
    child.stdin.take().unwrap().write_all(format!("{}\n", redirect_target(url)).as_bytes()).unwrap();
    assert_eq!(wait_for(child, err).code, 0);
}

#[test]
fn three_invalid_redirect_urls_end_the_login() {
    let reader = Reader::new();
    let (mut child, err, url) = reader.start_login();
    let other = redirect_target(&url).replace("state=", "state=x");
    child.stdin.take().unwrap().write_all(format!("what?\n{other}\n{other}\n").as_bytes()).unwrap();
    let ran = wait_for(child, err);
    let last = "error: docs: sign-in not completed: no redirect URL in 3 attempts; the last: this URL \
        belongs to another sign-in\n";
    assert!(ran.code == 1 && ran.err.ends_with(last), "{}", ran.err);
    assert!(!reader.person.path(CREDENTIALS).exists() || !reader.person.read(CREDENTIALS).contains("acc3ss"));
}

#[test]
fn a_denied_authorization_is_reported() {
    let reader = Reader::new();
    reader.server.state().authorization_error = Some("access_denied");
    insta::assert_snapshot!(reader.screen(&["login", "docs", "--json"]), @r#"
    exit 1
    --- stdout
    {"version":1,"name":"docs","signedIn":false,"tools":null,"error":"http://docs.test denied the request: access_denied"}
    --- stderr
    opening a browser to sign in to docs; if none appears, open this URL:
    URL
    error: docs: http://docs.test denied the request: access_denied
    "#);
}

#[test]
fn ctrl_c_interrupts_a_login() {
    let reader = Reader::new();
    let (child, err, _) = reader.start_login();
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    let ran = wait_for(child, err);
    assert!(ran.code == 130 && ran.err.contains("interrupted"), "{}: {}", ran.code, ran.err);
}

#[test]
fn logout_revokes_the_token() {
    let reader = Reader::new();
    reader.login();
    insta::assert_snapshot!(reader.screen(&["logout", "docs"]), @r"
    exit 0
    --- stdout
    --- stderr
    signed out of docs
    ");
    assert_eq!(reader.server.count("POST /revoke", "token=r3fresh-"), 1);
    assert_eq!(reader.run(&["tools"]).code, 3);
    insta::assert_snapshot!(reader.screen(&["logout", "docs"]), @r"
    exit 0
    --- stdout
    --- stderr
    not signed in to docs
    ");
    assert_eq!(
        reader.run(&["logout", "docs", "--json"]).out,
        "{\"version\":1,\"name\":\"docs\",\"signedOut\":false}\n"
    );
}

#[test]
fn logout_deletes_credentials_even_if_revocation_fails() {
    let reader = Reader::new();
    reader.login();
    reader.server.state().revocation_fails = true;
    insta::assert_snapshot!(reader.screen(&["logout", "docs"]), @r"
    exit 1
    --- stdout
    --- stderr
    error: docs: deleted the stored credentials, but could not revoke the token: http://docs.test/revoke cannot be reached: HTTP 503
    hint: the token stays valid until it expires; revoke it at its issuer if you can
    ");
    assert_eq!(reader.run(&["tools"]).code, 3);
}

#[test]
fn an_expired_token_is_refreshed_silently() {
    let reader = Reader::new();
    reader.login();
    // First the stored date has passed, then the server rejects the token.
    let mut stored: Value = serde_json::from_str(&reader.person.read(CREDENTIALS)).unwrap();
    assert_eq!(expire_all(&mut stored), 1);
    reader.person.write(CREDENTIALS, &stored.to_string());
    for renewed in 1..=2 {
        let called = reader.run(&["call", "docs", "answer"]);
        assert_eq!((called.code, called.out.as_str(), called.err.as_str()), (0, "42\n", ""));
        assert_eq!(reader.server.count("POST /token", "grant_type=refresh_token"), renewed);
        reader.server.expire();
    }
    assert_eq!(reader.server.count("GET /authorize", ""), 1);
}

/// Sets all expiry dates to the past. Returns how many there were.
fn expire_all(value: &mut Value) -> usize {
    match value {
        Value::Object(fields) => fields.iter_mut().fold(0, |count, (key, value)| {
            if key == "expires_at" && value.is_number() {
                *value = json!(1);
                return count + 1;
            }
            count + expire_all(value)
        }),
        Value::Array(items) => items.iter_mut().map(expire_all).sum(),
        _ => 0,
    }
}

#[test]
fn servers_with_the_same_url_share_credentials() {
    let reader = Reader::new();
    let entry = json!({"type": "http", "url": reader.server.url(), "headers": {"X-Team": "blue"}});
    let reader = Reader { person: reader.person.with(USER, "copy", &entry), server: reader.server };
    reader.login();
    assert_eq!(reader.run(&["tools", "copy"]).code, 0);
    let third = format!("third={}", reader.server.url());
    assert_eq!(reader.run(&["tools", "--only-mcp", "--mcp", &third]).code, 0);
    // The credentials stay until the last of these servers is removed.
    assert!(!reader.run(&["remove", "docs"]).err.contains("signed out"));
    assert_eq!(reader.run(&["tools", "copy"]).code, 0);
    let removed = reader.run(&["remove", "copy"]);
    assert!(removed.code == 0 && removed.err.ends_with("signed out of copy\n"), "{}", removed.err);
    assert_eq!(reader.server.count("POST /revoke", ""), 1);
    assert!(!reader.person.read(CREDENTIALS).contains("acc3ss-"));
}

#[test]
fn oauth_settings_of_the_entry_are_used_and_not_printed() {
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let mut client =
        json!({"clientId": "me", "clientSecret": "${SECRET}", "scopes": "read write", "callbackPort": port});
    let reader = Reader::with(&json!({"oauth": client}));
    // Without a terminal, the secret is not sent to an issuer that only the server names.
    let refused = reader.run(&["login", "docs"]);
    assert_eq!(refused.code, 1, "{}", refused.err);
    assert!(refused.err.contains("refused to send the client secret to http://127.0.0.1:"), "{}", refused.err);
    assert!(refused.err.contains("hint: confirm the issuer at a terminal, or set `oauth.authServerMetadataUrl`"));
    assert_eq!((reader.server.count("POST /token", ""), reader.server.count("GET /authorize", "")), (0, 0));
    let origin = reader.server.url().replace("/mcp", "");
    client["authServerMetadataUrl"] = format!("{origin}/.well-known/oauth-authorization-server").into();
    let entry = json!({"type": "http", "url": reader.server.url(), "oauth": client});
    let reader = Reader { person: reader.person.with(USER, "docs", &entry), server: reader.server };
    reader.login();
    assert_eq!(reader.server.count("POST /register", ""), 0);
    let params = reader.server.authorization_params();
    assert_eq!((params["client_id"].as_str(), params["scope"].as_str()), ("me", "read write"));
    assert_eq!(params["redirect_uri"], format!("http://127.0.0.1:{port}/callback"));
    // `me:s3cr3t`
    assert_eq!(reader.server.state().client_authentication.as_deref(), Some("Basic bWU6czNjcjN0"));
    for command in [&["get", "docs", "--json"][..], &["list", "--json", "-v"], &["get", "docs"]] {
        assert_eq!(reader.run(command).code, 0);
    }
    // `--scope` adds to the configured scopes.
    assert_eq!(reader.run(&["login", "docs", "--scope", "admin"]).code, 0);
    assert_eq!(reader.server.authorization_params()["scope"], "read write admin");
}

#[test]
fn login_rejects_servers_without_a_sign_in() {
    let server = ProtectedServer::start();
    let url = server.url();
    let person = Person::new()
        .with(USER, "local", &demo_entry())
        .with(USER, "fixed", &json!({"url": url, "headers": {"Authorization": "Bearer ${SECRET}"}}))
        .with(PROJECT, "waits", &json!({"url": "https://waits.test/mcp"}));
    let screens = ["local", "fixed", "waits", "nobody"]
        .map(|name| person.screen(&assert_no_secrets(person.run(&["login", name]))));
    insta::assert_snapshot!(screens.join("\n"), @r"
    exit 2
    --- stdout
    --- stderr
    error: server `local` is not remote: only remote servers have a sign-in
    hint: pass credentials to a command with `env` in its entry

    exit 2
    --- stdout
    --- stderr
    error: server `fixed` has its own `Authorization` header, which a sign-in would not replace
    hint: fix its `Authorization` header or its `headersHelper`, or remove it and sign in then

    exit 2
    --- stdout
    --- stderr
    error: server `waits` of this project needs your approval
    hint: review and approve it: wharf approve waits

    exit 2
    --- stdout
    --- stderr
    error: unknown server `nobody`
    hint: available: fixed, local, waits
    ");
    assert!(server.state().requests.is_empty());
    let open = crate::remote::remote(wharf_testkit::Script::good());
    let person = Person::new().with(USER, "open", &json!({"url": open.url()}));
    insta::assert_snapshot!(person.screen(&person.run(&["login", "open"])), @r"
    exit 0
    --- stdout
    --- stderr
    open requires no sign-in: 2 tools
    hint: if a tool requires one, request its scope: wharf login open --scope SCOPE
    ");
}
