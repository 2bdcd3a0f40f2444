//! What a user reads when a model's provider fails, and how long that takes.

use serde_json::json;
use wharf_testkit::Script;
use wharf_testkit::models::{Fault, Turn};

use super::models::Provider;
use crate::{RunOutput, Server, on_terminal, ran, wharf};

fn run(provider: &Provider, arguments: &[&str]) -> RunOutput {
    let mut command = wharf(&[&["run", "--only-mcp"], arguments].concat());
    provider.env(&mut command);
    ran(command)
}

fn error(status: u16, kind: &str, message: &str) -> Turn {
    let body = json!({"type": "error", "error": {"type": kind, "message": message}});
    Turn::status(status, &[], body.to_string())
}

/// Returns the options for a model without retries after timeouts, at the provider's URL.
fn impatient(server: &Server, provider: &Provider) -> String {
    let file = server.path().join("models.yaml");
    let url = provider.listening.openai_url();
    let model = json!({"model_name": "m", "interface": "openai_endpoint", "endpoint_base_url": url,
        "retry_policy": {"timeout": {"max_attempts": 0}}});
    std::fs::write(&file, model.to_string()).unwrap();
    file.to_str().unwrap().to_owned()
}

#[test]
fn a_wrong_key_exits_with_2_and_names_the_model_and_the_url() {
    let provider = Provider::new([error(401, "authentication_error", "invalid x-api-key")]);
    let wrong = run(&provider, &["-m", "anthropic:x", "Hi"]);
    let url = provider.listening.anthropic_url();
    let message = format!("error: anthropic:x: not authorized: invalid x-api-key (HTTP 401 from {url})\n");
    assert_eq!(wrong.code, 2, "{}", wrong.err);
    assert!(wrong.err.contains(&message) && wrong.err.contains("hint: check the API key"), "{}", wrong.err);
}

#[test]
fn an_account_without_quota_is_not_a_wrong_key_and_is_not_asked_again() {
    for (model, turn) in [
        ("openai:gpt-5", error(429, "insufficient_quota", "You exceeded your current quota")),
        ("anthropic:x", error(400, "invalid_request_error", "Your credit balance is too low")),
        ("anthropic:x", error(402, "billing_error", "no billing")),
    ] {
        let provider = Provider::new([turn, Turn::text("Hello.")]);
        let failed = run(&provider, &["-m", model, "Hi"]);
        assert_eq!((failed.code, provider.models.remaining_turns()), (1, 1), "{}", failed.err);
        assert!(failed.err.contains(&format!("error: {model}: quota exceeded: ")), "{}", failed.err);
        assert!(failed.err.contains("hint: the key is valid, but its account has no credit"), "{}", failed.err);
    }
}

#[test]
fn a_web_page_suggests_the_version_in_the_url() {
    let page = || Turn::status(200, &[("content-type", "text/html")], "<!doctype html><title>Open WebUI</title>");
    let provider = Provider::new([page(), page()]);
    let url = provider.listening.openai_url();
    let bare = url.trim_end_matches("/v1");
    let failed = run(&provider, &["-m", &format!("openai-endpoint:{url}#m"), "Hi"]);
    let message = "error: openai-endpoint:m: wrong URL: the response is a web page: Open WebUI";
    assert_eq!(failed.code, 1);
    assert!(failed.err.contains(&format!("{message} (HTTP 200 from {url})\nhint: check the URL")), "{}", failed.err);
    let failed = run(&provider, &["-m", &format!("openai-endpoint:{bare}#m"), "Hi"]);
    assert!(failed.err.contains(&format!("from {bare})\nhint: does the URL need /v1?")), "{}", failed.err);
    assert_eq!(provider.models.requests().len(), 2, "nothing is retried");
}

#[test]
fn a_retry_says_how_long_it_waits_and_which_attempt_it_is() {
    let busy = || error(529, "overloaded_error", "Overloaded");
    let provider = Provider::new([busy(), Turn::text("Hello.")]);
    let again = run(&provider, &["-m", "anthropic:x", "Hi"]);
    assert_eq!((again.code, again.out.as_str()), (0, "Hello.\n"));
    let line = again.err.lines().find(|line| line.contains("retrying")).unwrap();
    let url = provider.listening.anthropic_url();
    let start = format!("warning: anthropic:x: overloaded: Overloaded (HTTP 529 from {url}); retrying in ");
    let rest = line.strip_prefix(&start).unwrap_or_else(|| panic!("{line}"));
    let seconds: f64 = rest.split(' ').next().unwrap().parse().unwrap();
    assert!((1.5..=2.5).contains(&seconds) && rest.ends_with(" s (attempt 2 of 3)"), "{line}");
}

#[test]
fn a_model_that_is_silent_or_stalls_runs_into_the_timeouts_of_the_command_line() {
    let server = Server::new(&Script::good());
    for (fault, option, message) in [
        (Fault::HangBeforeHead, "--first-byte-timeout", "timeout: no response within 0.4 s"),
        (Fault::HangAfterHead, "--first-byte-timeout", "timeout: no response within 0.4 s"),
        (Fault::HangMidway, "--idle-timeout", "timeout: the response stalled: nothing for 0.4 s"),
    ] {
        let provider = Provider::new([Turn::fault(fault)]);
        let models = impatient(&server, &provider);
        let failed = run(&provider, &["--models", &models, option, "0.4", "Hi"]);
        assert_eq!(failed.code, 1);
        assert!(
            failed.err.contains(message) && failed.err.contains("hint: give the model more time"),
            "{}",
            failed.err
        );
    }
    let invalid = ran(wharf(&["run", "--idle-timeout", "0", "Hi"]));
    assert_eq!(invalid.code, 2);
    assert!(invalid.err.contains("greater than 0, and at most 3600"), "{}", invalid.err);
}

#[test]
fn the_status_line_says_what_a_run_waits_for() {
    let provider = Provider::new([Turn::fault(Fault::HangBeforeHead)]);
    let line = format!("{} run --only-mcp -m anthropic:x --color never --max-time 1.5 Hi", env!("CARGO_BIN_EXE_wharf"));
    let mut command = on_terminal(&line);
    provider.env(&mut command);
    let seen = String::from_utf8(command.output().unwrap().stdout).unwrap();
    assert!(seen.contains(" 1.0 s waiting for anthropic:x"), "{seen}");
}
