//! What each command does.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use longhaul_engine::JobId;
use longhaul_wire::JobView;
use longhaul_wire::requests::{
    Budget, CancelRequest, EditRequest, ForkRequest, ReplayRequest, SignalRequest, SubmitRequest, TenantSettings,
};
use serde::Serialize;
use serde_json::{Value, json};

use super::connect::Connected;
use super::follow::{Follow, News};
use super::output::{plain, print, say};
use super::progress::Progress;
use super::{
    CliError, Command, DeadLettersCommand, Fork, JobsCommand, Output, Place, Replay, TenantCommand, tables, transfer,
};
use crate::rehearsal;
use crate::stack::{Issuer, ModelChoice, Stack};

/// Does a command.
pub(super) async fn run(place: Place, command: Command) -> Result<ExitCode, CliError> {
    match command {
        Command::Up { port, websocket_port } => up(&place, port, websocket_port).await,
        Command::Research { topic, corpus, sources, output } => {
            let input = research_input(&topic, corpus, sources)?;
            submit_and_watch(&place, "research", input, None, false, output).await
        }
        Command::Run { agent, input, idempotency_key, detach, output } => {
            let input = json_argument("--input", &input)?;
            submit_and_watch(&place, &agent, input, idempotency_key.as_deref(), detach, output).await
        }
        Command::Watch { id, after, output } => {
            let connected = place.connect().await?;
            let done = watch(&connected, &id, after, output).await;
            connected.end().await;
            done
        }
        Command::Fork(request) => {
            let connected = place.connect().await?;
            let done = fork(&connected, request).await;
            connected.end().await;
            done
        }
        Command::Jobs(JobsCommand::Import { file, output }) => transfer::import(&place, &file, output).await,
        Command::Jobs(JobsCommand::Step { id, from, input, count, output }) => {
            let input = input.map(|given| json_argument("--input", &given)).transpose()?;
            let connected = place.connect().await?;
            let go = transfer::Go { id, from, input, count, output };
            let done = Box::pin(transfer::step(&place, &connected, go)).await;
            connected.end().await;
            done
        }
        Command::Jobs(command) => {
            let connected = place.connect().await?;
            let done = jobs(&connected, command).await;
            connected.end().await;
            done
        }
        Command::DeadLetters(command) => {
            let connected = place.connect().await?;
            let done = dead_letters(&connected, command).await;
            connected.end().await;
            done
        }
        Command::Tenant(command) => {
            let connected = place.connect().await?;
            let done = tenant(&connected, command).await;
            connected.end().await;
            done
        }
        Command::Token { hours, subject } => {
            let data = place.folder()?;
            std::fs::create_dir_all(&data)?;
            let lifetime = Duration::from_secs(hours.saturating_mul(3_600));
            print(&Issuer::open(&data)?.mint(place.tenant.as_str(), &subject, lifetime)?)?;
            Ok(ExitCode::SUCCESS)
        }
        Command::Agents(command) => super::agents::run(&place, command).await,
        Command::Bench(arguments) => super::bench::bench(place.running.workers, place.running.durable, arguments).await,
        Command::Cost(arguments) => super::cost::run(&arguments),
        Command::Soak(arguments) => super::soak::soak(&place, arguments).await,
        // `super::run` has taken this way already: a function has a runtime of its own.
        Command::Function { name } => Err(CliError::Argument { argument: "function", what: name }),
    }
}

async fn up(place: &Place, port: u16, websocket_port: u16) -> Result<ExitCode, CliError> {
    let options = place.options()?;
    let model = said_of_model(options.model.as_ref());
    let data = options.data.clone();
    let stack = Stack::start(crate::stack::StackOptions { api_port: port, websocket_port, ..options }).await?;
    let addresses = stack.addresses();
    let token = stack.issuer().mint(place.tenant.as_str(), "developer", Duration::from_secs(12 * 3_600))?;
    print(&format!("console     {}/console/#token={token}", addresses.api))?;
    print(&format!("API         {}", addresses.api))?;
    print(&format!("WebSocket   {}", addresses.websocket))?;
    print(&format!("model       {model}"))?;
    print(&format!("data        {}", data.display()))?;
    print(&format!("logs        {}", data.join("logs").display()))?;
    print(&format!("tenant      {}", place.tenant))?;
    print(&format!("token       {token}"))?;
    print("")?;
    print("Try, in another terminal:  longhaul research \"how queues make agents reliable\"")?;
    print("Ctrl-C ends the stack; jobs go on when it is started again.")?;
    tokio::signal::ctrl_c().await?;
    say("ending");
    stack.shutdown().await;
    Ok(ExitCode::SUCCESS)
}

