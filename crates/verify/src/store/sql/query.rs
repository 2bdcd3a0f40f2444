//! Statements with their values, for both databases.
//!
//! Most statements are the same text in both. Where they differ, [`Sql`] has the two texts side by side; they take the same
//! values.

/// A statement in the dialect of each database.
#[derive(Clone, Copy)]
pub(in crate::store) struct Sql {
    pub(in crate::store) sqlite: &'static str,
    #[cfg_attr(not(feature = "postgres"), expect(dead_code, reason = "the store in PostgreSQL is a feature"))]
    pub(in crate::store) postgres: &'static str,
}

/// A database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::store) enum Dialect {
    Sqlite,
    #[cfg(feature = "postgres")]
    Postgres,
}

/// A value of a statement.
#[derive(Clone, Copy)]
pub(in crate::store) enum Bound<'q> {
    Int(Option<i64>),
    Float(Option<f64>),
    Text(Option<&'q str>),
    Bytes(&'q [u8]),
}

/// A statement with its values.
pub(in crate::store) struct Query<'q> {
    pub(super) sql: Sql,
    pub(super) values: Vec<Bound<'q>>,
}

impl Sql {
    pub(in crate::store) const fn same(text: &'static str) -> Self {
        Self { sqlite: text, postgres: text }
    }

    /// Returns a query without values yet.
    pub(in crate::store) fn query<'q>(self) -> Query<'q> {
        Query { sql: self, values: Vec::new() }
    }
}

impl<'q> Query<'q> {
    /// Adds the value of the next placeholder.
    pub(in crate::store) fn bind(mut self, value: impl Into<Bound<'q>>) -> Self {
        self.values.push(value.into());
        self
    }
}

impl From<i64> for Bound<'_> {
    fn from(value: i64) -> Self {
        Self::Int(Some(value))
    }
}

impl From<Option<i64>> for Bound<'_> {
    fn from(value: Option<i64>) -> Self {
        Self::Int(value)
    }
}

impl From<Option<f64>> for Bound<'_> {
    fn from(value: Option<f64>) -> Self {
        Self::Float(value)
    }
}

impl<'q> From<&'q str> for Bound<'q> {
    fn from(value: &'q str) -> Self {
        Self::Text(Some(value))
    }
}

impl<'q> From<&'q String> for Bound<'q> {
    fn from(value: &'q String) -> Self {
        Self::Text(Some(value))
    }
}

impl<'q> From<&'q Option<String>> for Bound<'q> {
    fn from(value: &'q Option<String>) -> Self {
        Self::Text(value.as_deref())
    }
}

impl<'q> From<&'q [u8]> for Bound<'q> {
    fn from(value: &'q [u8]) -> Self {
        Self::Bytes(value)
    }
}

/// The current time in SQL, in milliseconds since 1970. Within one statement it does not change.
macro_rules! now {
    (sqlite) => {
        "CAST(unixepoch('subsec') * 1000 AS INTEGER)"
    };
    (postgres) => {
        "CAST(EXTRACT(EPOCH FROM statement_timestamp()) * 1000 AS BIGINT)"
    };
}
pub(super) use now;
