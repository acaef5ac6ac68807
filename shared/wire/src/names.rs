//! JSON in which no object names a field twice.
//!
//! What a doubled name means is left open by RFC 8259 (section 4), and readers disagree: one keeps the first value,
//! another the last. Whoever stands before us (a proxy, a policy, a log) may so have looked at another value than the one
//! that we would act on. Such a body is refused, wherever in it the name stands; our own types do that for their own
//! fields alone.

use std::borrow::Cow;
use std::collections::HashSet;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, de};

/// Reads `body` up to the end of its first value and keeps nothing.
///
/// # Errors
/// The reader's, with the path: a doubled name, or whatever keeps the body from being JSON.
pub(crate) fn check(body: &[u8]) -> Result<(), serde_path_to_error::Error<serde_json::Error>> {
    let mut reader = serde_json::Deserializer::from_slice(body);
    serde_path_to_error::deserialize::<_, Checked>(&mut reader).map(|Checked| ())
}

/// A value whose names were looked at.
struct Checked;

impl<'de> Deserialize<'de> for Checked {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Look)
    }
}

struct Look;

impl<'de> Visitor<'de> for Look {
    type Value = Checked;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E: Error>(self) -> Result<Checked, E> {
        Ok(Checked)
    }

    fn visit_bool<E: Error>(self, _: bool) -> Result<Checked, E> {
        Ok(Checked)
    }

    fn visit_i64<E: Error>(self, _: i64) -> Result<Checked, E> {
        Ok(Checked)
    }

    fn visit_u64<E: Error>(self, _: u64) -> Result<Checked, E> {
        Ok(Checked)
    }

    fn visit_f64<E: Error>(self, _: f64) -> Result<Checked, E> {
        Ok(Checked)
    }

    fn visit_str<E: Error>(self, _: &str) -> Result<Checked, E> {
        Ok(Checked)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Checked, A::Error> {
        while let Some(Checked) = list.next_element()? {}
        Ok(Checked)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut object: A) -> Result<Checked, A::Error> {
        let mut names = HashSet::new();
        while let Some(Name(name)) = object.next_key()? {
            if names.insert(name) {
                let Checked = object.next_value()?;
            } else {
                // Raised where the value stands, so that the error's path names the field.
                object.next_value_seed(Doubled)?;
            }
        }
        Ok(Checked)
    }
}

/// A name, borrowed where it has no escapes.
#[derive(PartialEq, Eq, Hash)]
struct Name<'de>(Cow<'de, str>);

impl<'de> Deserialize<'de> for Name<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Text;
        impl<'de> Visitor<'de> for Text {
            type Value = Name<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a name")
            }

            fn visit_borrowed_str<E: Error>(self, name: &'de str) -> Result<Name<'de>, E> {
                Ok(Name(Cow::Borrowed(name)))
            }

            fn visit_str<E: Error>(self, name: &str) -> Result<Name<'de>, E> {
                Ok(Name(Cow::Owned(name.to_owned())))
            }
        }
        deserializer.deserialize_str(Text)
    }
}

/// The value behind a doubled name: it is not read.
struct Doubled;

impl<'de> DeserializeSeed<'de> for Doubled {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, _: D) -> Result<(), D::Error> {
        Err(de::Error::custom("is named twice; send it once"))
    }
}
