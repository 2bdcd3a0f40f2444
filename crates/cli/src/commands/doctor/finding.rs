//! Findings: their class, their verdict, and how to fix them.

use anstyle::Style;
use serde::{Serialize, Serializer};

use crate::exit::Exit;
use crate::term::{GREEN, QuotedLine, RED, YELLOW};

/// What a finding is about, in the order of a server's life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Class {
    /// Whether the server is configured, may be used, and starts.
    Start,
    /// Whether it is reachable, and the handshake succeeds.
    Connection,
    /// Whether its tools can be listed and offered.
    Discovery,
    /// Whether it answers.
    Execution,
}

/// The result of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// No problem.
    Fine,
    /// It works, but could be better.
    Advice,
    /// It does not work; the exit code of the program.
    Problem(Exit),
}

/// The result of one check.
#[derive(Debug, Serialize)]
pub(super) struct Finding {
    pub(super) class: Class,
    /// `None` if it is about a whole file.
    pub(super) server: Option<String>,
    /// The name of the check.
    pub(super) check: &'static str,
    pub(super) verdict: Verdict,
    pub(super) message: String,
    pub(super) fix: Option<String>,
    /// Lines of the server's output.
    pub(super) said: Vec<QuotedLine>,
}

impl Class {
    #[cfg(test)]
    pub(super) const ALL: [Self; 4] = [Self::Start, Self::Connection, Self::Discovery, Self::Execution];

    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Start => "start and scope",
            Self::Connection => "connection",
            Self::Discovery => "tool discovery",
            Self::Execution => "tool execution",
        }
    }

    pub(super) fn fine(self, server: &str, check: &'static str, message: impl Into<String>) -> Finding {
        self.found(server, check, Verdict::Fine, message.into())
    }

    pub(super) fn advice(self, server: &str, check: &'static str, message: impl Into<String>) -> Finding {
        self.found(server, check, Verdict::Advice, message.into())
    }

    pub(super) fn problem(self, server: &str, check: &'static str, exit: Exit, message: impl Into<String>) -> Finding {
        self.found(server, check, Verdict::Problem(exit), message.into())
    }

    fn found(self, server: &str, check: &'static str, verdict: Verdict, message: String) -> Finding {
        let server = Some(server.to_owned());
        Finding { class: self, server, check, verdict, message, fix: None, said: Vec::new() }
    }
}

impl Verdict {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Fine => "ok",
            Self::Advice => "advice",
            Self::Problem(_) => "problem",
        }
    }

    pub(super) fn style(self) -> Style {
        match self {
            Self::Fine => GREEN,
            Self::Advice => YELLOW,
            Self::Problem(_) => RED,
        }
    }

    pub(super) fn mark(self) -> char {
        match self {
            Self::Fine => '✓',
            Self::Advice => '!',
            Self::Problem(_) => '✗',
        }
    }
}

impl Finding {
    /// Adds how to fix it.
    pub(super) fn with_fix(mut self, fix: impl Into<Option<String>>) -> Self {
        self.fix = fix.into();
        self
    }

    /// Adds lines of the server's output.
    pub(super) fn quoting(mut self, said: Vec<QuotedLine>) -> Self {
        self.said = said;
        self
    }

    pub(super) fn is_problem(&self) -> bool {
        matches!(self.verdict, Verdict::Problem(_))
    }

    pub(super) fn exit(&self) -> Exit {
        match self.verdict {
            Verdict::Problem(exit) => exit,
            Verdict::Fine | Verdict::Advice => Exit::Done,
        }
    }
}

impl Serialize for Class {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl Serialize for Verdict {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_guide_has_a_section_for_each_class_and_for_nothing_else() {
        let guide = include_str!("../../../../../docs/troubleshooting.md");
        let sections: Vec<String> =
            guide.lines().filter_map(|line| line.strip_prefix("## ")).map(str::to_lowercase).collect();
        assert_eq!(sections, Class::ALL.map(Class::as_str));
    }
}
