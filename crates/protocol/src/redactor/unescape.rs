//! Text without its JSON escapes, with the position of every character in the original.

use std::ops::Range;

use memchr::memchr;

/// A text whose escapes are decoded.
pub(super) struct Unescaped {
    text: String,
    /// The position in the original of every byte, and the end.
    positions: Vec<usize>,
}

impl Unescaped {
    /// Decodes the escapes of a text. It need not be JSON: an invalid escape stays as it is.
    pub(super) fn new(original: &str) -> Self {
        let mut text = String::with_capacity(original.len());
        let mut positions = Vec::with_capacity(original.len() + 1);
        let mut at = 0;
        while let Some(plain) = memchr(b'\\', &original.as_bytes()[at..]) {
            text.push_str(&original[at..at + plain]);
            positions.extend(at..at + plain);
            at += plain;
            let (decoded, length) = decode(&original.as_bytes()[at..]);
            text.push(decoded);
            positions.resize(text.len(), at);
            at += length;
        }
        text.push_str(&original[at..]);
        positions.extend(at..=original.len());
        Self { text, positions }
    }

    /// Decodes the escapes of the decoded text: JSON in a string of JSON.
    pub(super) fn again(&self) -> Self {
        let Self { text, positions } = Self::new(&self.text);
        Self { text, positions: positions.into_iter().map(|at| self.positions[at]).collect() }
    }

    /// Returns the decoded text.
    pub(super) fn text(&self) -> &str {
        &self.text
    }

    /// Returns the part of the original that a part of the decoded text was written as.
    pub(super) fn original(&self, part: &Range<usize>) -> Range<usize> {
        self.positions[part.start]..self.positions[part.end]
    }
}

/// Decodes the escape at the start of a text. Returns its character and its length.
fn decode(text: &[u8]) -> (char, usize) {
    let simple = match text.get(1) {
        Some(b'b') => '\u{8}',
        Some(b'f') => '\u{c}',
        Some(b'n') => '\n',
        Some(b'r') => '\r',
        Some(b't') => '\t',
        Some(c @ (b'"' | b'\\' | b'/')) => char::from(*c),
        _ => {
            let units = [unit(text), text.get(6..).and_then(unit)];
            return match char::decode_utf16(units.into_iter().map_while(|unit| unit)).next() {
                Some(Ok(c)) => (c, 6 * c.len_utf16()),
                _ => ('\\', 1),
            };
        }
    };
    (simple, 2)
}

/// Returns the number of a `\u` escape at the start of a text.
fn unit(text: &[u8]) -> Option<u16> {
    let digits = text.strip_prefix(b"\\u")?.get(..4)?;
    let digits = std::str::from_utf8(digits).ok().filter(|digits| digits.bytes().all(|b| b.is_ascii_hexdigit()))?;
    u16::from_str_radix(digits, 16).ok()
}
