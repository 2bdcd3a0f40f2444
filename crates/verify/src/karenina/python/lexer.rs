//! Splits Python source text into logical lines of tokens.

use super::{MAX_SOURCE_BYTES, Unreadable};

/// A token. Operators of several characters are several tokens: only declarations are read.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Token {
    Name(String),
    /// A string without placeholders.
    Text(String),
    /// A formatted string or bytes.
    OtherText,
    Int(i64),
    Float(f64),
    Symbol(char),
}

/// A logical line: a statement, or the head of a compound one.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Line {
    pub(super) indent: usize,
    /// The line of its first token, counted from 1.
    pub(super) number: usize,
    pub(super) tokens: Vec<Token>,
}

/// Splits a source text.
pub(super) fn lines(source: &str) -> Result<Vec<Line>, Unreadable> {
    if source.len() > MAX_SOURCE_BYTES {
        return Err(Unreadable { line: 1, reason: "the template is larger than 256 KiB" });
    }
    Lexer { rest: source, line: 1, brackets: Vec::new() }.lines()
}

struct Lexer<'a> {
    rest: &'a str,
    line: usize,
    /// The open brackets.
    brackets: Vec<char>,
}

impl Lexer<'_> {
    fn lines(mut self) -> Result<Vec<Line>, Unreadable> {
        let mut lines = Vec::new();
        while !self.rest.is_empty() {
            let indent = self.indent();
            let number = self.line;
            let tokens = self.logical_line()?;
            if !tokens.is_empty() {
                lines.push(Line { indent, number, tokens });
            }
        }
        Ok(lines)
    }

    fn unreadable(&self, reason: &'static str) -> Unreadable {
        Unreadable { line: self.line, reason }
    }

    fn peek(&self) -> Option<char> {
        self.rest.chars().next()
    }

    fn advance(&mut self) -> Option<char> {
        let next = self.peek()?;
        self.rest = &self.rest[next.len_utf8()..];
        self.line += usize::from(next == '\n');
        Some(next)
    }

    /// Reads the white space at the start of a line. A tab leads to the next multiple of eight.
    fn indent(&mut self) -> usize {
        let mut indent = 0;
        while let Some(next @ (' ' | '\t')) = self.peek() {
            indent = if next == ' ' { indent + 1 } else { (indent / 8 + 1) * 8 };
            self.advance();
        }
        indent
    }

    /// Reads tokens up to the end of the line; inside brackets, lines continue.
    fn logical_line(&mut self) -> Result<Vec<Token>, Unreadable> {
        let mut tokens = Vec::new();
        loop {
            match self.peek() {
                None if self.brackets.is_empty() => return Ok(tokens),
                None => return Err(self.unreadable("a bracket is not closed")),
                Some('\n') if self.brackets.is_empty() => {
                    self.advance();
                    return Ok(tokens);
                }
                Some('\n' | ' ' | '\t' | '\r' | '\u{c}' | '\u{feff}') => {
                    self.advance();
                }
                Some('\\') => {
                    self.advance();
                    while self.peek() == Some('\r') {
                        self.advance();
                    }
                    if self.advance() != Some('\n') {
                        return Err(self.unreadable("unexpected `\\`"));
                    }
                }
                Some('#') => {
                    while self.peek().is_some_and(|next| next != '\n') {
                        self.advance();
                    }
                }
                Some(next) => tokens.push(self.token(next)?),
            }
        }
    }

    fn token(&mut self, next: char) -> Result<Token, Unreadable> {
        if next == '"' || next == '\'' {
            return self.string("");
        }
        if next == '_' || next.is_alphabetic() {
            let length = self.rest.find(|c: char| c != '_' && !c.is_alphanumeric()).unwrap_or(self.rest.len());
            let name = self.rest[..length].to_owned();
            self.rest = &self.rest[length..];
            let is_prefix = name.len() <= 2 && name.chars().all(|c| "rRbBuUfFtT".contains(c));
            if is_prefix && matches!(self.peek(), Some('"' | '\'')) {
                return self.string(&name);
            }
            return Ok(Token::Name(name));
        }
        let starts_fraction = next == '.' && self.rest[1..].starts_with(|c: char| c.is_ascii_digit());
        if next.is_ascii_digit() || starts_fraction {
            return self.number();
        }
        match next {
            '(' | '[' | '{' => self.brackets.push(next),
            ')' | ']' | '}' => {
                let open = if next == ')' {
                    '('
                } else if next == ']' {
                    '['
                } else {
                    '{'
                };
                if self.brackets.pop() != Some(open) {
                    return Err(self.unreadable("a bracket does not match"));
                }
            }
            _ => {}
        }
        self.advance();
        Ok(Token::Symbol(next))
    }

    fn number(&mut self) -> Result<Token, Unreadable> {
        let mut length = 0;
        let mut previous = ' ';
        for c in self.rest.chars() {
            let is_sign_of_exponent = (c == '+' || c == '-') && matches!(previous, 'e' | 'E');
            if !(c.is_ascii_alphanumeric() || c == '.' || c == '_' || is_sign_of_exponent) {
                break;
            }
            length += c.len_utf8();
            previous = c;
        }
        let text = self.rest[..length].replace('_', "");
        self.rest = &self.rest[length..];
        if let Ok(integer) = text.parse::<i64>() {
            return Ok(Token::Int(integer));
        }
        let is_plain = text.chars().all(|c| c.is_ascii_digit() || ".eE+-".contains(c));
        match text.parse::<f64>() {
            Ok(float) if is_plain && float.is_finite() => Ok(Token::Float(float)),
            _ => Err(self.unreadable("a number cannot be read")),
        }
    }

    /// Reads a string after its prefix.
    fn string(&mut self, prefix: &str) -> Result<Token, Unreadable> {
        let has = |letter: char| prefix.chars().any(|c| c.eq_ignore_ascii_case(&letter));
        let is_raw = has('r');
        let quote = self.advance().unwrap_or('"');
        let is_triple = self.rest.starts_with(&format!("{quote}{quote}"));
        if is_triple {
            self.advance();
            self.advance();
        }
        let mut text = String::new();
        loop {
            match self.advance() {
                None => return Err(self.unreadable("a string is not closed")),
                Some('\n') if !is_triple => return Err(self.unreadable("a string is not closed")),
                Some(c) if c == quote && !is_triple => break,
                Some(c) if c == quote && self.rest.starts_with(&format!("{quote}{quote}")) => {
                    self.advance();
                    self.advance();
                    break;
                }
                Some('\\') if is_raw => {
                    text.push('\\');
                    text.extend(self.advance());
                }
                Some('\\') => self.escape(&mut text)?,
                Some(c) => text.push(c),
            }
        }
        Ok(if has('b') || has('f') || has('t') { Token::OtherText } else { Token::Text(text) })
    }

    fn escape(&mut self, text: &mut String) -> Result<(), Unreadable> {
        let Some(letter) = self.advance() else { return Err(self.unreadable("a string is not closed")) };
        let plain = match letter {
            '\n' => return Ok(()),
            '\\' | '\'' | '"' => letter,
            'n' => '\n',
            't' => '\t',
            'r' => '\r',
            'a' => '\u{7}',
            'b' => '\u{8}',
            'f' => '\u{c}',
            'v' => '\u{b}',
            'x' => self.code(2)?,
            'u' => self.code(4)?,
            'U' => self.code(8)?,
            '0'..='7' => {
                let more = self.rest.chars().take(2).take_while(|c| ('0'..='7').contains(c)).count();
                let digits = format!("{letter}{}", &self.rest[..more]);
                self.rest = &self.rest[more..];
                u32::from_str_radix(&digits, 8).ok().and_then(char::from_u32).unwrap_or('\u{fffd}')
            }
            'N' => return Err(self.unreadable("a named character in a string cannot be read")),
            other => {
                text.push('\\');
                other
            }
        };
        text.push(plain);
        Ok(())
    }

    fn code(&mut self, digits: usize) -> Result<char, Unreadable> {
        let code = self.rest.get(..digits).and_then(|digits| u32::from_str_radix(digits, 16).ok());
        let Some(read) = code.and_then(char::from_u32) else {
            return Err(self.unreadable("an escaped character in a string cannot be read"));
        };
        self.rest = &self.rest[digits..];
        Ok(read)
    }
}
