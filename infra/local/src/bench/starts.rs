//! Cold start and memory of each function: a process, started against a Lambda Runtime API that only waits for its poll.

use std::io;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::net::TcpListener;
use tokio::process::Command;
use tokio::time::{Instant, timeout};

use super::measure::Measure;
use super::{BenchError, BenchOptions};

const FUNCTIONS: [&str; 4] = ["api", "worker", "websocket", "sweeper"];
/// Starts of each function; the median counts.
const STARTS: usize = 11;
/// How long a function may take to poll.
const PATIENCE: Duration = Duration::from_secs(20);
const LAMBDA_BINARY: &str = "Lambda binary";
const MIB: f64 = 1_048_576.0;

/// Each function as this program runs it, and as its Lambda binary where that was built beside the program.
pub(super) async fn starts(options: &BenchOptions) -> Result<Vec<Measure>, BenchError> {
    let mut measures = Vec::new();
    for function in FUNCTIONS {
        measures.push(start(function, "longhaul function", &options.program, &["function", function]).await?);
        let lambda = options.program.with_file_name(format!("longhaul-{function}"));
        if lambda.exists() {
            measures.push(start(function, LAMBDA_BINARY, &lambda, &[]).await?);
        }
    }
    Ok(measures)
}

async fn start(function: &str, kind: &str, program: &PathBuf, arguments: &[&str]) -> Result<Measure, BenchError> {
    let (mut polled, mut resident) = (Vec::new(), Vec::new());
    for _ in 0..STARTS {
        let (first_poll, bytes) = once(function, program, arguments).await?;
        polled.push(first_poll.as_secs_f64() * 1_000.0);
        resident.push(bytes as f64 / MIB);
    }
    resident.sort_by(f64::total_cmp);
    let size = std::fs::metadata(program).map_or(0, |file| file.len());
    let measure = Measure::of_runs("start_to_first_poll", "ms", &polled)
        .of(format!("{function}, {kind}"))
        .with("resident_mib", resident.get(STARTS / 2).copied().unwrap_or_default())
        .with("file_mib", size as f64 / MIB)
        .at_most("median", 15.0, 8.0)
        .at_most("resident_mib", 12.0, 8.0);
    // The program is all of the stack and of the command line; what goes to Lambda is one function.
    Ok(if kind == LAMBDA_BINARY { measure.at_most("file_mib", 10.0, 6.0) } else { measure })
}

async fn once(function: &str, program: &Path, arguments: &[&str]) -> Result<(Duration, u64), BenchError> {
    let runtime =
        TcpListener::bind("127.0.0.1:0").await.map_err(BenchError::io("no Runtime API can listen on 127.0.0.1"))?;
    let address = runtime.local_addr().map_err(BenchError::io("the Runtime API has no address"))?;
    let mut command = Command::new(program);
    command.args(arguments).env_clear().envs(environment(function, &address.to_string()));
    command.stdout(Stdio::null()).stderr(Stdio::null()).kill_on_drop(true);
    let started_at = Instant::now();
    let mut process = command.spawn().map_err(BenchError::io(format!("{} cannot be started", program.display())))?;
    let polled = async {
        let (connection, _) = runtime.accept().await?;
        let (mut line, mut connection) = (String::new(), BufReader::new(connection));
        connection.read_line(&mut line).await?;
        Ok((started_at.elapsed(), connection))
    };
    // A function whose poll is cut off ends, and what has ended has no memory to be measured.
    let (first_poll, _connection) = timeout(PATIENCE, polled)
        .await
        .map_err(BenchError::late("a function's first poll"))?
        .map_err(BenchError::io("a function's first poll was broken"))?;
    let resident = process
        .id()
        .and_then(resident_bytes)
        .ok_or_else(|| BenchError::io("a function ended before its memory was read")(io::ErrorKind::NotFound.into()))?;
    let _ended = process.kill().await;
    Ok((first_poll, resident))
}

fn resident_bytes(id: u32) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{id}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    Some(line.trim().trim_end_matches(" kB").parse::<u64>().ok()? * 1_024)
}

/// What a function needs to start, with nobody behind the addresses.
fn environment(function: &str, runtime: &str) -> Vec<(&'static str, String)> {
    let nowhere = "http://127.0.0.1:9";
    vec![
        ("AWS_LAMBDA_RUNTIME_API", runtime.to_owned()),
        ("AWS_LAMBDA_FUNCTION_NAME", function.to_owned()),
        ("AWS_LAMBDA_FUNCTION_MEMORY_SIZE", "256".to_owned()),
        ("AWS_LAMBDA_FUNCTION_VERSION", "$LATEST".to_owned()),
        ("AWS_REGION", "us-east-1".to_owned()),
        ("AWS_ACCESS_KEY_ID", "bench".to_owned()),
        ("AWS_SECRET_ACCESS_KEY", "bench".to_owned()),
        ("AWS_ENDPOINT_URL", nowhere.to_owned()),
        ("LONGHAUL_TABLE", "longhaul".to_owned()),
        ("LONGHAUL_QUEUE_URL", format!("{nowhere}/q")),
        ("LONGHAUL_DEAD_LETTER_QUEUE_URL", format!("{nowhere}/d")),
        ("LONGHAUL_WEBHOOK_QUEUE_URL", format!("{nowhere}/w")),
        ("LONGHAUL_BUCKET", "longhaul".to_owned()),
        ("LONGHAUL_PUSH_ENDPOINT", nowhere.to_owned()),
        ("LONGHAUL_JWKS_URL", format!("{nowhere}/keys")),
        ("LONGHAUL_JWT_ISSUER", "bench".to_owned()),
        ("LONGHAUL_JWT_AUDIENCE", "bench".to_owned()),
        ("LONGHAUL_MODEL_URL", format!("{nowhere}/v1")),
        ("LONGHAUL_MODEL", "bench".to_owned()),
    ]
}
