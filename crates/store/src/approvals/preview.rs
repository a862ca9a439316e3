//! Arguments cut to a size that a human can be shown.

use backstop_hooks::Json;
use serde_json::{Map, Value};

/// Characters of text in a preview, over all its strings and keys.
const TEXT_BUDGET: usize = 16_384;
/// Entries of one list or object.
const MAX_ENTRIES: usize = 64;
/// Levels of nesting.
const MAX_DEPTH: usize = 8;
const CUT: &str = "…[truncated]";

/// The value, cut to what an approval may hold: 16,384 characters of text, 64 entries in each list and
/// object, 8 levels. What was cut is marked `…[truncated]`, so that the human sees that there is more.
pub fn preview(value: &Value) -> Json {
    let mut budget = TEXT_BUDGET;
    Json::new(bounded(value, MAX_DEPTH, &mut budget))
}

fn bounded(value: &Value, depth: usize, budget: &mut usize) -> Value {
    match value {
        Value::String(text) => Value::String(cut(text, budget)),
        Value::Array(_) | Value::Object(_) if depth == 0 || *budget == 0 => Value::String(CUT.to_owned()),
        Value::Array(items) => {
            let mut kept: Vec<Value> =
                items.iter().take(MAX_ENTRIES).map(|item| bounded(item, depth - 1, budget)).collect();
            if items.len() > MAX_ENTRIES {
                kept.push(Value::String(CUT.to_owned()));
            }
            Value::Array(kept)
        }
        Value::Object(map) => {
            let mut kept = Map::new();
            for (key, item) in map.iter().take(MAX_ENTRIES) {
                kept.insert(cut(key, budget), bounded(item, depth - 1, budget));
            }
            if map.len() > MAX_ENTRIES {
                kept.insert(CUT.to_owned(), Value::Null);
            }
            Value::Object(kept)
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
    }
}

fn cut(text: &str, budget: &mut usize) -> String {
    let mut kept: String = text.chars().take(*budget).collect();
    let whole = kept.len() == text.len();
    *budget = budget.saturating_sub(kept.chars().count().max(1));
    if !whole {
        kept.push_str(CUT);
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_fits_is_shown_as_it_is() {
        let value = json!({"command": "ls -la", "env": {"A": ["b", 1, null, true]}, "empty": ""});
        assert_eq!(preview(&value).to_value(), value);
    }

    #[test]
    fn what_is_cut_is_marked_and_bounded() {
        let deep = (0..100).fold(json!("x"), |inner, _| json!([inner]));
        let wide = json!(vec!["é".repeat(1_000); 5_000]);
        let bombs = json!((0..64).map(|_| vec![vec!["y"; 64]; 64]).collect::<Vec<_>>());
        for value in [deep, wide, bombs, json!({"a": "z".repeat(1 << 20)})] {
            let text = serde_json::to_string(&preview(&value)).unwrap();
            assert!(text.contains(CUT));
            assert!(text.len() < 200_000, "{}", text.len());
        }
    }
}
