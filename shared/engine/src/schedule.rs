//! Schedules: times at which a job is submitted, and what is done about those that were missed.
//!
//! A timetable is five fields of cron in a time zone. Times that came while nobody looked fire together, once, as the
//! latest of them: a sweeper that was away for a day does not bring a day's jobs at once, and does not forget them either.

use croner::Cron;
use croner::parser::{CronParser, Seconds, Year};
use jiff::Zoned;
use jiff::tz::TimeZone;

use crate::time::Timestamp;

/// Why a text is no timetable.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TimetableError {
    /// The five fields.
    #[error("must be five fields such as `0 7 * * MON-FRI` ({detail})")]
    Cron {
        /// What is wrong with them.
        detail: String,
    },
    /// The time zone.
    #[error("is no time zone of the IANA database, such as Europe/Berlin")]
    Zone,
    /// There is no such day.
    #[error("names no time that will come, such as the 30th of February")]
    Never,
}

/// Times by cron and time zone.
#[derive(Debug, Clone)]
pub struct Timetable {
    cron: Cron,
    zone: TimeZone,
}

impl Timetable {
    /// Reads five fields of cron (minute, hour, day, month, weekday) for a time zone.
    ///
    /// # Errors
    /// [`TimetableError`].
    pub fn read(cron: &str, time_zone: &str) -> Result<Self, TimetableError> {
        let parser = CronParser::builder().seconds(Seconds::Disallowed).year(Year::Disallowed).build();
        let cron = parser.parse(cron).map_err(|error| TimetableError::Cron { detail: error.to_string() })?;
        let zone = TimeZone::get(time_zone).map_err(|_| TimetableError::Zone)?;
        Ok(Self { cron, zone })
    }

    /// The first time after `now`; none when none will come.
    ///
    /// A time of day that the clock leaves out comes when the clock goes on; one that it shows twice comes once.
    #[must_use]
    pub fn next_after(&self, now: Timestamp) -> Option<Timestamp> {
        let next = self.cron.find_next_occurrence(&self.zoned(now)?, false).ok()?;
        u64::try_from(next.timestamp().as_millisecond()).ok().map(Timestamp::from_millis)
    }

    /// The last time that has come by `now`.
    #[must_use]
    pub fn last_until(&self, now: Timestamp) -> Option<Timestamp> {
        let last = self.cron.find_previous_occurrence(&self.zoned(now)?, true).ok()?;
        u64::try_from(last.timestamp().as_millisecond()).ok().map(Timestamp::from_millis)
    }

    fn zoned(&self, at: Timestamp) -> Option<Zoned> {
        let at = jiff::Timestamp::from_millisecond(i64::try_from(at.as_millis()).ok()?).ok()?;
        Some(at.to_zoned(self.zone.clone()))
    }
}

/// What is done about a schedule that is due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Firing {
    /// The time for which a job is submitted: the latest that has come.
    pub time: Timestamp,
    /// The time that comes next; none when none will come.
    pub next: Option<Timestamp>,
}

/// Decides about a schedule whose `next` time has come by `now`. None: it has not.
#[must_use]
pub fn decide(timetable: &Timetable, next: Timestamp, now: Timestamp) -> Option<Firing> {
    if now < next {
        return None;
    }
    // Another database of time zones may know none since: then it is the one that was waited for.
    let time = timetable.last_until(now).filter(|latest| *latest >= next).unwrap_or(next);
    Some(Firing { time, next: timetable.next_after(now) })
}
