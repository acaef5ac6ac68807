//! The api function's executable.

use std::process::ExitCode;

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    // Why it failed has been logged.
    longhaul_api::run().await.map_or(ExitCode::FAILURE, |()| ExitCode::SUCCESS)
}
