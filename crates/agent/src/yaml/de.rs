//! From a tree to the types of Rust.

use std::cell::Cell;
use std::rc::Rc;

use serde::de::value::MapAccessDeserializer;
use serde::de::{
    DeserializeOwned, DeserializeSeed, Deserializer, Error as _, IntoDeserializer as _, MapAccess, SeqAccess,
    Unexpected, Visitor,
};
use serde::{Deserialize as _, forward_to_deserialize_any};
use serde_json::Value;

use super::Error;
use super::tree::{Kind, MAX_VALUES, Node, too_many};

/// Integers that JSON has a type for; greater ones are floats.
const FITTING: std::ops::RangeInclusive<i128> = i64::MIN as i128..=u64::MAX as i128;

pub(super) fn deserialize<T: DeserializeOwned>(root: &Node) -> Result<T, Error> {
    let left = Cell::new(MAX_VALUES);
    T::deserialize(At { node: root, left: &left })
}

/// Reads one scalar with the types of YAML. Fails for numbers that are not finite.
pub(super) fn scalar_value(node: &Node) -> Result<Value, Error> {
    let left = Cell::new(usize::MAX);
    Value::deserialize(At { node, left: &left })
}

pub(super) fn as_integer(text: &str) -> Option<i128> {
    integer(text.trim())
}

pub(super) fn as_float(text: &str) -> Option<f64> {
    float(text.trim())
}

pub(super) fn as_boolean(text: &str) -> Option<bool> {
    boolean(text.trim())
}

/// A node to be read.
#[derive(Clone, Copy)]
struct At<'de> {
    node: &'de Node,
    /// The values that may still follow.
    left: &'de Cell<usize>,
}

impl<'de> At<'de> {
    fn inner(self, node: &'de Node) -> Self {
        Self { node, ..self }
    }

    /// Counts the node, and adds its line to what goes wrong in it.
    fn read<T>(self, read: impl FnOnce(&'de Kind) -> Result<T, Error>) -> Result<T, Error> {
        let Some(left) = self.left.get().checked_sub(self.node.weight()) else {
            return Err(too_many(self.node.line));
        };
        self.left.set(left);
        read(&self.node.kind).map_err(|error| error.at(self.node.line))
    }

    /// Reads a scalar whose type is asked for: what its text is, however it is quoted.
    fn scalar<T>(
        self,
        expected: &str,
        parse: impl FnOnce(&str) -> Option<T>,
        visitor: &dyn serde::de::Expected,
    ) -> Result<T, Error> {
        self.read(|kind| match kind {
            Kind::Scalar { text, .. } => {
                parse(text.trim()).ok_or_else(|| Error::invalid_value(Unexpected::Str(text), &expected))
            }
            Kind::Sequence(_) => Err(Error::invalid_type(Unexpected::Seq, visitor)),
            Kind::Mapping(_) => Err(Error::invalid_type(Unexpected::Map, visitor)),
        })
    }

    fn sequence<V: Visitor<'de>>(self, items: &'de [Rc<Node>], visitor: V) -> Result<V::Value, Error> {
        visitor.visit_seq(Items { at: self, rest: items.iter() })
    }

    fn mapping<V: Visitor<'de>>(self, entries: &'de [(Rc<Node>, Rc<Node>)], visitor: V) -> Result<V::Value, Error> {
        visitor.visit_map(Entries { at: self, rest: entries.iter(), value: None })
    }
}

fn boolean(text: &str) -> Option<bool> {
    let is = |names: [&str; 4]| names.iter().any(|name| text.eq_ignore_ascii_case(name));
    if is(["true", "yes", "y", "on"]) {
        return Some(true);
    }
    is(["false", "no", "n", "off"]).then_some(false)
}

/// An integer: decimal without leading zeros, or `0x`, `0o`, `0b`; with `_` between digits.
fn integer(text: &str) -> Option<i128> {
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    let (radix, digits) = match digits.as_bytes() {
        [b'0', b'x' | b'X', ..] => (16, &digits[2..]),
        [b'0', b'o' | b'O', ..] => (8, &digits[2..]),
        [b'0', b'b' | b'B', ..] => (2, &digits[2..]),
        [b'0', _, ..] => return None,
        _ => (10, digits),
    };
    if !digits.split('_').all(|part| !part.is_empty() && part.chars().all(|c| c.is_digit(radix))) {
        return None;
    }
    let number = i128::from_str_radix(&digits.replace('_', ""), radix).ok()?;
    Some(if text.starts_with('-') { -number } else { number })
}

/// A number with digits, and the names of YAML for those without.
#[expect(clippy::cast_precision_loss, reason = "a float was asked for")]
fn float(text: &str) -> Option<f64> {
    match text.to_ascii_lowercase().as_str() {
        ".nan" | "+.nan" | "-.nan" => Some(f64::NAN),
        ".inf" | "+.inf" => Some(f64::INFINITY),
        "-.inf" => Some(f64::NEG_INFINITY),
        _ if text.contains(|c: char| c.is_ascii_digit()) => {
            text.parse().ok().or_else(|| integer(text).map(|n| n as f64))
        }
        _ => None,
    }
}

