//! Whole numbers that all readers of a JSON text read alike.
//!
//! A number that no 64 bits hold is read as the nearest floating number here, in JavaScript and in Go; Python reads it as it is written. So two of them
//! can be one for whoever judges (one digest, one question to a person) and two for whoever runs the call: ids and sums of twenty digits.
//!
//! The law: *one reading*. Of the texts for one floating number only one passes, the digits that JavaScript writes, so that nothing that passes can be
//! taken for another one. A number with a point or an exponent is a floating one everywhere.

/// The fewest digits of a whole number that 64 bits may not hold.
const FEWEST: usize = 19;

/// Returns whether a JSON text has a whole number that some read as another one than others do. What is no JSON is looked through all the same.
pub fn misreads_whole_number(json: &[u8]) -> bool {
    let mut rest = json;
    while let Some(&first) = rest.first() {
        rest = match first {
            b'"' => behind_string(rest),
            b'-' | b'0'..=b'9' => {
                let length = rest.iter().take_while(|byte| is_of_number(**byte)).count();
                let (number, behind) = rest.split_at(length);
                if number.len() >= FEWEST && is_misread(number) {
                    return true;
                }
                behind
            }
            _ => rest.get(1..).unwrap_or_default(),
        };
    }
    false
}

fn is_of_number(byte: u8) -> bool {
    matches!(byte, b'0'..=b'9' | b'.' | b'e' | b'E' | b'+' | b'-')
}

/// Returns what stands behind a string that begins here.
fn behind_string(text: &[u8]) -> &[u8] {
    let mut rest = text.get(1..).unwrap_or_default();
    while let Some(at) = rest.iter().position(|byte| matches!(byte, b'"' | b'\\')) {
        let is_end = rest.get(at) == Some(&b'"');
        rest = rest.get(at + if is_end { 1 } else { 2 }..).unwrap_or_default();
        if is_end {
            return rest;
        }
    }
    &[]
}

/// Returns whether this number is whole, held by no 64 bits, and not written as JavaScript writes it.
fn is_misread(number: &[u8]) -> bool {
    let Ok(number) = str::from_utf8(number) else { return false };
    let digits = number.strip_prefix('-').unwrap_or(number);
    let is_whole = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    let is_held = || number.parse::<i64>().is_ok() || number.parse::<u64>().is_ok();
    is_whole && !is_held() && digits.parse::<f64>().is_ok_and(|value| !is_written(value, digits))
}

/// Returns whether these are the digits that tell this number from all others, and zeros behind them.
fn is_written(value: f64, digits: &str) -> bool {
    let shortest = format!("{value:e}");
    let telling = shortest.split('e').next().unwrap_or_default().replace('.', "");
    digits.strip_prefix(telling.as_str()).is_some_and(|zeros| zeros.bytes().all(|byte| byte == b'0'))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::Value;

    use super::*;

    #[test]
    fn only_whole_numbers_that_readers_disagree_about_are_found() {
        for text in [
            "9007199254740993",
            "18446744073709551615",
            "-9223372036854775808",
            // As JavaScript writes them.
            "123456789012345680000",
            "18446744073709552000",
            "1e30",
            "12345678901234567890123.0",
            r#""12345678901234567890123""#,
            r#"{"a\\":"\"12345678901234567890123","b":[1,-2]}"#,
            "",
            "-",
        ] {
            assert!(!misreads_whole_number(text.as_bytes()), "{text}");
        }
        for text in [
            "18446744073709551616",
            "-9223372036854775809",
            "12345678901234567890123",
            "123456789012345683968",
            r#"{"a":"x\\","b":[1,12345678901234567890124]}"#,
            r#"{"12":{"b":-12345678901234567890124}}"#,
        ] {
            assert!(misreads_whole_number(text.as_bytes()), "{text}");
        }
        assert!(misreads_whole_number("9".repeat(400).as_bytes()), "beyond all floating numbers");
    }

    proptest! {
        /// What this is for: two whole numbers that pass are one for us only where they are one for everybody.
        #[test]
        fn no_two_texts_that_pass_are_read_as_one_number(
            begin in "-?[1-9][0-9]{14,21}", ends in prop::array::uniform2("[0-9]{3}"),
        ) {
            let [one, other] = ends.map(|end| format!("{begin}{end}"));
            let passes = |text: &str| !misreads_whole_number(text.as_bytes());
            let read = |text: &str| serde_json::from_str::<Value>(text).unwrap();
            if one != other && passes(&one) && passes(&other) {
                prop_assert_ne!(read(&one), read(&other));
            }
        }

        #[test]
        fn what_we_write_ourselves_passes(number in any::<f64>(), signed in any::<i64>(), unsigned in any::<u64>()) {
            let text = serde_json::json!([number, number.trunc(), signed, unsigned]).to_string();
            prop_assert!(!misreads_whole_number(text.as_bytes()), "{}", text);
        }
    }
}
