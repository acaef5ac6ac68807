//! Takes out of an opened PDF what holds no text and could break a reader that trusts its input.
//!
//! - Pictures: `pdf-extract` would inflate each and parse its bytes as drawing commands.
//! - Forms (drawings within drawings) that contain themselves, or nest absurdly: it recurses into them, and a stack
//!   overflow ends the process, which no guard can catch.
//! - Streams that inflate beyond the limit: the file is refused.
//! - Pages whose chain of parents is a circle: likewise.

use std::collections::{BTreeMap, BTreeSet};

use lopdf::{DecompressError, Dictionary, Document, Error, Object, ObjectId, Stream};

use super::super::SkipReason;
use super::super::limits::{PDF_NESTING_MAX, PDF_STREAM_INFLATED_MAX_BYTES};

/// Deflate, the filter in general use, cannot inflate by more than this factor; only a stream that could pass the
/// limit is inflated to see.
const DEFLATE_RATIO_MAX: usize = 1_032;

/// Cleans the document in place, or says why it must not be read.
pub(super) fn clean(document: &mut Document) -> Result<(), SkipReason> {
    empty_where(document, |stream| is_subtype(stream, b"Image"));
    if document.objects.values().filter_map(|object| object.as_stream().ok()).any(inflates_too_far) {
        return Err(SkipReason::Inflates);
    }
    check_parents(document)?;
    let nesting = too_deep(document);
    for id in nesting {
        if let Ok(stream) = document.get_object_mut(id).and_then(Object::as_stream_mut) {
            empty(stream);
        }
    }
    Ok(())
}

fn is_subtype(stream: &Stream, name: &[u8]) -> bool {
    stream.dict.get(b"Subtype").and_then(Object::as_name).is_ok_and(|found| found == name)
}

fn empty_where(document: &mut Document, condition: impl Fn(&Stream) -> bool) {
    for stream in document.objects.values_mut().filter_map(|object| object.as_stream_mut().ok()) {
        if condition(stream) {
            empty(stream);
        }
    }
}

fn empty(stream: &mut Stream) {
    stream.dict.remove(b"Filter");
    stream.dict.remove(b"DecodeParms");
    stream.set_content(Vec::new());
}

fn inflates_too_far(stream: &Stream) -> bool {
    let limit = PDF_STREAM_INFLATED_MAX_BYTES;
    let single_deflate = stream.filters().is_ok_and(|filters| matches!(filters.as_slice(), [b"FlateDecode"]));
    let cannot = stream.filters().is_err() || (single_deflate && stream.content.len() < limit / DEFLATE_RATIO_MAX);
    !cannot
        && matches!(
            stream.decompressed_content_with_limit(limit),
            Err(Error::Decompress(
                DecompressError::MemoryLimitExceeded { .. } | DecompressError::TooManyFilters { .. }
            ))
        )
}

/// Pages inherit from their parents; a reader that walks up never ends where the chain is a circle.
fn check_parents(document: &Document) -> Result<(), SkipReason> {
    let top = |id: ObjectId| document.get_dictionary(id).ok()?.get(b"Parent").and_then(Object::as_reference).ok();
    for page in document.page_iter() {
        if std::iter::successors(Some(page), |id| top(*id)).nth(PDF_NESTING_MAX).is_some() {
            return Err(SkipReason::Damaged { detail: "its page tree is a circle".to_owned() });
        }
    }
    Ok(())
}

/// The forms that nest deeper than the limit; one that contains itself nests for ever.
fn too_deep(document: &Document) -> Vec<ObjectId> {
    let forms: BTreeMap<ObjectId, BTreeSet<ObjectId>> = document
        .objects
        .iter()
        .filter_map(|(id, object)| Some((*id, object.as_stream().ok()?)))
        .filter(|(_, stream)| is_subtype(stream, b"Form"))
        .map(|(id, stream)| (id, drawn_by(document, stream)))
        .collect();
    // Peel off the forms that draw nothing, then those that draw only peeled ones, and so on. What is left after so
    // many rounds is too deep or goes in circles.
    let mut left = forms;
    for _ in 0..PDF_NESTING_MAX {
        let remaining: BTreeSet<ObjectId> = left.keys().copied().collect();
        let before = left.len();
        left.retain(|_, drawn| !drawn.is_disjoint(&remaining));
        if left.len() == before {
            break;
        }
    }
    left.into_keys().collect()
}

/// What a form may draw: the objects its resources name. A form without resources draws from those of whoever draws
/// it, possibly itself; it is taken to do so when it draws at all.
fn drawn_by(document: &Document, form: &Stream) -> BTreeSet<ObjectId> {
    match dictionary(document, &form.dict, b"Resources") {
        Some(resources) => dictionary(document, resources, b"XObject")
            .into_iter()
            .flat_map(|drawings| drawings.iter())
            .filter_map(|(_, drawing)| drawing.as_reference().ok())
            .collect(),
        None if draws(form) => document
            .objects
            .iter()
            .filter(|(_, object)| object.as_stream().is_ok_and(|stream| is_subtype(stream, b"Form")))
            .map(|(id, _)| *id)
            .collect(),
        None => BTreeSet::new(),
    }
}

fn draws(form: &Stream) -> bool {
    let content = form.decompressed_content_with_limit(PDF_STREAM_INFLATED_MAX_BYTES);
    content.unwrap_or_else(|_| form.content.clone()).windows(2).any(|operator| operator == b"Do")
}

fn dictionary<'a>(document: &'a Document, within: &'a Dictionary, key: &[u8]) -> Option<&'a Dictionary> {
    document.dereference(within.get(key).ok()?).ok()?.1.as_dict().ok()
}
