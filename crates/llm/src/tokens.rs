//! How many tokens a text is, roughly, without a tokenizer.
//!
//! The estimate counts what tokenizers make tokens of: pieces of words, digits, signs, characters of dense
//! scripts. For prose, code and JSON in Latin script it is usually within a quarter of what providers count;
//! it is bounded in any case: at least 1, never more than one token for each byte of text plus a fixed sum
//! for each message, part and tool, and adding text never makes it smaller. Images count as a flat 1,600
//! and their bytes not at all.

use backstop_hooks::conversation::{Message, Part};
use serde_json::Value;

use crate::model::{ModelRequest, ToolDefinition};

const PER_MESSAGE: u64 = 4;
const PER_PART: u64 = 3;
const PER_TOOL: u64 = 8;
const PER_IMAGE: u64 = 1_600;

/// Estimates the tokens of everything that a request has the model read.
pub fn estimate_tokens(request: &ModelRequest) -> u64 {
    let system: u64 = request.system.tokens(|parts| parts.iter().map(part_tokens).sum());
    let messages: u64 = request.messages.iter().map(estimate_message_tokens).sum();
    let tools: u64 = request.tools.iter().map(tool_tokens).sum();
    (system + messages + tools).max(1)
}

/// Estimates the tokens of one message. Of a content that was estimated before, the number is known.
pub fn estimate_message_tokens(message: &Message) -> u64 {
    PER_MESSAGE + message.content.tokens(|parts| parts.iter().map(part_tokens).sum())
}

/// Estimates the tokens of a text; 0 for an empty one.
pub fn estimate_text_tokens(text: &str) -> u64 {
    let (chunks, rest) = text.as_bytes().as_chunks::<CHUNK>();
    let mut cost = 0_u64;
    let mut previous = Class::Space;
    for chunk in chunks {
        if chunk.is_ascii() {
            cost += u64::from(ascii_cost(chunk, previous));
            previous = chunk.last().map_or(previous, |byte| Cost::of(*byte).class);
        } else {
            (cost, previous) = each_cost(chunk, (cost, previous));
        }
    }
    let (cost, _) = each_cost(rest, (cost, previous));
    cost.div_ceil(TOKEN).max(u64::from(!text.is_empty()))
}

/// How many bytes are counted at once.
const CHUNK: usize = 64;

/// Adds what these bytes cost, one by one; also returns the class of the last one.
fn each_cost(bytes: &[u8], before: (u64, Class)) -> (u64, Class) {
    bytes.iter().fold(before, |(cost, previous), byte| {
        let Some(of_byte) = COSTS.get(usize::from(*byte)) else { return (cost, previous) };
        (
            cost + u64::from(if of_byte.class == previous { of_byte.again } else { of_byte.first }),
            of_byte.class,
        )
    })
}

/// The same for ASCII, without a branch or a table, so that the compiler makes vector instructions of it.
fn ascii_cost(bytes: &[u8; CHUNK], previous: Class) -> u16 {
    let classes = bytes.map(|byte| {
        let is_letter = (byte | 0x20).wrapping_sub(b'a') < 26;
        let is_digit = byte.wrapping_sub(b'0') < 10;
        let is_space = (byte == b' ') | (byte == b'\t') | (byte == b'\n') | (byte == b'\r');
        u8::from(is_letter) | u8::from(is_digit) << 1 | u8::from(is_space) << 2
    });
    let mut before = [match previous {
        Class::Letter => LETTER,
        Class::Digit => DIGIT,
        Class::Space => SPACE,
        Class::Sign | Class::Accented | Class::Dense | Class::Rare | Class::Rest => SIGN,
    }; CHUNK];
    for (before, class) in before.iter_mut().skip(1).zip(&classes) {
        *before = *class;
    }
    classes.iter().zip(&before).fold(0_u16, |sum, (class, before)| {
        let again = 0_u8.wrapping_sub(u8::from(class == before));
        let (letter, digit, space) = (class & LETTER, class >> 1 & 1, class >> 2 & 1);
        // As `Cost::of` says: 8 for what begins, but nothing for a space; behind its own class 6 less for a letter, 4 less for a digit,
        // 2 more for a space.
        let (first, less, more) = ((space ^ 1) << 3, letter << 1 | letter << 2 | digit << 2, space << 1);
        sum.wrapping_add(u16::from(first.wrapping_sub(less & again).wrapping_add(more & again)))
    })
}

const SIGN: u8 = 0;
const LETTER: u8 = 1;
const DIGIT: u8 = 2;
const SPACE: u8 = 4;

/// Costs are counted in twelfths of a token, so that each class has a whole one.
const TOKEN: u64 = 12;

