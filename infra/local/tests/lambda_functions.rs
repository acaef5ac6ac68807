//! Functions as processes: cold and warm starts, concurrency, timeouts, deaths, logs and limits.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::string_slice,
    reason = "a failed assumption must fail the test"
)]

mod functions_under_test;

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use functions_under_test::{PATIENCE, Platform, alive, eventually};
use longhaul_local::lambda::functions::{DeathCause, Function, InvokeError, SetupError};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

async fn invoke(function: &Function, event: &Value) -> Result<Value, InvokeError> {
    let payload = serde_json::to_vec(event).unwrap();
    let answer = tokio::time::timeout(PATIENCE, function.invoke(payload, None)).await.expect("no answer at all")?;
    Ok(serde_json::from_slice(&answer).unwrap())
}

fn kill(pid: u32) {
    kill_process(Pid::from_raw(i32::try_from(pid).unwrap()).unwrap(), Signal::KILL).unwrap();
}

#[tokio::test]
async fn first_start_is_cold_and_the_process_is_used_again() {
    let platform = Platform::start().await;
    let function = platform.add(|_| {}).await;
    assert!(platform.functions.instances().is_empty(), "nothing runs before it is asked for");
    let first = invoke(&function, &json!({"do": "sleep"})).await.unwrap();
    let second = invoke(&function, &json!({"do": "sleep"})).await.unwrap();
    assert_eq!(first["pid"], second["pid"]);
    let instances = platform.functions.instances();
    assert_eq!(instances.len(), 1);
    assert_eq!(json!(instances[0].pid), first["pid"]);
    assert_eq!(instances[0].function, "echo");
    assert!(instances[0].request_ids.is_empty());
    assert_eq!(platform.events().len(), 2);
}

#[tokio::test]
async fn a_process_sees_what_lambda_shows() {
    let platform = Platform::start().await;
    let function = platform
        .add(|config| {
            config.timeout = Duration::from_secs(90);
            config.env.insert("LONGHAUL_TABLE".to_owned(), "jobs".to_owned());
        })
        .await;
    let before = SystemTime::now();
    let trace = "Root=1-5759e988-bd862e3fe1be46a994272793;Parent=53995c3f42cd8ad8;Sampled=1";
    let event = serde_json::to_vec(&json!({"do": "describe"})).unwrap();
    let seen: Value = serde_json::from_slice(&function.invoke(event, Some(trace.to_owned())).await.unwrap()).unwrap();
    let deadline = UNIX_EPOCH + Duration::from_millis(seen["deadline"].as_u64().unwrap());
    let left = deadline.duration_since(before).unwrap();
    assert!((Duration::from_secs(89)..Duration::from_secs(100)).contains(&left), "{left:?}");
    assert_eq!(seen["trace"], trace);
    assert_eq!(seen["arn"], "arn:aws:lambda:us-east-1:000000000000:function:echo");
    assert_eq!(seen["request_id"].as_str().unwrap().len(), 36);
    let environment = seen["environment"].as_object().unwrap();
    for (name, value) in [
        ("AWS_LAMBDA_FUNCTION_NAME", "echo"),
        ("AWS_LAMBDA_FUNCTION_MEMORY_SIZE", "256"),
        ("AWS_LAMBDA_FUNCTION_VERSION", "$LATEST"),
        ("AWS_REGION", "us-east-1"),
        ("LONGHAUL_TABLE", "jobs"),
    ] {
        assert_eq!(environment[name], value, "{name}");
    }
    assert!(environment["AWS_LAMBDA_RUNTIME_API"].as_str().unwrap().starts_with("http://127.0.0.1:"));
    let passed_on = ["PATH", "HOME", "TMPDIR", "LANG", "TZ", "ECHO_RECORD", "LLVM_PROFILE_FILE"];
    let prefixes = ["AWS_", "LONGHAUL_", "SSL_CERT_", "RUST_", "_X_AMZN_"];
    for name in environment.keys() {
        let known = passed_on.contains(&name.as_str()) || prefixes.iter().any(|prefix| name.starts_with(prefix));
        assert!(known || name.to_ascii_lowercase().ends_with("_proxy"), "{name} is none of a function's business");
    }
}

