//! Points in time as people write them: `2h` (so long ago), `2026-11-28`, `2026-11-28 14:30`, or RFC 3339.

use backstop::store::Timestamp;
use jiff::civil::{Date, DateTime};
use jiff::tz::TimeZone;

use super::duration;

/// Reads a point in time. A date or a time without a zone is one of this machine's zone; a date is its first moment.
pub(super) fn parse(text: &str) -> Result<Timestamp, String> {
    parse_at(text, Timestamp::now(), &TimeZone::system())
}

fn parse_at(text: &str, now: Timestamp, zone: &TimeZone) -> Result<Timestamp, String> {
    let wrong = || {
        format!(
            "`{text}` is no time such as `2h` (ago), `2026-11-28`, `2026-11-28T14:30` or `2026-11-28T14:30:00Z`"
        )
    };
    if let Ok(ago) = duration::parse(text) {
        return Ok(now.before(ago));
    }
    let local = |time: DateTime| time.to_zoned(zone.clone()).map(|time| time.timestamp());
    let read = if let Ok(time) = text.parse::<jiff::Timestamp>() {
        Ok(time)
    } else if text.len() == "2026-11-28".len() {
        text.parse::<Date>().and_then(|date| local(date.to_datetime(jiff::civil::Time::midnight())))
    } else {
        text.parse::<DateTime>().and_then(local)
    };
    read.map(|time| Timestamp::from_millis(time.as_millisecond())).map_err(|_| wrong())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_dates_and_times() {
        let (now, zone) = (Timestamp::from_millis(1_764_331_200_000), TimeZone::fixed(jiff::tz::offset(1)));
        let read = |text: &str| parse_at(text, now, &zone).map(|time| time.to_string());
        assert_eq!(read("2h").unwrap(), "2025-11-28T10:00:00Z");
        assert_eq!(read("2025-11-28").unwrap(), "2025-11-27T23:00:00Z", "the first moment of the day here");
        assert_eq!(read("2025-11-28T14:30").unwrap(), "2025-11-28T13:30:00Z");
        assert_eq!(read("2025-11-28 14:30:05").unwrap(), "2025-11-28T13:30:05Z");
        assert_eq!(read("2025-11-28T14:30:00Z").unwrap(), "2025-11-28T14:30:00Z");
        assert_eq!(read("2025-11-28T14:30:00.5-02:00").unwrap(), "2025-11-28T16:30:00.5Z");
        for wrong in ["", "0h", "yesterday", "2025-13-01", "2025-11-31", "14:30", "1764331200", "-2h"] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }
}
