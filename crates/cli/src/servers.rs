//! The servers that are named on the command line.

use std::sync::Arc;
use std::time::Duration;

use wharf::{Deadlines, Environment, GroupWatcher, NoHost, ServerName, Session, SessionOptions, Stdio};

use crate::args::Globals;
use crate::guard::Guard;
use crate::suggest::nearest;

/// What is wrong with what was asked for, and what to do about it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Misuse {
    pub(crate) what: String,
    pub(crate) hint: Option<String>,
}

/// A server as it was written: `NAME=COMMAND`, the command split into words as a shell would, and never run by one.
#[derive(Debug, PartialEq, Eq)]
struct Written {
    name: ServerName,
    words: Vec<String>,
}

/// The sessions with all servers of the command line, or with the one that is wanted. None is started yet.
pub(crate) fn sessions(globals: &Globals, wanted: Option<&str>) -> Result<Vec<Session>, Misuse> {
    let mut servers: Vec<Written> = Vec::new();
    for text in &globals.mcp {
        let server = parse(text)?;
        if servers.iter().any(|other| other.name == server.name) {
            return Err(misuse(format!("the server `{}` is given twice", server.name), None));
        }
        servers.push(server);
    }
    if servers.is_empty() {
        let hint = "name one: --mcp 'time=uvx mcp-server-time'";
        return Err(misuse("there are no servers".to_owned(), Some(hint)));
    }
    if let Some(wanted) = wanted {
        if !servers.iter().any(|server| server.name.as_str() == wanted) {
            let names: Vec<&str> = servers.iter().map(|server| server.name.as_str()).collect();
            let meant = nearest(wanted, names.iter().copied()).map(|name| format!("did you mean `{name}`?"));
            let hint = meant.unwrap_or_else(|| format!("there is: {}", names.join(", ")));
            return Err(misuse(format!("there is no server `{wanted}`"), Some(&hint)));
        }
        servers.retain(|server| server.name.as_str() == wanted);
    }
    let options = options(globals)?;
    let environment = environment(globals)?;
    let guard: Arc<dyn GroupWatcher> = Guard::start();
    let session = |Written { name, words }: Written| {
        let (command, args) = words.split_first().map_or((String::new(), Vec::new()), |(c, a)| (c.clone(), a.to_vec()));
        let transport = Stdio::new(command, args, environment.clone()).watched_by(Arc::clone(&guard));
        Session::new(name, transport, NoHost, options.clone())
    };
    Ok(servers.into_iter().map(session).collect())
}

/// The options that hold for every session of this program.
pub(crate) fn options(globals: &Globals) -> Result<SessionOptions, Misuse> {
    let seconds = |flag: &str, value: f64| {
        let limit = Duration::try_from_secs_f64(value).ok().filter(|limit| !limit.is_zero());
        let hint = format!("give it in seconds, for example {flag} 120");
        limit.ok_or_else(|| misuse(format!("{flag} {value:?} is no time to wait"), Some(&hint)))
    };
    let (total, connect) =
        (seconds("--timeout", globals.timeout)?, seconds("--connect-timeout", globals.connect_timeout)?);
    let deadlines = Deadlines { total: Some(total), connect, ..Deadlines::default() };
    Ok(SessionOptions { deadlines, client_version: env!("CARGO_PKG_VERSION").to_owned(), ..SessionOptions::default() })
}

/// What the servers may see of our environment: the usual, and what `--env` names.
#[expect(clippy::disallowed_methods, reason = "the cli is where the environment is read")]
pub(crate) fn environment(globals: &Globals) -> Result<Environment, Misuse> {
    globals.env.iter().try_fold(Environment::allowed_from(std::env::vars_os()), |environment, variable| {
        let (name, value) = match variable.split_once('=') {
            Some((name, value)) => (name, Some(value.into())),
            None => (variable.as_str(), std::env::var_os(variable)),
        };
        let value = value
            .filter(|_| !name.is_empty())
            .ok_or_else(|| misuse(format!("--env {variable} is not set here"), Some("write --env NAME=VALUE")))?;
        Ok(environment.with(name, value))
    })
}

fn parse(text: &str) -> Result<Written, Misuse> {
    let example = Some("write --mcp NAME=COMMAND, for example --mcp 'time=uvx mcp-server-time'");
    let Some((name, command)) = text.split_once('=') else {
        return Err(misuse(format!("--mcp {text} has no `=`"), example));
    };
    let name = name.parse::<ServerName>().map_err(|error| misuse(error.to_string(), example))?;
    if ["http://", "https://", "ws://", "wss://"].iter().any(|scheme| command.starts_with(scheme)) {
        let hint = "this version starts servers as commands; remote servers come later";
        return Err(misuse(format!("the server `{name}` is a URL"), Some(hint)));
    }
    let words = shlex::split(command).filter(|words| !words.is_empty());
    let Some(words) = words else {
        let what = if command.trim().is_empty() {
            format!("the server `{name}` has no command")
        } else {
            format!("the command of the server `{name}` has a quote without its partner")
        };
        return Err(misuse(what, example));
    };
    Ok(Written { name, words })
}

fn misuse(what: String, hint: Option<&str>) -> Misuse {
    Misuse { what, hint: hint.map(str::to_owned) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(text: &str) -> String {
        match parse(text) {
            Ok(Written { name, words }) => format!("{name}: {words:?}"),
            Err(misuse) => misuse.what,
        }
    }

    #[test]
    fn a_server_is_a_name_and_a_command_in_words() {
        let texts = [
            "git=npx -y @mcp/server-github",
            "one=/usr/bin/server",
            "quoted=sh -c 'a b; $HOME' \"c d\"",
            "equals=env KEY=value server",
            "nameless",
            "=cmd",
            "bad name=cmd",
            "empty=",
            "open=sh 'x",
            "web=https://example.com/mcp",
        ];
        insta::assert_snapshot!(texts.map(told).join("\n"), @r#"
        git: ["npx", "-y", "@mcp/server-github"]
        one: ["/usr/bin/server"]
        quoted: ["sh", "-c", "a b; $HOME", "c d"]
        equals: ["env", "KEY=value", "server"]
        --mcp nameless has no `=`
        a server name cannot be empty
        the server name `bad name` has the character U+0020 in it; use letters, digits, `_`, `.` and `-`
        the server `empty` has no command
        the command of the server `open` has a quote without its partner
        the server `web` is a URL
        "#);
    }
}
