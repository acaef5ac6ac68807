//! `longhaul function NAME`: one Lambda function as a process of the stack.

use std::process::ExitCode;

use super::CliError;
use crate::lambda;

type FunctionError = Box<dyn std::error::Error + Send + Sync>;

/// Runs a function until its stack ends.
pub(super) fn run(name: &str) -> Result<ExitCode, CliError> {
    let failed = |source: FunctionError| CliError::Function { name: name.to_owned(), source };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(CliError::Runtime)?;
    runtime.block_on(async {
        lambda::die_with_parent().map_err(|error| failed(error.into()))?;
        match name {
            "api" => longhaul_api::run().await.map_err(Into::into),
            "worker" => longhaul_worker::run().await.map_err(Into::into),
            "websocket" => longhaul_websocket::run().await.map_err(Into::into),
            "sweeper" => longhaul_sweeper::run().await.map_err(Into::into),
            other => Err(FunctionError::from(format!("there is no function {other:?}"))),
        }
        .map_err(failed)
    })?;
    Ok(ExitCode::SUCCESS)
}
