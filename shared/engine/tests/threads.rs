//! Whose turn it is in a thread, and what a submission meets there.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

use longhaul_engine::ids::Nonce;
use longhaul_engine::job::Order;
use longhaul_engine::thread::{Front, Joining, Line, LineWrite, OnBusy, Place, Thread, Turn, join, leave, turn};
use longhaul_engine::{JobId, Timestamp, limits};
use serde_json::json;
use uuid::Uuid;

const NOW: Timestamp = Timestamp::from_millis(1);

fn nonce(number: u128) -> Nonce {
    Nonce::from_uuid(Uuid::from_u128(number))
}

fn job(number: u128) -> JobId {
    JobId::from_uuid(Uuid::from_u128(number))
}

fn place((number, replays): (u128, u32)) -> Place {
    Place { job: job(number), replays }
}

fn line(places: &[(u128, u32)]) -> Line {
    Line { places: places.iter().copied().map(place).collect(), mark: Some(nonce(7)) }
}

fn write(places: &[(u128, u32)]) -> LineWrite {
    LineWrite { nonce: nonce(8), at: NOW, mark: Some(nonce(7)), places: line(places).places }
}

#[test]
fn a_submission_takes_the_last_place_or_is_refused() {
    use OnBusy::{Enqueue, Interrupt, Reject};
    let joined = |places: &[(u128, u32)]| Joining::Join(write(places));
    for (places, on_busy, busy, expected) in [
        (&[][..], Enqueue, None, joined(&[(3, 0)])),
        (&[], Reject, None, joined(&[(3, 0)])),
        (&[(1, 0), (2, 1)], Enqueue, None, joined(&[(1, 0), (2, 1), (3, 0)])),
        (&[(1, 0)], Interrupt, None, joined(&[(1, 0), (3, 0)])),
        (&[(1, 0), (2, 0)], Reject, Some(job(2)), Joining::Busy { by: job(2) }),
        // What is over and was not taken out is in nobody's way.
        (&[(1, 0)], Reject, None, joined(&[(1, 0), (3, 0)])),
    ] {
        assert_eq!(join(&line(places), job(3), on_busy, busy, nonce(8), NOW), expected, "{places:?} {on_busy:?}");
    }
    let full: Vec<(u128, u32)> = (10..).take(limits::THREAD_PLACES_MAX).map(|number| (number, 0)).collect();
    for on_busy in [Enqueue, Reject] {
        assert_eq!(join(&line(&full), job(3), on_busy, None, nonce(8), NOW), Joining::Full);
    }
    // What clears the thread has room, up to a bound of its own.
    assert!(matches!(join(&line(&full), job(3), Interrupt, None, nonce(8), NOW), Joining::Join(_)));
    let most = limits::THREAD_PLACES_MAX + limits::THREAD_PLACES_INTERRUPT;
    let fuller: Vec<(u128, u32)> = (10..).take(most).map(|number| (number, 0)).collect();
    assert!(matches!(join(&line(&fuller[1..]), job(3), Interrupt, None, nonce(8), NOW), Joining::Join(_)));
    assert_eq!(join(&line(&fuller), job(3), Interrupt, None, nonce(8), NOW), Joining::Full);
    assert!(matches!(join(&line(&full[1..]), job(3), Enqueue, None, nonce(8), NOW), Joining::Join(_)));
    let first = join(&Line::default(), job(3), Enqueue, None, nonce(8), NOW);
    assert_eq!(first, Joining::Join(LineWrite { mark: None, ..write(&[(3, 0)]) }), "where no line is stored");
}

