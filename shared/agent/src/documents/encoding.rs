//! Bytes of a text file to text: byte order marks, declared HTML charsets, strict UTF-8 otherwise.

use encoding_rs::{Encoding, UTF_8};

use super::SkipReason;

/// HTML declares its charset within this many bytes, by the HTML standard.
const DECLARATION_WITHIN_BYTES: usize = 1024;

/// The text of a Markdown or plain text file: UTF-8, or what its byte order mark says.
pub(super) fn decode_text(bytes: &[u8]) -> Result<String, SkipReason> {
    decode(bytes, UTF_8)
}

/// The text of an HTML file: what its byte order mark says, else its `charset` declaration, else UTF-8.
pub(super) fn decode_html(bytes: &[u8]) -> Result<String, SkipReason> {
    decode(bytes, declared(bytes).unwrap_or(UTF_8))
}

fn decode(bytes: &[u8], otherwise: &'static Encoding) -> Result<String, SkipReason> {
    let (encoding, bom_bytes) = Encoding::for_bom(bytes).unwrap_or((otherwise, 0));
    let body = bytes.get(bom_bytes..).unwrap_or_default();
    let text = encoding
        .decode_without_bom_handling_and_without_replacement(body)
        .ok_or_else(|| SkipReason::Encoding { expected: encoding.name().to_owned() })?;
    if text.contains('\0') {
        return Err(SkipReason::Binary);
    }
    Ok(text.replace("\r\n", "\n").replace('\r', "\n"))
}

/// The encoding named by `<meta charset="…">` or `<meta … content="text/html; charset=…">`.
fn declared(bytes: &[u8]) -> Option<&'static Encoding> {
    let head = bytes.get(..DECLARATION_WITHIN_BYTES.min(bytes.len()))?;
    let head = String::from_utf8_lossy(head).to_ascii_lowercase();
    let (_, after) = head.split_once("charset=")?;
    let label = after.trim_start_matches(['"', '\'', ' ']);
    let label = label.split(['"', '\'', ' ', ';', '>', '/']).next()?;
    Encoding::for_label(label.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_become_the_text_they_were_written_as() {
        let table: &[(&str, &[u8], Result<&str, SkipReason>)] = &[
            ("plain", b"one\r\ntwo\rthree\n", Ok("one\ntwo\nthree\n")),
            ("UTF-8 with a mark", b"\xEF\xBB\xBFcaf\xC3\xA9", Ok("caf\u{e9}")),
            ("UTF-16 little endian", b"\xFF\xFEh\0i\0", Ok("hi")),
            ("UTF-16 big endian", b"\xFE\xFF\0h\0i", Ok("hi")),
            ("Latin bytes, not declared", b"caf\xE9", Err(SkipReason::Encoding { expected: "UTF-8".into() })),
            ("NUL bytes", b"MZ\0\0", Err(SkipReason::Binary)),
        ];
        for (case, bytes, expected) in table {
            assert_eq!(decode_text(bytes), expected.clone().map(str::to_owned), "{case}");
        }
        let html: &[(&str, &[u8], &str)] = &[
            ("meta charset", b"<meta charset=\"iso-8859-1\"><p>caf\xE9", "caf\u{e9}"),
            ("http-equiv", b"<meta content='text/html; charset=windows-1252'>\x93q\x94", "\u{201c}q\u{201d}"),
            ("unknown label falls back", b"<meta charset=klingon>ok", "ok"),
        ];
        for (case, bytes, expected) in html {
            assert!(decode_html(bytes).is_ok_and(|text| text.ends_with(expected)), "{case}");
        }
    }
}
