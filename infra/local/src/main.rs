//! `longhaul`: long AI-agent jobs on this machine, and on AWS the hands of those who look after them.

use std::process::ExitCode;

use mimalloc::MiMalloc;

/// A step makes and forgets thousands of small blocks, in the stack as in the functions that it runs: the system's
/// allocator took a fifth of its time.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

fn main() -> ExitCode {
    longhaul_local::cli::run()
}
