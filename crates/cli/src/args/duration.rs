//! Durations as people write them: `90s`, `30m`, `8h`, `7d`.

use std::time::Duration;

/// Reads a duration of at least a second.
pub(super) fn parse(text: &str) -> Result<Duration, String> {
    let wrong = || format!("`{text}` is not a duration such as `90s`, `30m`, `8h` or `7d`");
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = text.strip_prefix(digits).unwrap_or_default();
    let number: u64 = digits.parse().map_err(|_| wrong())?;
    let seconds = match unit {
        "s" => 1,
        "m" => 60,
        "h" => 3_600,
        "d" => 86_400,
        _ => return Err(wrong()),
    };
    match number.checked_mul(seconds) {
        None | Some(0) => Err(wrong()),
        Some(seconds) => Ok(Duration::from_secs(seconds)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_and_nonsense() {
        assert_eq!(parse("8h"), Ok(Duration::from_secs(28_800)));
        assert_eq!(parse("90s"), Ok(Duration::from_secs(90)));
        for wrong in
            ["", "8", "h", "0h", "-1h", "1w", "1h30m", "99999999999999999999d", "18446744073709551615d"]
        {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }
}
