//! Holds the import table of ARCHITECTURE.md: which room may use which.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

use std::collections::{BTreeMap, BTreeSet};

/// Rooms of tests alone. They import everything.
const TESTS: &[&str] = &["longhaul-tests", "longhaul-model", "longhaul-scale", "longhaul-simulation"];

/// A room and the rooms that it may import.
const ALLOWED: &[(&str, &[&str])] = &[
    ("longhaul-engine", &[]),
    ("longhaul", &["longhaul-engine"]),
    ("longhaul-llm", &[]),
    ("longhaul-definition", &[]),
    ("longhaul-reach", &["longhaul-definition"]),
    ("longhaul-agent", &["longhaul", "longhaul-definition", "longhaul-llm", "longhaul-reach"]),
    ("longhaul-wire", &["longhaul-definition", "longhaul-engine"]),
    ("longhaul-aws", &["longhaul", "longhaul-engine", "longhaul-wire"]),
    ("longhaul-sim", &["longhaul", "longhaul-engine"]),
    ("longhaul-testing", &["longhaul", "longhaul-agent", "longhaul-definition", "longhaul-llm", "longhaul-sim"]),
    ("longhaul-rehearsal", &[]),
    ("longhaul-api", &["longhaul", "longhaul-aws", "longhaul-definition", "longhaul-engine", "longhaul-wire"]),
    (
        "longhaul-worker",
        &[
            "longhaul",
            "longhaul-agent",
            "longhaul-aws",
            "longhaul-definition",
            "longhaul-engine",
            "longhaul-llm",
            "longhaul-wire",
        ],
    ),
    ("longhaul-websocket", &["longhaul", "longhaul-aws", "longhaul-engine", "longhaul-reach", "longhaul-wire"]),
    ("longhaul-sweeper", &["longhaul", "longhaul-aws", "longhaul-engine", "longhaul-wire"]),
    (
        "longhaul-local",
        &[
            "longhaul",
            "longhaul-agent",
            "longhaul-api",
            "longhaul-aws",
            "longhaul-definition",
            "longhaul-engine",
            "longhaul-llm",
            "longhaul-rehearsal",
            "longhaul-sweeper",
            "longhaul-websocket",
            "longhaul-wire",
            "longhaul-worker",
        ],
    ),
];

/// Crates with which the outside world is touched; they belong in one room each.
const ONLY_IN: &[(&str, &[&str])] = &[
    ("aws-sdk-dynamodb", &["longhaul-aws"]),
    ("aws-sdk-sqs", &["longhaul-aws"]),
    ("aws-sdk-s3", &["longhaul-aws"]),
    ("aws-sdk-apigatewaymanagement", &["longhaul-aws"]),
    ("aws-config", &["longhaul-aws"]),
    ("dynoxide-rs", &["longhaul-local"]),
];

/// Each member of the workspace with the normal dependencies that its manifest names.
fn imports() -> BTreeMap<String, BTreeSet<String>> {
    let metadata = cargo_metadata::MetadataCommand::new()
        .manifest_path(concat!(env!("CARGO_MANIFEST_DIR"), "/../Cargo.toml"))
        .no_deps()
        .exec()
        .unwrap();
    let normal = |package: &cargo_metadata::Package| {
        let kept = package.dependencies.iter().filter(|it| it.kind == cargo_metadata::DependencyKind::Normal);
        kept.map(|it| it.name.clone()).collect()
    };
    metadata.packages.iter().map(|package| (package.name.to_string(), normal(package))).collect()
}

#[test]
fn rooms_import_only_what_the_table_allows() {
    let imports = imports();
    let allowed: BTreeMap<_, _> = ALLOWED.iter().copied().collect();
    let ours: BTreeSet<&str> = imports.keys().map(String::as_str).collect();
    for (room, found) in imports.iter().filter(|(room, _)| !TESTS.contains(&room.as_str())) {
        let may = allowed.get(room.as_str()).unwrap_or_else(|| panic!("{room} is not in the table"));
        for import in found.iter().filter(|it| ours.contains(it.as_str())) {
            assert!(may.contains(&import.as_str()), "{room} imports {import}, which the table does not allow");
        }
    }
    for (room, _) in ALLOWED {
        assert!(ours.contains(room), "{room} is in the table but not in the workspace");
    }
}

#[test]
fn each_door_to_the_outside_is_in_one_room() {
    for (room, found) in imports().iter().filter(|(room, _)| !TESTS.contains(&room.as_str())) {
        for (door, rooms) in ONLY_IN {
            assert!(!found.contains(*door) || rooms.contains(&room.as_str()), "{room} must not use {door}");
        }
    }
}
