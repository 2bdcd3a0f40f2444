use std::path::Path;

use wharf_testkit::{alive, kill, soon, until};

use super::*;

#[test]
fn authorization_urls_are_safe() {
    let safe = [
        "https://auth.example.com/authorize?response_type=code&client_id=a-b_c.d~e&scope=read%20write&state=%2Fx",
        "https://auth.example.com/authorize?redirect_uri=http%3A%2F%2F127.0.0.1%3A4000%2Fcallback&resource=a+b",
        "https://auth.example.com",
        "https://auth.example.com?x=1",
        "https://auth.example.com:8443/t/@me/a,b#part",
        "HTTPS://192.0.2.1/",
        "https://[2001:db8::1]:8443/authorize",
        "http://127.0.0.1:8080/authorize?x=1&y=2",
        "http://127.9.9.9/",
        "http://[::1]:9/",
        "http://localhost:3000/a",
    ];
    for url in safe {
        assert_eq!(check(url), Ok(()), "{url}");
    }
}

#[test]
fn other_schemes_are_unsafe() {
    let other = ["", "-flag", "javascript:alert(1)", "file:///etc/passwd", "data:text/html,x", "mailto:a@b", "//h/"];
    let hidden = [
        "javascript://h/%0aalert(1)",
        "-https://h/",
        " https://h/",
        "\nhttps://h/",
        "https:h",
        "https:/h/",
        "ftp://h/",
    ];
    for url in other.into_iter().chain(hidden) {
        assert_eq!(check(url), Err(UnsafeUrl::Scheme), "{url}");
    }
}

#[test]
fn shell_characters_are_unsafe() {
    for character in "\"'`<>|^\\$();{}*![] \t\r\n\0\u{7f}\u{a0}é\u{202e}\u{1b}".chars() {
        for url in
            [format!("https://h/{character}"), format!("https://h?a={character}b"), format!("https://h#{character}")]
        {
            assert_eq!(check(&url), Err(UnsafeUrl::Character(character)), "{url:?}");
        }
        let in_the_host = check(&format!("https://a{character}b/"));
        assert!(in_the_host.is_err(), "{character:?}");
    }
    let refused = [
        ("https://a b", ' '),
        ("https://h/$(id)", '$'),
        ("https://h/`id`", '`'),
        ("https://h/%PATH%", '%'),
        ("https://h/%", '%'),
        ("https://h/%4", '%'),
        ("https://h/%41%4", '%'),
    ];
    for (url, character) in refused {
        assert_eq!(check(url), Err(UnsafeUrl::Character(character)), "{url}");
    }
}

#[test]
fn user_names_and_invalid_hosts_are_unsafe() {
    for url in ["https://u:p@h/", "https://u@h/", "https://@h", "https://bank.example%2F@h/", "http://127.0.0.1@h/"] {
        assert_eq!(check(url), Err(UnsafeUrl::UserName), "{url}");
    }
    let no_host = ["https:///x", "https://", "https://:80/", "https://?x", "https://#x", "https://h:/", "https://h:x/"];
    let invalid = [
        "https://h:99999/",
        "https://h:+1/",
        "https://a%41/",
        "https://[::1/",
        "https://[h]/",
        "https://[::1]x/",
        "https://::1/",
    ];
    for url in no_host.into_iter().chain(invalid) {
        assert_eq!(check(url), Err(UnsafeUrl::Host), "{url}");
    }
}

#[test]
fn http_is_safe_on_loopback_only() {
    let others =
        ["example.com", "localhost.example.com", "127.0.0.1.example.com", "192.168.0.1", "0.0.0.0", "[::2]", "127.1"];
    for host in others {
        assert_eq!(check(&format!("http://{host}/")), Err(UnsafeUrl::PlainHttp), "{host}");
        assert_eq!(check(&format!("https://{host}/")), Ok(()), "{host}");
    }
}

const URL: &str = "https://h.example/authorize?a=%24%28id%29&b=%20x&c=%2A";

/// Creates a shell script that needs only shell builtins, since it finds no other programs.
fn program(folder: &Path, name: &str, script: &str) -> String {
    let file = folder.join(name);
    std::fs::write(&file, format!("#!/bin/sh\n{script}\n")).unwrap();
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o755)).unwrap();
    file.to_str().unwrap().to_owned()
}

fn path(folder: &Path) -> Environment {
    Environment::default().with("PATH", folder)
}

fn said(folder: &Path) -> String {
    std::fs::read_to_string(folder.join("said")).unwrap_or_default()
}

/// Writes its arguments and environment into the file `said` beside it.
const TELLS: &str = r#"cd "${0%/*}" && printf '%s\n' "${0##*/}" "$#" "$@" "secret=$SECRET" "home=$HOME" > said"#;

