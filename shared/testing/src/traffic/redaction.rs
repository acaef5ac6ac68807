//! Secrets, taken out of what is written down.
//!
//! Three nets under each other: what stands in a place that is for secrets (a header, a query's value or a JSON field of
//! such a name, credentials in an address); the same text wherever else it stands; and what has the form of a well-known
//! kind of key. What is none of these is named by the author ([`super::Traffic::without`]).

use std::collections::{BTreeMap, BTreeSet};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::HeaderMap;
use reqwest::Url;
use serde_json::Value;

use super::exchange::Body;

/// What stands in a secret's place.
pub(crate) const REMOVED: &str = "[removed]";

/// Shorter texts are placeholders or common words; taking them out everywhere would garble what is recorded.
const KNOWN_CHARS_MIN: usize = 8;

/// Headers that are written down as they are. All others may be anybody's.
const PLAIN_HEADERS: [&str; 11] = [
    "accept",
    "anthropic-version",
    "content-type",
    "idempotency-key",
    "location",
    "mcp-protocol-version",
    "openai-processing-ms",
    "retry-after",
    "retry-after-ms",
    "user-agent",
    "x-amzn-errortype",
];

/// Names of places for secrets, in lower case and without `-` and `_`.
const SECRET_NAMES: [&str; 29] = [
    "accesskey",
    "accesstoken",
    "apikey",
    "auth",
    "authorization",
    "authtoken",
    "bearertoken",
    "clientsecret",
    "connectionstring",
    "cookie",
    "credential",
    "credentials",
    "idtoken",
    "passphrase",
    "passwd",
    "password",
    "privatekey",
    "refreshtoken",
    "secret",
    "secretaccesskey",
    "secretkey",
    "securitytoken",
    "sessiontoken",
    "setcookie",
    "token",
    "xamzsecuritytoken",
    "xapikey",
    "xamzcredential",
    "xamzsignature",
];

/// Names that are for secrets in an address alone: a body uses them for harmless things, and a vendor's signature must go
/// back as it came.
const SECRET_QUERY_NAMES: [&str; 5] = ["code", "key", "sig", "signature", "state"];

/// How well-known keys begin, and how long they are at least.
const SHAPES: [(&str, usize); 14] = [
    ("sk-", 20),
    ("sk_live_", 20),
    ("sk_test_", 20),
    ("rk_live_", 20),
    ("pk_live_", 20),
    ("AKIA", 20),
    ("ASIA", 20),
    ("AIza", 30),
    ("ghp_", 20),
    ("github_pat_", 20),
    ("glpat-", 20),
    ("xoxb-", 20),
    ("xoxp-", 20),
    ("hf_", 20),
];

/// Whether a name is that of a place for secrets.
fn is_secret(name: &str) -> bool {
    let plain: String = name.chars().filter(|c| !matches!(c, '-' | '_' | '.')).collect();
    SECRET_NAMES.contains(&plain.to_ascii_lowercase().as_str())
}

fn is_secret_in_query(name: &str) -> bool {
    is_secret(name) || SECRET_QUERY_NAMES.contains(&name.to_ascii_lowercase().as_str())
}

/// The secrets that are known so far.
#[derive(Debug, Clone, Default)]
pub(crate) struct Redaction {
    known: BTreeSet<String>,
}

impl Redaction {
    /// Remembers a secret, wherever it may turn up.
    pub(crate) fn learn(&mut self, secret: &str) {
        let secret = secret.trim();
        if secret.chars().count() >= KNOWN_CHARS_MIN && secret != REMOVED {
            self.known.insert(secret.to_owned());
        }
    }

    /// A header's value: the whole, what stands behind `Bearer`, and the password in `Basic`.
    fn learn_header(&mut self, value: &str) {
        self.learn(value);
        let Some((scheme, rest)) = value.split_once(' ') else { return };
        self.learn(rest);
        if scheme.eq_ignore_ascii_case("basic")
            && let Some(pair) = STANDARD.decode(rest.trim()).ok().and_then(|bytes| String::from_utf8(bytes).ok())
            && let Some((_, password)) = pair.split_once(':')
        {
            self.learn(password);
        }
    }

    /// Remembers every secret that stands in a place for secrets.
    pub(crate) fn learn_from(&mut self, url: Option<&Url>, headers: &HeaderMap, body: &Body) {
        for (name, value) in headers {
            let named = is_secret(name.as_str()) || !PLAIN_HEADERS.contains(&name.as_str()) && secretive(name.as_str());
            if let Ok(text) = value.to_str()
                && (value.is_sensitive() || named)
            {
                self.learn_header(text);
            }
        }
        if let Some(url) = url {
            self.learn(url.password().unwrap_or_default());
            for (name, value) in url.query_pairs() {
                if is_secret_in_query(&name) {
                    self.learn(&value);
                }
            }
        }
        match body {
            Body::Json(value) => self.learn_from_json(value),
            Body::Text(text) => {
                for (name, value) in form(text) {
                    if is_secret(&name) {
                        self.learn(&value);
                    }
                }
            }
            Body::Empty | Body::Base64(_) => {}
        }
    }

