//! Answers that are made in the background: the id is kept, the worker is let go, and no crash begins a second one.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use futures::FutureExt;
use futures::future::LocalBoxFuture;
use longhaul::ErrorClass;
use longhaul::engine::Entry;
use longhaul::engine::entry::Edit;
use longhaul::engine::job::Status;
use longhaul::engine::journal::{Ending, StepState};
use longhaul::forking::{self, ForkOrder, ForkPoint};
use longhaul::outside;
use longhaul_agent::defined::background::InBackground;
use longhaul_agent::defined::equipment::{Equipment, Models, Opened};
use longhaul_agent::{HeavyWork, Paths, Reach, SystemLookup};
use longhaul_definition::{ModelChoice, Policy};
use longhaul_llm::{Background, Completion, Delta, Model, ModelError, ModelErrorKind, ModelRequest, ResponseId, Stage};
use longhaul_sim::workshop::{Workshop, killed};
use longhaul_sim::{Moment, Sim};
use serde_json::{Value, json};

use crate::room::{add_with, definition, entries, failure, finish, result, says, usage};

/// What becomes of a response: how many looks it takes, and its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    Answered,
    Fails,
    Refused,
    Lost,
    /// Never done: it is stopped.
    Endless,
}

/// A provider that knows keys: the same key is the same response.
struct Provider {
    fates: Vec<Fate>,
    looks: u32,
    /// Keys of responses, and how often each was asked for.
    started: RefCell<Vec<(String, u32)>>,
    looked: RefCell<BTreeMap<String, u32>>,
    cancelled: RefCell<Vec<String>>,
    /// Answers in the foreground of the model behind this one.
    fallen_back: RefCell<u32>,
}

impl Provider {
    fn new(looks: u32, fates: &[Fate]) -> Rc<Self> {
        Rc::new(Self {
            fates: fates.to_vec(),
            looks,
            started: RefCell::default(),
            looked: RefCell::default(),
            cancelled: RefCell::default(),
            fallen_back: RefCell::default(),
        })
    }

    fn starts(&self) -> u32 {
        self.started.borrow().iter().map(|(_, times)| times).sum()
    }
}

struct Away(Rc<Provider>);

impl InBackground for Away {
    fn model_name(&self) -> &str {
        "thinker"
    }

    fn start<'a>(
        &'a self,
        request: &'a ModelRequest,
    ) -> LocalBoxFuture<'a, Result<(ResponseId, Background), ModelError>> {
        async move {
            tokio::time::sleep(Duration::from_millis(200)).await;
            assert!(request.traceparent.is_some(), "the trace goes along");
            let key = request.idempotency_key.clone().unwrap();
            let mut started = self.0.started.borrow_mut();
            match started.iter_mut().find(|(known, _)| *known == key) {
                Some((_, times)) => *times += 1,
                None => started.push((key.clone(), 1)),
            }
            Ok((ResponseId::new(key), Background::Running { stage: Stage::Queued }))
        }
        .boxed_local()
    }

    fn poll<'a>(
        &'a self,
        id: &'a ResponseId,
        _request: &'a ModelRequest,
    ) -> LocalBoxFuture<'a, Result<Background, ModelError>> {
        async move {
            tokio::time::sleep(Duration::from_millis(100)).await;
            let place = self.0.started.borrow().iter().position(|(key, _)| key == id.as_str()).unwrap();
            let looked = {
                let mut looked = self.0.looked.borrow_mut();
                let count = looked.entry(id.as_str().to_owned()).or_default();
                *count += 1;
                *count
            };
            if self.0.cancelled.borrow().iter().any(|cancelled| cancelled == id.as_str()) {
                return Ok(Background::Cancelled { usage: Some(usage()) });
            }
            if looked < self.0.looks {
                return Ok(Background::Running { stage: Stage::InProgress });
            }
            let failed = |kind| Background::Failed { error: ModelError::new(kind, "it broke") };
            Ok(match self.0.fates.get(place).copied().unwrap_or(Fate::Answered) {
                Fate::Answered => Background::Done { reply: Box::new(says("thought through").unwrap()) },
                Fate::Fails => failed(ModelErrorKind::Transient),
                Fate::Refused => failed(ModelErrorKind::Refused),
                Fate::Lost => Background::Lost,
                Fate::Endless => Background::Running { stage: Stage::InProgress },
            })
        }
        .boxed_local()
    }

    fn cancel<'a>(
        &'a self,
        id: &'a ResponseId,
        _request: &'a ModelRequest,
    ) -> LocalBoxFuture<'a, Result<Background, ModelError>> {
        async move {
            self.0.cancelled.borrow_mut().push(id.as_str().to_owned());
            Ok(Background::Cancelled { usage: None })
        }
        .boxed_local()
    }
}

