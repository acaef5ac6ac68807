//! What the embedded stack and the functions cost, measured: one JSON line a metric.
//!
//! `make bench` builds the program and the four functions in release and runs this. Times depend on the machine; the
//! bounds that are printed beside them are the project's own.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    missing_docs,
    reason = "a measurement that fails is a failed run"
)]

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use longhaul_tests::program::{Stack, longhaul};
use reqwest::Client;
use serde_json::json;

/// Submissions that are timed, after some that warm up.
const SUBMISSIONS: usize = 300;
const WARM_UP: usize = 30;
/// Starts of each function that are timed.
const STARTS: usize = 11;

fn main() {
    println!("{}", json!({"metric": "machine", "cores": std::thread::available_parallelism().unwrap().get()}));
    submissions();
    for function in ["api", "worker", "websocket", "sweeper"] {
        starts("longhaul program", function, &longhaul(), &["function", function]);
        let lambda: PathBuf = longhaul().with_file_name(format!("longhaul-{function}"));
        starts("Lambda binary", function, &lambda, &[]);
    }
}

fn percentile(sorted: &[Duration], percent: usize) -> f64 {
    let at = (sorted.len() * percent).div_ceil(100).max(1) - 1;
    sorted[at].as_secs_f64() * 1_000.0
}

fn submissions() {
    let stack = Stack::up(&["--think-ms", "0"]);
    let (url, token) = (format!("{}/v1/jobs", stack.address("api")), stack.token("local"));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let client = Client::new();
    let body = json!({"agent": "agent-10", "input": {"steps": 1}});
    let mut times: Vec<Duration> = (0..WARM_UP + SUBMISSIONS)
        .map(|_| {
            let call = client.post(&url).bearer_auth(&token).json(&body);
            let sent_at = Instant::now();
            let status = runtime.block_on(async { call.send().await.unwrap().status() });
            assert_eq!(status, 202);
            sent_at.elapsed()
        })
        .skip(WARM_UP)
        .collect();
    times.sort();
    let (p50, p99) = (percentile(&times, 50), percentile(&times, 99));
    println!(
        "{}",
        json!({"metric": "submit_ms", "p50": p50, "p99": p99, "bound_p50": 5, "bound_p99": 50, "n": times.len(),
               "met": p50 < 5.0 && p99 < 50.0})
    );
}

/// Starts a function against a Runtime API that only waits for its first poll.
fn starts(what: &str, function: &str, program: &PathBuf, arguments: &[&str]) {
    let mut times = Vec::new();
    let mut resident_kib = Vec::new();
    for _ in 0..STARTS {
        let api = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut command = Command::new(program);
        command.args(arguments).env_clear().envs(environment(function, &api.local_addr().unwrap().to_string()));
        let started_at = Instant::now();
        let mut process = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let (mut poll, _) = api.accept().unwrap();
        let mut line = String::new();
        BufReader::new(poll.try_clone().unwrap()).read_line(&mut line).unwrap();
        times.push(started_at.elapsed());
        assert!(line.starts_with("GET /2018-06-01/runtime/invocation/next"), "{line}");
        let mut status = String::new();
        fs::File::open(format!("/proc/{}/status", process.id())).unwrap().read_to_string(&mut status).unwrap();
        let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
        resident_kib.push(resident.trim().trim_end_matches(" kB").parse::<u64>().unwrap());
        let _closed = poll.write_all(b"HTTP/1.1 500 Gone\r\ncontent-length: 0\r\n\r\n");
        process.kill().unwrap();
        process.wait().unwrap();
    }
    times.sort();
    resident_kib.sort_unstable();
    let (first_poll, resident) = (percentile(&times, 50), resident_kib[STARTS / 2] as f64 / 1_024.0);
    println!(
        "{}",
        json!({"metric": "function_start", "function": function, "as": what, "first_poll_ms_p50": first_poll,
               "first_poll_ms_max": percentile(&times, 100), "resident_mib": resident, "bound_ms": 20, "bound_mib": 20,
               "file_mib": fs::metadata(program).unwrap().len() as f64 / 1_048_576.0,
               "met": first_poll < 20.0 && resident < 20.0})
    );
}

fn environment(function: &str, api: &str) -> Vec<(&'static str, String)> {
    let nowhere = "http://127.0.0.1:9".to_owned();
    vec![
        ("AWS_LAMBDA_RUNTIME_API", api.to_owned()),
        ("AWS_LAMBDA_FUNCTION_NAME", function.to_owned()),
        ("AWS_LAMBDA_FUNCTION_MEMORY_SIZE", "256".to_owned()),
        ("AWS_LAMBDA_FUNCTION_VERSION", "$LATEST".to_owned()),
        ("AWS_REGION", "us-east-1".to_owned()),
        ("AWS_ACCESS_KEY_ID", "bench".to_owned()),
        ("AWS_SECRET_ACCESS_KEY", "bench".to_owned()),
        ("AWS_ENDPOINT_URL", nowhere.clone()),
        ("LONGHAUL_TABLE", "longhaul".to_owned()),
        ("LONGHAUL_QUEUE_URL", format!("{nowhere}/q")),
        ("LONGHAUL_DEAD_LETTER_QUEUE_URL", format!("{nowhere}/d")),
        ("LONGHAUL_BUCKET", "longhaul".to_owned()),
        ("LONGHAUL_PUSH_ENDPOINT", nowhere.clone()),
        ("LONGHAUL_JWKS_URL", format!("{nowhere}/keys")),
        ("LONGHAUL_JWT_ISSUER", "bench".to_owned()),
        ("LONGHAUL_JWT_AUDIENCE", "bench".to_owned()),
        ("LONGHAUL_MODEL_URL", format!("{nowhere}/v1")),
        ("LONGHAUL_MODEL", "bench".to_owned()),
    ]
}
