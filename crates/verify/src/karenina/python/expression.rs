//! Expressions: literals, names, and calls with such arguments.

use serde_json::{Map, Value};

use super::lexer::Token;

/// The maximum nesting of an expression.
const MAX_DEPTH: usize = 32;

/// An expression that can be read without executing it.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::karenina) enum Expression {
    /// A literal, with lists, tuples and sets as arrays.
    Literal(Value),
    /// A list, tuple or set that is not a literal, because it contains calls or names.
    List(Vec<Expression>),
    /// A name; of a dotted one, the last part.
    Name(String),
    /// A call; of a dotted name, the last part.
    Call { name: String, positional: Vec<Expression>, named: Vec<(String, Expression)> },
    /// A subscript such as `list[str]`.
    Subscript { name: String, items: Vec<Expression> },
    /// Alternatives of types: `str | None`.
    Union(Vec<Expression>),
}

/// An expression that must be executed to know its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::karenina) struct NotLiteral;

impl Expression {
    /// Parses all tokens as one expression.
    pub(super) fn parse(tokens: &[Token]) -> Result<Self, NotLiteral> {
        let mut parser = Parser { tokens, depth: 0 };
        let parsed = parser.tuple()?;
        if parser.tokens.is_empty() { Ok(parsed) } else { Err(NotLiteral) }
    }

    /// Returns the value of a literal.
    pub(in crate::karenina) fn literal(self) -> Result<Value, NotLiteral> {
        match self {
            Self::Literal(value) => Ok(value),
            _ => Err(NotLiteral),
        }
    }

    /// Builds a list: a literal if all items are.
    fn list(items: Vec<Self>) -> Self {
        let literals: Option<Vec<Value>> = items.iter().map(|item| item.clone().literal().ok()).collect();
        literals.map_or(Self::List(items), |values| Self::Literal(Value::Array(values)))
    }
}

struct Parser<'a> {
    tokens: &'a [Token],
    depth: usize,
}

