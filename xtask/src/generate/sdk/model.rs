//! What the schemas say, as definitions that have names.

use std::collections::BTreeMap;

use backstop_hooks::{Mode, PointId, points};
use serde_json::{Map, Value};

use crate::error::Error;

/// The type of a value.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Shape {
    Text,
    Integer,
    Number,
    Boolean,
    /// Anything that JSON can say.
    Any,
    /// One of these.
    Literal(Vec<Value>),
    List(Box<Shape>),
    Map(Box<Shape>),
    Union(Vec<Shape>),
    /// A definition.
    Named(String),
}

/// A field of a record.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Field {
    pub(super) name: String,
    pub(super) doc: String,
    pub(super) required: bool,
    pub(super) shape: Shape,
}

/// What a name stands for.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Meaning {
    Alias(Shape),
    Record {
        /// The record whose fields it has as well.
        base: Option<String>,
        fields: Vec<Field>,
    },
}

/// A definition.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Definition {
    pub(super) doc: String,
    pub(super) meaning: Meaning,
}

/// A point, with the names of its types.
#[derive(Debug)]
pub(super) struct PointTypes {
    pub(super) id: PointId,
    pub(super) event: String,
    /// `None` where hooks only watch.
    pub(super) outcome: Option<String>,
}

/// All of it.
#[derive(Debug, Default)]
pub(super) struct Model {
    pub(super) definitions: BTreeMap<String, Definition>,
    pub(super) points: Vec<PointTypes>,
}

/// The type of the `context` of every event.
const CONTEXT: &str = "CallContext";

impl Model {
    pub(super) fn read() -> Result<Self, Error> {
        let mut model = Self::default();
        let context = model.root(points::context_schema().as_value())?;
        debug_assert_eq!(context, CONTEXT);
        let config = Shape::Union(vec![Shape::Literal(vec![Value::Null]), Shape::Map(Box::new(Shape::Any))]);
        model.add_field(
            CONTEXT,
            "pluginConfig",
            "The configuration of the hook's owner, if it has one.",
            config,
        );
        for id in PointId::ALL.iter().copied() {
            let event = model.root(id.event_schema().as_value())?;
            let context = Shape::Named(CONTEXT.to_owned());
            model.add_field(&event, "context", "What is the same for all hooks of a call.", context);
            let watches = id.info().mode == Mode::Observe;
            let outcome = if watches { None } else { Some(model.root(id.outcome_schema().as_value())?) };
            model.points.push(PointTypes { id, event, outcome });
        }
        Ok(model)
    }

    /// Defines a whole schema by its title.
    fn root(&mut self, schema: &Value) -> Result<String, Error> {
        let defs = schema.get("$defs").and_then(Value::as_object);
        for (name, schema) in defs.into_iter().flatten() {
            self.define(name, schema)?;
        }
        let title = text(schema, "title").ok_or_else(|| unknown("a schema without a title", schema))?;
        self.define(title, schema)?;
        Ok(title.to_owned())
    }

    fn define(&mut self, name: &str, schema: &Value) -> Result<(), Error> {
        let meaning = self.meaning(name, schema)?;
        self.insert(name, Definition { doc: doc(schema), meaning })
    }

    fn insert(&mut self, name: &str, definition: Definition) -> Result<(), Error> {
        match self.definitions.get_mut(name) {
            Some(known) => {
                if !is_same(known, &definition) {
                    return Err(Error::Schema(format!("two definitions of `{name}`")));
                }
            }
            None => {
                self.definitions.insert(name.to_owned(), definition);
            }
        }
        Ok(())
    }

    fn add_field(&mut self, record: &str, name: &str, doc: &str, shape: Shape) {
        if let Some(Definition { meaning: Meaning::Record { fields, .. }, .. }) =
            self.definitions.get_mut(record)
            && fields.iter().all(|field| field.name != name)
        {
            let (name, doc) = (name.to_owned(), doc.to_owned());
            fields.push(Field { name, doc, required: true, shape });
        }
    }

    fn meaning(&mut self, name: &str, schema: &Value) -> Result<Meaning, Error> {
        let properties = schema.get("properties").and_then(Value::as_object);
        let is_map = schema.get("additionalProperties").is_some_and(|more| *more != Value::Bool(false));
        if text(schema, "type") == Some("object") && !is_map {
            return self.record(name, schema, properties);
        }
        Ok(Meaning::Alias(self.shape(name, schema)?))
    }

