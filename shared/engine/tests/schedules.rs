//! When schedules fire, over the changes of the clock and over sweeps that did not come.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

use longhaul_engine::schedule::{Firing, Timetable, TimetableError, decide};
use longhaul_engine::{JobId, TenantId, Timestamp};

/// A time in UTC.
fn at(text: &str) -> Timestamp {
    let time: jiff::Timestamp = format!("{text}Z").parse().unwrap();
    Timestamp::from_millis(u64::try_from(time.as_millisecond()).unwrap())
}

#[test]
fn times_come_one_after_another() {
    for (cron, zone, now, times) in [
        ("*/15 9-10 * * *", "UTC", "2026-03-02T09:50:01", &["2026-03-02T10:00:00", "2026-03-02T10:15:00"][..]),
        // A time that has just come is not the next.
        ("0 9 * * *", "UTC", "2026-03-02T09:00:00", &["2026-03-03T09:00:00"]),
        ("0 9 * * MON-FRI", "UTC", "2026-03-06T12:00:00", &["2026-03-09T09:00:00"]),
        ("0 0 29 2 *", "UTC", "2026-03-01T00:00:00", &["2028-02-29T00:00:00"]),
        // Months without a 31st are passed over; the last day is one of every month.
        ("0 12 31 * *", "UTC", "2026-01-31T12:00:00", &["2026-03-31T12:00:00", "2026-05-31T12:00:00"]),
        ("0 12 L * *", "UTC", "2026-01-31T12:00:00", &["2026-02-28T12:00:00", "2026-03-31T12:00:00"]),
        // A day of the month and a weekday together mean either, as cron has always had it.
        ("0 0 15 * MON", "UTC", "2026-06-09T00:00:00", &["2026-06-15T00:00:00", "2026-06-22T00:00:00"]),
        ("0 0 13 * MON", "UTC", "2026-06-09T00:00:00", &["2026-06-13T00:00:00", "2026-06-15T00:00:00"]),
        ("@daily", "UTC", "2026-03-01T00:00:00", &["2026-03-02T00:00:00"]),
        ("@monthly", "UTC", "2026-03-01T00:00:00", &["2026-04-01T00:00:00"]),
        ("@yearly", "UTC", "2026-03-01T00:00:00", &["2027-01-01T00:00:00"]),
        // Berlin is one hour ahead in winter and two in summer.
        ("0 9 * * *", "Europe/Berlin", "2026-03-28T00:00:00", &["2026-03-28T08:00:00", "2026-03-29T07:00:00"]),
        // On 2026-03-29 there is no 02:30 there: it comes when the clock goes on, and once.
        ("30 2 * * *", "Europe/Berlin", "2026-03-28T12:00:00", &["2026-03-29T01:00:00", "2026-03-30T00:30:00"]),
        // On 2026-10-25 it is 02:30 twice: it comes once.
        ("30 2 * * *", "Europe/Berlin", "2026-10-24T12:00:00", &["2026-10-25T00:30:00", "2026-10-26T01:30:00"]),
        // What comes every hour comes every hour that there is.
        (
            "0 * * * *",
            "Europe/Berlin",
            "2026-03-28T23:30:00",
            &["2026-03-29T00:00:00", "2026-03-29T01:00:00", "2026-03-29T02:00:00"],
        ),
        (
            "0 * * * *",
            "Europe/Berlin",
            "2026-10-24T23:30:00",
            &["2026-10-25T00:00:00", "2026-10-25T01:00:00", "2026-10-25T02:00:00"],
        ),
    ] {
        let timetable = Timetable::read(cron, zone).unwrap();
        let mut now = at(now);
        for expected in times {
            let next = timetable.next_after(now).unwrap();
            assert_eq!(next, at(expected), "{cron} {zone} after {now:?}");
            assert_eq!(timetable.last_until(next), Some(next), "{cron} {zone}: it has come when it comes");
            now = next;
        }
    }
}

#[test]
fn what_is_no_timetable() {
    for (cron, zone) in [
        ("", "UTC"),
        ("* * * *", "UTC"),
        ("0 * * * * *", "UTC"),
        ("0 0 1 1 * 2027", "UTC"),
        ("60 * * * *", "UTC"),
        ("every day", "UTC"),
    ] {
        assert!(matches!(Timetable::read(cron, zone), Err(TimetableError::Cron { .. })), "{cron:?}");
    }
    for zone in ["", "Berlin", "+01:00", "Europe/Nowhere"] {
        assert_eq!(Timetable::read("* * * * *", zone).unwrap_err(), TimetableError::Zone, "{zone}");
    }
    let never = Timetable::read("0 0 30 2 *", "UTC");
    assert!(never.is_err() || never.unwrap().next_after(at("2026-01-01T00:00:00")).is_none());
}

#[test]
fn what_was_missed_fires_once() {
    let hourly = Timetable::read("0 * * * *", "UTC").unwrap();
    let due = at("2026-03-02T09:00:00");
    for (now, fires) in [
        ("2026-03-02T08:59:59", None),
        ("2026-03-02T09:00:00", Some(("2026-03-02T09:00:00", "2026-03-02T10:00:00"))),
        ("2026-03-02T09:59:59", Some(("2026-03-02T09:00:00", "2026-03-02T10:00:00"))),
        ("2026-03-02T10:00:00", Some(("2026-03-02T10:00:00", "2026-03-02T11:00:00"))),
        // A sweeper that was away for a night.
        ("2026-03-03T06:30:00", Some(("2026-03-03T06:00:00", "2026-03-03T07:00:00"))),
    ] {
        let wanted = fires.map(|(time, next)| Firing { time: at(time), next: Some(at(next)) });
        assert_eq!(decide(&hourly, due, at(now)), wanted, "{now}");
    }
    // One whose times have ended, or were moved by a new database of zones, still fires for the one it waited for.
    let yearly = Timetable::read("0 0 1 1 *", "UTC").unwrap();
    let firing = decide(&yearly, due, at("2026-03-02T09:00:30")).unwrap();
    assert_eq!((firing.time, firing.next), (due, Some(at("2027-01-01T00:00:00"))));
}

/// What keeps a crash from submitting twice.
#[test]
fn a_time_of_a_schedule_has_one_job() {
    let (acme, other): (TenantId, TenantId) = ("acme".parse().unwrap(), "other".parse().unwrap());
    let nightly = "nightly".parse().unwrap();
    let time = at("2026-03-02T09:00:00");
    let job = JobId::of_schedule(&acme, &nightly, time);
    assert_eq!(job, JobId::of_schedule(&acme, &nightly, time));
    for different in [
        JobId::of_schedule(&other, &nightly, time),
        JobId::of_schedule(&acme, &"nightly2".parse().unwrap(), time),
        JobId::of_schedule(&acme, &nightly, at("2026-03-02T09:01:00")),
        JobId::of_key(&acme, "nightly"),
    ] {
        assert_ne!(job, different);
    }
}