/// The model that is asked when the first one cannot answer.
struct Behind(Rc<Provider>);

impl Model for Behind {
    fn complete<'a>(&'a self, _request: &'a ModelRequest, _on_delta: &'a mut dyn FnMut(Delta)) -> Completion<'a> {
        Box::pin(async move {
            *self.0.fallen_back.borrow_mut() += 1;
            says("by the other one")
        })
    }
}

struct Both(Rc<Provider>);

impl Models for Both {
    fn open(&self, choices: &[ModelChoice]) -> Result<Opened, String> {
        let names = choices.iter().map(|choice| choice.provider.clone()).collect();
        Ok(Opened { model: Rc::new(Behind(Rc::clone(&self.0))), names })
    }

    fn open_in_background(&self, choices: &[ModelChoice]) -> Result<Option<Rc<dyn InBackground>>, String> {
        let wanted = choices[0].background == Some(true);
        Ok(wanted.then(|| Rc::new(Away(Rc::clone(&self.0))) as Rc<dyn InBackground>))
    }
}

fn workshop(provider: &Rc<Provider>, fields: Value) -> Workshop {
    let mut whole = definition(&[], json!({"models": [{"provider": "default", "background": true}]}));
    for (name, value) in fields.as_object().unwrap() {
        whole[name] = value.clone();
    }
    let reach = Reach::new(Policy::default(), std::sync::Arc::new(SystemLookup)).unwrap();
    let equipment = Equipment::new(Rc::new(Both(Rc::clone(provider))), reach, Paths::default());
    let mut registry = longhaul::Registry::default();
    add_with(&mut registry, "agent", &whole, equipment.with_heavy_work(HeavyWork::Here));
    Workshop::new(Sim::faultless(), registry)
}

fn names(workshop: &Workshop, job: &longhaul::store::JobRef, name: &str) -> usize {
    let found = entries(workshop, job);
    found.iter().filter(|entry| matches!(entry, Entry::StepCompleted { id, .. } if id.name == name)).count()
}

#[tokio::test(start_paused = true)]
async fn the_worker_is_let_go_between_looks() {
    let provider = Provider::new(5, &[]);
    let workshop = workshop(&provider, json!({}));
    let begun = workshop.clock.now();
    let job = finish(&workshop, 1).await;
    assert_eq!(result(&workshop, &job), json!("thought through"), "{}", workshop.story(&job));
    assert_eq!((provider.starts(), names(&workshop, &job, "model look")), (1, 5));
    let claims = entries(&workshop, &job).iter().filter(|entry| matches!(entry, Entry::Claimed { .. })).count();
    assert_eq!(claims, 6, "one invocation that begins it, and one for each look");
    // 2 + 4 + 8 + 16 + 32 s.
    let took = begun.until(workshop.sim.job(job.job).unwrap().progress.updated_at);
    assert!(took >= Duration::from_secs(62) && took < Duration::from_secs(70), "{took:?}");
    let used = workshop.journal(&job).totals().usage;
    assert!(used.tokens() > 0, "the answer is paid for once: {used:?}");
}

