//! Whatever a model server sends, in whatever pieces: the same events, or the same fault. Never a panic.
//!
//! `PROPTEST_CASES=100000 cargo test -p longhaul-llm --lib fuzz` makes a longer run; what was found once stays in
//! `fuzz.regressions`.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test may panic: that is how it fails"
)]

use std::path::{Path, PathBuf};

use bytes::Bytes;
use futures::stream::{self, StreamExt};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{Index, select};
use proptest::test_runner::FileFailurePersistence;
use serde_json::Value;

use crate::event_stream::Frames;
use crate::sse::Events;
use crate::{ModelErrorKind, RETRY_AFTER_MAX_SECONDS, lenient_json, retry_after};

fn config() -> ProptestConfig {
    let persistence = FileFailurePersistence::Direct("src/fuzz.regressions");
    ProptestConfig { failure_persistence: Some(Box::new(persistence)), ..ProptestConfig::default() }
}

/// The event streams of the fault log.
fn recorded() -> Vec<Vec<u8>> {
    fn collect(folder: &Path, found: &mut Vec<PathBuf>) {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                collect(&path, found);
            } else if path.extension().is_some_and(|extension| extension == "sse") {
                found.push(path);
            }
        }
    }
    let mut files = Vec::new();
    collect(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/faults"), &mut files);
    files.sort();
    assert!(files.len() > 10);
    files.iter().map(|file| std::fs::read(file).unwrap()).collect()
}

/// A body: a recorded one, changed at some places, or lines of the format in any order, or anything.
fn body() -> impl Strategy<Value = Vec<u8>> {
    let pieces = select(vec![
        &b"data:"[..],
        b"data: ",
        b"\n",
        b"\r\n",
        b"\r",
        b"\n\n",
        b":",
        b"event: ",
        b"id:\x00",
        b"retry: 99999999999999999999",
        b"\xef\xbb\xbf",
        b"[DONE]",
        b"{}",
        b"\xf0\x9f",
        b"\x99\x82",
        b"\xff",
        b"\xc3",
        b"x",
        b" ",
        b"{\"choices\":[]}",
    ]);
    let made = vec(pieces.clone(), 0..30).prop_map(|pieces| pieces.concat());
    let changed =
        (select(recorded()), vec((any::<Index>(), any::<Index>(), pieces), 0..4)).prop_map(|(mut body, changes)| {
            for (at, length, piece) in changes {
                let at = at.index(body.len() + 1);
                let end = (at + length.index(8)).min(body.len());
                drop(body.splice(at..end, piece.iter().copied()));
            }
            body
        });
    prop_oneof![4 => changed, 4 => made, 1 => vec(any::<u8>(), 0..200)]
}

/// What a body in these pieces comes to: the data of its events up to a fault, and the fault's kind.
fn events(pieces: Vec<Bytes>) -> (Vec<String>, Option<ModelErrorKind>) {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(async {
        let mut events = Events::new(stream::iter(pieces.into_iter().map(Ok)).boxed());
        let mut data = Vec::new();
        while let Some(event) = events.next().await {
            match event {
                Ok(text) => data.push(text),
                Err(error) => return (data, Some(error.kind().clone())),
            }
        }
        (data, None)
    })
}

/// A body cut at these places; empty pieces too.
fn cut(body: &[u8], places: &[Index]) -> Vec<Bytes> {
    let mut places: Vec<usize> = places.iter().map(|place| place.index(body.len() + 1)).collect();
    places.sort_unstable();
    let ends = places.iter().copied().chain([body.len()]);
    let starts = std::iter::once(0).chain(places.iter().copied());
    starts.zip(ends).map(|(start, end)| Bytes::copy_from_slice(&body[start..end])).collect()
}

