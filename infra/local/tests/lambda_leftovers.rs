//! What is left of function processes when the whole stack is killed: nothing.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a failed assumption must fail the test"
)]

mod functions_under_test;

use std::path::Path;
use std::process::Stdio;

use functions_under_test::{Platform, alive, eventually, program};
use longhaul_local::lambda::functions::{Functions, FunctionsConfig};
use serde_json::json;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, Command};

/// Starts a stack of its own with one function process; tells the stack and the process id of the function.
async fn stack(data: &Path, function: &[&str], env: &[(&str, &str)]) -> (Child, u32) {
    let mut stack = Command::new(program().with_file_name("echo_stack"))
        .arg(data)
        .args(function)
        .envs(env.iter().copied())
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(stack.stdout.take().unwrap()).lines();
    let pid = lines.next_line().await.unwrap().expect("the stack tells the process id").parse().unwrap();
    (stack, pid)
}

/// Each row: whether the function asks the kernel to die with the stack.
#[tokio::test]
async fn functions_end_with_a_killed_stack() {
    let function = program().display().to_string();
    for env in [&[][..], &[("ECHO_ON_ITS_OWN", "1")][..]] {
        let data = tempfile::tempdir().unwrap();
        let (mut stack, pid) = stack(data.path(), &[&function], env).await;
        // The first line of its log says that it is up; before that it may end for other reasons.
        let log = data.path().join("logs/echo.log");
        eventually("the start", || std::fs::read_to_string(&log).ok().filter(|log| log.contains("END"))).await;
        assert!(alive(pid));
        stack.kill().await.unwrap();
        eventually("the end of the function", || (!alive(pid)).then_some(())).await;
    }
}

#[tokio::test]
async fn a_new_stack_ends_what_a_killed_one_left() {
    let data = tempfile::tempdir().unwrap();
    // A program that knows nothing of stacks stays when its stack is killed.
    let (mut stack, pid) = stack(data.path(), &["/bin/sleep", "600"], &[]).await;
    let book = data.path().join("functions.pids");
    eventually("the book", || std::fs::read_to_string(&book).ok().filter(|book| book.contains("sleep"))).await;
    stack.kill().await.unwrap();
    assert!(alive(pid));
    let functions = Functions::start(FunctionsConfig::new(data.path())).await.unwrap();
    eventually("the end of the leftover", || (!alive(pid)).then_some(())).await;
    drop(functions);
}

#[tokio::test]
async fn a_process_that_only_has_the_same_id_is_left_alone() {
    let data = tempfile::tempdir().unwrap();
    let mut stranger = Command::new("/bin/sleep").arg("600").kill_on_drop(true).spawn().unwrap();
    let pid = stranger.id().unwrap();
    for book in [
        json!({pid.to_string(): {"command": "/bin/sleep 600", "started": "1"}}).to_string(),
        json!({pid.to_string(): {"command": "longhaul function worker", "started": "1"}}).to_string(),
        "{ cut off in the mid".to_owned(),
    ] {
        std::fs::write(data.path().join("functions.pids"), &book).unwrap();
        let functions = Functions::start(FunctionsConfig::new(data.path())).await.unwrap();
        assert!(alive(pid), "{book}");
        drop(functions);
    }
    stranger.kill().await.unwrap();
}

#[tokio::test]
async fn the_book_names_the_living_only() {
    let platform = Platform::start().await;
    let function = platform.add(|_| {}).await;
    function.invoke("{}", None).await.unwrap();
    let pid = platform.functions.instances()[0].pid.to_string();
    let book = || std::fs::read_to_string(platform.data.path().join("functions.pids")).unwrap();
    assert!(book().contains(&pid), "{}", book());
    platform.functions.shutdown().await;
    assert_eq!(book(), "{}");
}
