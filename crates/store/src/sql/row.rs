//! Columns and the types they hold.
//!
//! Both databases hold whole numbers, texts, JSON and bytes. The one in a file has no type of its own for JSON, and keeps it as text.

use std::borrow::Cow;

use rusqlite::types::{ToSqlOutput, ValueRef};
use serde::Serialize;
use serde::de::value::StrDeserializer;
use serde::de::{DeserializeOwned, IntoDeserializer as _};

use super::{SqlError, SqlResult};
use crate::Timestamp;

/// What a parameter is, for a database that wants to know it of nothing, too.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Kind {
    Integer,
    Truth,
    Text,
    Json,
    Bytes,
}

/// A value for a parameter.
#[derive(Debug)]
pub(crate) enum Value<'v> {
    #[cfg_attr(
        not(feature = "postgres"),
        expect(dead_code, reason = "SQLite does not ask what nothing would be")
    )]
    Nothing(Kind),
    Integer(i64),
    Truth(bool),
    Text(Cow<'v, str>),
    Json(String),
    Bytes(&'v [u8]),
}

impl rusqlite::ToSql for Value<'_> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(match self {
            Self::Nothing(_) => rusqlite::types::Null.into(),
            Self::Integer(number) => (*number).into(),
            Self::Truth(truth) => (*truth).into(),
            Self::Text(text) => text.as_ref().into(),
            Self::Json(text) => text.as_str().into(),
            Self::Bytes(bytes) => (*bytes).into(),
        })
    }
}

/// What a column holds.
#[derive(Clone, Copy)]
pub(crate) enum Cell<'c> {
    Nothing,
    Integer(i64),
    Text(&'c str),
    Bytes(&'c [u8]),
}

impl<'c> Cell<'c> {
    fn text(self) -> SqlResult<&'c str> {
        match self {
            Self::Text(text) => Ok(text),
            Self::Nothing | Self::Integer(_) | Self::Bytes(_) => Err(SqlError::Unreadable),
        }
    }

    fn integer(self) -> SqlResult<i64> {
        match self {
            Self::Integer(number) => Ok(number),
            Self::Nothing | Self::Text(_) | Self::Bytes(_) => Err(SqlError::Unreadable),
        }
    }
}

/// A row that a statement found.
pub(crate) enum Row<'r> {
    Sqlite(&'r rusqlite::Row<'r>),
    #[cfg(feature = "postgres")]
    Postgres(&'r tokio_postgres::Row),
}

impl Row<'_> {
    /// Returns what a column holds, by its name or its place.
    pub(crate) fn get<T: FromCell>(&self, column: impl Column) -> SqlResult<T> {
        let cell = match self {
            Self::Sqlite(row) => match row.get_ref(column)? {
                ValueRef::Null => Cell::Nothing,
                ValueRef::Integer(number) => Cell::Integer(number),
                ValueRef::Text(bytes) => Cell::Text(str::from_utf8(bytes).map_err(|_| SqlError::Unreadable)?),
                ValueRef::Blob(bytes) => Cell::Bytes(bytes),
                ValueRef::Real(_) => return Err(SqlError::Unreadable),
            },
            #[cfg(feature = "postgres")]
            Self::Postgres(row) => row.try_get::<_, Cell<'_>>(column).map_err(|_| SqlError::Unreadable)?,
        };
        T::from_cell(cell)
    }
}

/// The name or the place of a column.
#[cfg(feature = "postgres")]
pub(crate) trait Column:
    rusqlite::RowIndex + tokio_postgres::row::RowIndex + std::fmt::Display
{
}
#[cfg(feature = "postgres")]
impl<T: rusqlite::RowIndex + tokio_postgres::row::RowIndex + std::fmt::Display> Column for T {}
/// The name or the place of a column.
#[cfg(not(feature = "postgres"))]
pub(crate) trait Column: rusqlite::RowIndex {}
#[cfg(not(feature = "postgres"))]
impl<T: rusqlite::RowIndex> Column for T {}

/// What can be a parameter.
pub(crate) trait ToValue {
    fn to_value(&self) -> SqlResult<Value<'_>>;
}

/// What a parameter of this type is, even if it is nothing.
pub(crate) trait OfKind {
    const KIND: Kind;
}

/// What can be read from a column.
pub(crate) trait FromCell: Sized {
    fn from_cell(cell: Cell<'_>) -> SqlResult<Self>;
}

/// Makes parameters of values.
macro_rules! params {
    ($($value:expr),* $(,)?) => {
        &[$(&$value as &dyn $crate::sql::ToValue),*]
    };
}
pub(crate) use params;

macro_rules! kinds {
    ($($kind:ident: $($type:ty),*;)*) => {
        $($(impl OfKind for $type {
            const KIND: Kind = Kind::$kind;
        })*)*
    };
}

kinds! {
    Integer: i64, Timestamp, Count;
    Truth: bool;
    Text: str, String;
    Bytes: [u8];
}

impl<T> OfKind for Word<T> {
    const KIND: Kind = Kind::Text;
}

impl<T> OfKind for AsJson<T> {
    const KIND: Kind = Kind::Json;
}

impl<T: OfKind + ?Sized> OfKind for &T {
    const KIND: Kind = T::KIND;
}

impl<T: ToValue + ?Sized> ToValue for &T {
    fn to_value(&self) -> SqlResult<Value<'_>> {
        (**self).to_value()
    }
}

