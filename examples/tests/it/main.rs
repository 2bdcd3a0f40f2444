//! Every example runs and says what its documentation promises.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on should stop")]

use std::process::Command;

fn output(program: &str, arguments: &[&str]) -> String {
    let run = Command::new(program).args(arguments).output().unwrap();
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
    String::from_utf8(run.stdout).unwrap()
}

#[test]
fn one_server_lists_calls_and_refuses() {
    let said = output(env!("CARGO_BIN_EXE_one-server"), &[env!("CARGO_BIN_EXE_own-server")]);
    let expected = "add: Adds two numbers\n42\nexample: the arguments of `add` do not fit its schema: \
        at `/x`: \"twenty\" is not of type \"number\"\n";
    assert_eq!(said, expected);
}

#[test]
fn a_custom_transport_is_opened_again_after_closing() {
    let said = output(env!("CARGO_BIN_EXE_custom-transport"), &[]);
    assert_eq!(said, "10 + 20 = 30\nafter closing: 1 + 2 = 3, connection 2\n");
}

#[test]
fn a_program_that_does_not_await_gets_its_result() {
    let said = output(env!("CARGO_BIN_EXE_blocking"), &[]);
    assert_eq!(said, "{\"status\":\"success\",\"toolUseId\":\"tool-123\",\"content\":[{\"text\":\"30\"}]}\n");
}
