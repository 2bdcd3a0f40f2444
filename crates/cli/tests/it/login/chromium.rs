//! A login with a real browser, a third-party provider (`oidc-provider`) and a third-party MCP server, all on the
//! loopback interface.

use std::io::{BufRead as _, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};

use crate::login::CREDENTIALS;
use crate::{Person, RunOutput, USER, run_output};

/// Timeout of the browser, including its start.
const LIMIT: Duration = Duration::from_secs(200);

fn root(name: &str) -> PathBuf {
    [env!("CARGO_MANIFEST_DIR"), "../..", name].iter().collect()
}

fn node() -> PathBuf {
    root(".peers/node_modules/node/bin/node")
}

/// The provider and its MCP server. The process exits when its stdin closes, and the browser exits with it.
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

    /// Requests a path with a token. Returns the status and the body.
    fn get(&self, path: &str, token: &str) -> (String, String) {
        let header = format!("Authorization: Bearer {token}");
        let url = format!("{}{path}", self.origin);
        let curl = ["-s", "-m", "30", "-w", "\n%{http_code}", "-H", &header, &url];
        let answer = String::from_utf8(Command::new("curl").args(curl).output().unwrap().stdout).unwrap();
        let (body, status) = answer.rsplit_once('\n').unwrap();
        (status.to_owned(), body.to_owned())
    }

    /// Returns the events of the provider so far.
    fn events(&self) -> Vec<String> {
        serde_json::from_str(&self.get("/test/events", "").1).unwrap()
    }

    /// Expires all access tokens, but no refresh tokens.
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

/// Polls until there is a value, up to the limit.
fn until<T>(what: &str, mut poll: impl FnMut() -> Option<T>) -> T {
    let began = tokio::time::Instant::now();
    loop {
        if let Some(found) = poll() {
            return found;
        }
        assert!(began.elapsed() < LIMIT, "{what} takes too long");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Signs in with the browser. Returns the run and what the browser saw. No process is left running, even on failure.
fn sign_in(person: &Person) -> (RunOutput, Value) {
    let folder = person.path("browser");
    std::fs::create_dir(&folder).unwrap();
    let words = [node(), root("peers/sign_in.mjs"), folder.clone()].map(|word| format!("'{}'", word.display()));
    let mut login = person.wharf(&["login", "notes"]).env("BROWSER", words.join(" ")).spawn().unwrap();
    // The browser writes its file when it closes. If it failed, the login would wait forever and is killed.
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
    (run_output(&login.wait_with_output().unwrap()), seen)
}

#[test]
fn login_works_with_a_real_browser_and_provider() {
    let provider = Provider::start();
    let person = Person::new().with(USER, "notes", &json!({"url": provider.url()}));
    let whoami = || person.run(&["call", "notes", "whoami"]);
    assert_eq!(whoami().code, 3);

    let (ran, seen) = sign_in(&person);
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
    // Each refresh uses the refresh token of the previous one, which is valid for one use.
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

/// Returns the stored access token, at any depth.
fn access_token(stored: &Value) -> Option<String> {
    match stored {
        Value::Object(fields) => {
            let found = fields.get("access").and_then(Value::as_str).map(str::to_owned);
            found.or_else(|| fields.values().find_map(access_token))
        }
        Value::Array(items) => items.iter().find_map(access_token),
        _ => None,
    }
}
