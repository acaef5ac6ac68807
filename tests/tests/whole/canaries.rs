//! Secrets are planted in a run of everything, and afterwards everything is searched for them: log lines, the table with
//! what is packed in it, messages, objects, what was answered, pushed and reported. None may be found, plain or in the
//! forms that programs turn a text into.
//!
//! A word that is no secret is planted too. It must be found, or the search would prove nothing.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD, URL_SAFE_NO_PAD};

use crate::everything::{Brought, Everything};

/// A secret, and where it may stand.
struct Canary {
    what: &'static str,
    text: String,
    /// Kinds of places in which it belongs: a webhook's address is kept with its job.
    belongs: &'static [&'static str],
}

/// Somewhere that was searched.
struct Place {
    kind: &'static str,
    name: String,
    bytes: Vec<u8>,
}

fn fresh(prefix: &str) -> String {
    format!("{prefix}{}{}", uuid::Uuid::new_v4().simple(), uuid::Uuid::new_v4().simple())
}

/// A text in the forms that it could be found in: plain, Base64 wherever it begins among other bytes, hexadecimal.
fn forms(text: &str) -> Vec<Vec<u8>> {
    let mut forms = vec![text.as_bytes().to_vec()];
    for shift in 0..3_usize {
        let shifted = [&vec![b'x'; shift], text.as_bytes()].concat();
        for engine in [&STANDARD_NO_PAD, &URL_SAFE_NO_PAD] {
            let encoded = engine.encode(&shifted);
            // Characters at the ends depend on the neighbours.
            forms.push(encoded.as_bytes()[4..encoded.len() - 4].to_vec());
        }
    }
    let hexadecimal: String = text.bytes().map(|byte| format!("{byte:02x}")).collect();
    forms.push(hexadecimal.to_uppercase().into_bytes());
    forms.push(hexadecimal.into_bytes());
    forms
}

fn holds(bytes: &[u8], wanted: &[u8]) -> bool {
    let Some(&first) = wanted.first() else { return false };
    let mut from = 0;
    while let Some(at) = bytes[from..].iter().position(|&byte| byte == first) {
        if bytes[from + at..].starts_with(wanted) {
            return true;
        }
        from += at + 1;
    }
    false
}

/// Every file of a folder.
pub(crate) fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap().flatten() {
        if entry.file_type().unwrap().is_dir() { found.extend(files(&entry.path())) } else { found.push(entry.path()) }
    }
    found
}

/// What kind of place a file of the data folder is; none for those that hold secrets by their nature.
fn kind(name: &str) -> Option<&'static str> {
    match name {
        // The issuer's own key: the stack is its own provider of identities.
        "signing-key.p8" => None,
        // How the stack's stores are reached, for its owner's own commands: readable by nobody else, which is looked at below.
        "stack-access.json" => None,
        // What `longhaul up` prints is for the person at the terminal, with a token for them.
        "up.log" => Some("terminal"),
        _ if name.starts_with("logs/") => Some("log"),
        _ if name.starts_with("dynamodb.sqlite") => Some("table file"),
        _ if name.starts_with("sqs.sqlite") => Some("queue file"),
        _ if name.starts_with("s3/") => Some("object"),
        _ => Some("other file"),
    }
}

/// What compressed bytes hold; none when they are not compressed.
fn unpacked(bytes: &[u8]) -> Option<Vec<u8>> {
    zstd::decode_all(bytes).ok()
}

/// Everything that the run has left.
fn places(all: &Everything) -> Vec<Place> {
    let mut places = Vec::new();
    let data = all.stack.data();
    for path in files(data) {
        let name = path.strip_prefix(data).unwrap().to_str().unwrap().to_owned();
        let Some(kind) = kind(&name) else { continue };
        let bytes = fs::read(&path).unwrap();
        if let Some(bytes) = unpacked(&bytes) {
            places.push(Place { kind, name: format!("{name}, unpacked"), bytes });
        }
        places.push(Place { kind, name, bytes });
    }
    // The table as its readers see it, with what is packed in its items.
    let items = all.aws("dynamodb", "DynamoDB_20120810.Scan", &serde_json::json!({"TableName": "longhaul"}));
    for item in items["Items"].as_array().unwrap() {
        let name = format!("{} {}", item["PK"]["S"], item["SK"]["S"]);
        if let Some(packed) = item["entries_z"]["B"].as_str() {
            let packed = STANDARD.decode(packed).unwrap();
            let bytes = unpacked(&packed).expect("entries_z is packed");
            places.push(Place { kind: "item", name: format!("{name}, unpacked"), bytes });
        }
        places.push(Place { kind: "item", name, bytes: item.to_string().into_bytes() });
    }
    places.push(Place {
        kind: "answer",
        name: "API, WebSocket, console".to_owned(),
        bytes: all.answers.clone().into_bytes(),
    });
    for (_, body) in &all.outside.asked.lock().unwrap().webhooks {
        places.push(Place { kind: "report", name: "webhook body".to_owned(), bytes: body.clone() });
    }
    places
}