impl Parser<'_> {
    fn is_at(&self, symbol: char) -> bool {
        self.tokens.first() == Some(&Token::Symbol(symbol))
    }

    fn accept(&mut self, symbol: char) -> bool {
        let is_there = self.is_at(symbol);
        if is_there {
            self.tokens = &self.tokens[1..];
        }
        is_there
    }

    fn expect(&mut self, symbol: char) -> Result<(), NotLiteral> {
        if self.accept(symbol) { Ok(()) } else { Err(NotLiteral) }
    }

    /// Reads expressions up to a closing bracket.
    fn items(&mut self, close: char) -> Result<Vec<Expression>, NotLiteral> {
        let mut items = Vec::new();
        while !self.accept(close) {
            items.push(self.expression()?);
            if !self.accept(',') {
                self.expect(close)?;
                break;
            }
        }
        Ok(items)
    }

    /// Reads an expression or a tuple without brackets.
    fn tuple(&mut self) -> Result<Expression, NotLiteral> {
        let first = self.expression()?;
        if !self.is_at(',') {
            return Ok(first);
        }
        let mut items = vec![first];
        while self.accept(',') && !self.tokens.is_empty() {
            items.push(self.expression()?);
        }
        Ok(Expression::list(items))
    }

    fn expression(&mut self) -> Result<Expression, NotLiteral> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(NotLiteral);
        }
        let mut read = self.operand()?;
        loop {
            if self.accept('+') {
                read = match (read, self.operand()?) {
                    (Expression::Literal(Value::String(one)), Expression::Literal(Value::String(other))) => {
                        Expression::Literal(Value::String(one + &other))
                    }
                    _ => return Err(NotLiteral),
                };
            } else if self.accept('|') {
                let other = self.operand()?;
                read = match read {
                    Expression::Union(mut types) => {
                        types.push(other);
                        Expression::Union(types)
                    }
                    first => Expression::Union(vec![first, other]),
                };
            } else {
                break;
            }
        }
        self.depth -= 1;
        Ok(read)
    }

    fn operand(&mut self) -> Result<Expression, NotLiteral> {
        let Some((token, rest)) = self.tokens.split_first() else { return Err(NotLiteral) };
        self.tokens = rest;
        match token {
            Token::Int(number) => Ok(Expression::Literal((*number).into())),
            Token::Float(number) => Ok(Expression::Literal((*number).into())),
            Token::Text(text) => {
                let mut text = text.clone();
                // Adjacent strings are one string.
                while let Some((Token::Text(more), rest)) = self.tokens.split_first() {
                    text.push_str(more);
                    self.tokens = rest;
                }
                if self.tokens.first() == Some(&Token::OtherText) {
                    return Err(NotLiteral);
                }
                Ok(Expression::Literal(text.into()))
            }
            Token::Name(name) => self.named(name),
            Token::Symbol(sign @ ('-' | '+')) => match self.tokens.split_first() {
                Some((Token::Int(number), rest)) => {
                    self.tokens = rest;
                    Ok(Expression::Literal(if *sign == '-' { number.wrapping_neg() } else { *number }.into()))
                }
                Some((Token::Float(number), rest)) => {
                    self.tokens = rest;
                    Ok(Expression::Literal(if *sign == '-' { -number } else { *number }.into()))
                }
                _ => Err(NotLiteral),
            },
            Token::Symbol('(') => self.parenthesized(),
            Token::Symbol('[') => Ok(Expression::list(self.items(']')?)),
            Token::Symbol('{') => self.braced(),
            Token::OtherText | Token::Symbol(_) => Err(NotLiteral),
        }
    }

    fn parenthesized(&mut self) -> Result<Expression, NotLiteral> {
        if self.accept(')') {
            return Ok(Expression::list(Vec::new()));
        }
        let first = self.expression()?;
        if self.accept(')') {
            return Ok(first);
        }
        self.expect(',')?;
        let mut items = vec![first];
        items.extend(self.items(')')?);
        Ok(Expression::list(items))
    }

    /// Reads a dictionary with literal contents, or a set.
    fn braced(&mut self) -> Result<Expression, NotLiteral> {
        let mut entries = Map::new();
        let mut is_first = true;
        while !self.accept('}') {
            let key = self.expression()?;
            if is_first && !self.is_at(':') {
                let mut items = vec![key];
                if self.accept(',') {
                    items.extend(self.items('}')?);
                } else {
                    self.expect('}')?;
                }
                return Ok(Expression::list(items));
            }
            self.expect(':')?;
            let Value::String(key) = key.literal()? else { return Err(NotLiteral) };
            entries.insert(key, self.expression()?.literal()?);
            is_first = false;
            if !self.accept(',') {
                self.expect('}')?;
                break;
            }
        }
        Ok(Expression::Literal(Value::Object(entries)))
    }

    /// Reads what follows a name: dots, a call or a subscript.
    fn named(&mut self, first: &str) -> Result<Expression, NotLiteral> {
        match first {
            "None" => return Ok(Expression::Literal(Value::Null)),
            "True" => return Ok(Expression::Literal(true.into())),
            "False" => return Ok(Expression::Literal(false.into())),
            _ => {}
        }
        let mut name = first.to_owned();
        while self.accept('.') {
            let Some((Token::Name(next), rest)) = self.tokens.split_first() else { return Err(NotLiteral) };
            name.clone_from(next);
            self.tokens = rest;
        }
        if self.accept('[') {
            let items = self.items(']')?;
            return Ok(Expression::Subscript { name, items });
        }
        if !self.accept('(') {
            return Ok(Expression::Name(name));
        }
        let (mut positional, mut named) = (Vec::new(), Vec::new());
        while !self.accept(')') {
            if let [Token::Name(key), Token::Symbol('='), rest @ ..] = self.tokens {
                self.tokens = rest;
                named.push((key.clone(), self.expression()?));
            } else {
                positional.push(self.expression()?);
            }
            if !self.accept(',') {
                self.expect(')')?;
                break;
            }
        }
        Ok(Expression::Call { name, positional, named })
    }
}