#[tokio::test]
async fn the_url_is_passed_to_the_opener_as_one_argument() {
    let folder = tempfile::tempdir().unwrap();
    let opener = [program(folder.path(), "opener", TELLS), "--new tab".into(), "$HOME;*".into()];
    soon(open(URL, Some(&opener), &Environment::default().with("SECRET", "handed in"))).await.unwrap();
    assert_eq!(said(folder.path()), format!("opener\n3\n--new tab\n$HOME;*\n{URL}\nsecret=handed in\nhome=\n"));
}

#[tokio::test]
async fn an_unsafe_url_is_not_passed_to_an_opener() {
    let folder = tempfile::tempdir().unwrap();
    let opener = [program(folder.path(), "opener", TELLS)];
    let error = soon(open("https://h/$(id)", Some(&opener), &path(folder.path()))).await.unwrap_err();
    assert!(matches!(error, BrowserError::Unsafe(UnsafeUrl::Character('$'))), "{error}");
    assert_eq!(said(folder.path()), "");
}

#[tokio::test]
async fn the_next_opener_is_tried_when_one_fails() {
    let folder = tempfile::tempdir().unwrap();
    let last = OPENERS.last().unwrap();
    program(folder.path(), last, TELLS);
    let opener = [program(folder.path(), "opener", "exit 3")];
    soon(open(URL, Some(&opener), &path(folder.path()))).await.unwrap();
    assert_eq!(said(folder.path()), format!("{last}\n1\n{URL}\nsecret=\nhome=\n"));
}

#[tokio::test]
async fn the_error_lists_all_openers_that_failed() {
    let folder = tempfile::tempdir().unwrap();
    let failing = program(folder.path(), "failing", "exit 3");
    let empty = Environment::default().with("PATH", "");
    // Without a `PATH` nothing is searched, not even the default directories.
    for environment in [Environment::default(), empty] {
        let tried = |opener: Option<Vec<String>>| {
            let environment = &environment;
            async move {
                match soon(open(URL, opener.as_deref(), environment)).await {
                    Err(BrowserError::NoBrowser(attempts)) => BrowserError::NoBrowser(attempts).to_string(),
                    other => panic!("{other:?}"),
                }
            }
        };
        let rest = OPENERS.iter().map(|opener| format!("`{opener}`: not found")).collect::<Vec<_>>().join("; ");
        let none = format!("cannot open a browser: {rest}");
        assert_eq!(tried(None).await, none);
        assert_eq!(tried(Some(Vec::new())).await, none);
        let named = format!("cannot open a browser: `no-such-browser`: not found; {rest}");
        assert_eq!(tried(Some(vec!["no-such-browser".into()])).await, named);
        let failed = format!("cannot open a browser: `{failing}`: failed with exit status: 3; {rest}");
        assert_eq!(tried(Some(vec![failing.clone()])).await, failed);
        assert!(tried(Some(vec!["/no/such/browser".into()])).await.contains("cannot run: No such file"));
    }
}

#[test]
fn programs_are_searched_in_absolute_directories_only() {
    let folder = tempfile::tempdir().unwrap();
    program(folder.path(), "browser", "");
    std::fs::write(folder.path().join("text"), "").unwrap();
    let found = |name, path: &str| find(name, &Environment::default().with("PATH", path));
    let here = folder.path().to_str().unwrap();
    assert_eq!(found("browser", &format!("/no/such:{here}")), Some(folder.path().join("browser")));
    assert_eq!(found("text", here), None);
    assert_eq!(found("Cargo.toml", ":."), None);
    let up = "../".repeat(40);
    assert!(Path::new(&up).join(&here[1..]).join("browser").is_file());
    assert_eq!(found("browser", &format!("{up}{}", &here[1..])), None);
}

#[tokio::test(start_paused = true)]
async fn an_opener_that_does_not_exit_keeps_running() {
    let folder = tempfile::tempdir().unwrap();
    let script = r#"cd "${0%/*}" && echo $$ > said && exec /bin/sleep 60"#;
    let opener = [program(folder.path(), "opener", script)];
    let started = tokio::time::Instant::now();
    open(URL, Some(&opener), &path(folder.path())).await.unwrap();
    assert!(started.elapsed() >= OPENER_TIMEOUT);
    tokio::time::resume();
    until(async || said(folder.path()).ends_with('\n')).await;
    let pid: u32 = said(folder.path()).trim().parse().unwrap();
    // A handle that kills on drop would have done so by now.
    sleep(Duration::from_millis(100)).await;
    assert!(alive(pid));
    let group = rustix::process::Pid::from_raw(pid.cast_signed());
    assert_eq!(rustix::process::getpgid(group).ok(), group, "signals to this process group must not reach it");
    kill(pid);
}