    fn learn_from_json(&mut self, value: &Value) {
        match value {
            Value::Object(fields) => {
                for (name, value) in fields {
                    match value {
                        Value::String(text) if is_secret(name) => self.learn_header(text),
                        other => self.learn_from_json(other),
                    }
                }
            }
            Value::Array(items) => items.iter().for_each(|item| self.learn_from_json(item)),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }

    /// A text without what is known, and without what looks like a key.
    pub(crate) fn text(&self, text: &str) -> String {
        let mut text = text.to_owned();
        // The longest first: one secret may be a part of another.
        let mut known: Vec<&String> = self.known.iter().collect();
        known.sort_by_key(|secret| std::cmp::Reverse(secret.len()));
        for secret in known {
            for form in [secret.clone(), encoded(secret), escaped(secret), STANDARD.encode(secret)] {
                if text.contains(&form) {
                    text = text.replace(&form, REMOVED);
                }
            }
        }
        without_shapes(&text)
    }

    pub(crate) fn url(&self, url: &Url) -> String {
        let mut url = url.clone();
        // An address that cannot hold credentials has none to lose.
        let _none = url.set_password(None);
        let _none = url.set_username("");
        url.set_fragment(None);
        let pairs: Vec<(String, String)> =
            url.query_pairs().map(|(name, value)| (name.into_owned(), value.into_owned())).collect();
        url.set_query(None);
        let mut text = self.text(url.as_str());
        for (place, (name, value)) in pairs.iter().enumerate() {
            let value = if is_secret_in_query(name) { REMOVED.to_owned() } else { encoded(&self.text(value)) };
            let mark = if place == 0 { '?' } else { '&' };
            text.push_str(&format!("{mark}{}={value}", encoded(name)));
        }
        text
    }

    /// Headers as they are written down: plain ones whole, the names of secret ones, nothing of the others.
    pub(crate) fn headers(&self, headers: &HeaderMap) -> BTreeMap<String, String> {
        let mut kept = BTreeMap::new();
        for (name, value) in headers {
            let Ok(text) = value.to_str() else { continue };
            if PLAIN_HEADERS.contains(&name.as_str()) && !value.is_sensitive() {
                let text = match Url::parse(text) {
                    Ok(url) if name == "location" => self.url(&url),
                    Ok(_) | Err(_) => self.text(text),
                };
                kept.insert(name.to_string(), text);
            } else if value.is_sensitive() || is_secret(name.as_str()) || secretive(name.as_str()) {
                kept.insert(name.to_string(), REMOVED.to_owned());
            }
        }
        kept
    }

    pub(crate) fn body(&self, body: &Body) -> Body {
        match body {
            Body::Empty => Body::Empty,
            Body::Json(value) => Body::Json(self.json(value)),
            Body::Text(text) => Body::Text(self.form_or_text(text)),
            // Bytes are no text: known secrets are looked for in them, and bytes that hold one are not written down.
            Body::Base64(_) => {
                let bytes = body.bytes();
                let holds = |secret: &String| bytes.windows(secret.len()).any(|part| part == secret.as_bytes());
                if self.known.iter().any(holds) { Body::Text(REMOVED.to_owned()) } else { body.clone() }
            }
        }
    }

    fn form_or_text(&self, text: &str) -> String {
        let text = self.text(text);
        let pairs = form(&text);
        if pairs.iter().any(|(name, _)| is_secret(name)) {
            let pairs = text.split('&').map(|pair| match pair.split_once('=') {
                Some((name, _)) if is_secret(name) => format!("{name}={REMOVED}"),
                Some(_) | None => pair.to_owned(),
            });
            return pairs.collect::<Vec<_>>().join("&");
        }
        text
    }

    fn json(&self, value: &Value) -> Value {
        match value {
            Value::String(text) => Value::String(self.text(text)),
            Value::Array(items) => Value::Array(items.iter().map(|item| self.json(item)).collect()),
            Value::Object(fields) => {
                let fields = fields.iter().map(|(name, value)| {
                    let value = match value {
                        Value::String(text) if is_secret(name) && !text.is_empty() => Value::from(REMOVED),
                        other => self.json(other),
                    };
                    (self.text(name), value)
                });
                Value::Object(fields.collect())
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
        }
    }
}

/// Whether a header's name speaks of a secret.
fn secretive(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    ["auth", "cookie", "credential", "key", "password", "secret", "session", "signature", "token"]
        .iter()
        .any(|word| name.contains(word))
        && name != "idempotency-key"
}

/// The pairs of a form; none when the text is none.
fn form(text: &str) -> Vec<(String, String)> {
    if text.contains(['\n', ' ', '{']) || !text.contains('=') {
        return Vec::new();
    }
    let Ok(url) = Url::parse(&format!("http://form/?{text}")) else { return Vec::new() };
    url.query_pairs().map(|(name, value)| (name.into_owned(), value.into_owned())).collect()
}

/// Percent-encoding of everything but the unreserved characters (RFC 3986, section 2.3).
fn encoded(text: &str) -> String {
    text.bytes().fold(String::new(), |mut encoded, byte| {
        if byte.is_ascii_alphanumeric() || b"-._~[]".contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            encoded.push_str(&format!("%{byte:02X}"));
        }
        encoded
    })
}

/// A text as it stands inside of JSON.
fn escaped(text: &str) -> String {
    let quoted = Value::from(text).to_string();
    // One mark at each end, and no more: the text itself may end in one.
    quoted.strip_prefix('"').and_then(|text| text.strip_suffix('"')).unwrap_or(&quoted).to_owned()
}

/// A text without words that have the form of a well-known key, a JSON web token among them.
fn without_shapes(text: &str) -> String {
    let in_word = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    let mut kept = String::with_capacity(text.len());
    let mut rest = text;
    while !rest.is_empty() {
        let end = rest.find(|c: char| !in_word(c)).unwrap_or(rest.len());
        // A full stop behind a word is the sentence's, not the word's.
        let end =
            rest.get(..end).map_or(end, |word| word.trim_end_matches('.').len().max(usize::from(end > 0)).min(end));
        let (word, behind) = rest.split_at_checked(end).unwrap_or((rest, ""));
        let is_key = SHAPES.iter().any(|(begin, chars)| word.starts_with(begin) && word.len() >= *chars);
        let is_token = word.starts_with("eyJ") && word.matches('.').count() == 2 && word.len() > 40;
        kept.push_str(if is_key || is_token { REMOVED } else { word });
        let mut others = behind.chars();
        kept.extend(others.next());
        rest = others.as_str();
    }
    kept
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic, reason = "a panic is how a test fails")]

    use serde_json::json;

    use super::*;

    #[test]
    fn keys_are_known_by_their_form() {
        let rows = [
            ("the key sk-proj-0123456789abcdef, then", "the key [removed], then"),
            ("AKIAIOSFODNN7EXAMPLE", "[removed]"),
            ("\"ghp_0123456789abcdef0123\"", "\"[removed]\""),
            (
                "a.eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.c2ln",
                "a.eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.c2ln",
            ),
            ("eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.c2ln!", "[removed]!"),
            ("It is sk-proj-0123456789abcdef...", "It is [removed]..."),
            ("... . .", "... . ."),
            ("sk-ating is a risk-free sport", "sk-ating is a risk-free sport"),
            ("ü sk-short 天", "ü sk-short 天"),
        ];
        for (text, expected) in rows {
            assert_eq!(without_shapes(text), expected);
        }
    }

    #[test]
    fn a_known_secret_goes_in_every_form() {
        let mut redaction = Redaction::default();
        redaction.learn("p@ss \"word\"");
        redaction.learn("short");
        let text = format!(
            "p@ss \"word\", p%40ss%20%22word%22, p@ss \\\"word\\\", {}, short",
            STANDARD.encode("p@ss \"word\"")
        );
        assert_eq!(redaction.text(&text), "[removed], [removed], [removed], [removed], short");
    }

    #[test]
    fn fields_are_known_by_their_names() {
        let mut redaction = Redaction::default();
        let body = Body::Json(json!({
            "api_key": "canary-one-1", "max_tokens": 5, "prompt_tokens": "many", "key": "ABC-1",
            "nested": [{"Client-Secret": "canary-two-2", "said": "my secret is canary-two-2"}],
        }));
        redaction.learn_from(None, &HeaderMap::new(), &body);
        let expected = json!({
            "api_key": "[removed]", "max_tokens": 5, "prompt_tokens": "many", "key": "ABC-1",
            "nested": [{"Client-Secret": "[removed]", "said": "my secret is [removed]"}],
        });
        assert_eq!(redaction.body(&body), Body::Json(expected));
        let form = Body::Text("grant_type=client&client_secret=x1&scope=a".to_owned());
        assert_eq!(redaction.body(&form), Body::Text("grant_type=client&client_secret=[removed]&scope=a".to_owned()));
    }

    #[test]
    fn addresses_lose_credentials_and_secret_values() {
        let mut redaction = Redaction::default();
        let url: Url =
            "https://ada:canary-three@h.example/a/canary-four?key=canary-four&q=canary-three&page=2#x".parse().unwrap();
        redaction.learn_from(Some(&url), &HeaderMap::new(), &Body::Empty);
        assert_eq!(redaction.url(&url), "https://h.example/a/[removed]?key=[removed]&q=[removed]&page=2");
    }
}
