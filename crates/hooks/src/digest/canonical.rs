//! Canonical JSON: one text for all ways to write a value.
//!
//! Object keys are sorted, there is no white space, and numbers and strings are written as `serde_json` writes
//! them. A value is written directly from its `Serialize`, without an intermediate tree, because a
//! conversation of megabytes may be digested at every gate.
//!
//! The law: the text is that of the value's tree ([`serde_json::to_value`]) with sorted keys. A map whose keys are not
//! strings, numbers or booleans has no text, just as it has no tree.

use std::borrow::Cow;
use std::ops::Range;

use serde::ser::{
    Error as _, SerializeMap, SerializeSeq, SerializeStruct, SerializeStructVariant, SerializeTuple,
    SerializeTupleStruct, SerializeTupleVariant, Serializer,
};
use serde::{Serialize, ser};
use serde_json::{Error, Value};

use super::tree::Leaf;

/// Appends the canonical JSON of `value`, with these leaves in the places of the members of that name; `null` if it has no JSON form.
pub(super) fn append<T: Serialize + ?Sized>(out: &mut Vec<u8>, value: &T, leaves: &[(&'static str, Leaf)]) {
    let begin = out.len();
    if value.serialize(Canonical { out, leaves }).is_err() {
        out.truncate(begin);
        out.extend_from_slice(b"null");
    }
}

/// Writes one value.
struct Canonical<'a> {
    out: &'a mut Vec<u8>,
    /// What stands in the places of members of this object, not of those inside of it.
    leaves: &'a [(&'static str, Leaf)],
}

/// Writes `value` as `serde_json` does, which is canonical for scalars.
fn scalar<T: Serialize + ?Sized>(out: &mut Vec<u8>, value: &T) -> Result<(), Error> {
    serde_json::to_writer(out, value)
}

/// A list that is being written.
struct Items<'a> {
    out: &'a mut Vec<u8>,
    is_first: bool,
    /// What closes it and what it stands in.
    end: &'static [u8],
}

/// An object that is being written: its members as they come, put in order at its end.
struct Members<'a> {
    out: &'a mut Vec<u8>,
    /// Where the first one begins.
    begin: usize,
    /// Keys, and where each member stands, key and value.
    members: Vec<(Cow<'static, str>, Range<usize>)>,
    /// The key whose value comes next.
    key: Option<Cow<'static, str>>,
    /// What closes the object it stands in.
    end: &'static [u8],
    leaves: &'a [(&'static str, Leaf)],
}

impl<'a> Canonical<'a> {
    fn new(out: &'a mut Vec<u8>) -> Self {
        Self { out, leaves: &[] }
    }

    fn items(self, end: &'static [u8]) -> Items<'a> {
        self.out.push(b'[');
        Items { out: self.out, is_first: true, end }
    }

    fn members(self, len: usize, end: &'static [u8]) -> Members<'a> {
        self.out.push(b'{');
        let begin = self.out.len();
        let members = Vec::with_capacity(len);
        Members { out: self.out, begin, members, key: None, end, leaves: self.leaves }
    }

    /// Opens the object with one member that a variant with data is.
    fn variant(&mut self, name: &'static str) -> Result<(), Error> {
        self.out.push(b'{');
        scalar(self.out, name)?;
        self.out.push(b':');
        Ok(())
    }
}

impl Items<'_> {
    fn item<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Error> {
        if !std::mem::take(&mut self.is_first) {
            self.out.push(b',');
        }
        value.serialize(Canonical::new(self.out))
    }

    fn close(self) {
        self.out.push(b']');
        self.out.extend_from_slice(self.end);
    }
}

impl Members<'_> {
    fn member<T: Serialize + ?Sized>(&mut self, key: Cow<'static, str>, value: &T) -> Result<(), Error> {
        let begin = self.out.len();
        scalar(self.out, &*key)?;
        self.out.push(b':');
        match self.leaves.iter().find(|(name, _)| *name == key) {
            Some((_, leaf)) => leaf.write(self.out),
            None => value.serialize(Canonical::new(self.out))?,
        }
        self.members.push((key, begin..self.out.len()));
        Ok(())
    }

    fn close(mut self) {
        // Of a key that came twice the last one counts; the sort leaves them in the order in which they came.
        self.members.sort_by(|(one, _), (other, _)| one.cmp(other));
        let mut ordered = Vec::with_capacity(self.out.len() - self.begin + self.members.len());
        let mut members = self.members.iter().peekable();
        while let Some((key, member)) = members.next() {
            if members.peek().is_some_and(|(next, _)| next == key) {
                continue;
            }
            if !ordered.is_empty() {
                ordered.push(b',');
            }
            ordered.extend_from_slice(self.out.get(member.clone()).unwrap_or_default());
        }
        self.out.truncate(self.begin);
        self.out.append(&mut ordered);
        self.out.push(b'}');
        self.out.extend_from_slice(self.end);
    }
}