#[tokio::test]
async fn invocations_at_once_take_processes_of_their_own_up_to_the_limit() {
    let platform = Platform::start().await;
    let function = platform.add(|config| config.max_concurrency = 2).await;
    let held = |ms| {
        let function = function.clone();
        tokio::spawn(async move { invoke(&function, &json!({"do": "sleep", "ms": ms})).await })
    };
    let (one, two) = (held(300), held(300));
    eventually("two invocations under way", || {
        let busy = platform.functions.instances().iter().filter(|instance| !instance.request_ids.is_empty()).count();
        (busy == 2).then_some(())
    })
    .await;
    let refused = invoke(&function, &json!({})).await;
    assert!(matches!(refused, Err(InvokeError::Throttled)), "{refused:?}");
    let pids: BTreeSet<_> = [one.await, two.await].map(|end| end.unwrap().unwrap()["pid"].as_u64().unwrap()).into();
    assert_eq!(pids.len(), 2);
    invoke(&function, &json!({})).await.expect("room again");
}

/// A function whose processes work on eight invocations at once, and two processes at most.
async fn shared(platform: &Platform) -> Function {
    platform
        .add(|config| {
            config.max_concurrency = 16;
            config.per_process = 8;
        })
        .await
}

fn held(function: &Function, ms: u64) -> tokio::task::JoinHandle<Result<Value, InvokeError>> {
    let function = function.clone();
    tokio::spawn(async move { invoke(&function, &json!({"do": "sleep", "ms": ms})).await })
}

#[tokio::test]
async fn a_process_may_work_on_several_invocations() {
    let platform = Platform::start().await;
    let function = shared(&platform).await;
    // How many at once, and in how many processes: one until it has a quarter of what it can have, then two, evenly.
    for (at_once, processes) in [(1, 1), (2, 1), (16, 2)] {
        let under_way: Vec<_> = (0..at_once).map(|_| held(&function, 300)).collect();
        let mut by_process = BTreeMap::<u64, usize>::new();
        for end in under_way {
            let pid = end.await.unwrap().unwrap()["pid"].as_u64().unwrap();
            *by_process.entry(pid).or_default() += 1;
        }
        assert_eq!(by_process.len(), processes, "{at_once}: {by_process:?}");
        assert!(by_process.values().all(|count| *count <= 8), "{at_once}: {by_process:?}");
    }
}

/// After a restart everything that was under way comes again at once, each for a process of its own.
#[tokio::test]
async fn more_that_come_again_than_there_are_processes_shut_nobody_out() {
    let platform = Platform::start().await;
    let function = shared(&platform).await;
    let again: Vec<_> = (0..9)
        .map(|_| {
            let function = function.clone();
            let event = serde_json::to_vec(&json!({"do": "sleep", "ms": 60_000})).unwrap();
            tokio::spawn(async move { function.invoke_alone(event, None).await })
        })
        .collect();
    platform.events_after(9).await;
    let loads: Vec<_> = platform.functions.instances().iter().map(|instance| instance.request_ids.len()).collect();
    assert_eq!((loads.len(), loads.iter().sum::<usize>()), (4, 9), "twice the usual number of processes: {loads:?}");
    invoke(&function, &json!({"do": "sleep"})).await.expect("room for what comes the first time");
    again.into_iter().for_each(|one| one.abort());
}

#[tokio::test]
async fn all_invocations_of_a_process_die_with_it_and_are_named() {
    let platform = Platform::start().await;
    let function = shared(&platform).await;
    let mut deaths = platform.functions.watch_deaths();
    let under_way = [held(&function, 60_000), held(&function, 60_000)];
    platform.events_after(2).await;
    let instance = platform.functions.instances().remove(0);
    assert_eq!(instance.request_ids.len(), 2);
    kill(instance.pid);
    let notice = deaths.recv().await.unwrap();
    let ids: BTreeSet<_> = notice.death.request_ids.iter().collect();
    assert_eq!(ids, instance.request_ids.iter().collect());
    drop(notice);
    for end in under_way {
        assert_eq!(end.await.unwrap().unwrap_err().error_type(), "Runtime.ExitError");
    }
}

#[tokio::test]
async fn a_process_that_was_stopped_gets_no_work() {
    let platform = Platform::start().await;
    let function = shared(&platform).await;
    invoke(&function, &json!({})).await.unwrap();
    let pid = platform.functions.instances()[0].pid;
    let signal = |signal| kill_process(Pid::from_raw(i32::try_from(pid).unwrap()).unwrap(), signal).unwrap();
    signal(Signal::STOP);
    // It stops when the kernel comes to it, and not with the call.
    eventually("a stopped process", || {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
        stat.rsplit_once(") ").filter(|(_, state)| state.starts_with('T')).map(|_| ())
    })
    .await;
    let answered = invoke(&function, &json!({"do": "sleep"})).await;
    signal(Signal::CONT);
    assert_ne!(answered.unwrap()["pid"], json!(pid));
}

