//! The notation of benchmark files as data: which keys an object has, and which values they accept.
//!
//! One description serves three readers: [`read`] checks files against it and reports every problem, [`json_schema`]
//! publishes it, and [`markdown`] documents it. So file format, schema and documentation cannot differ.

pub(crate) mod json_schema;
pub(crate) mod markdown;
pub(crate) mod read;

/// The values that a key accepts.
pub(crate) enum Shape {
    /// A text, or any other scalar as it is written.
    Text { min_chars: usize, max_chars: usize },
    /// A text with a form of its own.
    Formatted(&'static Format),
    /// `true` or `false`.
    Bool,
    /// An integer.
    Integer { min: i64, max: i64 },
    /// A finite number.
    Number(Bound),
    /// One of some names.
    Choice(&'static [&'static str]),
    /// A list.
    List { items: &'static Shape, min: usize, max: usize },
    /// A mapping from names of the author's choice.
    Map { names: Option<&'static Format>, values: &'static Shape },
    /// A mapping with fixed keys.
    Object(&'static Object),
    /// A name, or a mapping from one name to its parameters.
    Variants(&'static Variants),
    /// A mapping with one key that decides which other keys it has.
    Tagged(&'static Tagged),
    /// A text or a mapping with any content.
    TextOrMapping,
    /// Any value.
    Any,
}

/// The range of a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Bound {
    None,
    NotNegative,
    Positive,
    /// From 0 to 1.
    Fraction,
}

/// A text with a form of its own, such as a regular expression.
pub(crate) struct Format {
    /// What the text is, for example `regular expression`.
    pub(crate) what: &'static str,
    /// A pattern for the JSON Schema, if one describes the form.
    pub(crate) pattern: Option<&'static str>,
    /// Returns what is wrong with a text.
    pub(crate) check: fn(&str) -> Result<(), String>,
}

/// A mapping with fixed keys.
pub(crate) struct Object {
    /// Name of the definition in the JSON Schema.
    pub(crate) name: &'static str,
    pub(crate) doc: &'static str,
    pub(crate) keys: &'static [Key],
    /// Keys of which exactly one must be present; empty if there is no such rule.
    pub(crate) exactly_one: &'static [&'static str],
}

/// A key of a mapping.
pub(crate) struct Key {
    pub(crate) name: &'static str,
    pub(crate) shape: Shape,
    pub(crate) presence: Presence,
    pub(crate) doc: &'static str,
}

/// Whether a key must be present.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Presence {
    Required,
    Optional,
    /// Optional, with the value that applies otherwise.
    Default(&'static str),
}

/// Named alternatives.
pub(crate) struct Variants {
    /// Name of the definition in the JSON Schema.
    pub(crate) name: &'static str,
    /// What one of them is called in messages, for example `check`.
    pub(crate) what: &'static str,
    pub(crate) cases: &'static [Variant],
    /// Whether a text is a name of the author's choice instead of a variant.
    pub(crate) texts_are_names: bool,
}

/// One of several named alternatives.
pub(crate) struct Variant {
    pub(crate) name: &'static str,
    pub(crate) doc: &'static str,
    pub(crate) content: Content,
}

/// What follows the name of a variant.
pub(crate) enum Content {
    None,
    Keys(&'static [Key]),
    Value(&'static Shape),
}

/// A mapping whose tag decides about its other keys.
pub(crate) struct Tagged {
    /// Name of the definition in the JSON Schema.
    pub(crate) name: &'static str,
    pub(crate) tag: &'static str,
    pub(crate) tag_doc: &'static str,
    /// Keys of all variants.
    pub(crate) common: &'static [Key],
    /// The variants; each has further keys or none.
    pub(crate) variants: &'static [Variant],
}

impl Key {
    pub(crate) const fn required(name: &'static str, shape: Shape, doc: &'static str) -> Self {
        Self { name, shape, presence: Presence::Required, doc }
    }

    pub(crate) const fn optional(name: &'static str, shape: Shape, doc: &'static str) -> Self {
        Self { name, shape, presence: Presence::Optional, doc }
    }

    pub(crate) const fn with_default(
        name: &'static str,
        shape: Shape,
        default: &'static str,
        doc: &'static str,
    ) -> Self {
        Self { name, shape, presence: Presence::Default(default), doc }
    }

    pub(crate) fn is_required(&self) -> bool {
        self.presence == Presence::Required
    }
}

impl Content {
    pub(crate) fn keys(&self) -> &'static [Key] {
        match self {
            Self::Keys(keys) => keys,
            Self::None | Self::Value(_) => &[],
        }
    }

    /// Returns whether the name of the variant may stand alone.
    pub(crate) fn is_optional(&self) -> bool {
        match self {
            Self::None => true,
            Self::Keys(keys) => !keys.iter().any(Key::is_required),
            Self::Value(_) => false,
        }
    }
}

/// The maximum length of a short text such as a name, in characters.
pub(crate) const MAX_NAME_CHARS: usize = 256;
/// The maximum length of a long text such as a question, in characters.
pub(crate) const MAX_TEXT_CHARS: usize = 1_000_000;

/// A text that may be empty.
pub(crate) const TEXT: Shape = Shape::Text { min_chars: 0, max_chars: MAX_TEXT_CHARS };
/// A text with at least one visible character.
pub(crate) const FILLED_TEXT: Shape = Shape::Text { min_chars: 1, max_chars: MAX_TEXT_CHARS };
/// A short text with at least one visible character.
pub(crate) const SHORT_TEXT: Shape = Shape::Text { min_chars: 1, max_chars: MAX_NAME_CHARS };
/// A count from 0.
pub(crate) const COUNT: Shape = Shape::Integer { min: 0, max: u32::MAX as i64 };

/// The maximum number of items of a list inside a question.
pub(crate) const MAX_ITEMS: usize = 10_000;

/// A regular expression.
pub(crate) static REGEX: Format = Format {
    what: "regular expression",
    pattern: None,
    check: |text| crate::expression::Expression::new(text).map(drop).map_err(|error| error.reason),
};
