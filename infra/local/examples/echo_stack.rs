//! A stack with one function, for the tests that kill a whole stack: starts the program given as second argument with
//! its data in the folder given as first, prints the id of the function's process and waits to be killed.

use std::collections::BTreeMap;
use std::error::Error;
use std::time::Duration;

use longhaul_local::lambda::functions::{FunctionConfig, Functions, FunctionsConfig};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args_os().skip(1);
    let data = arguments.next().ok_or("the data folder is missing")?;
    let program = arguments.next().ok_or("the program is missing")?;
    let mut config = FunctionsConfig::new(data);
    // A program that is no function never asks for work; it must live until this stack is killed.
    config.init_timeout = Duration::from_secs(600);
    let functions = Functions::start(config).await?;
    let function = functions
        .add(FunctionConfig {
            name: "echo".to_owned(),
            program: program.into(),
            args: arguments.collect(),
            env: std::env::vars().filter(|(name, _)| name.starts_with("ECHO_")).collect::<BTreeMap<_, _>>(),
            timeout: Duration::from_secs(600),
            memory_mb: 128,
            max_concurrency: 1,
            per_process: 1,
            patience: Duration::ZERO,
            env_in_turn: Vec::new(),
        })
        .await?;
    let _invocation = tokio::spawn(async move { function.invoke("{}", None).await });
    loop {
        if let Some(instance) = functions.instances().first() {
            println!("{}", instance.pid);
            break;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    std::future::pending().await
}
