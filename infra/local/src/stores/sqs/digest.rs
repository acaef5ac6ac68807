//! The MD5 sums by which an SQS client checks that a message arrived as it was sent.
//!
//! MD5 is the protocol's choice; nothing here relies on it for security.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use md5::{Digest as _, Md5};

use super::message::{AttributeValue, MessageAttribute};

/// How SQS marks the kind of a value inside the sum.
const TEXT_MARK: u8 = 1;
const BINARY_MARK: u8 = 2;

/// The sum of a message body.
pub(super) fn of_body(body: &str) -> String {
    hexadecimal(&Md5::digest(body.as_bytes()))
}

/// The sum of message attributes: names in order, each part led by its length. `None` when there are none.
pub(super) fn of_attributes(attributes: &BTreeMap<String, MessageAttribute>) -> Option<String> {
    if attributes.is_empty() {
        return None;
    }
    let mut sum = Md5::new();
    for (name, attribute) in attributes {
        add(&mut sum, name.as_bytes());
        add(&mut sum, attribute.data_type.as_bytes());
        match &attribute.value {
            AttributeValue::Text(text) => {
                sum.update([TEXT_MARK]);
                add(&mut sum, text.as_bytes());
            }
            AttributeValue::Binary(bytes) => {
                sum.update([BINARY_MARK]);
                add(&mut sum, bytes);
            }
        }
    }
    Some(hexadecimal(&sum.finalize()))
}

fn add(sum: &mut Md5, part: &[u8]) {
    // A message is at most one mebibyte, so the length always fits; the fallback cannot be reached.
    sum.update(u32::try_from(part.len()).unwrap_or(u32::MAX).to_be_bytes());
    sum.update(part);
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        // Writing to a String cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_are_those_of_sqs() {
        // The sum of a body is plain MD5 (test suite of RFC 1321).
        assert_eq!(of_body("message digest"), "f96b697d7cb7938d525a2f31aaf161d0");
        assert_eq!(of_attributes(&BTreeMap::new()), None);
        // Worked out by hand with `printf … | md5sum` from the layout that AWS documents.
        let number = MessageAttribute { data_type: "Number".to_owned(), value: AttributeValue::Text("230".to_owned()) };
        let sum = of_attributes(&BTreeMap::from([("timestamp".to_owned(), number)]));
        assert_eq!(sum.as_deref(), Some("10f1c607adfa5aed2e4bc1fa60f3374c"));
    }
}
