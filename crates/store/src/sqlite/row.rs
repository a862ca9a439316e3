//! Columns and the types they hold.

use rusqlite::Row;
use rusqlite::types::{FromSql, FromSqlError, FromSqlResult, ToSql, ToSqlOutput, ValueRef};
use serde::Serialize;
use serde::de::value::StrDeserializer;
use serde::de::{DeserializeOwned, IntoDeserializer as _};

use crate::Timestamp;

/// A value as JSON, in a column of text or bytes. Errors don't quote it.
pub(super) struct AsJson<T>(pub(super) T);

impl<T: DeserializeOwned> FromSql for AsJson<T> {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        serde_json::from_slice(value.as_bytes()?)
            .map(Self)
            .map_err(|_| FromSqlError::Other("not the expected JSON".into()))
    }
}

impl<T: Serialize> ToSql for AsJson<&T> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        to_json(self.0).map(Into::into)
    }
}

/// A value as JSON.
pub(super) fn to_json<T: Serialize>(value: &T) -> rusqlite::Result<String> {
    serde_json::to_string(value).map_err(|error| rusqlite::Error::ToSqlConversionFailure(error.into()))
}

impl ToSql for Timestamp {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(self.as_millis().into())
    }
}

impl FromSql for Timestamp {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        value.as_i64().map(Self::from_millis)
    }
}

/// A number that is never negative, as the signed one that SQLite has.
pub(super) struct Count(pub(super) u64);

impl ToSql for Count {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(i64::try_from(self.0).unwrap_or(i64::MAX).into())
    }
}

impl FromSql for Count {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        u64::try_from(value.as_i64()?).map(Self).map_err(|_| FromSqlError::Other("a negative number".into()))
    }
}

/// A limit for a list.
pub(super) fn limit(limit: usize) -> i64 {
    i64::try_from(limit).unwrap_or(i64::MAX)
}

/// A text column as an id.
pub(super) fn id<T: From<String>>(row: &Row<'_>, column: &str) -> rusqlite::Result<T> {
    row.get::<_, String>(column).map(T::from)
}

/// A text column that may be empty, as an id.
pub(super) fn optional_id<T: From<String>>(row: &Row<'_>, column: &str) -> rusqlite::Result<Option<T>> {
    Ok(row.get::<_, Option<String>>(column)?.map(T::from))
}

/// A JSON column.
pub(super) fn json<T: DeserializeOwned>(row: &Row<'_>, column: &str) -> rusqlite::Result<T> {
    row.get::<_, AsJson<T>>(column).map(|value| value.0)
}

/// One of an enum's words, as in the enum's JSON form.
pub(super) struct Word<T>(pub(super) T);

impl<T: DeserializeOwned> FromSql for Word<T> {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        let word: StrDeserializer<'_, serde::de::value::Error> = value.as_str()?.into_deserializer();
        T::deserialize(word).map(Self).map_err(|_| FromSqlError::Other("not one of the known words".into()))
    }
}

impl<T: Serialize> ToSql for Word<T> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        match serde_json::to_value(&self.0) {
            Ok(serde_json::Value::String(word)) => Ok(word.into()),
            _ => Err(rusqlite::Error::ToSqlConversionFailure("not a word".into())),
        }
    }
}
