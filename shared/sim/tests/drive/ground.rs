//! What the scenarios have in common: agents of one function, and counts of what was really done.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use longhaul::engine::journal::Ending;
use longhaul::store::JobRef;
use longhaul::{Ctx, Failure, Registry, Result};
use longhaul_sim::workshop::Workshop;
use serde_json::Value;

/// How often each thing was really done.
#[derive(Clone, Default)]
pub(crate) struct Done(Rc<RefCell<BTreeMap<String, u32>>>);

impl Done {
    pub(crate) fn note(&self, what: impl Into<String>) -> u32 {
        let mut done = self.0.borrow_mut();
        let count = done.entry(what.into()).or_default();
        *count += 1;
        *count
    }

    pub(crate) fn read(&self) -> BTreeMap<String, u32> {
        self.0.borrow().clone()
    }
}

/// A registry of one agent called "agent".
pub(crate) fn registry<I, O, F>(agent: F) -> Registry
where
    F: AsyncFn(&mut Ctx, I) -> Result<O> + 'static,
    I: serde::de::DeserializeOwned + 'static,
    O: serde::Serialize + 'static,
{
    let mut registry = Registry::default();
    registry.add("agent", 1, agent).unwrap();
    registry
}

/// An agent of ten steps.
pub(crate) fn ten_steps(done: &Done) -> Registry {
    ten_steps_of(done, Duration::from_millis(300))
}

pub(crate) fn ten_steps_of(done: &Done, length: Duration) -> Registry {
    let done = done.clone();
    registry(async move |ctx: &mut Ctx, _: Value| {
        let mut sum = 0;
        for number in 0..10_u64 {
            sum += ctx
                .step(&format!("step {number}"), async || {
                    done.note(format!("step {number}"));
                    tokio::time::sleep(length).await;
                    Ok(number)
                })
                .await?;
        }
        Ok(sum)
    })
}

pub(crate) async fn result(workshop: &Workshop, job: &JobRef) -> Value {
    workshop.ended(job).await;
    match workshop.journal(job).ending() {
        Some(Ending::Completed { output }) => output.clone(),
        other => panic!("{other:?}\n{}", workshop.story(job)),
    }
}

pub(crate) async fn failure(workshop: &Workshop, job: &JobRef) -> Failure {
    workshop.ended(job).await;
    match workshop.journal(job).ending() {
        Some(Ending::Failed { failure }) => failure.clone(),
        other => panic!("{other:?}\n{}", workshop.story(job)),
    }
}
