//! The commands of the repl, as typed.

use serde::Serialize;

use crate::error::{UsageError, usage_error};

/// One form of a command, and what it does.
#[derive(Serialize)]
pub(super) struct CommandHelp {
    usage: &'static str,
    about: &'static str,
}

/// All forms of the commands.
pub(super) const COMMANDS: [CommandHelp; 9] = [
    CommandHelp {
        usage: "TOOL key=value…",
        about: "call a tool; values are parsed as JSON unless the tool expects a string",
    },
    CommandHelp { usage: "TOOL {\"key\": 1}", about: "call a tool with one JSON object" },
    CommandHelp { usage: "call TOOL …", about: "the same, for a tool with the name of a command" },
    CommandHelp { usage: "tools [TOOL]", about: "list the tools, or show one in full" },
    CommandHelp { usage: "prompts", about: "list the prompts" },
    CommandHelp { usage: "resources", about: "list the resources" },
    CommandHelp { usage: "read URI", about: "read a resource" },
    CommandHelp { usage: "help", about: "show this text" },
    CommandHelp { usage: "quit", about: "leave (Ctrl-D)" },
];

/// Returns the text of `help`.
pub(super) fn help() -> String {
    let lines: Vec<String> =
        COMMANDS.iter().map(|CommandHelp { usage, about }| format!("{usage:<20}{about}")).collect();
    format!("{}\n\nTab completes tools and arguments. Ctrl-C cancels a call.", lines.join("\n"))
}

/// The words that are commands.
pub(super) const NAMES: [&str; 7] = ["call", "help", "prompts", "quit", "read", "resources", "tools"];

/// A command of the repl.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ReplCommand {
    Call { tool: String, arguments: Vec<String> },
    Tools(Option<String>),
    Prompts,
    Resources,
    Read(String),
    Help,
    Quit,
}

impl ReplCommand {
    /// Parses a line; `None` for a blank line or a comment.
    pub(super) fn parse(line: &str) -> Result<Option<Self>, UsageError> {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            return Ok(None);
        }
        let (first, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
        let rest = rest.trim();
        let alone = |command: Self| match rest {
            "" => Ok(Some(command)),
            _ => Err(usage_error(format!("`{first}` has no arguments"), Some(&for_a_tool(first)))),
        };
        match first {
            "help" | "?" => alone(Self::Help),
            "quit" | "exit" => alone(Self::Quit),
            "prompts" => alone(Self::Prompts),
            "resources" => alone(Self::Resources),
            "tools" if rest.is_empty() => Ok(Some(Self::Tools(None))),
            "tools" if rest.contains(char::is_whitespace) => {
                Err(usage_error("`tools` accepts one name".to_owned(), Some(&for_a_tool(first))))
            }
            "tools" => Ok(Some(Self::Tools(Some(rest.to_owned())))),
            "read" if rest.is_empty() => {
                Err(usage_error("`read` needs a URI".to_owned(), Some("list them: resources")))
            }
            "read" => Ok(Some(Self::Read(rest.to_owned()))),
            "call" if rest.is_empty() => Err(usage_error("`call` needs a tool".to_owned(), Some("list them: tools"))),
            "call" => {
                let (tool, rest) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
                Self::call(tool, rest.trim()).map(Some)
            }
            tool => Self::call(tool, rest).map(Some),
        }
    }

    fn call(tool: &str, rest: &str) -> Result<Self, UsageError> {
        // JSON is not split: its quotes are its own.
        let arguments = match rest {
            "" => Vec::new(),
            json if json.starts_with(['{', '[']) => vec![json.to_owned()],
            words => shlex::split(words).ok_or_else(|| usage_error("unclosed quote".to_owned(), None))?,
        };
        Ok(Self::Call { tool: tool.to_owned(), arguments })
    }
}

fn for_a_tool(name: &str) -> String {
    format!("to call a tool with this name, write: call {name} …")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> String {
        match ReplCommand::parse(line) {
            Ok(Some(command)) => format!("{command:?}"),
            Ok(None) => "nothing".to_owned(),
            Err(error) => error.message,
        }
    }

    #[test]
    fn lines_are_commands_or_calls_with_pairs_or_json() {
        let lines = [
            "",
            "  # a comment",
            "tools",
            "tools add ",
            "tools a b",
            "prompts",
            "resources x",
            "read file:///a b",
            "read",
            "help",
            "?",
            "quit",
            "exit",
            "add a=1 b='2 3'",
            r#"add {"a": "it's", "b": [1, 2]}"#,
            "call tools x=1",
            "call",
            "echo text='open",
        ];
        insta::assert_snapshot!(lines.map(parsed).join("\n"), @r#"
        nothing
        nothing
        Tools(None)
        Tools(Some("add"))
        `tools` accepts one name
        Prompts
        `resources` has no arguments
        Read("file:///a b")
        `read` needs a URI
        Help
        Help
        Quit
        Quit
        Call { tool: "add", arguments: ["a=1", "b=2 3"] }
        Call { tool: "add", arguments: ["{\"a\": \"it's\", \"b\": [1, 2]}"] }
        Call { tool: "tools", arguments: ["x=1"] }
        `call` needs a tool
        unclosed quote
        "#);
    }
}
