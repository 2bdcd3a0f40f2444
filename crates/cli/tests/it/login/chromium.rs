//! One sign-in with nothing made up: a browser, a provider (`oidc-provider`) and an MCP server that other people wrote, all on the
//! loopback interface.

use std::io::{BufRead as _, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};

use crate::login::CREDENTIALS;
use crate::{Person, Ran, USER, done};

/// How long a browser may take, to start too.
const LIMIT: Duration = Duration::from_secs(200);

fn root(name: &str) -> PathBuf {
    [env!("CARGO_MANIFEST_DIR"), "../..", name].iter().collect()
}

fn node() -> PathBuf {
    root(".peers/node_modules/node/bin/node")
}

/// The provider, and the server it guards. It ends with its stdin, and so with this process; the browser ends with it.
struct Provider {
    process: Child,
    origin: String,
}

impl Provider {
    fn start() -> Self {
        let mut node = Command::new(node());
        node.arg(root("peers/openid_server.mjs")).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut process = node.spawn().expect("`scripts/peers` installs it");
        let mut line = String::new();
        BufReader::new(process.stdout.take().unwrap()).read_line(&mut line).unwrap();
        Self { process, origin: line.trim().to_owned() }
    }

    fn url(&self) -> String {
        format!("{}/mcp", self.origin)
    }

    /// What a path answers, with a token if there is one.
    fn get(&self, path: &str, token: &str) -> (String, String) {
        let header = format!("Authorization: Bearer {token}");
        let url = format!("{}{path}", self.origin);
        let curl = ["-s", "-m", "30", "-w", "\n%{http_code}", "-H", &header, &url];
        let answer = String::from_utf8(Command::new("curl").args(curl).output().unwrap().stdout).unwrap();
        let (body, status) = answer.rsplit_once('\n').unwrap();
        (status.to_owned(), body.to_owned())
    }

    /// What the provider has done so far.
    fn events(&self) -> Vec<String> {
        serde_json::from_str(&self.get("/test/events", "").1).unwrap()
    }

    /// No access token is good any more; the others are.
    fn expire(&self) {
        assert_eq!(self.get("/test/expire", "").0, "200");
    }
}

impl Drop for Provider {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Waits for something that comes in its time.
fn until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let began = tokio::time::Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(began.elapsed() < LIMIT, "{what} takes too long");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// A sign-in with the browser, and what the browser saw. Whatever becomes of it, nothing is left running.
fn signed_in(person: &Person) -> (Ran, Value) {
    let folder = person.path("browser");
    std::fs::create_dir(&folder).unwrap();
    let words = [node(), root("peers/sign_in.mjs"), folder.clone()].map(|word| format!("'{}'", word.display()));
    let mut login = person.wharf(&["login", "notes"]).env("BROWSER", words.join(" ")).spawn().unwrap();
    // The browser has closed when its file is there; if it failed, nobody waits for it to come back.
    let seen: Value = until("the browser", || {
        let text = std::fs::read_to_string(folder.join("seen.json")).ok();
        text.map(|text| serde_json::from_str(&text).unwrap()).or_else(|| {
            let ended = login.try_wait().unwrap().is_some_and(|status| !status.success());
            ended.then(|| json!({"error": "the sign-in ended without the browser"}))
        })
    });
    if seen.get("error").is_some() {
        let _ = login.kill();
    }
    until("the sign-in", || login.try_wait().unwrap());
    (done(&login.wait_with_output().unwrap()), seen)
}

#[test]
fn a_person_signs_in_with_a_real_browser_at_a_real_provider() {
    let provider = Provider::start();
    let person = Person::new().with(USER, "notes", &json!({"url": provider.url()}));
    let whoami = || person.run(&["call", "notes", "whoami"]);
    assert_eq!(whoami().code, 3);

    let (ran, seen) = signed_in(&person);
    assert_eq!(seen.get("error"), None, "{seen:#}\n{}", ran.err);
    assert!(ran.code == 0 && ran.err.ends_with("\nsigned in to notes: 1 tool\n"), "{}\n{seen:#}", ran.err);
    let pages: Vec<&str> =
        seen["pages"].as_array().unwrap().iter().map(|page| page["text"].as_str().unwrap()).collect();
    let [form, consent, end] = pages[..] else { panic!("{seen:#}") };
    assert!(form.starts_with("Sign-in"), "{form}");
    let wanted = format!("Authorize\n{}:\nnotes:read\nthe client is asking to have offline access", provider.url());
    assert!(consent.starts_with(&wanted), "{consent}");
    assert_eq!(end, "You are signed in. You can close this page.");

    let called = whoami();
    assert_eq!((called.code, called.out.as_str(), called.err.as_str()), (0, "ada may notes:read\n", ""));
    let mut expected = vec!["registered", "page login", "page consent", "authorization_code"];
    assert_eq!(provider.events(), expected);
    // Each of these takes the token that came with the last one, which is good for one use.
    for _ in 0..2 {
        provider.expire();
        let called = whoami();
        assert_eq!((called.code, called.out.as_str(), called.err.as_str()), (0, "ada may notes:read\n", ""));
        expected.push("refresh_token");
        assert_eq!(provider.events(), expected);
    }

    let token = access_token(&serde_json::from_str(&person.read(CREDENTIALS)).unwrap()).unwrap();
    assert_ne!(provider.get("/mcp", &token).0, "401");
    let out = person.run(&["logout", "notes"]);
    assert_eq!((out.code, out.err.as_str()), (0, "signed out of notes\n"));
    expected.push("revoked");
    assert_eq!(provider.events(), expected);
    assert_eq!(provider.get("/mcp", &token).0, "401");
    assert_eq!(whoami().code, 3);
}

/// The access token that is kept, wherever it is.
fn access_token(kept: &Value) -> Option<String> {
    match kept {
        Value::Object(fields) => {
            let found = fields.get("access").and_then(Value::as_str).map(str::to_owned);
            found.or_else(|| fields.values().find_map(access_token))
        }
        Value::Array(items) => items.iter().find_map(access_token),
        _ => None,
    }
}
