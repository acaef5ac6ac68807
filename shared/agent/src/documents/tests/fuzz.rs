//! Files cut short and bytes turned over: whatever comes out, it is an outcome and no panic of the caller's.

use super::pdfs::sample;
use crate::documents::{DocumentId, Media, read_bytes};

/// The same sequence in each run, so that a failure can be repeated.
fn scattered(seed: usize, below: usize) -> usize {
    seed.wrapping_mul(2_654_435_761).rotate_left(13) % below
}

#[test]
fn damaged_pdfs_never_take_the_caller_down() {
    let whole = sample(&[&["Queues absorb what workers cannot take yet."], &["A second page."]]).bytes();
    let mut outcomes = [0, 0];
    for round in 0..60 {
        let mut bytes = whole.clone();
        if round % 2 == 0 {
            bytes.truncate(scattered(round, whole.len()));
        } else {
            for turn in 0..8 {
                let at = scattered(round * 8 + turn, whole.len());
                bytes[at] ^= 1 << (turn % 8);
            }
        }
        match read_bytes(DocumentId::new("damaged.pdf"), Media::Pdf, bytes) {
            Ok(document) => {
                assert!(!document.text().is_empty());
                outcomes[0] += 1;
            }
            Err(_) => outcomes[1] += 1,
        }
    }
    assert!(outcomes.iter().all(|count| *count > 0), "the damage is either trivial or total: {outcomes:?}");
}
