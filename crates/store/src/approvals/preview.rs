//! Truncates arguments to a size that can be shown to a human.

use backstop_hooks::Json;
use serde_json::{Map, Value};

/// Characters of text in a preview, over all its strings and keys.
const TEXT_BUDGET: usize = 16_384;
/// Entries of one list or object.
const MAX_ENTRIES: usize = 64;
/// Levels of nesting.
const MAX_DEPTH: usize = 8;
const CUT: &str = "…[truncated]";

/// Characters of one argument that are shown at least, however many there are.
const LEAST_SHARE: usize = 256;

/// Arguments as shown to a human.
#[derive(Clone, Debug, PartialEq)]
pub struct Preview {
    /// What is shown.
    pub shown: Json,
    /// Whether something is missing from it.
    pub is_cut: bool,
}

/// Returns the value, cut to what an approval may show: 16,384 characters of text, 64 entries in each list and
/// object, 8 levels. Each argument has the same share of that. Of a longer text the head and the tail are shown, and how
/// much there is between them; what else was cut is marked `…[truncated]`.
pub fn preview(value: &Value) -> Preview {
    let mut cutter = Cutter { budget: TEXT_BUDGET, is_cut: false };
    if let Some(shown) = cutter.whole(value) {
        return Preview { shown, is_cut: false };
    }
    let shown = match value {
        Value::Object(map) => {
            let share = (TEXT_BUDGET / map.len().clamp(1, MAX_ENTRIES)).max(LEAST_SHARE);
            cutter.object(map, MAX_DEPTH, Some(share))
        }
        other => cutter.bounded(other, MAX_DEPTH),
    };
    Preview { shown: Json::new(shown), is_cut: true }
}

struct Cutter {
    budget: usize,
    is_cut: bool,
}

impl Cutter {
    /// Returns all of it, if it fits.
    fn whole(&mut self, value: &Value) -> Option<Json> {
        let shown = self.bounded(value, MAX_DEPTH);
        let fits = !self.is_cut;
        *self = Self { budget: TEXT_BUDGET, is_cut: false };
        fits.then(|| Json::new(shown))
    }

    fn bounded(&mut self, value: &Value, depth: usize) -> Value {
        match value {
            Value::String(text) => Value::String(self.cut(text)),
            Value::Array(_) | Value::Object(_) if depth == 0 || self.budget == 0 => self.gone(),
            Value::Array(items) => {
                let mut kept: Vec<Value> =
                    items.iter().take(MAX_ENTRIES).map(|item| self.bounded(item, depth - 1)).collect();
                if items.len() > MAX_ENTRIES {
                    kept.push(self.gone());
                }
                Value::Array(kept)
            }
            Value::Object(map) => self.object(map, depth, None),
            Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
        }
    }

    /// Each entry has `share`, if there is one, and what others leave otherwise.
    fn object(&mut self, map: &Map<String, Value>, depth: usize, share: Option<usize>) -> Value {
        let mut kept = Map::new();
        for (key, item) in map.iter().take(MAX_ENTRIES) {
            if let Some(share) = share {
                self.budget = share;
            }
            let key = self.cut(key);
            kept.insert(key, self.bounded(item, depth - 1));
        }
        if map.len() > MAX_ENTRIES {
            self.is_cut = true;
            kept.insert(CUT.to_owned(), Value::Null);
        }
        Value::Object(kept)
    }

    fn gone(&mut self) -> Value {
        self.is_cut = true;
        Value::String(CUT.to_owned())
    }

    /// Returns the text, or its head and its tail.
    fn cut(&mut self, text: &str) -> String {
        let (length, budget) = (text.chars().count(), self.budget);
        self.budget = budget.saturating_sub(length.max(1));
        if length <= budget {
            return text.to_owned();
        }
        self.is_cut = true;
        let tail = budget / 3;
        let head: String = text.chars().take(budget - tail).collect();
        let end: String = text.chars().skip(length - tail).collect();
        format!("{head}…[{} characters are not shown]…{end}", length - budget)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_fits_is_shown_as_it_is() {
        let value = json!({"command": "ls -la", "env": {"A": ["b", 1, null, true]}, "empty": ""});
        let shown = preview(&value);
        assert_eq!((shown.shown.to_value(), shown.is_cut), (value, false));
    }

    #[test]
    fn what_is_cut_is_marked_and_bounded() {
        let deep = (0..100).fold(json!("x"), |inner, _| json!([inner]));
        let wide = json!(vec!["é".repeat(1_000); 5_000]);
        let bombs = json!((0..64).map(|_| vec![vec!["y"; 64]; 64]).collect::<Vec<_>>());
        for value in [deep, wide, bombs, json!({"a": "z".repeat(1 << 20)})] {
            let preview = preview(&value);
            let text = serde_json::to_string(&preview.shown).unwrap();
            assert!(preview.is_cut && (text.contains(CUT) || text.contains("not shown")));
            assert!(text.len() < 300_000, "{}", text.len());
        }
    }

    #[test]
    fn of_every_argument_head_and_tail_are_shown() {
        let long = |name: &str| format!("{name} begins{}{name} ends", "x".repeat(50_000));
        let shown =
            preview(&json!({"content": long("the first"), "command": long("the second"), "cwd": "/p"}));
        let text = serde_json::to_string(&shown.shown).unwrap();
        assert!(shown.is_cut);
        for part in ["the first begins", "the first ends", "the second begins", "the second ends", "/p"] {
            assert!(text.contains(part), "`{part}` is missing");
        }
    }
}
