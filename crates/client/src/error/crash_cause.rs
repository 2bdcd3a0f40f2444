//! Finds the line in which a crashed program says why: below it are often stack frames, versions and paths of logs.

/// Starts a Python stack trace; the first line after it that is not indented is the exception.
const TRACEBACK: &str = "Traceback (most recent call last):";
/// The prefixes of npm's error lines, of new and old versions.
const NPM: [&str; 2] = ["npm error ", "npm ERR! "];
/// Lines of npm that say less than the others.
const NPM_DETAILS: [&str; 8] =
    ["code ", "errno ", "syscall ", "path ", "dest ", "network ", "enoent ", "A complete log of this run"];
/// How lines begin that say why: of compilers, shells, package managers, Go and Deno.
const LABELS: [&str; 7] = ["error: ", "fatal: ", "fatal error: ", "panic: ", "critical: ", "uncaught ", "× "];

/// Returns the index of the line that says why a program ended: the exception of a stack trace, an error message, or
/// else the last line.
pub(super) fn find(lines: &[String]) -> Option<usize> {
    python_exception(lines)
        .or_else(|| last(lines, is_exception))
        .or_else(|| rust_panic(lines))
        .or_else(|| lines.iter().position(|line| is_npm_error(line)))
        .or_else(|| last(lines, is_labeled))
        .or_else(|| last(lines, |line| !line.trim().is_empty()))
}

fn last(lines: &[String], predicate: impl Fn(&str) -> bool) -> Option<usize> {
    lines.iter().rposition(|line| predicate(line))
}

/// The exception of the last stack trace.
fn python_exception(lines: &[String]) -> Option<usize> {
    let start = last(lines, |line| line.trim() == TRACEBACK)?;
    let is_message = |line: &String| !line.trim().is_empty() && !line.starts_with([' ', '\t']);
    let below = lines.iter().skip(start + 1).position(is_message)?;
    Some(start + 1 + below)
}

/// Whether a line is for example `Error: Cannot find module`, `TypeError [ERR_X]: …` or `java.io.IOException: …`.
fn is_exception(line: &str) -> bool {
    let Some((kind, message)) = line.split_once(": ") else { return false };
    let kind = kind.strip_prefix("Uncaught ").unwrap_or(kind);
    let kind = kind.split_once(" [").map_or(kind, |(kind, _)| kind);
    let is_name = kind.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '$'));
    is_name && (kind.ends_with("Error") || kind.ends_with("Exception")) && !message.trim().is_empty()
}

/// The message of a panic, which is below the line that names its place.
fn rust_panic(lines: &[String]) -> Option<usize> {
    let place = last(lines, |line| line.starts_with("thread '") && line.contains("panicked at "))?;
    Some(if lines.get(place + 1).is_some_and(|line| !line.trim().is_empty()) { place + 1 } else { place })
}

fn is_npm_error(line: &str) -> bool {
    let message = NPM.iter().find_map(|prefix| line.strip_prefix(prefix));
    message.is_some_and(|message| {
        !message.trim().is_empty() && !NPM_DETAILS.iter().any(|detail| message.starts_with(detail))
    })
}

fn is_labeled(line: &str) -> bool {
    let line = line.trim_start().to_ascii_lowercase();
    LABELS.iter().any(|label| line.starts_with(label))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(output: &str, expected: &str) {
        let lines: Vec<String> = output.lines().map(str::to_owned).collect();
        assert_eq!(find(&lines).map(|index| lines[index].as_str()), Some(expected), "{output}");
    }

    #[test]
    fn a_missing_module_of_node_is_found_above_its_stack() {
        check(
            "node:internal/modules/cjs/loader:1228\n  throw err;\n  ^\n\nError: Cannot find module '/x/y.js'\n    at \
             Module._resolveFilename (node:internal/modules/cjs/loader:1225:15)\n    at node:internal/main:36:49 {\n  \
             code: 'MODULE_NOT_FOUND',\n  requireStack: []\n}\n\nNode.js v22.11.0",
            "Error: Cannot find module '/x/y.js'",
        );
        check("TypeError [ERR_INVALID_ARG]: bad\n    at x\n\nNode.js v24", "TypeError [ERR_INVALID_ARG]: bad");
    }

    #[test]
    fn the_exception_of_the_last_python_trace_is_found() {
        check(
            "Traceback (most recent call last):\n  File \"a.py\", line 1\nValueError: first\n\nDuring handling of the \
             above exception, another exception occurred:\n\nTraceback (most recent call last):\n  File \"a.py\", line \
             3, in <module>\n    import foo\nModuleNotFoundError: No module named 'foo'\nsorry",
            "ModuleNotFoundError: No module named 'foo'",
        );
        check("Traceback (most recent call last):\n  File \"a.py\"\nKeyboardInterrupt", "KeyboardInterrupt");
    }

    #[test]
    fn errors_of_package_managers_are_found_above_their_details() {
        check(
            "npm error code E404\nnpm error 404 Not Found - GET https://npm.test/x\nnpm error 404\nnpm error A complete \
             log of this run can be found in: /home/me/.npm/_logs/1.log",
            "npm error 404 Not Found - GET https://npm.test/x",
        );
        check(
            "Resolving\nerror: Request failed after 3 retries\n  Caused by: tunnel\n",
            "error: Request failed after 3 retries",
        );
        check(
            "  × No solution found when resolving tool dependencies:\n  ╰─▶ Because x",
            "  × No solution found when resolving tool dependencies:",
        );
    }

    #[test]
    fn panics_and_plain_messages_are_found() {
        check("thread 'main' panicked at src/main.rs:1:1:\nno port\nnote: run with `RUST_BACKTRACE=1`", "no port");
        check("panic: no port\n\ngoroutine 1 [running]:\nmain.main()", "panic: no port");
        check("starting\nno license\n\n", "no license");
        assert_eq!(find(&[]), None);
        assert_eq!(find(&[" ".to_owned()]), None);
    }
}