proptest! {
    #![proptest_config(config())]

    /// The borders of chunks carry no meaning.
    #[test]
    fn any_pieces_are_the_same_events(body in body(), places in vec(any::<Index>(), 0..12)) {
        let whole = events(vec![Bytes::copy_from_slice(&body)]);
        prop_assert_eq!(&events(cut(&body, &places)), &whole);
        let bytes = body.iter().map(|byte| Bytes::copy_from_slice(&[*byte])).collect();
        prop_assert_eq!(&events(bytes), &whole);
    }

    /// What a strict reader takes is read the same; what it refuses is refused, but for halves of surrogate pairs.
    #[test]
    fn lenient_is_strict_where_nothing_is_broken(text in prop_oneof![
        any::<String>(),
        "[\\[\\]{}\",:\\\\ud8cf0-9eE.+-]{0,24}",
        vec(select(vec!["\"", "\\", "\\\\", "\\u", "\\ud83d", "\\ude42", "\\uD800", "\\u00fc", "a", "é", "🙂", "{", "}", ":", "1", "\\n"]), 0..14)
            .prop_map(|parts| parts.concat()),
    ]) {
        let strict = serde_json::from_str::<Value>(&text);
        let lenient = lenient_json(&text);
        match strict {
            Ok(value) => prop_assert_eq!(lenient.unwrap(), value),
            Err(_) => if let Ok(value) = lenient {
                prop_assert!(value.to_string().contains('\u{fffd}'), "{text} was taken as {value}");
            },
        }
    }

    /// A text that holds any UTF-16 is read, each half of a pair as one replacement character, all else as it is.
    #[test]
    fn halves_of_pairs_are_replaced_one_by_one(units in vec(prop_oneof![any::<u16>(), 0xd800_u16..0xe000, 0x20_u16..0x7f], 0..20)) {
        let escaped: String = units.iter().map(|unit| format!("\\u{unit:04x}")).collect();
        let expected = String::from_utf16_lossy(&units);
        prop_assert_eq!(lenient_json(&format!("\"{escaped}\"")).unwrap(), Value::from(expected.clone()));
        let object = lenient_json(&format!("{{\"k\":[\"{escaped}\"]}}")).unwrap();
        prop_assert_eq!(&object["k"][0], &Value::from(expected));
    }

    /// Binary frames as well: the pieces that they come in carry no meaning.
    #[test]
    fn any_pieces_are_the_same_frames(
        which in 0_usize..2, changes in vec((any::<Index>(), any::<u8>()), 0..3), keep in any::<Index>(), whole in any::<bool>(),
        places in vec(any::<Index>(), 0..12),
    ) {
        let recorded = [
            &include_bytes!("../tests/faults/A24/throttle_mid_stream.bin")[..],
            &include_bytes!("../tests/faults/A24/unknown_then_stop.bin")[..],
        ];
        let mut body = recorded[which].to_vec();
        for (at, byte) in changes {
            let at = at.index(body.len());
            body[at] = byte;
        }
        if !whole {
            body.truncate(keep.index(body.len() + 1));
        }
        let all = frames(vec![Bytes::copy_from_slice(&body)]);
        prop_assert_eq!(frames(cut(&body, &places)), all);
    }

    /// Whatever a server writes into its headers, the wait is one that can be waited for.
    #[test]
    fn a_wait_is_bounded(text in prop_oneof!["[ -~]{0,30}", "[0-9.]{1,40}", "[A-Z][a-z]{2}, [0-9]{2} [A-Z][a-z]{2} [0-9]{4} [0-9:]{8} GMT"]) {
        let Ok(value) = reqwest::header::HeaderValue::from_str(&text) else { return Ok(()) };
        for name in ["retry-after", "retry-after-ms"] {
            let headers = [(reqwest::header::HeaderName::from_static(name), value.clone())].into_iter().collect();
            if let Some(wait) = retry_after(&headers, std::time::SystemTime::now()) {
                prop_assert!(wait.as_secs() <= RETRY_AFTER_MAX_SECONDS);
            }
        }
    }
}

/// What a body of binary frames comes to, in these pieces.
fn frames(pieces: Vec<Bytes>) -> Vec<String> {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(async {
        let mut frames = Frames::new(stream::iter(pieces.into_iter().map(Ok)).boxed());
        let mut seen = Vec::new();
        while let Some(frame) = frames.next().await {
            match frame {
                Ok(frame) => seen.push(format!("{frame:?}")),
                Err(error) => {
                    seen.push(format!("{:?}", error.kind()));
                    break;
                }
            }
        }
        seen
    })
}
