//! Everything that is wrong with one part of a definition.
//!
//! Reading a value stops at its first fault. So each fault that was found is put right in a copy, with anything that is
//! read there, and the copy is read again: a person mends the whole part at once.

use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};
use serde_path_to_error::Segment;

use crate::document::below;
use crate::limits;

/// What is wrong with a value: each fault with its place in the value, as a JSON pointer.
pub(super) fn faults_of<T: DeserializeOwned>(value: &Value) -> Vec<(String, String)> {
    let (mut value, mut found) = (value.clone(), Vec::new());
    while let Some(fault) = first_fault::<T>(&value) {
        let mended = mended::<T>(&value, &fault);
        found.push((fault.at, fault.message));
        match mended {
            Some(mended) if found.len() < limits::FINDINGS_MAX => value = mended,
            Some(_) | None => break,
        }
    }
    found
}

/// The first thing that keeps a value from being read.
struct Fault {
    at: String,
    message: String,
}

impl Fault {
    /// Whether it is about what is at a place, or in it.
    fn is_at(&self, at: &str) -> bool {
        self.at.strip_prefix(at).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    }

    /// What the message has between the first strokes behind these words.
    fn named(&self, words: &str) -> Option<&str> {
        self.message.strip_prefix(words)?.strip_prefix('`')?.split('`').next()
    }
}

fn first_fault<T: DeserializeOwned>(value: &Value) -> Option<Fault> {
    let error = serde_path_to_error::deserialize::<_, T>(value).err()?;
    let at = error.path().iter().fold(String::new(), |at, segment| match segment {
        Segment::Seq { index } => format!("{at}/{index}"),
        Segment::Map { key } => below(&at, key),
        Segment::Enum { .. } | Segment::Unknown => at,
    });
    Some(Fault { at, message: error.inner().to_string() })
}

/// The value without a fault; none when nothing that could be there is known, so that what follows it stays unseen.
fn mended<T: DeserializeOwned>(value: &Value, fault: &Fault) -> Option<Value> {
    if let Some(unknown) = fault.named("unknown field ") {
        // The place is that of the field, or of what it is in.
        let holder = fault.at.strip_suffix(&below("", unknown)).unwrap_or(&fault.at);
        let mut other = value.clone();
        object_at(&mut other, holder)?.remove(unknown)?;
        return Some(other);
    }
    let place = match fault.named("missing field ") {
        Some(missing) => below(&fault.at, missing),
        // Nothing of it can be read: what might be wrong within is not there to be seen.
        None if fault.at.is_empty() => return None,
        None => fault.at.clone(),
    };
    let (holder, name) = place.rsplit_once('/')?;
    let is_same = |next: &Fault| next.is_at(&place) || (next.at == fault.at && next.message == fault.message);
    let without_it = |next: Option<Fault>| !next.is_some_and(|next| is_same(&next));
    let replaced = candidates(value, holder, fault).into_iter().find_map(|something| {
        let mut other = value.clone();
        match other.pointer_mut(&place) {
            Some(there) => *there = something,
            None => {
                object_at(&mut other, holder)?.insert(unescaped(name), something);
            }
        }
        without_it(first_fault::<T>(&other)).then_some(other)
    });
    replaced.or_else(|| {
        let mut other = value.clone();
        object_at(&mut other, holder)?.remove(&unescaped(name))?;
        without_it(first_fault::<T>(&other)).then_some(other)
    })
}

/// What might stand in the place of what cannot be read: the words that the fault asks for, what stands beside it in a list,
/// and anything.
fn candidates(value: &Value, holder: &str, fault: &Fault) -> Vec<Value> {
    let words = fault.message.split_once(", expected ").map_or("", |(_, words)| words);
    let words = words.split('`').skip(1).step_by(2).map(|word| json!(word));
    let beside = value.pointer(holder).and_then(Value::as_array).into_iter().flatten().cloned();
    let anything = [json!("x"), json!(1), json!([]), json!({}), json!(true), Value::Null];
    words.chain(beside).chain(anything).collect()
}

/// A part of a JSON pointer as the name that it stands for.
fn unescaped(name: &str) -> String {
    name.replace("~1", "/").replace("~0", "~")
}

fn object_at<'a>(value: &'a mut Value, at: &str) -> Option<&'a mut Map<String, Value>> {
    value.pointer_mut(at)?.as_object_mut()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
    use std::collections::BTreeMap;

    use serde::Deserialize;

    use super::*;

    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    #[allow(dead_code, reason = "it is only read")]
    struct Part {
        name: String,
        number: u64,
        #[serde(default)]
        kind: Option<Kind>,
        #[serde(default)]
        inner: Vec<Inner>,
        #[serde(default)]
        map: BTreeMap<String, bool>,
    }

    #[derive(Deserialize)]
    #[serde(rename_all = "snake_case")]
    enum Kind {
        One,
    }

    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    #[allow(dead_code, reason = "it is only read")]
    struct Inner {
        flag: bool,
    }

    #[test]
    fn all_of_a_part_is_said_at_once_and_nothing_that_follows_from_the_mending() {
        for (value, places) in [
            (json!({"name": "a", "number": 1}), &[][..]),
            (json!({"name": 1, "number": "x", "more": 2}), &["/name", "/number", "/more"]),
            (json!({"nmae": "a", "number": -1}), &["/nmae", "/number", ""]),
            (json!({}), &["", ""]),
            (
                json!({"name": "a", "number": 1, "kind": "two", "inner": [{"flag": 1}, {}, 3, {"flag": true, "x/y": 1}]}),
                &["/inner/0/flag", "/inner/1", "/inner/2", "/inner/3/x~1y", "/kind"],
            ),
            (json!({"name": "a", "number": 1, "map": {"a/b": 1, "c": 2}}), &["/map/a~1b", "/map/c"]),
            (json!(5), &[""]),
            (json!(null), &[""]),
        ] {
            let mut found: Vec<String> = faults_of::<Part>(&value).into_iter().map(|(at, _)| at).collect();
            let mut places: Vec<String> = places.iter().map(|place| (*place).to_owned()).collect();
            found.sort();
            places.sort();
            assert_eq!(found, places, "{value}: {:?}", faults_of::<Part>(&value));
        }
    }
}
