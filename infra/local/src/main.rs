//! `longhaul`: long AI-agent jobs on this machine, and on AWS the hands of those who look after them.

use std::process::ExitCode;

fn main() -> ExitCode {
    longhaul_local::cli::run()
}