#[tokio::test]
async fn a_patient_function_queues_instead_of_throttling() {
    let platform = Platform::start().await;
    let function = platform
        .add(|config| {
            config.max_concurrency = 1;
            config.patience = PATIENCE;
        })
        .await;
    let many: Vec<_> = (0..8)
        .map(|_| {
            let function = function.clone();
            tokio::spawn(async move { invoke(&function, &json!({"do": "sleep", "ms": 5})).await })
        })
        .collect();
    let mut pids = BTreeSet::new();
    for end in many {
        pids.insert(end.await.unwrap().unwrap()["pid"].as_u64().unwrap());
    }
    assert_eq!(pids.len(), 1, "one process did it all");
}

#[tokio::test]
async fn an_overrun_is_killed_and_the_next_invocation_starts_cold() {
    let platform = Platform::start().await;
    let function = platform.add(|config| config.timeout = Duration::from_millis(300)).await;
    let mut deaths = platform.functions.watch_deaths();
    invoke(&function, &json!({})).await.unwrap();
    let pid = platform.functions.instances()[0].pid;
    let started = Instant::now();
    let error = invoke(&function, &json!({"do": "sleep", "ms": 60_000})).await.unwrap_err();
    assert!((Duration::from_millis(300)..Duration::from_secs(5)).contains(&started.elapsed()));
    assert_eq!(error.to_string(), "Task timed out after 0.30 seconds");
    assert_eq!(error.error_type(), "Sandbox.Timedout");
    assert!(error.process_died());
    assert!(!alive(pid));
    let notice = deaths.recv().await.unwrap();
    assert_eq!((notice.death.pid, notice.death.cause), (pid, DeathCause::TimedOut));
    assert_eq!(notice.death.request_ids.len(), 1);
    invoke(&function, &json!({})).await.unwrap();
    assert_ne!(platform.functions.instances()[0].pid, pid);
}

/// Each row: what the function does, and the error that comes of it.
#[tokio::test]
async fn failures_are_told_apart() {
    let platform = Platform::start().await;
    let function = platform.add(|_| {}).await;
    for (order, error_type, message, died) in [
        ("fail", "lambda_runtime", "told to fail", false),
        ("panic", "", "told to panic", false),
        ("exit", "Runtime.ExitError", "Runtime exited with error: exit status: 3", true),
        ("kill", "Runtime.ExitError", "Runtime exited with error: signal: 9 (SIGKILL)", true),
        ("big answer", "Function.ResponseSizeTooLarge", "Response payload", true),
    ] {
        let error = invoke(&function, &json!({"do": order})).await.expect_err(order);
        assert!(error.to_string().contains(message), "{order}: {error}");
        assert!(error.error_type().contains(error_type) || error_type == "lambda_runtime", "{order}: {error:?}");
        let own = matches!(error, InvokeError::Function { .. });
        assert_eq!(error.process_died(), died && !own, "{order}");
        invoke(&function, &json!({})).await.expect("the function works again");
    }
}

#[tokio::test]
async fn a_kill_in_mid_invocation_is_announced_before_the_invocation_ends() {
    let platform = Platform::start().await;
    let function = platform.add(|_| {}).await;
    let mut deaths = platform.functions.watch_deaths();
    let invocation = {
        let function = function.clone();
        tokio::spawn(async move { invoke(&function, &json!({"do": "sleep", "ms": 60_000})).await })
    };
    let (pid, request_id) = eventually("the invocation", || {
        let instances = platform.functions.instances();
        instances.first().and_then(|instance| Some((instance.pid, instance.request_ids.first()?.clone())))
    })
    .await;
    // The event must have been fetched, else another process would take it over.
    platform.events_after(1).await;
    kill(pid);
    let notice = deaths.recv().await.unwrap();
    assert_eq!(notice.death.request_ids, [request_id]);
    assert!(matches!(notice.death.cause, DeathCause::Exited(_)));
    assert!(platform.functions.instances().is_empty());
    // A whole invocation of another process takes longer than the error would.
    invoke(&function, &json!({})).await.unwrap();
    assert!(!invocation.is_finished(), "the error waits for who follows deaths");
    drop(notice);
    let error = invocation.await.unwrap().unwrap_err();
    assert_eq!(error.error_type(), "Runtime.ExitError");
}

#[tokio::test]
async fn a_process_that_dies_idle_costs_no_invocation() {
    let platform = Platform::start().await;
    let function = platform.add(|_| {}).await;
    for _ in 0..20 {
        invoke(&function, &json!({})).await.unwrap();
        let pid = platform.functions.instances()[0].pid;
        // Straight after the kill the platform may not know of the death: the event is then either given to another
        // process or lost with the dead one, but there is an answer in any case.
        kill(pid);
        match invoke(&function, &json!({})).await {
            Ok(_) | Err(InvokeError::Exited { .. }) => {}
            Err(other) => panic!("{other:?}"),
        }
        let known = || platform.functions.instances().iter().all(|instance| instance.pid != pid);
        eventually("the death", || known().then_some(())).await;
        invoke(&function, &json!({})).await.expect("a known death costs nothing");
    }
    invoke(&function, &json!({"do": "exit after answer"})).await.unwrap();
    eventually("the end of the process", || platform.functions.instances().is_empty().then_some(())).await;
    invoke(&function, &json!({})).await.unwrap();
}