fn said_of_model(model: Option<&ModelChoice>) -> String {
    match model {
        Some(choice) => format!("{} at {}", choice.model, choice.url),
        None => format!(
            "{}: a stand-in that condenses what it is given, no language model \
             (set OPENAI_API_KEY, ANTHROPIC_API_KEY or LONGHAUL_MODEL_URL for a real one)",
            rehearsal::MODEL_NAME
        ),
    }
}

fn research_input(topic: &str, corpus: Option<PathBuf>, sources: Option<u8>) -> Result<Value, CliError> {
    let mut input = json!({ "topic": topic });
    if let (Some(corpus), Some(fields)) = (corpus, input.as_object_mut()) {
        // The worker has another working directory than the person.
        fields.insert("corpus".to_owned(), json!(std::path::absolute(corpus)?));
    }
    if let (Some(sources), Some(fields)) = (sources, input.as_object_mut()) {
        fields.insert("sources_max".to_owned(), json!(sources));
    }
    Ok(input)
}

/// An argument that is JSON, or names a file of JSON.
pub(super) fn json_argument(argument: &'static str, given: &str) -> Result<Value, CliError> {
    let text = text_argument(argument, given)?;
    serde_json::from_str(&text).map_err(|error| CliError::Argument { argument, what: format!("is no JSON: {error}") })
}

async fn submit_and_watch(
    place: &Place,
    agent: &str,
    input: Value,
    key: Option<&str>,
    detach: bool,
    output: Output,
) -> Result<ExitCode, CliError> {
    let connected = place.connect().await?;
    let request = SubmitRequest {
        agent: agent.to_owned(),
        input,
        budget: None,
        webhook: None,
        webhook_events: Vec::new(),
        labels: Default::default(),
    };
    let done = match connected.client.submit(&request, key).await {
        Ok(job) if detach => detached(&connected, &job, output),
        Ok(job) => {
            if connected.is_own() {
                say(&format!(
                    "model: {}",
                    said_of_model(ModelChoice::from_lookup(|name| std::env::var(name).ok()).as_ref())
                ));
            }
            say(&format!("job {} ({}), accepted by {}", job.id, job.agent, connected.addresses.api));
            watch(&connected, &job.id.to_string(), 0, output).await
        }
        Err(error) => Err(error),
    };
    connected.end().await;
    done
}

fn detached(connected: &Connected, job: &JobView, output: Output) -> Result<ExitCode, CliError> {
    if output.json {
        print_json(job)?;
    } else {
        print(&job.id.to_string())?;
    }
    if connected.is_own() {
        say(&format!("no stack goes on after this command; the job goes on with the next: {}", connected.hint(job)));
    }
    Ok(ExitCode::SUCCESS)
}

/// Watches a job until it ends and prints what came of it.
async fn watch(connected: &Connected, id: &str, after: u64, output: Output) -> Result<ExitCode, CliError> {
    let job: JobId = id
        .parse()
        .map_err(|error| CliError::Argument { argument: "ID", what: format!("{id:?} is no job id: {error}") })?;
    let before = connected.client.job(id).await?;
    let mut progress = Progress::new();
    let mut follow = Follow::new(&connected.addresses.websocket, connected.client.token(), job, after);
    let mut over = before.is_over() && after > 0;
    while !over {
        let news = tokio::select! {
            news = follow.next() => news?,
            interrupted = tokio::signal::ctrl_c() => {
                interrupted?;
                progress.finish();
                let goes_on = if connected.is_own() { "goes on with" } else { "goes on; watch it with" };
                say(&format!("not watching any more; the job {goes_on}: {}", connected.hint(&before)));
                return Ok(ExitCode::from(130));
            }
        };
        let event = match news {
            News::Event(event) => event,
            News::Delta(delta) => {
                progress.hear(&delta);
                continue;
            }
        };
        progress.show(&event);
        // A replayed job has an end in the middle: what the API says of it now decides.
        over = event.is_end() && connected.client.job(id).await?.is_over();
    }
    progress.finish();
    let mut job = connected.client.job(id).await?;
    if job.truncated {
        job.result = whole_result(connected, id).await?.or(job.result);
    }
    print_outcome(&job, output)
}

