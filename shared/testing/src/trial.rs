//! A trial: an agent, what surrounds it, one job.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use longhaul::engine::entry::WaitFor;
use longhaul::engine::ids::IdError;
use longhaul::engine::job::Totals;
use longhaul::engine::journal::Ending;
use longhaul::engine::{AgentRef, Entry, JobState};
use longhaul::{Agent, ErrorClass, Failure, Registry, StepError};
use longhaul_agent::defined::equipment::{Equipment, Models, Providers};
use longhaul_agent::{HeavyWork, Paths, Reach, SystemLookup, defined};
use longhaul_definition::{Finding, Format, Policy, read_within};
use longhaul_llm::{Access, BadPrices, Endpoint, Prices};
use longhaul_sim::workshop::{Workshop, killed};
use longhaul_sim::{Moment, Sim};
use serde_json::Value;

use crate::journal;
use crate::models::{Function, OwnFunctions, OwnSecrets, Scripted};
use crate::people::{People, Word};
use crate::script::Script;
use crate::traffic::{Closed, Traffic, TrafficError};

/// How long a person takes to answer, where the test does not say.
const PERSON_TAKES: Duration = Duration::from_secs(60);

/// Workers of a trial: one that may die, and one that goes on.
const WORKERS: usize = 2;

/// Why a trial came to nothing.
#[derive(thiserror::Error)]
pub enum TrialError {
    /// The definition has faults.
    #[error("the definition has faults:\n{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))]
    Definition(Vec<Finding>),
    /// The agent's name is none.
    #[error("the agent's name is none")]
    Name(#[from] IdError),
    /// The traffic was not as recorded, or could not be recorded.
    #[error(transparent)]
    Traffic(#[from] TrafficError),
    /// No client for tools can be built.
    #[error("no HTTP client can be built")]
    Client(#[from] reqwest::Error),
    /// The table of prices cannot be read.
    #[error("the table of prices cannot be read")]
    Prices(#[from] BadPrices),
    /// The runtime of the trial cannot be made.
    #[error("no runtime can be made")]
    Runtime(#[from] std::io::Error),
    /// Requests to servers in a trial that was given no traffic. Nothing was reached.
    #[error("the trial has no traffic to carry {}; record it (`Traffic::at`)", .0.join(", "))]
    NoTraffic(Vec<String>),
    /// A job that no worker can drive.
    #[error("the job of {agent} cannot go on: {what}")]
    Blocked {
        /// Its agent.
        agent: AgentRef,
        /// Why not.
        what: String,
    },
    /// Words that nobody waited for.
    #[error("the job never waited for the signals {words:?}; those that it waited for: {awaited:?}")]
    Unasked {
        /// How the names of the signals were to begin.
        words: Vec<String>,
        /// The signals that it did wait for.
        awaited: Vec<String>,
    },
    /// Lines of the script that nobody asked for.
    #[error("the job ended with {left} lines of the script left{}", .failure.as_ref().map(failed).unwrap_or_default())]
    Unsaid {
        /// How many.
        left: usize,
        /// What the job failed of, if it did: mostly the reason why nobody asked.
        failure: Option<Failure>,
    },
}

fn failed(failure: &Failure) -> String {
    format!("; it failed ({}): {}", failure.class.as_str(), failure.message)
}

/// As it reads, since a failed test shows an error in this form.
impl std::fmt::Debug for TrialError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{self}")?;
        let mut cause = std::error::Error::source(self);
        while let Some(found) = cause {
            write!(f, ": {found}")?;
            cause = found.source();
        }
        Ok(())
    }
}

/// The agent under test.
enum Subject {
    Defined { text: String },
    Rust { agent: Agent },
}

/// A trial about to be run.
pub struct Trial {
    name: String,
    subject: Subject,
    script: Option<Rc<Script>>,
    providers: Providers,
    traffic: Option<Traffic>,
    functions: OwnFunctions,
    secrets: OwnSecrets,
    policy: Policy,
    paths: Paths,
    words: Vec<Word>,
    dies_at: Option<u64>,
    beside: Vec<(String, Agent)>,
    /// In the place of traffic, where none was given.
    closed: Arc<Closed>,
}

/// What a trial came to.
#[derive(Debug, Clone)]
pub struct Ended {
    /// The job's journal as text, the same at each run.
    pub journal: String,
    /// Its entries.
    pub entries: Vec<Entry>,
    /// What the job has used.
    pub totals: Totals,
    /// How long it took, in virtual time.
    pub took: Duration,
    ending: Option<Ending>,
}

impl Ended {
    /// The job's result.
    ///
    /// # Errors
    /// The failure, when it has none.
    pub fn result(&self) -> Result<&Value, Failure> {
        match &self.ending {
            Some(Ending::Completed { output }) => Ok(output),
            Some(Ending::Failed { failure }) => Err(failure.clone()),
            Some(Ending::Cancelled { by, reason: _ }) => {
                Err(Failure::new(ErrorClass::Interrupted, format!("the job was cancelled by {by}")))
            }
            None => Err(Failure::new(ErrorClass::Interrupted, "the job has not ended")),
        }
    }
}

impl Trial {
    fn new(name: &str, subject: Subject) -> Self {
        Self {
            name: name.to_owned(),
            subject,
            script: None,
            providers: Providers::default(),
            traffic: None,
            functions: OwnFunctions::default(),
            secrets: OwnSecrets::default(),
            policy: Policy::default(),
            paths: Paths::default(),
            words: Vec::new(),
            dies_at: None,
            beside: Vec::new(),
            closed: Arc::default(),
        }
    }

    /// An agent by its definition's text, JSON or YAML.
    #[must_use]
    pub fn of_definition(text: &str) -> Self {
        Self::new("agent", Subject::Defined { text: text.to_owned() })
    }

    /// An agent in Rust.
    #[must_use]
    pub fn of_agent(name: &str, agent: Agent) -> Self {
        Self::new(name, Subject::Rust { agent })
    }

    /// A further agent, version 1, for an agent that starts others. A trial in which one is started that it does not have
    /// comes to nothing, and says so.
    #[must_use]
    pub fn beside(mut self, name: &str, agent: Agent) -> Self {
        self.beside.push((name.to_owned(), agent));
        self
    }

    /// Has a script answer in the place of every model of the definition. All of its lines must be asked for.
    #[must_use]
    pub fn script(mut self, script: Rc<Script>) -> Self {
        self.script = Some(script);
        self
    }

    /// A model provider by the name that the definition gives. Its requests go through the trial's traffic.
    #[must_use]
    pub fn provider(mut self, name: &str, endpoint: Endpoint, access: Access) -> Self {
        self.providers.add(name, endpoint, access);
        self
    }

    /// Traffic that carries the requests to models and HTTP tools.
    #[must_use]
    pub fn traffic(mut self, traffic: Traffic) -> Self {
        self.traffic = Some(traffic);
        self
    }

    /// A function in the place of the Lambda function of this name. It is given the event and gives its answer.
    #[must_use]
    pub fn function(mut self, name: &str, act: impl Fn(&Value) -> Result<Value, StepError> + 'static) -> Self {
        let act: Rc<Function> = Rc::new(act);
        self.functions.0.insert(name.to_owned(), act);
        self
    }

    /// A key by the name that the definition gives it (`ssm:/tickets/key`).
    #[must_use]
    pub fn secret(mut self, name: &str, key: &str) -> Self {
        self.secrets.0.insert(name.to_owned(), key.to_owned());
        self
    }

    /// Lets tools reach this host though it is not on the public internet: a server of the test's own, to be recorded.
    #[must_use]
    pub fn allow_host(mut self, host: &str) -> Self {
        self.policy.allowed_hosts.push(host.to_owned());
        self
    }

    /// Folders for the tools that read documents.
    #[must_use]
    pub fn paths(mut self, paths: Paths) -> Self {
        self.paths = paths;
        self
    }

    /// A person who gives this word, a minute after the job has come to wait for a signal whose name begins so. Each word
    /// is given once, in order, and must be waited for.
    #[must_use]
    pub fn person(mut self, signal: &str, payload: Value) -> Self {
        self.words.push(Word { signal: signal.to_owned(), payload, after: PERSON_TAKES });
        self
    }

    /// The first worker dies just before its `call`th call to the store, from 1; another goes on.
    #[must_use]
    pub fn dies_at(mut self, call: u64) -> Self {
        self.dies_at = Some(call);
        self
    }

    /// Runs a job with this input to its end.
    ///
    /// # Errors
    /// When the trial itself came to nothing; a job that failed is an [`Ended`] one.
    ///
    /// # Panics
    /// When the job has not ended after a week of its time; its journal is shown.
    pub fn run(mut self, input: Value) -> Result<Ended, TrialError> {
        let is_real = self.traffic.as_ref().is_some_and(Traffic::is_real);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(!is_real).build()?;
        let registry = self.registry()?;
        let ended = runtime.block_on(self.drive(registry, input))?;
        if let Some(traffic) = &self.traffic {
            traffic.finish()?;
        }
        let refused = self.closed.refused();
        if !refused.is_empty() {
            return Err(TrialError::NoTraffic(refused));
        }
        match self.script.as_ref().map_or(0, |script| script.left()) {
            0 => Ok(ended),
            left => Err(TrialError::Unsaid { left, failure: ended.result().err() }),
        }
    }

    fn registry(&mut self) -> Result<Registry, TrialError> {
        let mut registry = Registry::default();
        for (name, agent) in std::mem::take(&mut self.beside) {
            registry.add_agent(AgentRef { name: name.parse()?, version: 1 }, agent);
        }
        let agent = match &self.subject {
            Subject::Rust { agent } => agent.clone(),
            Subject::Defined { text } => {
                let format = if text.trim_start().starts_with('{') { Format::Json } else { Format::Yaml };
                let checked = read_within(text, format, &self.policy).map_err(TrialError::Definition)?;
                self.name.clone_from(&checked.definition.name);
                let equipment = self.equipment()?;
                defined::agent(checked.definition, Rc::new(equipment))
            }
        };
        registry.add_agent(AgentRef { name: self.name.parse()?, version: 1 }, agent);
        Ok(registry)
    }

    fn equipment(&mut self) -> Result<Equipment, TrialError> {
        let carrier = match &self.traffic {
            Some(traffic) => traffic.carrier(),
            None => Arc::<Closed>::clone(&self.closed),
        };
        let reach = Reach::new(self.policy.clone(), Arc::new(SystemLookup))?.carried_by(Arc::clone(&carrier));
        let providers = std::mem::take(&mut self.providers).carried_by(carrier);
        let models: Rc<dyn Models> = match &self.script {
            Some(script) => Rc::new(Scripted(Rc::clone(script))),
            None => Rc::new(providers),
        };
        Ok(Equipment::new(models, reach, self.paths.clone())
            .with_prices(Prices::built_in()?)
            .with_functions(Rc::new(std::mem::take(&mut self.functions)))
            .with_secrets(Rc::new(std::mem::take(&mut self.secrets)))
            .with_heavy_work(HeavyWork::Here))
    }

    async fn drive(&self, registry: Registry, input: Value) -> Result<Ended, TrialError> {
        let mut workshop = Workshop::new(Sim::faultless(), registry);
        if let Some(call) = self.dies_at {
            workshop.crashes = Rc::new(move |worker| (worker == 0).then(|| killed(call, Moment::Before)));
        }
        let people = People::new(self.words.clone());
        let order = workshop.order(&self.name, input);
        let begun = workshop.clock.now();
        let outside = async {
            let job = workshop.submit(order).await;
            tokio::select! {
                _ = workshop.ended(&job) => {}
                error = blocked(&workshop) => return Err(error),
                () = people.answer(&workshop, &job) => {}
            }
            let took = begun.until(workshop.clock.now());
            Ok((job, took))
        };
        let (job, took) = workshop.run(WORKERS, Box::pin(outside)).await?;
        let words = people.left();
        let batches = workshop.sim.snapshot().journals.remove(&job.job).unwrap_or_default();
        let journal = workshop.journal(&job);
        let ended = Ended {
            journal: journal::text(&batches),
            entries: batches.into_iter().flat_map(|batch| batch.entries).collect(),
            totals: *journal.totals(),
            took,
            ending: journal.ending().cloned(),
        };
        if words.is_empty() || ended.result().is_err() {
            return Ok(ended);
        }
        let waits = ended.entries.iter().filter_map(|entry| match entry {
            Entry::Waiting { on: WaitFor::Signal { signal }, .. } => Some(signal.to_string()),
            _ => None,
        });
        Err(TrialError::Unasked { words, awaited: waits.collect() })
    }
}

/// Waits for a job that no worker can drive. Nobody deploys anything in a trial, so that it would wait for ever.
async fn blocked(workshop: &Workshop) -> TrialError {
    loop {
        let changed = workshop.sim.changed();
        let found = workshop.sim.snapshot().jobs.into_values().find_map(|job| match job.progress.state {
            JobState::Blocked { mismatch } => Some((job.order.agent, mismatch)),
            JobState::Pending
            | JobState::Processing { .. }
            | JobState::Waiting { .. }
            | JobState::Completed
            | JobState::Failed
            | JobState::Cancelled => None,
        });
        if let Some((agent, mismatch)) = found {
            let what = match mismatch.step {
                None => "the trial has no such agent; give it with `beside`".to_owned(),
                Some(step) => format!(
                    "at step {step} its journal has {}, and its code, begun again, came to {}",
                    mismatch.recorded, mismatch.attempted
                ),
            };
            return TrialError::Blocked { agent, what };
        }
        changed.await;
    }
}
