//! `wharf login` and `wharf logout`, with a browser that is a script, and sign-ins in every other command.

mod authenticate;
mod chromium;
mod guarded;
mod profiles;
mod refused;

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};

use crate::{PROJECT, Person, Ran, USER, done, good, ran};
use guarded::{Guarded, SECRETS};

const CREDENTIALS: &str = "home/.local/state/wharf/auth/credentials.json";

/// A person who has the server `docs`, and a browser that goes wherever it is sent.
struct Reader {
    server: Guarded,
    person: Person,
}

impl Reader {
    fn new() -> Self {
        Self::with(&json!({"required": true}))
    }

    fn with(more: &Value) -> Self {
        let server = Guarded::start();
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

    /// A run that tells nobody's secrets.
    fn run(&self, arguments: &[&str]) -> Ran {
        discreet(ran(self.wharf(arguments)))
    }

    /// The same on one screen, without what is never the same.
    fn screen(&self, arguments: &[&str]) -> String {
        let ran = self.run(arguments);
        let text = self.person.screen(&ran);
        let url = self.server.url();
        text.lines()
            // What a binary says that knows of keychains and finds none.
            .filter(|line| !line.starts_with("no keychain available"))
            .map(|line| if line.contains("/authorize?") { "URL".to_owned() } else { timeless(line) })
            .collect::<Vec<_>>()
            .join("\n")
            .replace(&url, "http://docs.test/mcp")
            .replace(url.trim_end_matches("/mcp"), "http://docs.test")
    }

    fn login(&self) {
        let ran = self.run(&["login", "docs"]);
        assert_eq!(ran.code, 0, "{}", ran.err);
    }

    /// A login without a browser, up to where the address is shown.
    fn begun(&self) -> (Child, BufReader<std::process::ChildStderr>, String) {
        let mut child = self.wharf(&["login", "docs", "--no-browser"]).stdin(Stdio::piped()).spawn().unwrap();
        let mut err = BufReader::new(child.stderr.take().unwrap());
        let mut address = String::new();
        while !address.contains("/authorize?") {
            address.clear();
            assert_ne!(err.read_line(&mut address).unwrap(), 0, "there is no address");
        }
        (child, err, address.trim().to_owned())
    }
}

/// A line without how long ago a server refused us.
fn timeless(line: &str) -> String {
    let said = line.split_once("cached from ").and_then(|(before, said)| Some((before, said.split_once(" s ago")?.1)));
    said.map_or_else(|| line.to_owned(), |(before, after)| format!("{before}cached from N s ago{after}"))
}

fn discreet(ran: Ran) -> Ran {
    for secret in SECRETS {
        assert!(!ran.out.contains(secret) && !ran.err.contains(secret), "{secret}: {}", crate::screen(&ran));
    }
    ran
}

/// Where a page leads.
fn led(address: &str) -> String {
    let curl = ["-s", "-o", "/dev/null", "-w", "%{redirect_url}", address];
    String::from_utf8(Command::new("curl").args(curl).output().unwrap().stdout).unwrap()
}

fn ended(child: Child, mut err: BufReader<std::process::ChildStderr>) -> Ran {
    let mut rest = String::new();
    err.read_to_string(&mut rest).unwrap();
    let ran = done(&child.wait_with_output().unwrap());
    discreet(Ran { err: rest, ..ran })
}

#[test]
fn who_has_signed_in_once_is_let_in_by_every_command() {
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

/// In a binary that knows of keychains; there is none here.
#[cfg(feature = "keychain")]
#[test]
fn where_there_is_no_keychain_sign_ins_are_kept_in_the_file_and_that_is_said() {
    let reader = Reader::new();
    let ran = reader.run(&["login", "docs"]);
    let file = reader.person.path(CREDENTIALS);
    let end = format!("; storing credentials in {}, readable only by you\n", file.display());
    assert!(ran.code == 0 && ran.err.starts_with("no keychain available (") && ran.err.contains(&end), "{}", ran.err);
    assert!(reader.person.read(CREDENTIALS).contains("acc3ss-"));
    // Only when something is kept.
    assert_eq!(reader.run(&["tools"]).err, "");
}

#[test]
fn sign_ins_are_kept_where_only_their_owner_can_read_them() {
    let reader = Reader::new();
    reader.login();
    let mode = |name: &str| reader.person.path(name).metadata().unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(CREDENTIALS), mode("home/.local/state/wharf/auth")), (0o600, 0o700));
    assert!(reader.person.read(CREDENTIALS).contains("acc3ss-"));
    // Another root is another person.
    let root = reader.person.path("root");
    let mcp = format!("docs={}", reader.server.url());
    let elsewhere = ["--config-root", root.to_str().unwrap(), "--mcp", &mcp];
    assert_eq!(reader.run(&[&["tools"][..], &elsewhere].concat()).code, 3);
    let ran = reader.run(&[&["login", "docs"][..], &elsewhere].concat());
    assert!(ran.code == 0 && root.join("auth/credentials.json").is_file(), "{}", ran.err);
    assert_eq!(reader.run(&[&["tools"][..], &elsewhere].concat()).code, 0);
}