fn visit_integer<'de, V: Visitor<'de>>(number: i128, visitor: V) -> Result<V::Value, Error> {
    if let Ok(number) = u64::try_from(number) {
        visitor.visit_u64(number)
    } else if let Ok(number) = i64::try_from(number) {
        visitor.visit_i64(number)
    } else {
        visitor.visit_i128(number)
    }
}

/// Reads a plain scalar as what it looks like.
fn visit_plain<'de, V: Visitor<'de>>(text: &'de str, visitor: V) -> Result<V::Value, Error> {
    if let Some(boolean) = boolean(text) {
        visitor.visit_bool(boolean)
    } else if let Some(number) = integer(text).filter(|number| FITTING.contains(number)) {
        visit_integer(number, visitor)
    } else {
        match float(text) {
            Some(number) if number.is_finite() => visitor.visit_f64(number),
            Some(_) => Err(Error::custom(format!("`{text}` is not a finite number"))),
            None => visitor.visit_borrowed_str(text),
        }
    }
}

macro_rules! integers {
    ($($method:ident)*) => {$(
        fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
            let number = self.scalar("an integer", integer, &visitor)?;
            visit_integer(number, visitor).map_err(|error: Error| error.at(self.node.line))
        }
    )*};
}

impl<'de> Deserializer<'de> for At<'de> {
    type Error = Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        self.read(|kind| match kind {
            Kind::Scalar { .. } if self.node.is_null() => visitor.visit_unit(),
            Kind::Scalar { text, is_plain: true } => visit_plain(text, visitor),
            Kind::Scalar { text, .. } => visitor.visit_borrowed_str(text),
            Kind::Sequence(items) => self.sequence(items, visitor),
            Kind::Mapping(entries) => self.mapping(entries, visitor),
        })
    }

    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        let value = self.scalar("a boolean", boolean, &visitor)?;
        visitor.visit_bool(value)
    }

    integers! {
        deserialize_i8 deserialize_i16 deserialize_i32 deserialize_i64 deserialize_i128
        deserialize_u8 deserialize_u16 deserialize_u32 deserialize_u64 deserialize_u128
    }

    fn deserialize_f32<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        self.deserialize_f64(visitor)
    }

    fn deserialize_f64<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        let value = self.scalar("a number", float, &visitor)?;
        visitor.visit_f64(value)
    }

    fn deserialize_str<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        self.read(|kind| match kind {
            Kind::Scalar { text, .. } if !self.node.is_null() => visitor.visit_borrowed_str(text),
            Kind::Scalar { .. } => Err(Error::invalid_type(Unexpected::Unit, &visitor)),
            Kind::Sequence(_) => Err(Error::invalid_type(Unexpected::Seq, &visitor)),
            Kind::Mapping(_) => Err(Error::invalid_type(Unexpected::Map, &visitor)),
        })
    }

    fn deserialize_string<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        self.deserialize_str(visitor)
    }

    fn deserialize_char<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        self.deserialize_str(visitor)
    }

    fn deserialize_identifier<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        self.deserialize_str(visitor)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        if self.node.is_null() { visitor.visit_none() } else { visitor.visit_some(self) }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(self, _: &'static str, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        if self.node.is_null() { self.sequence(&[], visitor) } else { self.deserialize_any(visitor) }
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        let read = if self.node.is_null() { self.mapping(&[], visitor) } else { self.deserialize_any(visitor) };
        read.map_err(|error| error.at(self.node.line))
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        self.deserialize_map(visitor)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        self.read(|kind| match kind {
            Kind::Scalar { text, .. } => visitor.visit_enum(text.as_str().into_deserializer()),
            Kind::Mapping(entries) if entries.len() == 1 => {
                let entries = Entries { at: self, rest: entries.iter(), value: None };
                visitor.visit_enum(MapAccessDeserializer::new(entries))
            }
            Kind::Mapping(_) => Err(Error::custom("expected one variant")),
            Kind::Sequence(_) => Err(Error::invalid_type(Unexpected::Seq, &visitor)),
        })
    }

    forward_to_deserialize_any! {
        bytes byte_buf unit unit_struct tuple tuple_struct ignored_any
    }
}

struct Items<'de> {
    at: At<'de>,
    rest: std::slice::Iter<'de, Rc<Node>>,
}

impl<'de> SeqAccess<'de> for Items<'de> {
    type Error = Error;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, Error> {
        self.rest.next().map(|node| seed.deserialize(self.at.inner(node))).transpose()
    }
}

struct Entries<'de> {
    at: At<'de>,
    rest: std::slice::Iter<'de, (Rc<Node>, Rc<Node>)>,
    value: Option<&'de Node>,
}

impl<'de> MapAccess<'de> for Entries<'de> {
    type Error = Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, Error> {
        let Some((key, value)) = self.rest.next() else { return Ok(None) };
        self.value = Some(value);
        seed.deserialize(self.at.inner(key)).map(Some)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Error> {
        let value = self.value.take().ok_or_else(|| Error::custom("a value without a key"))?;
        seed.deserialize(self.at.inner(value))
    }
}
