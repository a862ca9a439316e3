//! Reading what a script answered, as data.
//!
//! An answer is walked property by property over *descriptors*, so nothing of the script runs while it is read:
//! a getter, a proxy, a function, a cycle, an object with behaviour (a map, a date, a promise) is no data and
//! makes the answer malformed, with its place, and so does a class of the script's own that has more to read than methods.
//! What all objects inherit is not seen, so a polluted prototype answers nothing. Depth and size are bounded.

use std::fmt::Write as _;

use rquickjs::object::Filter;
use rquickjs::{Ctx, Function, Object, Value};

use super::Tools;
use crate::call::{Answer, FunctionId, KeptFunction};
use crate::error::{ScriptError, bounded};
use crate::json::JsonText;
use crate::limits::Limits;

/// Bytes of the place in an answer that an error names.
const MOST_PATH: usize = 256;

pub(super) struct Reader<'a, 'js> {
    ctx: Ctx<'js>,
    describe: Function<'js>,
    keep_function: Function<'js>,
    home: Object<'js>,
    is_plain: Function<'js>,
    limits: &'a Limits,
    keep: &'a [String],
}

struct Walk<'js> {
    text: String,
    /// The objects from the root to here.
    above: Vec<Value<'js>>,
    path: Vec<String>,
    functions: Vec<KeptFunction>,
}

/// Inner `Err`: the answer is malformed. Outer: the runtime failed.
type Read<T> = rquickjs::Result<Result<T, ScriptError>>;

macro_rules! check {
    ($read:expr) => {
        match $read? {
            Ok(value) => value,
            Err(error) => return Ok(Err(error)),
        }
    };
}

impl<'a, 'js> Reader<'a, 'js> {
    pub(super) fn new(
        ctx: &Ctx<'js>,
        tools: &Tools,
        limits: &'a Limits,
        keep: &'a [String],
    ) -> rquickjs::Result<Self> {
        Ok(Self {
            ctx: ctx.clone(),
            describe: tools.describe.clone().restore(ctx)?,
            keep_function: tools.keep.clone().restore(ctx)?,
            home: tools.home.clone().restore(ctx)?,
            is_plain: tools.is_plain.clone().restore(ctx)?,
            limits,
            keep,
        })
    }

    pub(super) fn read(&self, value: &Value<'js>) -> Read<Option<Answer>> {
        let mut walk = Walk {
            text: String::with_capacity(256),
            above: Vec::new(),
            path: Vec::new(),
            functions: Vec::new(),
        };
        check!(self.value(&mut walk, value));
        check!(self.within(&walk));
        Ok(Ok(Some(Answer { json: JsonText::from_text(walk.text), functions: walk.functions })))
    }

    fn malformed<T>(walk: &Walk<'js>, reason: impl Into<String>) -> Read<T> {
        let mut path = "answer".to_owned();
        for step in &walk.path {
            path.push_str(step);
        }
        Ok(Err(ScriptError::Malformed { path: bounded(&path, MOST_PATH), reason: reason.into() }))
    }

    fn within(&self, walk: &Walk<'js>) -> Read<()> {
        if walk.text.len() > self.limits.answer_bytes {
            return Self::malformed(walk, format!("is larger than {} bytes", self.limits.answer_bytes));
        }
        Ok(Ok(()))
    }

    fn value(&self, walk: &mut Walk<'js>, value: &Value<'js>) -> Read<()> {
        check!(self.within(walk));
        if let Some(text) = value.as_string() {
            match text.to_string() {
                Ok(text) => quote(&mut walk.text, &text),
                Err(_) => return Self::malformed(walk, "is no text that Unicode knows (a lone surrogate)"),
            }
        } else if value.is_null() {
            walk.text.push_str("null");
        } else if let Some(flag) = value.as_bool() {
            walk.text.push_str(if flag { "true" } else { "false" });
        } else if let Some(number) = value.as_int() {
            let _ = write!(walk.text, "{number}");
        } else if let Some(number) = value.as_float() {
            match serde_json::Number::from_f64(number) {
                // As JavaScript writes it: a whole number has no fraction.
                Some(_) if number.fract() == 0.0 && number.abs() < 9_007_199_254_740_992.0 => {
                    let _ = write!(walk.text, "{number:.0}");
                }
                Some(number) => {
                    let _ = write!(walk.text, "{number}");
                }
                None => return Self::malformed(walk, "is no number that JSON has"),
            }
        } else if value.is_proxy() {
            return Self::malformed(walk, "is a proxy; answer with plain data");
        } else if value.is_function() {
            return Self::malformed(walk, "is a function; answer with plain data");
        } else if value.is_promise() {
            return Self::malformed(walk, "is a promise; await it before you answer");
        } else if let Some(object) = value.as_object() {
            return self.object(walk, value, object);
        } else {
            return Self::malformed(walk, format!("is a {}; answer with plain data", value.type_name()));
        }
        Ok(Ok(()))
    }

