//! Texts at every place of a body: in each string, as each name, and in fields that nobody knows.

use serde_json::{Value, json};

/// What is looked for where it is no secret: one word, as short as a name.
pub(super) const WORD: &str = "zqsentinelzq";

/// A token as its issuer makes them, put together here so that no file holds one.
pub(super) fn token() -> String {
    ["gh", "p_", "x7Kq2Lm9Rt4Vw8Zp3Nc6Bd1Fg5Hj0Qs7Yt2W"].concat()
}

#[derive(Clone, Debug)]
enum Step {
    Key(String),
    Item(usize),
}

type Place = Vec<Step>;

fn written(place: &[Step]) -> String {
    let step = |step: &Step| match step {
        Step::Key(key) => format!("/{key}"),
        Step::Item(item) => format!("/{item}"),
    };
    place.iter().map(step).collect()
}

fn at<'a>(body: &'a mut Value, place: &[Step]) -> &'a mut Value {
    place.iter().fold(body, |value, step| match step {
        Step::Key(key) => &mut value[key.as_str()],
        Step::Item(item) => &mut value[*item],
    })
}

fn places(value: &Value, place: &mut Place, found: &mut Vec<Place>) {
    found.push(place.clone());
    let inside: Vec<(Step, &Value)> = match value {
        Value::Array(items) => items.iter().enumerate().map(|(at, item)| (Step::Item(at), item)).collect(),
        Value::Object(fields) => fields.iter().map(|(key, field)| (Step::Key(key.clone()), field)).collect(),
        _ => Vec::new(),
    };
    for (step, value) in inside {
        place.push(step);
        places(value, place, found);
        place.pop();
    }
}

/// The body with `said` in the place of each string and each name, and in a further field of each object, also under the names `more`.
pub(super) fn variants(body: &Value, said: &str, more: &[&str]) -> Vec<(String, Value)> {
    let mut found = Vec::new();
    places(body, &mut Vec::new(), &mut found);
    let mut variants = Vec::new();
    for place in found {
        let named = written(&place);
        let mut with = |what: String, edit: &dyn Fn(&mut Value)| {
            let mut body = body.clone();
            edit(at(&mut body, &place));
            variants.push((format!("{named} {what}"), body));
        };
        match at(&mut body.clone(), &place) {
            Value::String(_) => with("is it".to_owned(), &|value| *value = said.into()),
            Value::Object(fields) => {
                for key in fields.keys() {
                    with(format!("has it in the place of `{key}`"), &|value| {
                        let fields = value.as_object_mut().unwrap();
                        let field = fields.shift_remove(key).unwrap();
                        fields.insert(said.to_owned(), field);
                    });
                }
                for name in more.iter().chain(&["zq"]).filter(|name| !fields.contains_key(**name)) {
                    with(format!("has it in `{name}`"), &|value| value[*name] = said.into());
                }
                with("has it deep inside".to_owned(), &|value| value["zq"] = json!({ "x": [{ "y": said }] }));
                with("has it as a name".to_owned(), &|value| value[said] = 1.into());
                with("has it as the name of nothing".to_owned(), &|value| value[said] = Value::Null);
            }
            _ => {}
        }
    }
    variants
}