/// The secret that the functions sign their calls of AWS with.
fn signing_secret(all: &Everything) -> String {
    let pid = all.stack.processes("websocket")[0];
    let environment = fs::read_to_string(format!("/proc/{pid}/environ")).unwrap();
    let found = environment.split('\0').find_map(|variable| variable.strip_prefix("AWS_SECRET_ACCESS_KEY="));
    found.unwrap().to_owned()
}

#[test]
fn no_secret_is_left_anywhere() {
    let brought = Brought {
        model_key: fresh("sk-"),
        webhook_key: fresh("wh"),
        webhook_secret: STANDARD.encode(uuid::Uuid::new_v4().simple().to_string()),
        variables: Vec::new(),
        word: fresh("word"),
    };
    let all = Everything::done(&brought);
    assert!(all.outside.asked.lock().unwrap().model.iter().all(|key| *key == format!("Bearer {}", brought.model_key)));
    let reported = all.outside.asked.lock().unwrap().webhooks[0].0.clone();
    assert!(reported.contains(&brought.webhook_key), "the secret parts were really used: {reported}");

    let canaries = [
        Canary { what: "the model's key", text: brought.model_key.clone(), belongs: &[] },
        Canary {
            what: "the key in a webhook's address",
            text: brought.webhook_key.clone(),
            belongs: &["item", "table file"],
        },
        Canary {
            what: "a caller's token",
            text: all.token.rsplit('.').next().unwrap().to_owned(),
            belongs: &["terminal"],
        },
        Canary { what: "what webhooks are signed with", text: brought.webhook_secret.clone(), belongs: &[] },
        Canary { what: "the secret of the functions' role", text: signing_secret(&all), belongs: &[] },
    ];
    let places = places(&all);
    let mut found = BTreeSet::new();
    for canary in &canaries {
        for form in forms(&canary.text) {
            for place in places.iter().filter(|place| !canary.belongs.contains(&place.kind)) {
                if holds(&place.bytes, &form) {
                    found.insert(format!("{} in {} {}", canary.what, place.kind, place.name));
                }
            }
        }
    }
    let seen: BTreeSet<&str> =
        places.iter().filter(|place| holds(&place.bytes, brought.word.as_bytes())).map(|place| place.kind).collect();
    let kinds: BTreeSet<&str> = places.iter().map(|place| place.kind).collect();
    println!("{} places of {kinds:?} were searched; the word stands in {seen:?}", places.len());
    for kind in ["log", "item", "table file", "queue file", "answer", "report"] {
        assert!(kinds.contains(kind), "there was no {kind} to be searched");
    }
    for kind in ["item", "table file", "answer"] {
        assert!(seen.contains(kind), "the search finds what is there: {seen:?}");
    }
    let logged = places.iter().filter(|place| place.kind == "log").map(|place| place.bytes.len()).sum::<usize>();
    assert!(logged > 10_000, "the functions logged {logged} bytes");
    assert!(found.is_empty(), "{found:#?}");
}

#[test]
fn a_text_is_found_in_every_form() {
    let secret = "sk-0123456789abcdef0123456789abcdef";
    let neighbours = ["", "a", "ab", "abc"];
    for before in neighbours {
        let text = format!("{before}{secret} and more");
        let encodings = [
            text.clone(),
            STANDARD_NO_PAD.encode(&text),
            URL_SAFE_NO_PAD.encode(&text),
            text.bytes().map(|byte| format!("{byte:02x}")).collect(),
        ];
        for encoded in encodings {
            assert!(forms(secret).iter().any(|form| holds(encoded.as_bytes(), form)), "{encoded}");
            assert!(!forms("another secret of some length").iter().any(|form| holds(encoded.as_bytes(), form)));
        }
    }
}
