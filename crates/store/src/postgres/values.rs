//! Parameters and columns as PostgreSQL has them.

use std::error::Error;

use bytes::{BufMut as _, BytesMut};
use tokio_postgres::types::{FromSql, IsNull, ToSql, Type, to_sql_checked};

use crate::sql::{Cell, Kind, Value};

impl Kind {
    pub(super) fn of_server(self) -> Type {
        match self {
            Self::Integer => Type::INT8,
            Self::Truth => Type::BOOL,
            Self::Text => Type::TEXT,
            Self::Json => Type::JSON,
            Self::Bytes => Type::BYTEA,
        }
    }
}

impl Value<'_> {
    pub(super) fn kind(&self) -> Kind {
        match self {
            Self::Nothing(kind) => *kind,
            Self::Integer(_) => Kind::Integer,
            Self::Truth(_) => Kind::Truth,
            Self::Text(_) => Kind::Text,
            Self::Json(_) => Kind::Json,
            Self::Bytes(_) => Kind::Bytes,
        }
    }
}

impl ToSql for Value<'_> {
    fn to_sql(&self, ty: &Type, out: &mut BytesMut) -> Result<IsNull, Box<dyn Error + Sync + Send>> {
        match self {
            Self::Nothing(_) => return Ok(IsNull::Yes),
            Self::Integer(number) => return number.to_sql(ty, out),
            Self::Truth(truth) => return truth.to_sql(ty, out),
            Self::Text(text) => out.put_slice(text.as_bytes()),
            Self::Json(text) => out.put_slice(text.as_bytes()),
            Self::Bytes(bytes) => out.put_slice(bytes),
        }
        Ok(IsNull::No)
    }

    fn accepts(_: &Type) -> bool {
        true
    }

    to_sql_checked!();
}

impl<'c> FromSql<'c> for Cell<'c> {
    fn from_sql(ty: &Type, raw: &'c [u8]) -> Result<Self, Box<dyn Error + Sync + Send>> {
        match *ty {
            Type::INT8 => i64::from_sql(ty, raw).map(Self::Integer),
            Type::INT4 => i32::from_sql(ty, raw).map(|number| Self::Integer(number.into())),
            Type::BOOL => bool::from_sql(ty, raw).map(|truth| Self::Integer(truth.into())),
            Type::BYTEA => Ok(Self::Bytes(raw)),
            _ => Ok(Self::Text(str::from_utf8(raw)?)),
        }
    }

    fn from_sql_null(_: &Type) -> Result<Self, Box<dyn Error + Sync + Send>> {
        Ok(Self::Nothing)
    }

    fn accepts(ty: &Type) -> bool {
        [Type::INT8, Type::INT4, Type::BOOL, Type::BYTEA, Type::TEXT, Type::VARCHAR, Type::JSON].contains(ty)
    }
}