#[tokio::test]
async fn idle_processes_are_ended() {
    let platform = Platform::start_with(|config| config.idle_after = Duration::from_millis(100)).await;
    let function = platform.add(|_| {}).await;
    let mut deaths = platform.functions.watch_deaths();
    invoke(&function, &json!({})).await.unwrap();
    let pid = platform.functions.instances()[0].pid;
    let notice = deaths.recv().await.unwrap();
    assert_eq!((notice.death.pid, notice.death.cause), (pid, DeathCause::Idle));
    assert!(notice.death.request_ids.is_empty());
    assert!(!alive(pid));
}

#[tokio::test]
async fn starts_that_fail_are_told_apart() {
    let platform = Platform::start_with(|config| config.init_timeout = Duration::from_millis(500)).await;
    for (start, expected) in
        [("exit", "Runtime.ExitError"), ("hang", "Sandbox.Timedout"), ("none", "Runtime.InvalidEntrypoint")]
    {
        let function = platform
            .add(|config| {
                config.name = format!("echo-{start}");
                config.env.insert("ECHO_START".to_owned(), start.to_owned());
                if start == "none" {
                    config.program = "/nowhere/at/all".into();
                }
            })
            .await;
        let error = invoke(&function, &json!({})).await.unwrap_err();
        assert_eq!(error.error_type(), expected, "{start}: {error}");
        assert!(platform.functions.instances().is_empty(), "{start}");
    }
}

#[tokio::test]
async fn output_and_lambdas_own_lines_are_logged() {
    let platform = Platform::start().await;
    let function = platform.add(|_| {}).await;
    invoke(&function, &json!({"do": "print"})).await.unwrap();
    let log = eventually("the log", || {
        Some(platform.log("echo")).filter(|log| log.contains("standard error") && log.contains("REPORT"))
    })
    .await;
    for part in
        ["START RequestId: ", "to standard output", "to standard error", "END RequestId: ", "Memory Size: 256 MB"]
    {
        assert!(log.contains(part), "{part:?} is not in {log}");
    }
}

#[tokio::test]
async fn an_oversize_event_reaches_no_process() {
    let platform = Platform::start().await;
    let function = platform.add(|_| {}).await;
    let event = json!({"text": "x".repeat(6 * 1024 * 1024)});
    let error = invoke(&function, &event).await.unwrap_err();
    assert!(matches!(error, InvokeError::PayloadTooLarge { .. }), "{error:?}");
    assert!(platform.functions.instances().is_empty());
}

#[tokio::test]
async fn names_are_checked() {
    let platform = Platform::start().await;
    platform.add(|_| {}).await;
    for (name, taken) in [("echo", true), ("", false), ("../echo", false), ("a b", false), (&*"x".repeat(65), false)] {
        let mut config = functions_under_test::echo();
        config.name = name.to_owned();
        match platform.functions.add(config).await {
            Err(SetupError::Exists(_)) => assert!(taken, "{name:?}"),
            Err(SetupError::Name(_)) => assert!(!taken, "{name:?}"),
            other => panic!("{name:?}: {other:?}"),
        }
    }
}

#[tokio::test]
async fn shutdown_ends_everything() {
    let platform = Platform::start().await;
    let function = platform.add(|_| {}).await;
    let under_way = {
        let function = function.clone();
        tokio::spawn(async move { invoke(&function, &json!({"do": "sleep", "ms": 60_000})).await })
    };
    platform.events_after(1).await;
    let pid = platform.functions.instances()[0].pid;
    platform.functions.shutdown().await;
    assert!(!alive(pid));
    assert!(matches!(under_way.await.unwrap(), Err(InvokeError::Stopped)));
    assert!(matches!(invoke(&function, &json!({})).await, Err(InvokeError::Stopped)));
}

#[tokio::test]
async fn dropping_all_handles_ends_the_processes() {
    let platform = Platform::start().await;
    let function = platform.add(|_| {}).await;
    invoke(&function, &json!({})).await.unwrap();
    let pid = platform.functions.instances()[0].pid;
    drop((function, platform));
    eventually("the end of the process", || (!alive(pid)).then_some(())).await;
}