#[test]
fn a_job_has_its_turn_in_front_and_nowhere_else() {
    use Front::{Going, Over, Unknown};
    let wrote = |places: &[(u128, u32)]| Turn::Write(write(places));
    // The line, who asks, what it knows of the front, what it does.
    for (places, own, front, expected) in [
        (&[(1, 0)][..], (1, 0), Unknown, Turn::Now),
        (&[(1, 0), (2, 0)], (1, 0), Unknown, Turn::Now),
        (&[(1, 0), (2, 0)], (2, 0), Unknown, Turn::LookAt(place((1, 0)))),
        (&[(1, 0), (2, 0)], (2, 0), Going, Turn::Wait),
        (&[(1, 0), (2, 0)], (2, 0), Over, wrote(&[(2, 0)])),
        (&[(1, 0), (2, 0), (3, 0)], (3, 0), Over, wrote(&[(2, 0), (3, 0)])),
        // A place is taken where there is none: after a replay, at the end and not in the old place.
        (&[], (1, 1), Going, wrote(&[(1, 1)])),
        (&[(2, 0)], (1, 1), Going, wrote(&[(2, 0), (1, 1)])),
        (&[(1, 0), (2, 0)], (1, 1), Going, wrote(&[(2, 0), (1, 1)])),
        // But not by one whose turn is over, as whoever asks does not know yet: its own journal is looked at first.
        (&[], (1, 0), Unknown, Turn::LookAt(place((1, 0)))),
        (&[(2, 0)], (1, 1), Unknown, Turn::LookAt(place((1, 1)))),
        (&[(2, 0)], (1, 1), Over, Turn::Now),
        (&[(1, 0), (2, 0), (1, 1)], (1, 1), Unknown, wrote(&[(2, 0), (1, 1)])),
        (&[(2, 0), (1, 1)], (1, 1), Going, Turn::Wait),
        // Who asks from an old journal gets nothing, and takes no place again.
        (&[(1, 2)], (1, 1), Unknown, Turn::Wait),
        (&[(1, 2), (2, 0)], (1, 0), Unknown, Turn::Wait),
    ] {
        assert_eq!(turn(&line(places), place(own), front, nonce(8), NOW), expected, "{places:?} {own:?} {front:?}");
    }
}

#[test]
fn an_end_takes_out_its_own_places_and_no_later_one() {
    for (places, own, expected) in [
        (&[(1, 0)][..], (1, 0), Some(&[][..])),
        (&[(1, 0), (2, 0)], (1, 0), Some(&[(2, 0)])),
        // One that was cancelled while it waited.
        (&[(1, 0), (2, 0), (3, 0)], (2, 0), Some(&[(1, 0), (3, 0)])),
        (&[(2, 0), (1, 0)], (1, 1), Some(&[(2, 0)])),
        // Somebody settles an end late, and the job has been opened again since.
        (&[(2, 0), (1, 1)], (1, 0), None),
        (&[(2, 0)], (1, 0), None),
        (&[], (1, 0), None),
    ] {
        let left = leave(&line(places), place(own), nonce(8), NOW);
        assert_eq!(left, expected.map(write), "{places:?} {own:?}");
    }
}

#[test]
fn that_a_turn_is_over_never_turns_untrue() {
    // The place's replays; then the job's life, as its journal shows it in order: replays and whether it has ended.
    let life = [(0, false), (0, true), (1, false), (1, true), (2, false)];
    for (replays, over) in [
        (0, [false, true, true, true, true]),
        (1, [false, false, false, true, true]),
        (2, [false, false, false, false, false]),
    ] {
        assert_eq!(life.map(|(of_job, ended)| place((1, replays)).is_over(of_job, ended)), over, "{replays}");
    }
}

#[test]
fn who_stands_in_front() {
    let line = line(&[(1, 0), (2, 1), (3, 0)]);
    for (of, ahead) in [(1, &[][..]), (2, &[1]), (3, &[1, 2]), (4, &[])] {
        let expected: Vec<JobId> = ahead.iter().map(|number| job(*number)).collect();
        assert_eq!(line.ahead_of(job(of)), expected, "{of}");
    }
}

/// A job of a thread is left alone by programs that know no threads; all others look as they did.
#[test]
fn a_thread_shows_in_the_order_and_its_version() {
    let plain = json!({
        "tenant": "acme", "id": job(1), "agent": {"name": "a", "version": 1}, "input": null,
        "submitted_at": 0, "submitted_by": "ada",
    });
    let order: Order = serde_json::from_value(plain.clone()).unwrap();
    assert_eq!((order.version(), order.thread.is_none()), (limits::PROTOCOL_VERSION_PLAIN, true));
    assert!(serde_json::to_value(&order).unwrap().get("thread").is_none());
    for (on_busy, shape) in [
        (OnBusy::Enqueue, json!({"id": "c:17"})),
        (OnBusy::Reject, json!({"id": "c:17", "on_busy": "reject"})),
        (OnBusy::Interrupt, json!({"id": "c:17", "on_busy": "interrupt"})),
    ] {
        let threaded = Order { thread: Some(Thread { id: "c:17".parse().unwrap(), on_busy }), ..order.clone() };
        assert_eq!((threaded.version(), limits::PROTOCOL_VERSION_THREADS), (3, 3));
        assert_eq!(serde_json::to_value(&threaded).unwrap()["thread"], shape);
        assert!(!threaded.asks_the_same(&order), "the thread is part of what was asked");
    }
}
