//! Quiet hours: times of day at which nobody is told of new questions, unless they are grave.
//!
//! There is no state but the clock, so that restarts and other processes change nothing. What counts is the time of day that a clock in the
//! zone shows: an hour that is left out in spring is not waited for, and one that comes twice in autumn counts twice.

use std::fmt;
use std::time::Duration;

use backstop_hooks::Severity;
use backstop_store::Timestamp;
use jiff::SignedDuration;
use jiff::civil::Time;
use jiff::tz::TimeZone;

const DAY: SignedDuration = SignedDuration::from_hours(24);

/// Times of day at which nobody is told of new questions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QuietHours {
    from: Time,
    to: Time,
    zone: TimeZone,
    unless: Option<Severity>,
}

impl QuietHours {
    /// Returns the hours from `from` to before `to`, over midnight if that is earlier; `None` if the two are the same. Questions of at least
    /// the severity `unless` are told all the same; without it, none are.
    pub fn new(from: Time, to: Time, zone: TimeZone, unless: Option<Severity>) -> Option<Self> {
        (from != to).then_some(Self { from, to, zone, unless })
    }

    /// Returns how long it is still quiet; `None` if it is not quiet now.
    pub fn left(&self, now: Timestamp) -> Option<Duration> {
        let now = jiff::Timestamp::from_millisecond(now.as_millis()).ok()?;
        let left = self.end(now)?.duration_since(now);
        Some(Duration::try_from(left).unwrap_or_default())
    }

    /// Returns whether a question of this severity is told all the same.
    pub fn lets_through(&self, severity: Severity) -> bool {
        self.unless.is_some_and(|least| severity >= least)
    }

    /// Returns for people when it is quiet, whether it is now, and until when.
    pub fn in_words(&self, now: Timestamp) -> String {
        let end = jiff::Timestamp::from_millisecond(now.as_millis()).ok().and_then(|now| self.end(now));
        let Some(end) = end else { return format!("quiet hours: {self}; not now") };
        let end = self.zone.to_datetime(end);
        let told = match self.unless {
            None => "no new question is told",
            Some(Severity::Critical) => "of new questions, only critical ones are told",
            Some(Severity::Warning) => "of new questions, only warnings and critical ones are told",
            Some(Severity::Info) => "all questions are told",
        };
        format!("quiet hours: {self}; now, until {}: {told}", end.strftime("%Y-%m-%d %H:%M"))
    }

    /// Returns when the quiet ends that there is at a moment; `None` if there is none.
    fn end(&self, now: jiff::Timestamp) -> Option<jiff::Timestamp> {
        if !self.is_quiet_at(now) {
            return None;
        }
        // Until the clock is changed it runs as time does; with the change it shows something else, and is looked at again.
        let mut at = now;
        for change in self.zone.following(now) {
            let change = change.timestamp();
            let end = self.next_end(at);
            if end < change {
                return Some(end);
            }
            if !self.is_quiet_at(change) {
                return Some(change);
            }
            at = change;
        }
        Some(self.next_end(at))
    }

    /// Returns when `to` comes next if the clock is not changed before.
    fn next_end(&self, at: jiff::Timestamp) -> jiff::Timestamp {
        let left = self.zone.to_datetime(at).time().duration_until(self.to);
        let left = if left.is_positive() { left } else { left + DAY };
        at.checked_add(left).unwrap_or(jiff::Timestamp::MAX)
    }

    fn is_quiet_at(&self, at: jiff::Timestamp) -> bool {
        let time = self.zone.to_datetime(at).time();
        if self.from < self.to {
            (self.from..self.to).contains(&time)
        } else {
            !(self.to..self.from).contains(&time)
        }
    }
}

