//! The size of values, and the work of reading them.

use serde_json::Value;

/// The size of a value.
pub(super) struct Size {
    pub(super) values: u64,
    /// The bytes of its strings and names.
    pub(super) bytes: u64,
    pub(super) depth: u64,
}

impl Size {
    pub(super) fn of(value: &Value, depth: u64) -> Self {
        let mut size = Self { values: 1, bytes: 0, depth };
        match value {
            Value::String(text) => size.bytes = text.len() as u64,
            Value::Array(several) => several.iter().for_each(|one| size.add(&Self::of(one, depth + 1))),
            Value::Object(fields) => {
                for (name, one) in fields {
                    size.bytes += name.len() as u64;
                    size.add(&Self::of(one, depth + 1));
                }
            }
            _ => {}
        }
        size
    }

    /// Returns the work of reading all of it once.
    pub(super) fn steps(&self) -> u64 {
        self.values.saturating_add(scanned(self.bytes, 1))
    }

    fn add(&mut self, other: &Self) {
        self.values += other.values;
        self.bytes += other.bytes;
        self.depth = self.depth.max(other.depth);
    }
}

/// Returns the work of scanning bytes.
pub(super) fn scanned(bytes: u64, scans: u64) -> u64 {
    const BYTES_PER_STEP: u64 = 64;
    bytes.saturating_mul(scans) / BYTES_PER_STEP
}

/// Returns the work of parsing so many bytes as a regular expression: names of groups are compared with each other.
pub(super) fn parsed_as_regex(bytes: u64) -> u64 {
    const SQUARE_BYTES_PER_STEP: u64 = 4_096;
    scanned(bytes, 8).saturating_add(bytes.saturating_mul(bytes) / SQUARE_BYTES_PER_STEP)
}

/// Returns the work of comparing all elements of an array. Texts and small integers are found by their hash. Arrays,
/// objects, fractions and integers that a fraction cannot hold can be made to collide, so each may be compared with each.
pub(super) fn compared_with_each_other(value: &Value) -> u64 {
    let Value::Array(elements) = value else { return 0 };
    let steps = Size::of(value, 1).steps();
    if elements.iter().any(collides) { steps.saturating_mul(elements.len() as u64) } else { steps }
}

fn collides(value: &Value) -> bool {
    const MAX_EXACT: u64 = 1 << 53;
    match value {
        Value::Array(_) | Value::Object(_) => true,
        Value::Number(number) => {
            let magnitude = number.as_u64().or_else(|| number.as_i64().map(i64::unsigned_abs));
            magnitude.is_none_or(|magnitude| magnitude >= MAX_EXACT)
        }
        _ => false,
    }
}
