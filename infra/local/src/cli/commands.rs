//! What each command does.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use longhaul_engine::JobId;
use longhaul_wire::requests::SubmitRequest;
use longhaul_wire::socket::DeltaBody;
use longhaul_wire::{Event, JobView};
use serde::Serialize;
use serde_json::{Value, json};

use super::connect::Connected;
use super::follow::{Follow, News};
use super::jobs::JobsCommand;
use super::output::{plain, print, say};
use super::progress::Progress;
use super::screen::{self, Screen, Wish};
use super::{CliError, Command, Output, Place, tables, transfer};
use crate::rehearsal;
use crate::stack::{Issuer, ModelChoice, Stack};

/// Does a command.
pub(super) async fn run(place: Place, command: Command) -> Result<ExitCode, CliError> {
    match command {
        Command::Up { port, websocket_port } => up(&place, port, websocket_port).await,
        Command::Research { topic, corpus, sources, output } => {
            let input = research_input(&topic, corpus, sources)?;
            submit_and_watch(&place, &submission("research".to_owned(), input), None, false, output).await
        }
        Command::Run(run) => {
            let (key, detach, output) = (run.idempotency_key.clone(), run.detach, run.output);
            submit_and_watch(&place, &run.request()?, key.as_deref(), detach, output).await
        }
        Command::Watch { id, after, plain, output } => {
            let connected = place.connect().await?;
            let done = watch(&connected, &id, after, output, plain).await;
            connected.end().await;
            done
        }
        Command::Fork(request) => {
            let connected = place.connect().await?;
            let done = super::jobs::fork(&connected, request).await;
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
            let done = super::jobs::jobs(&connected, command).await;
            connected.end().await;
            done
        }
        Command::DeadLetters(command) => {
            let connected = place.connect().await?;
            let done = super::dead_letters::dead_letters(&connected, command).await;
            connected.end().await;
            done
        }
        Command::Schedules(command) => {
            let connected = place.connect().await?;
            let done = super::schedules::run(&connected, command).await;
            connected.end().await;
            done
        }
        Command::Tenant(command) => {
            let connected = place.connect().await?;
            let done = super::tenant::tenant(&connected, &place, command).await;
            connected.end().await;
            done
        }
        Command::Login(arguments) => super::login::login(&place.target, arguments).await,
        Command::Logout => super::login::logout(&place.target).await,
        Command::Token { hours, subject, output } => token(&place, hours, &subject, output),
        Command::Agents(command) => super::agents::run(&place, command).await,
        Command::Bench(arguments) => {
            place.needs_no_deployment("bench")?;
            super::bench::bench(place.running.workers, place.running.durable, arguments).await
        }
        Command::Cost(arguments) => super::cost::run(&arguments),
        Command::Soak(arguments) => super::soak::soak(&place, arguments).await,
        // `super::run` has taken these ways already: they need no runtime, or one of their own.
        Command::Function { name } => Err(CliError::Argument { argument: "function", what: name }),
        Command::Completion { shell } => Err(CliError::Argument { argument: "completion", what: shell.to_string() }),
    }
}

/// Prints a token of the stack on this machine.
fn token(place: &Place, hours: u64, subject: &str, output: Output) -> Result<ExitCode, CliError> {
    let data = place.folder()?;
    let own = crate::stack::running(&data).map(|addresses| addresses.api);
    if let Some(url) = place.target.named()?.filter(|url| own.as_ref() != Some(url)) {
        let what = format!("{url} has an identity provider of its own: use `longhaul login --url {url}`");
        return Err(CliError::Argument { argument: "--url", what });
    }
    crate::stack::make_folder(&data)?;
    let lifetime = Duration::from_secs(hours.saturating_mul(3_600));
    let token = Issuer::open(&data)?.mint(place.tenant.as_str(), subject, lifetime)?;
    if output.json {
        print_json(&json!({ "token": token, "tenant": place.tenant, "subject": subject }))?;
    } else {
        print(&token)?;
    }
    Ok(ExitCode::SUCCESS)
}

pub(super) fn submission(agent: String, input: Value) -> SubmitRequest {
    SubmitRequest {
        agent,
        input,
        budget: None,
        webhook: None,
        webhook_events: Vec::new(),
        labels: Default::default(),
        thread: None,
        on_busy: None,
        priority: Default::default(),
    }
}

