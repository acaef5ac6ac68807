//! The environment of a function process: clean, and with the variables that Lambda sets.

use std::process::Stdio;

use tokio::process::Command;

use super::{FunctionConfig, FunctionsConfig, PER_PROCESS_VARIABLE};
use crate::lambda::parent::PARENT_PID;

/// What a process inherits from the stack: enough to find programs, certificates and proxies, and the log level. All
/// else stays out, above all credentials and profiles of a real account.
const INHERITED: [&str; 16] = [
    "PATH",
    "HOME",
    "TMPDIR",
    "LANG",
    "TZ",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "NO_PROXY",
    "http_proxy",
    "https_proxy",
    "no_proxy",
    "RUST_LOG",
    "RUST_BACKTRACE",
    "LLVM_PROFILE_FILE",
];

/// The command that starts one process of a function.
pub(super) fn command(function: &FunctionConfig, platform: &FunctionsConfig, api: &str, instance: &str) -> Command {
    let mut command = Command::new(&function.program);
    command.args(&function.args).env_clear();
    for name in INHERITED {
        if let Some(value) = std::env::var_os(name) {
            command.env(name, value);
        }
    }
    command
        .env("AWS_REGION", &platform.region)
        .env("AWS_DEFAULT_REGION", &platform.region)
        .envs(&function.env)
        .env("AWS_EXECUTION_ENV", "AWS_Lambda_rust")
        .env("AWS_LAMBDA_FUNCTION_NAME", &function.name)
        .env("AWS_LAMBDA_FUNCTION_MEMORY_SIZE", function.memory_mb.to_string())
        .env("AWS_LAMBDA_FUNCTION_VERSION", "$LATEST")
        .env("AWS_LAMBDA_INITIALIZATION_TYPE", "on-demand")
        .env("AWS_LAMBDA_LOG_GROUP_NAME", format!("/aws/lambda/{}", function.name))
        .env("AWS_LAMBDA_LOG_STREAM_NAME", instance)
        .env("AWS_LAMBDA_RUNTIME_API", api)
        .env(PER_PROCESS_VARIABLE, function.per_process.to_string())
        .env(PARENT_PID, std::process::id().to_string())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        // A group of its own: Ctrl-C at the terminal is for the stack, which then ends its processes in order, and a
        // kill reaches what the function itself has started, as the end of a sandbox does on Lambda.
        .process_group(0)
        .kill_on_drop(true);
    command
}
