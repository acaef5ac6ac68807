//! `longhaul soak`: a short one, judged by what it prints and by its exit code.

use std::io::{BufRead, BufReader, Read};
use std::process::{Command, Stdio};

use longhaul_tests::program::longhaul;
use serde_json::Value;

use crate::field::signal;

/// The program with none of the settings of whoever runs the tests.
fn program() -> Command {
    let mut command = Command::new(longhaul());
    for (name, _) in std::env::vars() {
        if name.starts_with("LONGHAUL_") || name.ends_with("_API_KEY") || name.starts_with("AWS_") {
            command.env_remove(name);
        }
    }
    command
}

#[test]
fn a_short_soak_loses_and_doubles_nothing() {
    let said = program()
        .args([
            "soak",
            "--minutes",
            "0.4",
            "--jobs-per-second",
            "max",
            "--kill-every",
            "2",
            "--think-ms",
            "20",
            "--json",
        ])
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let told = String::from_utf8_lossy(&said.stderr).into_owned();
    let verdict: Value = serde_json::from_slice(&said.stdout).unwrap_or_else(|error| panic!("{error}: {told}"));
    println!("{verdict}");
    assert!(said.status.success(), "{verdict:#}\n{told}");
    for none in ["failed", "lost", "stuck", "doubled_effects"] {
        assert_eq!(verdict[none], 0, "{none}: {verdict:#}");
    }
    assert_eq!(verdict["passed"], true);
    assert_eq!(verdict["submitted"], verdict["completed"]);
    assert!(verdict["kills"].as_u64().unwrap() >= 5, "{verdict:#}");
    assert!(verdict["submitted"].as_u64().unwrap() > 0);
}

/// Between two submissions that are a quarter of an hour apart: the load ends by its time, and by Ctrl-C.
#[test]
fn a_soak_ends_between_submissions_and_judges_what_it_has() {
    for (minutes, interrupted) in [("0.05", false), ("60", true)] {
        let temporary = tempfile::tempdir().unwrap();
        let mut soak = program()
            .args([
                "soak",
                "--jobs-per-second",
                "0.001",
                "--kill-every",
                "0",
                "--think-ms",
                "0",
                "--steps",
                "2",
                "--json",
            ])
            .args(["--minutes", minutes])
            .env("TMPDIR", temporary.path())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut told = BufReader::new(soak.stderr.take().unwrap());
        let mut line = String::new();
        told.read_line(&mut line).unwrap();
        if interrupted {
            assert!(signal(soak.id(), "INT"));
        }
        told.read_to_string(&mut line).unwrap();
        let said = soak.wait_with_output().unwrap();
        let verdict: Value = serde_json::from_slice(&said.stdout).unwrap_or_else(|error| panic!("{error}: {line}"));
        assert!(said.status.success(), "{verdict:#}\n{line}");
        assert_eq!((&verdict["passed"], &verdict["lost"]), (&Value::Bool(true), &Value::from(0)), "{verdict:#}");
        assert_eq!(verdict["submitted"], verdict["completed"], "{verdict:#}");
        assert_eq!(std::fs::read_dir(temporary.path()).unwrap().count(), 0, "its folder is left behind");
    }
}

#[test]
fn a_soak_that_makes_no_sense_is_refused() {
    let rows = [
        (["--jobs-per-second", "many"], "give a number from 0.001 to 10000"),
        (["--jobs-per-second", "0"], "give a number from 0.001 to 10000"),
        (["--minutes", "0"], "give a number from 0.01 to 10080"),
        (["--kill-every", "-1"], "give a number from 0 to 86400"),
        (["--steps", "0"], "0 is not in 1..=1000"),
    ];
    for (arguments, expected) in rows {
        let [option, value] = arguments;
        let said = Command::new(longhaul()).arg("soak").arg(format!("{option}={value}")).output().unwrap();
        let told = String::from_utf8_lossy(&said.stderr).into_owned();
        assert_eq!(said.status.code(), Some(2), "{arguments:?}: {told}");
        assert!(told.contains(expected), "{arguments:?}: {told}");
    }
}