/// A result that is too large for the job's own answer, out of the journal.
async fn whole_result(connected: &Connected, id: &str) -> Result<Option<Value>, CliError> {
    let journal = connected.client.journal(id).await?;
    Ok(journal.into_iter().rev().find_map(|view| view.entry.get("output").cloned()))
}

/// What one JSON object says of an ended job.
#[derive(Serialize)]
struct Outcome<'a> {
    id: JobId,
    agent: &'a str,
    status: &'static str,
    result: Option<&'a Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    failure: Option<&'a longhaul_wire::jobs::FailureView>,
    steps: u64,
    usage: longhaul_wire::jobs::Usage,
}

fn print_outcome(job: &JobView, output: Output) -> Result<ExitCode, CliError> {
    let completed = job.result.is_some();
    if output.json {
        print_json(&Outcome {
            id: job.id,
            agent: &job.agent,
            status: job.status.as_str(),
            result: job.result.as_ref(),
            failure: job.failure.as_ref(),
            steps: job.steps,
            usage: job.usage,
        })?;
    } else {
        match (&job.result, &job.failure) {
            // An agent that writes a report is asked for the report.
            (Some(result), _) => match result.get("report").and_then(Value::as_str) {
                Some(report) => print(&plain(&format!("\n{report}")))?,
                None => print(&serde_json::to_string_pretty(result)?)?,
            },
            (None, Some(failure)) => {
                say(&format!("failed ({}): {}", failure.class, failure.message));
                for cause in &failure.causes {
                    say(&format!("  because: {cause}"));
                }
                say(&format!("read it:   longhaul dead-letters show {}", job.id));
                say(&format!("replay it: longhaul dead-letters replay {} [--input JSON]", job.id));
            }
            (None, None) => say(job.status.as_str()),
        }
        let tokens = job.usage.input_tokens.saturating_add(job.usage.output_tokens);
        let (status, cost) = (job.status.as_str(), tables::cost(&job.usage));
        say(&format!("job {}: {status}, {} steps, {tokens} tokens, {cost}", job.id, job.steps));
    }
    Ok(if completed { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

async fn jobs(connected: &Connected, command: JobsCommand) -> Result<ExitCode, CliError> {
    let client = &connected.client;
    match command {
        JobsCommand::Ls { status, agent, label, since, until, limit, output } => {
            let given = [("status", status), ("agent", agent), ("label", label), ("since", since), ("until", until)];
            let filter: Vec<(&str, &str)> =
                given.iter().filter_map(|(name, value)| Some((*name, value.as_deref()?))).collect();
            let list = client.jobs(&filter, usize::from(limit)).await?;
            print_or_json(&list, output, tables::jobs)
        }
        JobsCommand::Show { id, output } => show(connected, &id, output).await,
        JobsCommand::Cancel { id, reason } => {
            client.cancel(&id, &CancelRequest { reason }).await?;
            say(&format!("asked job {id} to end"));
            Ok(ExitCode::SUCCESS)
        }
        JobsCommand::Signal { id, name, payload } => {
            let payload = json_argument("--payload", &payload)?;
            client.signal(&id, &name, &SignalRequest { payload }).await?;
            say(&format!("sent the signal {name} to job {id}"));
            if connected.is_own() {
                return watch(connected, &id, 0, Output { json: false }).await;
            }
            Ok(ExitCode::SUCCESS)
        }
        JobsCommand::Replay(request) => replay(connected, request).await,
        JobsCommand::Export { id } => transfer::export(connected, &id).await,
        // `run` has taken these ways already: they need the data folder as well.
        JobsCommand::Import { .. } | JobsCommand::Step { .. } => {
            Err(CliError::Argument { argument: "COMMAND", what: "needs the data folder".to_owned() })
        }
    }
}

/// Makes a new job out of another one.
async fn fork(connected: &Connected, request: Fork) -> Result<ExitCode, CliError> {
    let Fork { id, from, step, input, tokens, model, instructions, repeat_effects, idempotency_key, detach, output } =
        request;
    let input = input.map(|given| json_argument("--input", &given)).transpose()?;
    let instructions = instructions.map(|given| text_argument("--instructions", &given)).transpose()?;
    let budget = tokens.map(|tokens| Budget { tokens: Some(tokens), ..Budget::default() });
    let edit = EditRequest { input, budget, model, instructions };
    let request = ForkRequest { from, step, edit, repeat_effects };
    let forked = connected.client.fork(&id, &request, idempotency_key.as_deref()).await?;
    say(&format!("job {} ({}) keeps {} outcomes of job {id}", forked.job.id, forked.job.agent, forked.kept));
    for effect in &forked.repeats {
        let once = if effect.at_most_once { ", declared to happen once at most" } else { "" };
        say(&format!("  does again: {} (step {}{once})", effect.name, effect.step));
    }
    if detach {
        return detached(connected, &forked.job, output);
    }
    watch(connected, &forked.job.id.to_string(), 0, output).await
}

async fn tenant(connected: &Connected, command: TenantCommand) -> Result<ExitCode, CliError> {
    let (settings, output) = match command {
        TenantCommand::Show { output } => (connected.client.tenant_settings().await?, output),
        TenantCommand::Set { job_kept_days, output } => {
            (connected.client.put_tenant_settings(&TenantSettings { job_kept_days }).await?, output)
        }
    };
    print_or_json(&settings, output, |settings| {
        format!("jobs are kept for {} days behind their end", settings.job_kept_days)
    })
}

/// An argument that is text, or names a file of text.
fn text_argument(argument: &'static str, given: &str) -> Result<String, CliError> {
    match given.strip_prefix('@') {
        Some(path) => std::fs::read_to_string(path).map_err(|source| CliError::File {
            argument,
            path: Path::new(path).to_owned(),
            source,
        }),
        None => Ok(given.to_owned()),
    }
}

async fn dead_letters(connected: &Connected, command: DeadLettersCommand) -> Result<ExitCode, CliError> {
    match command {
        DeadLettersCommand::Ls { output } => {
            let list = connected.client.dead_letters().await?;
            print_or_json(&list, output, tables::dead_letters)
        }
        DeadLettersCommand::Show { id, output } => show(connected, &id, output).await,
        DeadLettersCommand::Replay(request) => replay(connected, request).await,
    }
}

async fn show(connected: &Connected, id: &str, output: Output) -> Result<ExitCode, CliError> {
    let job = connected.client.job(id).await?;
    let journal = connected.client.journal(id).await?;
    if output.json {
        print_json(&json!({ "job": job, "journal": journal }))?;
    } else {
        print(&tables::story(&job, &journal))?;
    }
    Ok(ExitCode::SUCCESS)
}

async fn replay(connected: &Connected, request: Replay) -> Result<ExitCode, CliError> {
    let Replay { id, input, from, tokens, detach, output } = request;
    let input = input.map(|given| json_argument("--input", &given)).transpose()?;
    let budget = tokens.map(|tokens| Budget { tokens: Some(tokens), ..Budget::default() });
    let edit = EditRequest { input, budget, ..EditRequest::default() };
    if connected.client.job(&id).await?.imported_at.is_some() {
        let what =
            format!("it was imported, and no worker drives it; go through it with: longhaul jobs step {id} --from N");
        return Err(CliError::Argument { argument: "ID", what });
    }
    let taken_in = connected.client.replay(&id, &ReplayRequest { from, edit }).await?;
    if detach {
        say(&format!("job {id} is open again"));
        return Ok(ExitCode::SUCCESS);
    }
    // What came before the replay has been seen.
    let after = taken_in.seq.map_or(0, |seq| seq.saturating_sub(1));
    watch(connected, &id, after, output).await
}

fn print_or_json<T: Serialize>(value: &T, output: Output, table: fn(&T) -> String) -> Result<ExitCode, CliError> {
    if output.json {
        print_json(value)?;
    } else {
        print(&table(value))?;
    }
    Ok(ExitCode::SUCCESS)
}

pub(super) fn print_json(value: &impl Serialize) -> Result<(), CliError> {
    print(&serde_json::to_string(value)?)?;
    Ok(())
}
