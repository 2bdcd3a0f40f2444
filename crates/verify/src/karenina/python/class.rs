//! Classes: their annotated attributes, assignments, methods and nested classes.

use serde_json::Value;

use super::Unreadable;
use super::expression::{Expression, NotLiteral};
use super::lexer::{self, Line, Token};

/// The maximum nesting of classes.
const MAX_DEPTH: usize = 8;

/// A source text.
#[derive(Clone, Debug, Default, PartialEq)]
pub(in crate::karenina) struct Module {
    pub(in crate::karenina) classes: Vec<Class>,
    /// The lines of statements that may change a class: neither imports nor definitions.
    pub(in crate::karenina) other_lines: Vec<usize>,
}

/// A class definition.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::karenina) struct Class {
    pub(in crate::karenina) name: String,
    /// The last parts of the names of its bases.
    pub(in crate::karenina) bases: Vec<String>,
    pub(in crate::karenina) body: Vec<Statement>,
}

/// A statement. Docstrings, imports and `pass` are left out.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::karenina) enum Statement {
    /// `name: annotation` or `name: annotation = value`.
    Attribute {
        name: String,
        line: usize,
        annotation: Result<Expression, NotLiteral>,
        value: Option<Result<Expression, NotLiteral>>,
    },
    /// `name = value`.
    Assignment { name: String, line: usize, value: Result<Expression, NotLiteral> },
    /// A method. Of its body only a literal that it assigns to `self.correct` is read.
    Method { name: String, line: usize, correct: Option<Value> },
    /// A nested class.
    Class(Class),
    /// Anything else.
    Other { line: usize },
}

/// Reads a source text. Functions and assigned names are skipped: a literal cannot refer to them.
pub(in crate::karenina) fn module(source: &str) -> Result<Module, Unreadable> {
    let lines = lexer::lines(source)?;
    let mut module = Module::default();
    for statement in block(&lines, 0) {
        match statement {
            Statement::Class(class) => module.classes.push(class),
            Statement::Other { line } => module.other_lines.push(line),
            Statement::Attribute { .. } | Statement::Assignment { .. } | Statement::Method { .. } => {}
        }
    }
    Ok(module)
}

/// Reads the statements of a block: the lines of the first line's indentation, each with the deeper lines after it.
fn block(lines: &[Line], depth: usize) -> Vec<Statement> {
    let Some(indent) = lines.first().map(|line| line.indent) else { return Vec::new() };
    let mut statements = Vec::new();
    let mut rest = lines;
    let mut decorator = None;
    while let Some((head, after)) = rest.split_first() {
        let length = after.iter().take_while(|line| line.indent > indent).count();
        let (body, next) = after.split_at(length);
        rest = next;
        if head.tokens.first() == Some(&Token::Symbol('@')) {
            decorator = Some(head.number);
            continue;
        }
        let mut read = statement(head, body, depth);
        // A decorator can change a class. A method is reported itself.
        if let (Some(line), Some(Statement::Class(class))) = (decorator.take(), &mut read) {
            class.body.push(Statement::Other { line });
        }
        statements.extend(read);
    }
    statements
}

fn statement(head: &Line, body: &[Line], depth: usize) -> Option<Statement> {
    let line = head.number;
    let other = Some(Statement::Other { line });
    match head.tokens.as_slice() {
        [Token::Name(word)] if word == "pass" => None,
        [Token::Name(word), ..] if word == "import" || word == "from" => None,
        [Token::Text(_)] | [Token::Symbol('.'), Token::Symbol('.'), Token::Symbol('.')] => None,
        [Token::Name(word), Token::Name(name), ..] if word == "def" => {
            Some(Statement::Method { name: name.clone(), line, correct: correct(body) })
        }
        [Token::Name(word), Token::Name(def), Token::Name(name), ..] if word == "async" && def == "def" => {
            Some(Statement::Method { name: name.clone(), line, correct: correct(body) })
        }
        [Token::Name(word), Token::Name(name), rest @ ..] if word == "class" => {
            class(name, rest, body, depth).map_or(other, |class| Some(Statement::Class(class)))
        }
        [Token::Name(name), Token::Symbol(':'), rest @ ..] if !is_keyword(name) && body.is_empty() => {
            let equals = rest.iter().position(|token| *token == Token::Symbol('='));
            let (annotation, value) = match equals {
                Some(position) => (&rest[..position], Some(Expression::parse(&rest[position + 1..]))),
                None => (rest, None),
            };
            let annotation = Expression::parse(annotation);
            Some(Statement::Attribute { name: name.clone(), line, annotation, value })
        }
        [Token::Name(name), Token::Symbol('='), rest @ ..] if body.is_empty() => {
            Some(Statement::Assignment { name: name.clone(), line, value: Expression::parse(rest) })
        }
        _ => other,
    }
}

/// Returns the literal that the lines of a method assign to `self.correct`, if there is exactly one assignment.
fn correct(body: &[Line]) -> Option<Value> {
    let mut assigned = body.iter().filter_map(|line| match line.tokens.as_slice() {
        [Token::Name(owner), Token::Symbol('.'), Token::Name(name), Token::Symbol('='), value @ ..]
            if owner == "self" && name == "correct" =>
        {
            Some(Expression::parse(value).and_then(Expression::literal).ok())
        }
        _ => None,
    });
    match (assigned.next(), assigned.next()) {
        (Some(only), None) => only,
        _ => None,
    }
}

fn is_keyword(name: &str) -> bool {
    ["else", "try", "finally", "lambda"].contains(&name)
}

/// Reads a class from the tokens after its name.
fn class(name: &str, rest: &[Token], body: &[Line], depth: usize) -> Option<Class> {
    if depth >= MAX_DEPTH {
        return None;
    }
    let colon = rest.iter().rposition(|token| *token == Token::Symbol(':'))?;
    let is_empty_on_one_line = matches!(&rest[colon + 1..], [Token::Name(word)] if word == "pass")
        || rest[colon + 1..].iter().all(|token| *token == Token::Symbol('.'));
    if !is_empty_on_one_line {
        return None;
    }
    let bases = match &rest[..colon] {
        [Token::Symbol('('), inner @ .., Token::Symbol(')')] => {
            let mut last_parts = Vec::new();
            for base in inner.split(|token| *token == Token::Symbol(',')) {
                if let Some(Token::Name(base)) = base.last() {
                    last_parts.push(base.clone());
                }
            }
            last_parts
        }
        _ => Vec::new(),
    };
    Some(Class { name: name.to_owned(), bases, body: block(body, depth + 1) })
}