/// The worker dies at every one of its calls to the store, on both sides of the call, in each of the first four
/// invocations.
#[tokio::test(start_paused = true)]
async fn a_crash_anywhere_begins_no_second_response() {
    for invocation in 0..4_u64 {
        for moment in [Moment::Before, Moment::After] {
            for call in 1..=12 {
                let provider = Provider::new(3, &[]);
                let mut workshop = workshop(&provider, json!({}));
                workshop.crashes = Rc::new(move |worker| (worker == invocation).then(|| killed(call, moment)));
                let job = finish(&workshop, 2).await;
                let at = format!("invocation {invocation} killed {moment:?} call {call}");
                assert_eq!(result(&workshop, &job), json!("thought through"), "{at}");
                assert_eq!(names(&workshop, &job, "model begin"), 1, "{at}");
                let started = provider.started.borrow();
                assert_eq!(started.len(), 1, "{at}: one key, so one response: {started:?}");
                // Known to the journal, it is never asked for again: twice only when the crash came before that.
                let most = if invocation == 0 { 2 } else { 1 };
                assert!(provider.starts() <= most, "{at}: {started:?}");
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_response_without_an_answer_is_begun_anew() {
    for fates in [&[Fate::Fails, Fate::Answered][..], &[Fate::Lost, Fate::Fails, Fate::Answered][..]] {
        let provider = Provider::new(1, fates);
        let workshop = workshop(&provider, json!({}));
        let job = finish(&workshop, 1).await;
        assert_eq!(result(&workshop, &job), json!("thought through"), "{fates:?}");
        assert_eq!(provider.started.borrow().len(), fates.len(), "each under a key of its own");
    }
    // Too often, and what another try cannot help.
    for (fates, class, begun) in [
        (&[Fate::Fails, Fate::Fails, Fate::Fails][..], ErrorClass::Transient, 3),
        (&[Fate::Refused][..], ErrorClass::Refused, 1),
    ] {
        let provider = Provider::new(1, fates);
        let workshop = workshop(&provider, json!({}));
        let job = finish(&workshop, 1).await;
        assert_eq!(failure(&workshop, &job).class, class, "{fates:?}");
        assert_eq!(provider.starts(), begun, "{fates:?}");
        // A person opens it again: a new response is begun, and answers.
        let replayed = workshop
            .run(1, async {
                let (store, now) = (workshop.sim.handle(), workshop.clock.now());
                let replay = outside::replay(
                    &store,
                    &job,
                    "r".parse().unwrap(),
                    "ada".to_owned(),
                    None,
                    Default::default(),
                    now,
                );
                replay.await.unwrap();
                workshop.ended(&job).await.progress.state.status()
            })
            .await;
        assert_eq!(replayed, Status::Completed, "{fates:?}\n{}", workshop.story(&job));
        assert_eq!(provider.starts(), begun + 1, "{fates:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_next_model_answers_where_the_first_cannot() {
    let provider = Provider::new(1, &[Fate::Fails, Fate::Fails, Fate::Fails]);
    let models = json!({"models": [{"provider": "default", "background": true}, {"provider": "other"}]});
    let workshop = workshop(&provider, models);
    let job = finish(&workshop, 1).await;
    assert_eq!(result(&workshop, &job), json!("by the other one"));
    assert_eq!((provider.starts(), *provider.fallen_back.borrow()), (3, 1));
}

async fn replayed(workshop: &Workshop, job: &longhaul::store::JobRef, key: &str, edit: Edit) {
    let (store, now) = (workshop.sim.handle(), workshop.clock.now());
    outside::replay(&store, job, key.parse().unwrap(), "ada".to_owned(), None, edit, now).await.unwrap();
}

/// A response that is never done is stopped and begun anew, and looking at it is none of the steps that the job may make.
#[tokio::test(start_paused = true)]
async fn a_response_that_takes_for_ever_is_stopped_and_begun_anew() {
    let provider = Provider::new(1, &[Fate::Endless, Fate::Answered]);
    let workshop = workshop(&provider, json!({"budget": {"steps": 6}}));
    let job = finish(&workshop, 1).await;
    assert_eq!(result(&workshop, &job), json!("thought through"), "{:?}", workshop.journal(&job).ending());
    assert_eq!(names(&workshop, &job, "model look"), 301);
    assert_eq!(*provider.cancelled.borrow(), [provider.started.borrow()[0].0.clone()]);
    assert_eq!(provider.started.borrow().len(), 2);
}

/// What is one step when it is waited for is one step when it is looked after.
#[tokio::test(start_paused = true)]
async fn a_response_in_the_background_is_one_step_of_a_budget() {
    let provider = Provider::new(3, &[Fate::Answered]);
    let workshop = workshop(&provider, json!({"budget": {"steps": 1}}));
    let job = finish(&workshop, 1).await;
    assert_eq!(result(&workshop, &job), json!("thought through"), "{:?}", workshop.journal(&job).ending());
    assert_eq!(workshop.journal(&job).totals().steps, 1);
}

/// Too many of them fail the job as any other answers that do not come, and a person can have it tried anew.
#[tokio::test(start_paused = true)]
async fn a_job_whose_responses_took_for_ever_can_be_replayed() {
    let provider = Provider::new(1, &[Fate::Endless, Fate::Answered]);
    let once = json!({"retry": {"attempts": 1, "wait_first_seconds": 10, "wait_factor": 3}});
    let workshop = workshop(&provider, once);
    let job = finish(&workshop, 1).await;
    assert_eq!(failure(&workshop, &job).class, ErrorClass::Timeout);
    let journal = workshop.journal(&job);
    let sent = journal.steps().find_map(|record| match &record.state {
        StepState::Failed { failure } => failure.sent.as_deref().cloned(),
        _ => None,
    });
    let sent = sent.expect("what the model was asked stands with the step that failed");
    assert_eq!(sent["messages"][0]["text"], "Do it.");
    workshop
        .run(1, async {
            replayed(&workshop, &job, "r", Edit::default()).await;
            workshop.until(&job, |found| found.progress.state.status() == Status::Completed).await;
        })
        .await;
    assert_eq!(provider.starts(), 2);
}

/// A job that was cancelled while its answer was made begins a new one when it is opened again, and has paid for what the
/// first had come to; one that is opened with other instructions asks under another key.
#[tokio::test(start_paused = true)]
async fn a_cancelled_job_that_is_replayed_asks_anew() {
    for edit in [Edit::default(), Edit { instructions: Some("Do it well.".to_owned()), ..Edit::default() }] {
        let provider = Provider::new(4, &[]);
        let workshop = workshop(&provider, json!({}));
        let job = workshop
            .run(1, async {
                let job = workshop.submit(workshop.order("agent", json!({}))).await;
                workshop.clock.sleep(Duration::from_secs(5)).await;
                let (store, now) = (workshop.sim.handle(), workshop.clock.now());
                outside::cancel(&store, &job, "c".parse().unwrap(), "ada".to_owned(), None, now).await.unwrap();
                workshop.until(&job, |found| found.progress.state.status() == Status::Cancelled).await;
                let before = workshop.journal(&job).totals().usage.tokens();
                replayed(&workshop, &job, "r", edit.clone()).await;
                workshop.until(&job, |found| found.progress.state.status() == Status::Completed).await;
                let used = workshop.journal(&job).totals().usage.tokens() - before;
                assert_eq!(used, 240, "what the first had come to, and the answer");
                job
            })
            .await;
        assert_eq!(result(&workshop, &job), json!("thought through"));
        let started = provider.started.borrow();
        assert_eq!(started.len(), 2, "{started:?}");
        assert_eq!(started[1].0.contains("asked-anew"), edit.asks_anew(), "{started:?}");
    }
}

/// What a fork kept of a response is the other job's: a fork that is cancelled stops nothing there.
#[tokio::test(start_paused = true)]
async fn a_fork_leaves_the_response_of_its_source_alone() {
    let provider = Provider::new(6, &[]);
    let workshop = workshop(&provider, json!({}));
    workshop
        .run(2, async {
            let job = workshop.submit(workshop.order("agent", json!({}))).await;
            workshop.clock.sleep(Duration::from_secs(5)).await;
            let (store, now) = (workshop.sim.handle(), workshop.clock.now());
            let id = longhaul::engine::JobId::of_key(&job.tenant, "fork");
            let order = ForkOrder {
                id,
                from: ForkPoint::LastGood,
                edit: Edit::default(),
                repeat_effects: false,
                traceparent: None,
                now,
                by: "eve".to_owned(),
            };
            forking::fork(&store, &job, order).await.unwrap();
            let fork = longhaul::store::JobRef { tenant: job.tenant.clone(), job: id };
            workshop.until(&fork, |found| found.progress.state.status() == Status::Waiting).await;
            let now = workshop.clock.now();
            outside::cancel(&store, &fork, "c".parse().unwrap(), "eve".to_owned(), None, now).await.unwrap();
            workshop.until(&fork, |found| found.progress.state.status() == Status::Cancelled).await;
            assert_eq!(names(&workshop, &fork, "model begin"), 1, "it has the response from the other job");
            assert!(provider.cancelled.borrow().is_empty(), "{:?}", provider.cancelled.borrow());
            workshop.ended(&job).await;
            assert_eq!(result(&workshop, &job), json!("thought through"));
        })
        .await;
    assert_eq!(provider.starts(), 1);
}

/// A job that is cancelled while its answer is made, or that fails, leaves nothing running at the provider.
#[tokio::test(start_paused = true)]
async fn f08_the_provider_is_asked_to_stop() {
    // While it waits, and while a look is under way.
    for after in [1_000, 2_250, 5_000, 30_000] {
        let provider = Provider::new(9, &[]);
        let workshop = workshop(&provider, json!({}));
        let job = workshop
            .run(1, async {
                let job = workshop.submit(workshop.order("agent", json!({}))).await;
                workshop.clock.sleep(Duration::from_millis(after)).await;
                let (store, now) = (workshop.sim.handle(), workshop.clock.now());
                outside::cancel(&store, &job, "c".parse().unwrap(), "ada".to_owned(), None, now).await.unwrap();
                workshop.ended(&job).await;
                assert!(now.until(workshop.clock.now()) <= Duration::from_secs(4), "after {after} ms");
                job
            })
            .await;
        assert!(matches!(workshop.journal(&job).ending(), Some(Ending::Cancelled { .. })));
        let started: Vec<String> = provider.started.borrow().iter().map(|(key, _)| key.clone()).collect();
        assert_eq!(*provider.cancelled.borrow(), started, "after {after} ms");
    }
    // One that has its answer has nothing to stop.
    let provider = Provider::new(1, &[Fate::Refused]);
    let workshop = workshop(&provider, json!({}));
    finish(&workshop, 1).await;
    assert!(provider.cancelled.borrow().is_empty());
}