async fn up(place: &Place, port: u16, websocket_port: u16) -> Result<ExitCode, CliError> {
    place.needs_no_deployment("up")?;
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
    let program = std::env::args().next().unwrap_or_else(|| "longhaul".to_owned());
    let folder = place.data.as_ref().map(|_| format!(" --data {}", data.display())).unwrap_or_default();
    print(&format!("Try, in another terminal:  {program} research \"how queues make agents reliable\"{folder}"))?;
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

/// An argument that is a text, or names a file with it.
pub(super) fn text_argument(argument: &'static str, given: &str) -> Result<String, CliError> {
    let Some(path) = given.strip_prefix('@') else { return Ok(given.to_owned()) };
    let failed = |source| CliError::File { argument, path: Path::new(path).to_owned(), source };
    std::fs::read_to_string(path).map_err(failed)
}

/// An argument that is JSON, or names a file of JSON.
pub(super) fn json_argument(argument: &'static str, given: &str) -> Result<Value, CliError> {
    let text = text_argument(argument, given)?;
    serde_json::from_str(&text).map_err(|error| CliError::Argument { argument, what: format!("is no JSON: {error}") })
}

async fn submit_and_watch(
    place: &Place,
    request: &SubmitRequest,
    key: Option<&str>,
    detach: bool,
    output: Output,
) -> Result<ExitCode, CliError> {
    let connected = place.connect().await?;
    let done = match connected.client.submit(request, key).await {
        Ok(job) if detach => detached(&connected, &job, output),
        Ok(job) => {
            if connected.is_own() {
                say(&format!(
                    "model: {}",
                    said_of_model(ModelChoice::from_lookup(|name| std::env::var(name).ok()).as_ref())
                ));
            }
            say(&format!("job {} ({}), accepted by {}", job.id, job.agent, connected.addresses.api));
            watch(&connected, &job.id.to_string(), 0, output, true).await
        }
        Err(error) => Err(error),
    };
    connected.end().await;
    done
}

pub(super) fn detached(connected: &Connected, job: &JobView, output: Output) -> Result<ExitCode, CliError> {
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

/// Where a watched job's news are shown.
enum Shown {
    Lines(Progress),
    Screen(Box<Screen>),
}

impl Shown {
    fn show(&mut self, event: &Event) {
        match self {
            Self::Lines(progress) => progress.show(event),
            Self::Screen(screen) => screen.shown.show(event),
        }
    }

    fn hear(&mut self, delta: &DeltaBody) {
        match self {
            Self::Lines(progress) => progress.hear(delta),
            Self::Screen(screen) => screen.shown.hear(delta),
        }
    }

    /// Draws what must be drawn; whether the person wants to leave.
    fn tick(&mut self) -> Result<bool, CliError> {
        match self {
            Self::Lines(_) => Ok(false),
            Self::Screen(screen) => {
                screen.draw()?;
                Ok(screen.wish()? == Wish::Leave)
            }
        }
    }

    fn finish(self) {
        if let Self::Lines(progress) = self {
            progress.finish();
        }
    }
}

/// How often the live view asks where the job stands: its status changes also without an event.
const STANDING: Duration = Duration::from_secs(2);

/// The job that an argument names.
pub(super) fn job_id(id: &str) -> Result<JobId, CliError> {
    id.parse().map_err(|error| CliError::Argument { argument: "ID", what: format!("{id:?} is no job id: {error}") })
}

/// Whether a job has ended and has no event behind a position. Where that cannot be asked, whoever follows the job finds out
/// why.
async fn nothing_follows(connected: &Connected, job: JobId, after: u64) -> bool {
    let page = connected.client.events_at_hand(job, after).await;
    page.is_ok_and(|page| page.ended && page.events.is_empty())
}

/// Watches a job until it ends and prints what came of it.
pub(super) async fn watch(
    connected: &Connected,
    id: &str,
    after: u64,
    output: Output,
    plain: bool,
) -> Result<ExitCode, CliError> {
    let job = job_id(id)?;
    let before = connected.client.job(id).await?;
    let mut last = after;
    let mut over = after > 0 && nothing_follows(connected, job, last).await;
    let websocket = super::deployment::websocket(&connected.addresses).await?;
    let screen = !plain && !output.json && !over && Screen::is_possible();
    let mut shown =
        if screen { Shown::Screen(Box::new(Screen::open(before.clone())?)) } else { Shown::Lines(Progress::new()) };
    let mut follow = Follow::new(websocket, connected.client.clone(), job, after);
    let mut tick = tokio::time::interval(screen::TICK);
    let mut looked_at = Instant::now();
    while !over {
        let news = {
            // The same look over many ticks: it may be in the middle of connecting.
            let mut next = Box::pin(follow.next());
            loop {
                let left = tokio::select! {
                    news = &mut next => break Some(news?),
                    interrupted = tokio::signal::ctrl_c() => {
                        interrupted?;
                        true
                    }
                    _ = tick.tick() => shown.tick()?,
                };
                if left {
                    break None;
                }
                if looked_at.elapsed() >= STANDING {
                    looked_at = Instant::now();
                    if let Shown::Screen(screen) = &mut shown {
                        screen.shown.stands(connected.client.job(id).await?);
                    }
                    // No event would say so to who asks from behind the last one.
                    over = last == after && after > 0 && nothing_follows(connected, job, last).await;
                    if over {
                        break None;
                    }
                }
            }
        };
        match news {
            Some(News::Event(event)) => {
                last = event.sequence.0;
                shown.show(&event);
                // A replayed job has an end in the middle: what the API says of it now decides.
                over = event.is_end() && connected.client.job(id).await?.is_over();
            }
            Some(News::Delta(delta)) => shown.hear(&delta),
            None if over => {}
            None => {
                shown.finish();
                let goes_on = if connected.is_own() { "goes on with" } else { "goes on; watch it with" };
                say(&format!("not watching any more; the job {goes_on}: {}", connected.hint(&before)));
                return Ok(ExitCode::from(130));
            }
        }
    }
    shown.finish();
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
        let cost = tables::cost_of(&job.usage);
        say(&format!("job {}: {}, {} steps, {tokens} tokens, cost {cost}", job.id, job.status.as_str(), job.steps));
    }
    Ok(if completed { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

pub(super) fn print_json(value: &impl Serialize) -> Result<(), CliError> {
    print(&serde_json::to_string(value)?)?;
    Ok(())
}