/// Returns the text of a map's key.
fn key_of<T: Serialize + ?Sized>(key: &T) -> Result<Cow<'static, str>, Error> {
    match serde_json::to_value(key)? {
        Value::String(text) => Ok(text.into()),
        Value::Number(number) => Ok(number.to_string().into()),
        Value::Bool(truth) => Ok(truth.to_string().into()),
        Value::Null | Value::Array(_) | Value::Object(_) => Err(Error::custom("a key must be a string")),
    }
}

macro_rules! scalars {
    ($($method:ident: $type:ty),* $(,)?) => {
        $(fn $method(self, value: $type) -> Result<(), Error> {
            scalar(self.out, &value)
        })*
    };
}

impl<'a> Serializer for Canonical<'a> {
    type Ok = ();
    type Error = Error;
    type SerializeSeq = Items<'a>;
    type SerializeTuple = Items<'a>;
    type SerializeTupleStruct = Items<'a>;
    type SerializeTupleVariant = Items<'a>;
    type SerializeMap = Members<'a>;
    type SerializeStruct = Members<'a>;
    type SerializeStructVariant = Members<'a>;

    scalars! {
        serialize_bool: bool, serialize_char: char,
        serialize_i8: i8, serialize_i16: i16, serialize_i32: i32, serialize_i64: i64, serialize_i128: i128,
        serialize_u8: u8, serialize_u16: u16, serialize_u32: u32, serialize_u64: u64, serialize_u128: u128,
        serialize_f64: f64,
    }

    fn serialize_f32(self, value: f32) -> Result<(), Error> {
        // A tree knows one kind of fraction.
        scalar(self.out, &f64::from(value))
    }

    fn serialize_str(self, value: &str) -> Result<(), Error> {
        scalar(self.out, value)
    }

    fn serialize_bytes(self, value: &[u8]) -> Result<(), Error> {
        scalar(self.out, value)
    }

    fn serialize_none(self) -> Result<(), Error> {
        self.serialize_unit()
    }

    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Result<(), Error> {
        value.serialize(self)
    }

    fn serialize_unit(self) -> Result<(), Error> {
        scalar(self.out, &())
    }

    fn serialize_unit_struct(self, _: &'static str) -> Result<(), Error> {
        self.serialize_unit()
    }

    fn serialize_unit_variant(self, _: &'static str, _: u32, variant: &'static str) -> Result<(), Error> {
        self.serialize_str(variant)
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        value: &T,
    ) -> Result<(), Error> {
        value.serialize(self)
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        mut self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        value: &T,
    ) -> Result<(), Error> {
        self.variant(variant)?;
        value.serialize(Canonical::new(self.out))?;
        self.out.push(b'}');
        Ok(())
    }

    fn serialize_seq(self, _: Option<usize>) -> Result<Items<'a>, Error> {
        Ok(self.items(b""))
    }

    fn serialize_tuple(self, _: usize) -> Result<Items<'a>, Error> {
        Ok(self.items(b""))
    }

    fn serialize_tuple_struct(self, _: &'static str, _: usize) -> Result<Items<'a>, Error> {
        Ok(self.items(b""))
    }

    fn serialize_tuple_variant(
        mut self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        _: usize,
    ) -> Result<Items<'a>, Error> {
        self.variant(variant)?;
        Ok(self.items(b"}"))
    }

    fn serialize_map(self, len: Option<usize>) -> Result<Members<'a>, Error> {
        Ok(self.members(len.unwrap_or_default(), b""))
    }

    fn serialize_struct(self, _: &'static str, len: usize) -> Result<Members<'a>, Error> {
        Ok(self.members(len, b""))
    }

    fn serialize_struct_variant(
        mut self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        len: usize,
    ) -> Result<Members<'a>, Error> {
        self.variant(variant)?;
        Ok(self.members(len, b"}"))
    }
}

macro_rules! lists {
    ($($kind:ident::$method:ident),* $(,)?) => {
        $(impl $kind for Items<'_> {
            type Ok = ();
            type Error = Error;

            fn $method<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Error> {
                self.item(value)
            }

            fn end(self) -> Result<(), Error> {
                self.close();
                Ok(())
            }
        })*
    };
}

lists! {
    SerializeSeq::serialize_element,
    SerializeTuple::serialize_element,
    SerializeTupleStruct::serialize_field,
    SerializeTupleVariant::serialize_field,
}