#[test]
fn without_a_browser_the_address_can_be_pasted() {
    let reader = Reader::new();
    let (mut child, err, address) = reader.begun();
    let back = led(&address);
    // Something else at first, and nothing at all.
    let pasted = format!("\nhttps://example.com/\n{back}\n");
    child.stdin.take().unwrap().write_all(pasted.as_bytes()).unwrap();
    let ran = ended(child, err);
    assert!(ran.code == 0 && ran.err.contains("signed in to docs: 2 tools"), "{}", ran.err);
    let wrong = "warning: this is not the redirect URL; paste the whole URL, it begins with http://";
    assert!(ran.err.contains(wrong), "{}", ran.err);
    assert_eq!(reader.run(&["tools"]).code, 0);
}

#[test]
fn a_browser_that_was_opened_by_hand_may_come_back_by_itself() {
    let reader = Reader::new();
    let (mut child, err, address) = reader.begun();
    // Nobody types anything.
    drop(child.stdin.take());
    assert!(Command::new("curl").args(["-sL", &address]).output().unwrap().status.success());
    let ran = ended(child, err);
    assert!(ran.code == 0 && ran.err.contains("signed in to docs: 2 tools"), "{}", ran.err);
}

#[test]
fn where_no_browser_can_be_opened_it_is_opened_by_hand() {
    let reader = Reader::new();
    let mut command = reader.wharf(&["login", "docs"]);
    command.env("BROWSER", "no-such-browser").env("PATH", "/nowhere").stdin(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut err = BufReader::new(child.stderr.take().unwrap());
    let (mut said, mut line) = (String::new(), String::new());
    while !line.contains("paste the URL") {
        line.clear();
        assert_ne!(err.read_line(&mut line).unwrap(), 0, "{said}");
        said.push_str(&line);
    }
    assert!(said.contains("cannot open a browser: `no-such-browser`: not found"), "{said}");
    let address = said.lines().find(|line| line.contains("/authorize?")).unwrap();
    child.stdin.take().unwrap().write_all(format!("{}\n", led(address)).as_bytes()).unwrap();
    assert_eq!(ended(child, err).code, 0);
}

#[test]
fn what_is_pasted_wrong_three_times_ends_the_sign_in() {
    let reader = Reader::new();
    let (mut child, err, address) = reader.begun();
    let other = led(&address).replace("state=", "state=x");
    child.stdin.take().unwrap().write_all(format!("what?\n{other}\n{other}\n").as_bytes()).unwrap();
    let ran = ended(child, err);
    let last = "error: docs: sign-in not completed: no redirect URL in 3 attempts; the last: this URL \
        belongs to another sign-in\n";
    assert!(ran.code == 1 && ran.err.ends_with(last), "{}", ran.err);
    assert!(!reader.person.path(CREDENTIALS).exists() || !reader.person.read(CREDENTIALS).contains("acc3ss"));
}

#[test]
fn who_is_denied_is_told_so() {
    let reader = Reader::new();
    reader.server.state().denies = Some("access_denied");
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
fn a_sign_in_can_be_interrupted() {
    let reader = Reader::new();
    let (child, err, _) = reader.begun();
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    let ran = ended(child, err);
    assert!(ran.code == 130 && ran.err.contains("interrupted"), "{}: {}", ran.code, ran.err);
}

#[test]
fn who_signs_out_is_out_and_the_token_is_worth_nothing() {
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
fn what_cannot_be_taken_back_is_forgotten_all_the_same() {
    let reader = Reader::new();
    reader.login();
    reader.server.state().is_stubborn = true;
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
fn a_token_that_ended_is_renewed_without_a_word() {
    let reader = Reader::new();
    reader.login();
    // By its own date, and by what the server says.
    let mut kept: Value = serde_json::from_str(&reader.person.read(CREDENTIALS)).unwrap();
    assert_eq!(outdate(&mut kept), 1);
    reader.person.write(CREDENTIALS, &kept.to_string());
    for renewed in 1..=2 {
        let called = reader.run(&["call", "docs", "answer"]);
        assert_eq!((called.code, called.out.as_str(), called.err.as_str()), (0, "42\n", ""));
        assert_eq!(reader.server.count("POST /token", "grant_type=refresh_token"), renewed);
        reader.server.expire();
    }
    assert_eq!(reader.server.count("GET /authorize", ""), 1);
}

/// Makes all dates in it the beginning of time; how many there were.
fn outdate(value: &mut Value) -> usize {
    match value {
        Value::Object(fields) => fields.iter_mut().fold(0, |count, (key, value)| {
            if key == "expires_at" && value.is_number() {
                *value = json!(1);
                return count + 1;
            }
            count + outdate(value)
        }),
        Value::Array(items) => items.iter_mut().map(outdate).sum(),
        _ => 0,
    }
}

#[test]
fn servers_at_one_address_have_one_sign_in() {
    let reader = Reader::new();
    let entry = json!({"type": "http", "url": reader.server.url(), "headers": {"X-Team": "blue"}});
    let reader = Reader { person: reader.person.with(USER, "copy", &entry), server: reader.server };
    reader.login();
    assert_eq!(reader.run(&["tools", "copy"]).code, 0);
    let third = format!("third={}", reader.server.url());
    assert_eq!(reader.run(&["tools", "--only-mcp", "--mcp", &third]).code, 0);
    // It stays as long as one of them does.
    assert!(!reader.run(&["remove", "docs"]).err.contains("signed out"));
    assert_eq!(reader.run(&["tools", "copy"]).code, 0);
    let removed = reader.run(&["remove", "copy"]);
    assert!(removed.code == 0 && removed.err.ends_with("signed out of copy\n"), "{}", removed.err);
    assert_eq!(reader.server.count("POST /revoke", ""), 1);
    assert!(!reader.person.read(CREDENTIALS).contains("acc3ss-"));
}

#[test]
fn what_the_entry_says_about_signing_in_is_used_and_not_shown() {
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let client = json!({"clientId": "me", "clientSecret": "${SECRET}", "scopes": "read write", "callbackPort": port});
    let reader = Reader::with(&json!({"oauth": client}));
    reader.login();
    assert_eq!(reader.server.count("POST /register", ""), 0);
    let asked = reader.server.asked();
    assert_eq!((asked["client_id"].as_str(), asked["scope"].as_str()), ("me", "read write"));
    assert_eq!(asked["redirect_uri"], format!("http://127.0.0.1:{port}/callback"));
    // `me:s3cr3t`
    assert_eq!(reader.server.state().proof.as_deref(), Some("Basic bWU6czNjcjN0"));
    for command in [&["get", "docs", "--json"][..], &["list", "--json", "-v"], &["get", "docs"]] {
        assert_eq!(reader.run(command).code, 0);
    }
    // More is asked for beside what there is.
    assert_eq!(reader.run(&["login", "docs", "--scope", "admin"]).code, 0);
    assert_eq!(reader.server.asked()["scope"], "read write admin");
}

#[test]
fn only_servers_that_take_a_sign_in_are_signed_in_to() {
    let server = Guarded::start();
    let url = server.url();
    let person = Person::new()
        .with(USER, "local", &good())
        .with(USER, "fixed", &json!({"url": url, "headers": {"Authorization": "Bearer ${SECRET}"}}))
        .with(PROJECT, "waits", &json!({"url": "https://waits.test/mcp"}));
    let screens =
        ["local", "fixed", "waits", "nobody"].map(|name| person.screen(&discreet(person.run(&["login", name]))));
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
    assert!(server.state().seen.is_empty());
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
