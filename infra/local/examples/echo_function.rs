//! A Lambda function for the tests of the embedded stack: does what its event tells it to.
//!
//! It is a real function on `lambda_runtime`, so that the tests meet the Runtime API, the process and its death as
//! they are. What to do is said by an order (`{"do": …}`) somewhere in the event: at its top, in the header `x-do` or
//! the query parameter `do` of a request, in the body of a message, or in a record of a batch. Without an order the
//! event is sent back as it came. With `ECHO_RECORD` set, each event is first appended to that file.

use std::time::Duration;

use futures::FutureExt as _;
use lambda_runtime::{Error, LambdaEvent, service_fn};
use longhaul_aws::pollers::{self, Pollers};
use serde_json::{Value, json};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    // Without the kernel's help, the end of the stack shows only in the broken connection to the Runtime API.
    if std::env::var_os("ECHO_ON_ITS_OWN").is_none() {
        longhaul_local::lambda::die_with_parent()?;
    }
    match std::env::var("ECHO_START").as_deref() {
        Ok("exit") => std::process::exit(7),
        Ok("hang") => std::future::pending().await,
        Ok(other) => return Err(format!("unknown start {other:?}").into()),
        Err(_) => {}
    }
    println!("cold start of {}", std::process::id());
    pollers::serve(pollers::at_once(), |pollers: Pollers| {
        Box::pin(lambda_runtime::run(service_fn(move |event| {
            let busy = pollers.busy();
            handle(event).inspect(move |_| drop(busy))
        })))
    })
    .await
}

#[allow(clippy::panic, reason = "a function that panics is one of the things to be seen")]
async fn handle(event: LambdaEvent<Value>) -> Result<Value, Error> {
    let LambdaEvent { payload, context } = event;
    record(&payload)?;
    let order = find_order(&payload).unwrap_or_default();
    match order.get("do").and_then(Value::as_str) {
        None => Ok(payload),
        Some("describe") => Ok(json!({
            "pid": std::process::id(),
            "request_id": context.request_id,
            "deadline": context.deadline,
            "arn": context.invoked_function_arn,
            "trace": context.xray_trace_id,
            "environment": std::env::vars().collect::<std::collections::BTreeMap<_, _>>(),
        })),
        Some("print") => {
            println!("to standard output");
            eprintln!("to standard error");
            Ok(Value::Null)
        }
        Some("sleep") => {
            let ms = order.get("ms").and_then(Value::as_u64).unwrap_or(0);
            tokio::time::sleep(Duration::from_millis(ms)).await;
            Ok(json!({ "pid": std::process::id(), "statusCode": 200 }))
        }
        Some("fail") => Err("told to fail".into()),
        Some("panic") => panic!("told to panic"),
        Some("exit") => std::process::exit(3),
        Some("kill") => {
            let own = rustix::process::getpid();
            rustix::process::kill_process(own, rustix::process::Signal::KILL)?;
            Ok(Value::Null)
        }
        // The process ends a moment after its answer, as one does that is killed while it is idle.
        Some("exit after answer") => {
            std::thread::spawn(|| {
                std::thread::sleep(Duration::from_millis(50));
                std::process::exit(0)
            });
            Ok(Value::Null)
        }
        Some("answer") => Ok(fill_in(&payload, order.get("answer").cloned().unwrap_or_default())),
        Some("big answer") => Ok(Value::String("x".repeat(7 * 1024 * 1024))),
        // The whole event inside an HTTP answer.
        Some("mirror") => Ok(json!({ "statusCode": 200, "body": payload.to_string() })),
        Some(other) => Err(format!("unknown deed {other:?}").into()),
    }
}

/// Puts the identifier of the n-th record of a batch where the answer says `"#n"`.
fn fill_in(event: &Value, answer: Value) -> Value {
    let identifier = |place: &str| {
        let position: usize = place.strip_prefix('#')?.parse().ok()?;
        let record = event.get("Records")?.get(position)?;
        record.get("messageId").or_else(|| record.pointer("/dynamodb/SequenceNumber")).cloned()
    };
    match answer {
        Value::String(text) => identifier(&text).unwrap_or(Value::String(text)),
        Value::Array(items) => items.into_iter().map(|item| fill_in(event, item)).collect(),
        Value::Object(fields) => fields.into_iter().map(|(name, field)| (name, fill_in(event, field))).collect(),
        other @ (Value::Null | Value::Bool(_) | Value::Number(_)) => other,
    }
}

/// The order in an event, wherever it stands.
fn find_order(event: &Value) -> Option<Value> {
    let as_order = |value: &Value| value.get("do").is_some().then(|| value.clone());
    let in_text = |text: &Value| serde_json::from_str::<Value>(text.as_str()?).ok().and_then(|value| as_order(&value));
    as_order(event)
        .or_else(|| in_text(event.pointer("/headers/x-do")?))
        .or_else(|| in_text(event.pointer("/queryStringParameters/do")?))
        .or_else(|| in_text(event.get("body")?))
        .or_else(|| {
            event.get("Records")?.as_array()?.iter().find_map(|record| {
                record.get("body").and_then(in_text).or_else(|| in_text(record.pointer("/dynamodb/NewImage/order/S")?))
            })
        })
}

/// Appends the event to the file that the test reads.
fn record(event: &Value) -> Result<(), Error> {
    use std::io::Write as _;
    if let Ok(path) = std::env::var("ECHO_RECORD") {
        let mut file = std::fs::OpenOptions::new().create(true).append(true).open(path)?;
        file.write_all(format!("{event}\n").as_bytes())?;
    }
    Ok(())
}
