//! Recorded journals: what the agents wrote once, replayed by today's code.
//!
//! An agent whose steps are changed carelessly would block every job that runs on its version, or make them pay twice. So
//! for each agent, version and version of the protocol there are two journals in `journals/`, and today's code must come
//! from each to the recorded end without running anything.
//!
//! When this test fails because an agent was changed: register the change as a new version, beside the old one, and record
//! it with `LONGHAUL_RECORD=1 cargo test -p longhaul-simulation --test journals`. That writes what is missing and never
//! what is there. The journal of a version is removed only when no worker drives that version any more.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

use std::fs;

use longhaul::engine::{AgentRef, Entry, Journal, limits};
use longhaul_simulation::agents::{Deployed, registry};
use longhaul_simulation::far_end::{FarEnd, Manners};
use longhaul_simulation::journals::{Course, Recording, file, folder, protocol, record, replayed};

fn agents() -> Vec<AgentRef> {
    registry(&FarEnd::new(0, Manners::default()), Deployed::Right).agents().cloned().collect()
}

/// Every recording there is, of all versions of the protocol, by name.
fn recordings() -> Vec<(String, Recording)> {
    let mut found = Vec::new();
    for version in 1..=limits::PROTOCOL_VERSION_PLAIN {
        let files = fs::read_dir(folder(version)).unwrap_or_else(|error| panic!("no journals of {version}: {error}"));
        for file in files {
            let path = file.unwrap().path();
            let name = path.display().to_string();
            let recording = Recording::read(&fs::read_to_string(&path).unwrap());
            found.push((name.clone(), recording.unwrap_or_else(|error| panic!("{name}: {error}"))));
        }
    }
    found.sort_by(|(one, _), (other, _)| one.cmp(other));
    found
}

#[test]
fn every_agent_has_its_recordings() {
    let may_record = std::env::var("LONGHAUL_RECORD").is_ok();
    for agent in agents() {
        for course in Course::ALL {
            let path = folder(protocol()).join(file(&agent, course));
            if path.exists() {
                continue;
            }
            assert!(
                may_record,
                "{} is missing. Record it: LONGHAUL_RECORD=1 cargo test -p longhaul-simulation --test journals",
                path.display()
            );
            let lines = record(&agent, course).lines();
            fs::create_dir_all(folder(protocol())).unwrap();
            // Never over a file that is there, not even one that came since the look.
            let mut file = fs::File::create_new(&path).unwrap();
            std::io::Write::write_all(&mut file, lines.as_bytes()).unwrap();
            println!("recorded {}", path.display());
        }
    }
}

#[test]
fn todays_code_comes_from_every_recording_to_its_end() {
    let known = agents();
    let mut count = 0;
    for (name, recording) in recordings() {
        let journal = Journal::read(recording.batches.clone()).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert!(journal.ending().is_some(), "{name}: it has no end");
        if !known.contains(&recording.order.agent) {
            panic!("{name}: no worker drives {} any more; remove its recordings", recording.order.agent);
        }
        let far_end = FarEnd::new(0, Manners::default());
        let written = replayed(&recording, &far_end, registry(&far_end, Deployed::Right))
            .unwrap_or_else(|error| panic!("{name}: {error}\nA changed agent needs a new version."));
        match written.as_slice() {
            [Entry::Claimed { .. }, end] => assert_eq!(Some(end), recording.ending(), "{name}"),
            other => panic!("{name}: steps ran that the journal holds already, or others: {other:?}"),
        }
        count += 1;
    }
    assert!(count >= 2 * known.len(), "{count} recordings of {} agents", known.len());
}

/// Today's code writes what it reads: nothing of a recording is lost on the way.
#[test]
fn recordings_are_written_as_they_are_read() {
    for (name, recording) in recordings() {
        let path = std::path::Path::new(&name);
        assert_eq!(recording.lines(), fs::read_to_string(path).unwrap(), "{name}");
    }
}

/// What the eventful recordings show together.
#[test]
fn the_recordings_show_what_can_happen() {
    let entries: Vec<Entry> =
        recordings().into_iter().flat_map(|(_, it)| it.batches).flat_map(|batch| batch.entries).collect();
    let has = |like: fn(&Entry) -> bool| entries.iter().any(like);
    assert!(has(|it| matches!(it, Entry::AttemptFailed { .. })), "a retry");
    assert!(has(|it| matches!(it, Entry::Claimed { takeover: true, .. })), "a takeover");
    assert!(has(|it| matches!(it, Entry::Signalled { .. })), "a signal");
    assert!(has(|it| matches!(it, Entry::Replayed { .. })), "a replay");
    assert!(has(|it| matches!(it, Entry::StepStarted { .. })), "an effect that is made at most once");
    assert!(has(|it| matches!(it, Entry::WaitEnded { .. })), "a wait");
    let child = |it: &Entry| match it {
        Entry::Waiting { id, .. } => id.kind == longhaul::engine::StepKind::Child,
        _ => false,
    };
    assert!(has(child), "a child");
}