    fn object(&self, walk: &mut Walk<'js>, value: &Value<'js>, object: &Object<'js>) -> Read<()> {
        if walk.above.len() >= self.limits.answer_depth {
            return Self::malformed(walk, format!("is deeper than {} levels", self.limits.answer_depth));
        }
        if walk.above.contains(value) {
            return Self::malformed(walk, "contains itself");
        }
        walk.above.push(value.clone());
        let read = match value.as_array() {
            Some(array) => self.array(walk, array.as_object(), array.len()),
            None => self.fields(walk, object),
        };
        walk.above.pop();
        read
    }

    fn array(&self, walk: &mut Walk<'js>, array: &Object<'js>, length: usize) -> Read<()> {
        walk.text.push('[');
        for index in 0..length {
            if index > 0 {
                walk.text.push(',');
            }
            walk.path.push(format!("[{index}]"));
            let item = check!(self.own(walk, array, Value::new_number(self.ctx.clone(), number(index))));
            if item.is_undefined() {
                return Self::malformed(walk, "is missing (a hole, or undefined)");
            }
            check!(self.value(walk, &item));
            walk.path.pop();
        }
        walk.text.push(']');
        Ok(Ok(()))
    }

    fn fields(&self, walk: &mut Walk<'js>, object: &Object<'js>) -> Read<()> {
        check!(self.plain(walk, object));
        walk.text.push('{');
        let mut first = true;
        for key in object.own_keys::<rquickjs::String<'js>>(Filter::new().string().enum_only()) {
            let key = key?;
            let Ok(name) = key.to_string() else {
                return Self::malformed(walk, "has a name that Unicode does not know (a lone surrogate)");
            };
            walk.path.push(format!(".{name}"));
            let field = check!(self.own(walk, object, key.into_value()));
            if field.is_function() && self.keeps(walk) {
                let id: u32 = self.keep_function.call((field,))?;
                let at: String = walk.path.concat().trim_start_matches('.').to_owned();
                walk.functions.push(KeptFunction { at, id: FunctionId::new(id) });
            } else if !field.is_undefined() {
                if !first {
                    walk.text.push(',');
                }
                first = false;
                quote(&mut walk.text, &name);
                walk.text.push(':');
                check!(self.value(walk, &field));
            }
            walk.path.pop();
        }
        walk.text.push('}');
        Ok(Ok(()))
    }

    fn keeps(&self, walk: &Walk<'js>) -> bool {
        let at = walk.path.concat();
        self.keep.iter().any(|place| Some(place.as_str()) == at.strip_prefix('.'))
    }

    /// The value of an own property, which must have one of its own.
    fn own(&self, walk: &Walk<'js>, object: &Object<'js>, key: Value<'js>) -> Read<Value<'js>> {
        let described: Value<'js> = self.describe.call((object.clone(), key))?;
        let Some(described) = described.as_object() else {
            return Ok(Ok(Value::new_undefined(self.ctx.clone())));
        };
        // A descriptor is an ordinary object: only its own properties count, whatever a script put into the
        // prototype of all objects. Descriptors of data have four own properties, `value` first.
        let is_data = described
            .own_keys::<String>(Filter::new().string())
            .next()
            .transpose()?
            .is_some_and(|first| first == "value");
        if !is_data {
            return Self::malformed(walk, "is a getter; answer with plain data");
        }
        described.get::<_, Value<'js>>("value").map(Ok)
    }

    /// Only objects that are nothing but their properties are data: those of `{}`, those without a prototype,
    /// and those of a script's own classes whose prototypes hold methods and nothing else.
    fn plain(&self, walk: &Walk<'js>, object: &Object<'js>) -> Read<()> {
        let Some(prototype) = object.get_prototype() else { return Ok(Ok(())) };
        if prototype == self.home || self.is_plain.call::<_, bool>((object.clone(),))? {
            return Ok(Ok(()));
        }
        Self::malformed(
            walk,
            "is an object of a class that is more than its own fields (a Map, a Date, one with getters or `toJSON`); answer with plain data",
        )
    }
}

fn number(index: usize) -> f64 {
    // INVARIANT: lengths of arrays are below 2^32, which a double holds exactly.
    u32::try_from(index).map_or(f64::NAN, f64::from)
}

/// Writes `text` as JSON does.
fn quote(into: &mut String, text: &str) {
    match serde_json::to_string(text) {
        Ok(quoted) => into.push_str(&quoted),
        Err(_) => into.push_str("\"\""),
    }
}