/// What a byte of UTF-8 costs. A character outside of ASCII is paid for with its first byte, which says how long it is.
#[derive(Clone, Copy)]
struct Cost {
    class: Class,
    /// Behind a byte of another class.
    first: u8,
    /// Behind one of its own class.
    again: u8,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Class {
    Letter,
    Digit,
    Sign,
    Space,
    /// Accented letters, Greek, Cyrillic, Hebrew, Arabic.
    Accented,
    /// Scripts in which a character is a word or a syllable.
    Dense,
    /// Emoji, and characters that tokenizers know by their bytes only.
    Rare,
    /// The other bytes of a character.
    Rest,
}

impl Cost {
    const fn of(byte: u8) -> Self {
        let (class, first, again) = match byte {
            // A word costs half a token and a sixth for each letter: four letters are about one token.
            b'a'..=b'z' | b'A'..=b'Z' => (Class::Letter, 8, 2),
            b'0'..=b'9' => (Class::Digit, 8, 4),
            // A space belongs to the word after it; only longer runs cost.
            b' ' | b'\t' | b'\n' | b'\r' => (Class::Space, 0, 2),
            0..=0x7f => (Class::Sign, 8, 8),
            0x80..=0xbf => (Class::Rest, 0, 0),
            0xc0..=0xdf => (Class::Accented, 6, 6),
            0xe0..=0xef => (Class::Dense, 12, 12),
            0xf0..=0xff => (Class::Rare, 24, 24),
        };
        Self { class, first, again }
    }
}

#[expect(clippy::indexing_slicing, reason = "evaluated at compile time over all 256 bytes")]
const COSTS: [Cost; 256] = {
    let mut table = [Cost::of(0); 256];
    let mut byte = 0_u8;
    loop {
        table[byte as usize] = Cost::of(byte);
        if byte == u8::MAX {
            break table;
        }
        byte += 1;
    }
};

fn part_tokens(part: &Part) -> u64 {
    PER_PART
        + match part {
            Part::Text { text, .. } | Part::Thinking { text, .. } => estimate_text_tokens(text),
            Part::ToolCall(call) => {
                let arguments: u64 = call
                    .arguments
                    .iter()
                    .map(|(key, value)| estimate_text_tokens(key) + 2 + json_tokens(value))
                    .sum();
                estimate_text_tokens(&call.name)
                    + arguments
                    + call.malformed.as_ref().map_or(0, |text| estimate_text_tokens(text))
            }
            Part::ToolResult(result) => result.content.iter().map(part_tokens).sum(),
            Part::Image { .. } => PER_IMAGE,
            Part::Unknown { raw } => json_tokens(raw),
        }
}

fn tool_tokens(tool: &ToolDefinition) -> u64 {
    PER_TOOL
        + match tool {
            ToolDefinition::Function { spec, .. } => {
                estimate_text_tokens(&spec.name)
                    + spec.description.as_ref().map_or(0, |text| estimate_text_tokens(text))
                    + json_tokens(&spec.input_schema)
            }
            ToolDefinition::Provider { raw } => json_tokens(raw),
        }
}

fn json_tokens(value: &Value) -> u64 {
    match value {
        Value::Null | Value::Bool(_) => 1,
        Value::Number(_) => 2,
        Value::String(text) => 1 + estimate_text_tokens(text),
        Value::Array(items) => 1 + items.iter().map(|item| 1 + json_tokens(item)).sum::<u64>(),
        Value::Object(fields) => {
            1 + fields
                .iter()
                .map(|(key, value)| 2 + estimate_text_tokens(key) + json_tokens(value))
                .sum::<u64>()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use backstop_hooks::conversation::Role;
    use proptest::prelude::*;

    #[test]
    fn known_texts_are_near_what_tokenizers_say() {
        // (text, tokens that a current tokenizer of a large model makes of it)
        let cases = [
            ("The quick brown fox jumps over the lazy dog.", 10),
            ("fn main() { println!(\"hello, world\"); }", 13),
            ("{\"command\": \"git status --short\", \"timeout\": 30}", 16),
            ("你好,世界", 5),
        ];
        for (text, tokens) in cases {
            let estimate = estimate_text_tokens(text);
            assert!(estimate * 2 >= tokens && estimate <= tokens * 2, "{text}: {estimate} for {tokens}");
        }
    }

    #[test]
    fn nothing_is_still_one_token() {
        assert_eq!(estimate_tokens(&ModelRequest::default()), 1);
        assert_eq!(estimate_text_tokens(""), 0);
        assert_eq!(estimate_text_tokens(" "), 1);
    }

    #[test]
    fn a_character_is_paid_for_once_however_many_bytes_it_has() {
        for (character, tokens) in [("é", 6), ("ж", 6), ("你", 12), ("😀", 24)] {
            assert_eq!(estimate_text_tokens(&character.repeat(12)), tokens, "{character}");
        }
        assert_eq!(estimate_text_tokens("aé a"), estimate_text_tokens("a你 a") - 1);
    }

    #[test]
    fn a_message_that_was_written_to_is_estimated_anew() {
        let mut message = Message::user("The quick brown fox");
        let before = estimate_message_tokens(&message);
        let copy = message.clone();
        message.content.push(Part::text("jumps over the lazy dog"));
        let both = vec![Part::text("The quick brown fox"), Part::text("jumps over the lazy dog")];
        let new = Message::new(Role::User, both);
        assert_eq!(estimate_message_tokens(&message), estimate_message_tokens(&new));
        assert_eq!(estimate_message_tokens(&copy), before);
    }

    proptest! {
        #[test]
        fn many_bytes_at_once_cost_what_each_of_them_does(text in "([ -~\\t\\n\\r]{0,90}|[a-z ]{0,90}|[0-9 ]{60,70}|\\PC{0,3}){0,5}") {
            let (cost, _) = each_cost(text.as_bytes(), (0, Class::Space));
            prop_assert_eq!(estimate_text_tokens(&text), cost.div_ceil(TOKEN).max(u64::from(!text.is_empty())));
        }

        #[test]
        fn estimate_is_bounded_and_grows(a in ".{0,80}", b in ".{0,80}") {
            let (one, both) = (estimate_text_tokens(&a), estimate_text_tokens(&format!("{a}{b}")));
            prop_assert!(one <= both);
            prop_assert!(both <= (a.len() + b.len()) as u64);
        }
    }
}
