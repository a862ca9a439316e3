//! The time windows of budgets, all in UTC.

use backstop_store::Timestamp;
use jiff::civil::{Date, DateTime, Time};
use jiff::tz::TimeZone;
use jiff::{Span, ToSpan as _};

/// A stretch of time after which a budget is reset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Window {
    /// From one full hour to the next.
    Hour,
    /// From midnight to midnight.
    Day,
    /// From the first of a month to the next.
    Month,
    /// Unlimited.
    Total,
}

impl Window {
    /// Returns its name, as in `a day`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Hour => "hour",
            Self::Day => "day",
            Self::Month => "month",
            Self::Total => "total",
        }
    }

    /// Returns the window in which `now` lies: when it began and when it ends.
    pub(super) fn around(self, now: Timestamp) -> (Timestamp, Option<Timestamp>) {
        let at = jiff::Timestamp::from_millisecond(now.as_millis()).unwrap_or(jiff::Timestamp::UNIX_EPOCH);
        let civil = TimeZone::UTC.to_datetime(at);
        match self {
            Self::Total => (Timestamp::from_millis(0), None),
            Self::Hour => {
                let hour = civil
                    .date()
                    .to_datetime(Time::midnight())
                    .saturating_add(i64::from(civil.hour()).hours());
                from(hour, 1.hour())
            }
            Self::Day => from(midnight(civil.date()), 1.day()),
            Self::Month => from(midnight(civil.date().first_of_month()), 1.month()),
        }
    }
}

fn midnight(date: Date) -> DateTime {
    date.to_datetime(Time::midnight())
}

fn from(begin: DateTime, span: Span) -> (Timestamp, Option<Timestamp>) {
    (stamp(begin), Some(stamp(begin.saturating_add(span))))
}

fn stamp(civil: DateTime) -> Timestamp {
    let at = TimeZone::UTC.to_timestamp(civil);
    Timestamp::from_millis(at.map_or(i64::MAX, jiff::Timestamp::as_millisecond))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_begin_and_end_where_people_expect_it() {
        let now = Timestamp::from_millis(
            "2028-02-29T13:45:10.5Z".parse::<jiff::Timestamp>().unwrap().as_millisecond(),
        );
        let around = |window: Window| {
            let (since, until) = window.around(now);
            (since.to_string(), until.map(|until| until.to_string()).unwrap_or_default())
        };
        assert_eq!(around(Window::Hour), ("2028-02-29T13:00:00Z".into(), "2028-02-29T14:00:00Z".into()));
        assert_eq!(around(Window::Day), ("2028-02-29T00:00:00Z".into(), "2028-03-01T00:00:00Z".into()));
        assert_eq!(around(Window::Month), ("2028-02-01T00:00:00Z".into(), "2028-03-01T00:00:00Z".into()));
        assert_eq!(around(Window::Total), ("1970-01-01T00:00:00Z".into(), String::new()));
    }
}