macro_rules! structs {
    ($($kind:ident),*) => {
        $(impl $kind for Members<'_> {
            type Ok = ();
            type Error = Error;

            fn serialize_field<T: Serialize + ?Sized>(
                &mut self,
                key: &'static str,
                value: &T,
            ) -> Result<(), Error> {
                self.member(key.into(), value)
            }

            fn end(self) -> Result<(), Error> {
                self.close();
                Ok(())
            }
        })*
    };
}

structs!(SerializeStruct, SerializeStructVariant);

impl SerializeMap for Members<'_> {
    type Ok = ();
    type Error = Error;

    fn serialize_key<T: Serialize + ?Sized>(&mut self, key: &T) -> Result<(), Error> {
        self.key = Some(key_of(key)?);
        Ok(())
    }

    fn serialize_value<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Error> {
        let key = self.key.take().ok_or_else(|| <Error as ser::Error>::custom("a value without a key"))?;
        self.member(key, value)
    }

    fn end(self) -> Result<(), Error> {
        self.close();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;
    use serde_json::{Map, json};

    use super::*;

    /// Returns the canonical JSON of a tree, by the book.
    fn sorted(value: &Value) -> String {
        match value {
            Value::Array(items) => {
                format!("[{}]", items.iter().map(sorted).collect::<Vec<_>>().join(","))
            }
            Value::Object(members) => {
                let members: BTreeMap<_, _> = members.iter().collect();
                let members = members.iter().map(|(key, value)| format!("{}:{}", json!(key), sorted(value)));
                format!("{{{}}}", members.collect::<Vec<_>>().join(","))
            }
            scalar => scalar.to_string(),
        }
    }

    fn check<T: Serialize + ?Sized>(value: &T) {
        let expected = serde_json::to_value(value).map_or("null".to_owned(), |tree| sorted(&tree));
        let mut found = b"before".to_vec();
        append(&mut found, value, &[]);
        assert_eq!(String::from_utf8(found).unwrap(), format!("before{expected}"));
    }

    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct All {
        zeta: u8,
        #[serde(skip_serializing_if = "Option::is_none")]
        nothing: Option<u8>,
        alpha: Option<&'static str>,
        #[serde(flatten)]
        more: Inner,
        kinds: Vec<Kind>,
        by_number: BTreeMap<i64, f32>,
        by_truth: BTreeMap<bool, char>,
        unit: (),
        pair: (u64, f64),
        wide: i128,
    }

    #[derive(Serialize)]
    struct Inner {
        // Says something about a key that stands in the outer one, too.
        zeta: &'static str,
        #[serde(rename = "a\"b")]
        escaped: bool,
    }

    #[derive(Serialize)]
    enum Kind {
        Unit,
        One(Box<Kind>),
        Two(u8, Option<u8>),
        Fields { z: Wrapped, a: &'static [u8] },
    }

    #[derive(Serialize)]
    struct Wrapped(f32);

    #[test]
    fn each_kind_of_value_is_written_as_its_tree_is() {
        let kinds = vec![
            Kind::Unit,
            Kind::One(Box::new(Kind::Two(1, None))),
            Kind::Fields { z: Wrapped(0.1), a: b"\0\xff" },
        ];
        let all = All {
            zeta: 1,
            nothing: None,
            alpha: Some("\u{1}\u{1F600}\n"),
            more: Inner { zeta: "last", escaped: true },
            kinds,
            by_number: BTreeMap::from([(-1, 0.3), (10, f32::NAN)]),
            by_truth: BTreeMap::from([(false, 'é')]),
            unit: (),
            pair: (u64::MAX, f64::NEG_INFINITY),
            wide: -1,
        };
        check(&all);
        check(&BTreeMap::from([((1, 2), 3)]));
    }

    fn trees() -> impl Strategy<Value = Value> {
        let scalar = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<f64>().prop_map(Value::from),
            "\\PC{0,8}".prop_map(Value::from),
            any::<String>().prop_map(Value::from),
        ];
        scalar.prop_recursive(4, 40, 6, |inner| {
            let members = prop::collection::vec(("[a-c\"\\\\é]{0,2}", inner.clone()), 0..6);
            prop_oneof![
                prop::collection::vec(inner, 0..6).prop_map(Value::from),
                members.prop_map(|members| Value::from(members.into_iter().collect::<Map<_, _>>())),
            ]
        })
    }

    proptest! {
        #[test]
        fn the_text_is_that_of_the_sorted_tree(tree in trees()) {
            check(&tree);
        }
    }
}