    fn record(
        &mut self,
        name: &str,
        schema: &Value,
        properties: Option<&Map<String, Value>>,
    ) -> Result<Meaning, Error> {
        let required: Vec<&str> = strings(schema.get("required"));
        let mut fields = Vec::new();
        for (field, schema) in properties.into_iter().flatten() {
            let shape = self.shape(&format!("{name}{}", camel(field)), schema)?;
            let required = required.contains(&field.as_str());
            fields.push(Field { name: field.clone(), doc: doc(schema), required, shape });
        }
        Ok(Meaning::Record { base: reference(schema), fields })
    }

    /// The type of a schema. A record in it that has no name gets one that begins with `name`.
    fn shape(&mut self, name: &str, schema: &Value) -> Result<Shape, Error> {
        if let Some(constant) = schema.get("const") {
            return Ok(Shape::Literal(vec![constant.clone()]));
        }
        if let Some(values) = schema.get("enum").and_then(Value::as_array) {
            return Ok(Shape::Literal(values.clone()));
        }
        for key in ["oneOf", "anyOf"] {
            if let Some(forms) = schema.get(key).and_then(Value::as_array) {
                return self.union(name, forms);
            }
        }
        match text(schema, "type") {
            None if schema.get("$ref").is_some() => {
                reference(schema).map(Shape::Named).ok_or_else(|| unknown(name, schema))
            }
            None => Ok(Shape::Any),
            Some("string") => Ok(Shape::Text),
            Some("integer") => Ok(Shape::Integer),
            Some("number") => Ok(Shape::Number),
            Some("boolean") => Ok(Shape::Boolean),
            Some("array") => {
                let items = schema.get("items").ok_or_else(|| unknown(name, schema))?;
                Ok(Shape::List(Box::new(self.shape(name, items)?)))
            }
            Some("object") => match schema.get("additionalProperties") {
                Some(Value::Bool(true)) => Ok(Shape::Map(Box::new(Shape::Any))),
                Some(values @ Value::Object(_)) => Ok(Shape::Map(Box::new(self.shape(name, values)?))),
                _ => {
                    self.define(name, schema)?;
                    Ok(Shape::Named(name.to_owned()))
                }
            },
            Some(_) => Err(unknown(name, schema)),
        }
    }

    fn union(&mut self, name: &str, forms: &[Value]) -> Result<Shape, Error> {
        let mut shapes = Vec::new();
        let mut literals = Vec::new();
        for (number, form) in forms.iter().enumerate() {
            let tag = form
                .get("properties")
                .and_then(Value::as_object)
                .and_then(|fields| fields.values().find_map(|field| text(field, "const")))
                .map_or_else(|| number.to_string(), camel);
            match self.shape(&format!("{name}{tag}"), form)? {
                Shape::Literal(values) => literals.extend(values),
                shape if shapes.contains(&shape) => {}
                shape => shapes.push(shape),
            }
        }
        if !literals.is_empty() {
            shapes.insert(0, Shape::Literal(literals));
        }
        Ok(match shapes.as_slice() {
            [only] => only.clone(),
            _ => Shape::Union(shapes),
        })
    }
}

/// Whether two definitions are one; an event that several points share has its `context` already.
fn is_same(known: &Definition, other: &Definition) -> bool {
    let fields = |definition: &Definition| match &definition.meaning {
        Meaning::Record { base, fields } => {
            let own: Vec<_> = fields.iter().filter(|field| field.name != "context").cloned().collect();
            Meaning::Record { base: base.clone(), fields: own }
        }
        alias @ Meaning::Alias(_) => alias.clone(),
    };
    fields(known) == fields(other)
}

fn unknown(what: &str, schema: &Value) -> Error {
    Error::Schema(format!("{what}: no form for {schema}"))
}

fn text<'a>(schema: &'a Value, key: &str) -> Option<&'a str> {
    schema.get(key)?.as_str()
}

fn doc(schema: &Value) -> String {
    text(schema, "description").unwrap_or_default().replace('\n', " ")
}

fn strings(list: Option<&Value>) -> Vec<&str> {
    list.and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str).collect()
}

fn reference(schema: &Value) -> Option<String> {
    text(schema, "$ref")?.strip_prefix("#/$defs/").map(str::to_owned)
}

/// A word as a part of the name of a type.
pub(super) fn camel(word: &str) -> String {
    let mut letters = word.chars();
    let first = letters.next().map(|letter| letter.to_ascii_uppercase());
    first.into_iter().chain(letters).filter(char::is_ascii_alphanumeric).collect()
}
