//! The arguments that a registry gives to the program that runs a package. Those that are known to be harmless pass; all
//! others are shown as dangers, because runtimes have options that replace the package or open the machine to it, and
//! accept abbreviations of them.

use serde_json::{Map, Value};

use super::package::Runtime;

/// An option, and which of its values are harmless.
type ValuedOption = (&'static str, fn(&str) -> bool);

/// What a runtime accepts without changing what runs.
struct Harmless {
    /// Options without a value.
    switches: &'static [&'static str],
    /// Options whose value is behind `=` or the next argument.
    valued: &'static [ValuedOption],
}

const NPX: Harmless = Harmless {
    switches: &[
        "-y",
        "--yes",
        "-q",
        "--quiet",
        "-s",
        "--silent",
        "--offline",
        "--prefer-offline",
        "--prefer-online",
        "--no-audit",
        "--no-fund",
        "--no-update-notifier",
        "--ignore-scripts",
    ],
    valued: &[("--loglevel", is_word)],
};

const UVX: Harmless = Harmless {
    switches: &[
        "-q",
        "--quiet",
        "-v",
        "--verbose",
        "-n",
        "--no-cache",
        "--no-progress",
        "--offline",
        "--isolated",
        "--no-config",
        "--refresh",
    ],
    // A path or a URL would be another interpreter.
    valued: &[("-p", is_number), ("--python", is_number), ("--color", is_word)],
};

const DNX: Harmless =
    Harmless { switches: &["-y", "--yes", "--allow-roll-forward"], valued: &[("--verbosity", is_word)] };

const CONTAINER: Harmless = Harmless {
    switches: &[
        "run",
        "-i",
        "--interactive",
        "-t",
        "--tty",
        "-it",
        "-ti",
        "--rm",
        "--init",
        "-q",
        "--quiet",
        "--read-only",
        "--no-healthcheck",
    ],
    valued: &[
        ("--name", is_word),
        ("--pull", is_word),
        ("--platform", is_word),
        ("--network", is_none),
        ("--net", is_none),
        ("-m", is_word),
        ("--memory", is_word),
        ("--cpus", is_number),
        ("--pids-limit", is_number),
        ("--cap-drop", is_word),
        ("--security-opt", is_without_new_privileges),
        ("-u", is_word),
        ("--user", is_word),
        ("-w", is_path_inside),
        ("--workdir", is_path_inside),
        ("--stop-timeout", is_number),
    ],
};

/// The options of containers that set variables.
const VARIABLE_OPTIONS: [&str; 2] = ["-e", "--env"];

/// Returns the arguments of a runtime that are not known to be harmless, each with its value. `env` has the variables of
/// the server.
pub(super) fn unusual_arguments(runtime: Runtime, words: &[String], env: &Map<String, Value>) -> Vec<String> {
    let harmless = match runtime {
        Runtime::Npx => &NPX,
        Runtime::Uvx => &UVX,
        Runtime::Dnx => &DNX,
        Runtime::Container(_) => &CONTAINER,
    };
    let is_container = matches!(runtime, Runtime::Container(_));
    // `-e NAME` without a value passes a variable of the user.
    let is_variable = |value: &str| value.contains('=') || env.contains_key(value);
    let mut unusual = Vec::new();
    let mut words = words.iter();
    while let Some(word) = words.next() {
        if harmless.switches.contains(&word.as_str()) {
            continue;
        }
        let (name, joined) = match word.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (word.as_str(), None),
        };
        let is_harmless: Option<&dyn Fn(&str) -> bool> = if is_container && VARIABLE_OPTIONS.contains(&name) {
            Some(&is_variable)
        } else {
            harmless.valued.iter().find(|(option, _)| *option == name).map(|(_, check)| check as &dyn Fn(&str) -> bool)
        };
        match (is_harmless, joined) {
            (Some(is_harmless), Some(value)) if is_harmless(value) => {}
            (Some(is_harmless), None) => match words.next() {
                Some(value) if is_harmless(value) => {}
                Some(value) => unusual.push(format!("{word} {value}")),
                None => unusual.push(word.clone()),
            },
            // What follows may be its value. It is shown on its own, and so is a package in its place.
            _ => unusual.push(word.clone()),
        }
    }
    unusual
}

fn is_word(value: &str) -> bool {
    value.starts_with(|c: char| c.is_ascii_alphanumeric())
        && value.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-/:".contains(&byte))
}

fn is_number(value: &str) -> bool {
    value.starts_with(|c: char| c.is_ascii_digit()) && value.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.')
}

fn is_none(value: &str) -> bool {
    value == "none"
}

fn is_without_new_privileges(value: &str) -> bool {
    matches!(value, "no-new-privileges" | "no-new-privileges:true" | "no-new-privileges=true")
}

/// Whether a value is a plain path, which is one of the container.
fn is_path_inside(value: &str) -> bool {
    value.strip_prefix('/').is_some_and(|rest| rest.is_empty() || is_word(rest))
}
