//! Agents small enough to count.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

use longhaul::{Ctx, ErrorClass, Registry, StepError};
use serde_json::Value;
use tokio::sync::Barrier;

/// What the agents did, and what they are to do.
#[derive(Clone, Default)]
pub(crate) struct Bench {
    /// How often each step's body ran.
    runs: Rc<RefCell<BTreeMap<String, u32>>>,
    /// Whether the second step of `fragile` fails.
    pub(crate) broken: Rc<Cell<bool>>,
}

impl Bench {
    pub(crate) fn ran(&self, step: &str) {
        *self.runs.borrow_mut().entry(step.to_owned()).or_default() += 1;
    }

    pub(crate) fn runs(&self) -> Vec<u32> {
        self.runs.borrow().values().copied().collect()
    }

    pub(crate) fn runs_of(&self, step: &str) -> u32 {
        self.runs.borrow().get(step).copied().unwrap_or_default()
    }

    /// The agents `ten` (ten steps), `meeting` (goes on when two jobs are at its step together), `fragile` (two
    /// steps, of which the second fails for good while the bench is broken) and `waits` (for a signal).
    pub(crate) fn registry(&self) -> Registry {
        let mut registry = Registry::default();
        let bench = self.clone();
        registry
            .add("ten", 1, async move |ctx: &mut Ctx, _: Value| {
                let mut sum = 0_u32;
                for number in 0..10_u32 {
                    sum += ctx
                        .step("count", async || {
                            bench.ran(&format!("count {number}"));
                            Ok::<_, StepError>(number)
                        })
                        .await?;
                }
                Ok(sum)
            })
            .unwrap();
        let meeting = Rc::new(Barrier::new(2));
        registry
            .add("meeting", 1, async move |ctx: &mut Ctx, _: Value| {
                ctx.step("meet", async || {
                    meeting.wait().await;
                    Ok::<_, StepError>("met".to_owned())
                })
                .await
            })
            .unwrap();
        registry.add("waits", 1, async |ctx: &mut Ctx, _: Value| ctx.signal::<Value>("approval").await).unwrap();
        let bench = self.clone();
        registry
            .add("fragile", 1, async move |ctx: &mut Ctx, _: Value| {
                let first = ctx
                    .step("first", async || {
                        bench.ran("first");
                        Ok::<_, StepError>(20)
                    })
                    .await?;
                let second = ctx
                    .step("second", async || {
                        bench.ran("second");
                        if bench.broken.get() {
                            return Err(StepError::new(ErrorClass::Invalid, "the bench is broken"));
                        }
                        Ok(22)
                    })
                    .await?;
                Ok(first + second)
            })
            .unwrap();
        registry
    }
}