impl fmt::Display for QuietHours {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let zone = self.zone.iana_name().unwrap_or("the time zone of this machine");
        write!(f, "{} to {} ({zone})", self.from.strftime("%H:%M"), self.to.strftime("%H:%M"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: u64 = 60;
    const HOUR: u64 = 60 * MINUTE;

    fn time(text: &str) -> Time {
        text.parse().unwrap()
    }

    fn at(text: &str) -> Timestamp {
        Timestamp::from_millis(text.parse::<jiff::Timestamp>().unwrap().as_millisecond())
    }

    /// Hours by the clocks of Berlin, whose rules are written out so that no files of the machine are needed.
    fn berlin(from: &str, to: &str) -> QuietHours {
        let zone = TimeZone::posix("CET-1CEST,M3.5.0,M10.5.0/3").unwrap();
        QuietHours::new(time(from), time(to), zone, Some(Severity::Critical)).unwrap()
    }

    fn left(quiet: &QuietHours, now: &str) -> Option<u64> {
        let left = quiet.left(at(now))?;
        assert_eq!(left.subsec_nanos(), 0, "{now}");
        Some(left.as_secs())
    }

    #[test]
    fn hours_of_one_day_begin_and_end_exactly() {
        let quiet = QuietHours::new(time("12:00"), time("13:30"), TimeZone::UTC, None).unwrap();
        assert_eq!(quiet.left(at("2026-01-10T11:59:59.999Z")), None);
        assert_eq!(left(&quiet, "2026-01-10T12:00:00Z"), Some(HOUR + 30 * MINUTE));
        assert_eq!(quiet.left(at("2026-01-10T13:29:59.999Z")), Some(Duration::from_millis(1)));
        assert_eq!(quiet.left(at("2026-01-10T13:30:00Z")), None);
        assert_eq!(quiet.left(Timestamp::from_millis(i64::MAX)), None);
    }

    #[test]
    fn hours_over_midnight_are_those_of_the_zone() {
        let quiet = berlin("22:00", "07:00");
        assert_eq!(quiet.left(at("2026-01-10T20:59:59.999Z")), None);
        assert_eq!(left(&quiet, "2026-01-10T21:00:00Z"), Some(9 * HOUR));
        assert_eq!(left(&quiet, "2026-01-10T23:00:00Z"), Some(7 * HOUR));
        assert_eq!(quiet.left(at("2026-01-11T05:59:59.999Z")), Some(Duration::from_millis(1)));
        assert_eq!(quiet.left(at("2026-01-11T06:00:00Z")), None);
        // Midnight itself can be the end, and the beginning.
        assert_eq!(left(&berlin("22:00", "00:00"), "2026-01-10T21:00:00Z"), Some(2 * HOUR));
        assert_eq!(left(&berlin("22:00", "00:00"), "2026-01-10T23:00:00Z"), None);
        assert_eq!(left(&berlin("00:00", "06:00"), "2026-01-10T23:00:00Z"), Some(6 * HOUR));
    }

    #[test]
    fn a_night_is_as_long_as_its_clock_makes_it() {
        let quiet = berlin("22:00", "07:00");
        assert_eq!(left(&quiet, "2026-03-28T22:00:00+01:00"), Some(8 * HOUR));
        assert_eq!(left(&quiet, "2026-03-29T06:59:00+02:00"), Some(MINUTE));
        assert_eq!(left(&quiet, "2026-03-29T07:00:00+02:00"), None);
        assert_eq!(left(&quiet, "2026-10-24T22:00:00+02:00"), Some(10 * HOUR));
        assert_eq!(left(&quiet, "2026-10-25T06:00:00+01:00"), Some(HOUR));
        assert_eq!(left(&quiet, "2026-10-25T07:00:00+01:00"), None);
    }

    #[test]
    fn an_end_that_is_left_out_in_spring_is_when_the_clock_goes_on() {
        let quiet = berlin("22:00", "02:30");
        assert_eq!(left(&quiet, "2026-03-29T01:30:00+01:00"), Some(30 * MINUTE));
        assert_eq!(left(&quiet, "2026-03-29T03:00:00+02:00"), None);
        // One that begins in what is left out begins then, too.
        let quiet = berlin("02:30", "05:00");
        assert_eq!(left(&quiet, "2026-03-29T01:59:00+01:00"), None);
        assert_eq!(left(&quiet, "2026-03-29T03:00:00+02:00"), Some(2 * HOUR));
    }

    #[test]
    fn an_hour_that_comes_twice_in_autumn_counts_twice() {
        let quiet = berlin("22:00", "02:30");
        assert_eq!(left(&quiet, "2026-10-25T02:00:00+02:00"), Some(30 * MINUTE));
        assert_eq!(left(&quiet, "2026-10-25T02:30:00+02:00"), None);
        assert_eq!(left(&quiet, "2026-10-25T02:00:00+01:00"), Some(30 * MINUTE));
        assert_eq!(left(&quiet, "2026-10-25T02:30:00+01:00"), None);
        // The clock goes back at the very end, and right after the beginning.
        assert_eq!(left(&berlin("22:00", "03:00"), "2026-10-25T02:30:00+02:00"), Some(90 * MINUTE));
        let quiet = berlin("02:30", "05:00");
        assert_eq!(left(&quiet, "2026-10-25T02:45:00+02:00"), Some(15 * MINUTE));
        assert_eq!(left(&quiet, "2026-10-25T02:00:00+01:00"), None);
        assert_eq!(left(&quiet, "2026-10-25T02:45:00+01:00"), Some(2 * HOUR + 15 * MINUTE));
    }

    #[test]
    fn hours_are_some_of_the_day_and_what_is_grave_breaks_them() {
        assert_eq!(QuietHours::new(time("07:00"), time("07:00"), TimeZone::UTC, None), None);
        let lets_through = |unless| {
            let quiet = QuietHours::new(time("22:00"), time("07:00"), TimeZone::UTC, unless).unwrap();
            [Severity::Info, Severity::Warning, Severity::Critical].map(|of| quiet.lets_through(of))
        };
        assert_eq!(lets_through(None), [false, false, false]);
        assert_eq!(lets_through(Some(Severity::Critical)), [false, false, true]);
        assert_eq!(lets_through(Some(Severity::Warning)), [false, true, true]);
    }

    #[test]
    fn people_read_when_it_is_quiet() {
        let quiet = QuietHours::new(time("22:00"), time("07:00"), TimeZone::UTC, Some(Severity::Critical));
        let quiet = quiet.unwrap();
        assert_eq!(quiet.in_words(at("2026-01-10T12:00:00Z")), "quiet hours: 22:00 to 07:00 (UTC); not now");
        assert_eq!(
            quiet.in_words(at("2026-01-10T23:00:00Z")),
            "quiet hours: 22:00 to 07:00 (UTC); now, until 2026-01-11 07:00: of new questions, only critical ones are told"
        );
    }
}
