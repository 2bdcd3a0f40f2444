//! What is found: in which class, how bad it is, and how to mend it.

use anstyle::Style;
use serde::{Serialize, Serializer};

use crate::exit::Exit;
use crate::render;

/// What a finding is about, in the order in which things go wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Class {
    /// Whether the server is configured, may be used, and starts.
    Start,
    /// Whether it can be reached, and speaks.
    Connection,
    /// Whether its tools can be listed and offered.
    Discovery,
    /// Whether it answers.
    Execution,
}

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// It is as it should be.
    Fine,
    /// It works, and could be better.
    Advice,
    /// It does not work; this is what the program ends with.
    Problem(Exit),
}

/// One thing that was looked at.
#[derive(Debug, Serialize)]
pub(super) struct Finding {
    pub(super) class: Class,
    /// The server; what is about a whole file has none.
    pub(super) server: Option<String>,
    /// What was looked at, in a word.
    pub(super) check: &'static str,
    pub(super) verdict: Verdict,
    pub(super) message: String,
    pub(super) fix: Option<String>,
    /// What the server said, line by line.
    pub(super) said: Vec<String>,
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

    /// Something that is as it should be.
    pub(super) fn fine(self, server: &str, check: &'static str, message: impl Into<String>) -> Finding {
        self.found(server, check, Verdict::Fine, message.into())
    }

    /// Something that could be better.
    pub(super) fn advice(self, server: &str, check: &'static str, message: impl Into<String>) -> Finding {
        self.found(server, check, Verdict::Advice, message.into())
    }

    /// Something that does not work, and what the program ends with because of it.
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
            Self::Fine => render::GREEN,
            Self::Advice => render::YELLOW,
            Self::Problem(_) => render::RED,
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
    /// With how to mend it.
    pub(super) fn mended_by(mut self, fix: impl Into<Option<String>>) -> Self {
        self.fix = fix.into();
        self
    }

    /// With what the server said.
    pub(super) fn quoting(mut self, said: Vec<String>) -> Self {
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