impl<T: ToValue + OfKind> ToValue for Option<T> {
    fn to_value(&self) -> SqlResult<Value<'_>> {
        self.as_ref().map_or(Ok(Value::Nothing(T::KIND)), ToValue::to_value)
    }
}

impl<T: FromCell> FromCell for Option<T> {
    fn from_cell(cell: Cell<'_>) -> SqlResult<Self> {
        match cell {
            Cell::Nothing => Ok(None),
            Cell::Integer(_) | Cell::Text(_) | Cell::Bytes(_) => T::from_cell(cell).map(Some),
        }
    }
}

impl ToValue for i64 {
    fn to_value(&self) -> SqlResult<Value<'_>> {
        Ok(Value::Integer(*self))
    }
}

impl FromCell for i64 {
    fn from_cell(cell: Cell<'_>) -> SqlResult<Self> {
        cell.integer()
    }
}

impl ToValue for bool {
    fn to_value(&self) -> SqlResult<Value<'_>> {
        Ok(Value::Truth(*self))
    }
}

impl ToValue for str {
    fn to_value(&self) -> SqlResult<Value<'_>> {
        Ok(Value::Text(self.into()))
    }
}

impl ToValue for String {
    fn to_value(&self) -> SqlResult<Value<'_>> {
        Ok(Value::Text(self.into()))
    }
}

impl FromCell for String {
    fn from_cell(cell: Cell<'_>) -> SqlResult<Self> {
        cell.text().map(str::to_owned)
    }
}

impl ToValue for [u8] {
    fn to_value(&self) -> SqlResult<Value<'_>> {
        Ok(Value::Bytes(self))
    }
}

/// A value as JSON, in a column of JSON, text or bytes. Errors don't quote it.
pub(super) struct AsJson<T>(pub(super) T);

impl<T: DeserializeOwned> FromCell for AsJson<T> {
    fn from_cell(cell: Cell<'_>) -> SqlResult<Self> {
        let text = match cell {
            Cell::Text(text) => text,
            // Checked at once, which costs less than text by text.
            Cell::Bytes(bytes) => str::from_utf8(bytes).map_err(|_| SqlError::Unreadable)?,
            Cell::Nothing | Cell::Integer(_) => return Err(SqlError::Unreadable),
        };
        serde_json::from_str(text).map(Self).map_err(|_| SqlError::Unreadable)
    }
}

impl<T: Serialize> ToValue for AsJson<&T> {
    fn to_value(&self) -> SqlResult<Value<'_>> {
        to_json(self.0).map(Value::Json)
    }
}

/// A value as JSON.
pub(super) fn to_json<T: Serialize>(value: &T) -> SqlResult<String> {
    serde_json::to_string(value).map_err(|_| SqlError::Unwritable)
}

impl ToValue for Timestamp {
    fn to_value(&self) -> SqlResult<Value<'_>> {
        Ok(Value::Integer(self.as_millis()))
    }
}

impl FromCell for Timestamp {
    fn from_cell(cell: Cell<'_>) -> SqlResult<Self> {
        cell.integer().map(Self::from_millis)
    }
}

/// A number that is never negative, as the signed one that databases have.
#[derive(Clone, Copy)]
pub(super) struct Count(pub(super) u64);

impl ToValue for Count {
    fn to_value(&self) -> SqlResult<Value<'_>> {
        Ok(Value::Integer(i64::try_from(self.0).unwrap_or(i64::MAX)))
    }
}

impl FromCell for Count {
    fn from_cell(cell: Cell<'_>) -> SqlResult<Self> {
        u64::try_from(cell.integer()?).map(Self).map_err(|_| SqlError::Unreadable)
    }
}

/// A limit for a list.
pub(super) fn limit(limit: usize) -> i64 {
    i64::try_from(limit).unwrap_or(i64::MAX)
}

/// A text column as an id.
pub(super) fn id<T: From<String>>(row: &Row<'_>, column: impl Column) -> SqlResult<T> {
    row.get::<String>(column).map(T::from)
}

/// A text column that may be empty, as an id.
pub(super) fn optional_id<T: From<String>>(row: &Row<'_>, column: &str) -> SqlResult<Option<T>> {
    Ok(row.get::<Option<String>>(column)?.map(T::from))
}

/// A JSON column.
pub(super) fn json<T: DeserializeOwned>(row: &Row<'_>, column: impl Column) -> SqlResult<T> {
    row.get::<AsJson<T>>(column).map(|value| value.0)
}

/// One of an enum's words, as in the enum's JSON form.
pub(super) struct Word<T>(pub(super) T);

impl<T: DeserializeOwned> FromCell for Word<T> {
    fn from_cell(cell: Cell<'_>) -> SqlResult<Self> {
        let word: StrDeserializer<'_, serde::de::value::Error> = cell.text()?.into_deserializer();
        T::deserialize(word).map(Self).map_err(|_| SqlError::Unreadable)
    }
}

impl<T: Serialize> ToValue for Word<T> {
    fn to_value(&self) -> SqlResult<Value<'_>> {
        match serde_json::to_value(&self.0) {
            Ok(serde_json::Value::String(word)) => Ok(Value::Text(word.into())),
            _ => Err(SqlError::Unwritable),
        }
    }
}
