//! Agents beside the shipped ones: together they do everything that a context can do.

use std::rc::Rc;
use std::time::Duration;

use longhaul::engine::AgentRef;
use longhaul::{Ctx, Error, ErrorClass, Registry, StepError};
use serde_json::{Value, json};

use crate::far_end::FarEnd;

/// What is deployed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Deployed {
    /// The agents that the jobs were submitted for.
    Right,
    /// Other versions alone: no job finds its agent.
    OtherVersions,
    /// `everything` with another first step under the same version, as after a careless change.
    Changed,
}

/// The registry of a deployment: the shipped agents, and the ones of this module.
#[must_use]
pub fn registry(far_end: &Rc<FarEnd>, deployed: Deployed) -> Registry {
    let mut registry = match deployed {
        Deployed::Right | Deployed::Changed => far_end.shipped(),
        Deployed::OtherVersions => Registry::default(),
    };
    let version = if deployed == Deployed::OtherVersions { 2 } else { 1 };
    let of_agent = Rc::clone(far_end);
    match deployed {
        Deployed::Right | Deployed::OtherVersions => {
            registry
                .add("everything", version, async move |ctx, flaky| everything(ctx, &of_agent, flaky).await)
                .unwrap();
        }
        Deployed::Changed => {
            registry.add("everything", version, async move |ctx, _: u64| changed(ctx, &of_agent).await).unwrap();
        }
    }
    let of_agent = Rc::clone(far_end);
    registry.add("parent", version, async move |ctx, items| parent(ctx, &of_agent, items).await).unwrap();
    let of_agent = Rc::clone(far_end);
    registry.add("child", version, async move |ctx, item| child(ctx, &of_agent, item).await).unwrap();
    let of_agent = Rc::clone(far_end);
    registry.add("mended", version, async move |ctx, input| mended(ctx, &of_agent, input).await).unwrap();
    registry
}

/// One of everything. The second branch fails `flaky` times.
async fn everything(ctx: &mut Ctx, far_end: &FarEnd, flaky: u64) -> longhaul::Result<Value> {
    let job = ctx.job_id();
    let items: Vec<u64> = ctx.step("plan", async || Ok(vec![1, 2, 3])).await?;
    let read = ctx
        .fan_out("read", &items, async |ctx, item| {
            ctx.effect("read", async |key| {
                let times = far_end.note(&key.to_string());
                tokio::time::sleep(Duration::from_millis(40 * item)).await;
                if u64::from(times) <= flaky && *item == 2 {
                    return Err(StepError::new(ErrorClass::Transient, "away"));
                }
                Ok(item * 10)
            })
            .await
        })
        .await?;
    ctx.emit("read", &read).await?;
    ctx.sleep("pause", Duration::from_secs(40)).await?;
    let paid = ctx
        .effect("pay", async |key| {
            far_end.note(&key.to_string());
            // Over some heartbeats and peeks, at each of which a worker may die.
            tokio::time::sleep(Duration::from_secs(9)).await;
            Ok(())
        })
        .at_most_once()
        .await;
    let answer: String =
        ctx.signal("approval").timeout(Duration::from_secs(7_200)).await.unwrap_or_else(|error| error.to_string());
    let url: String = ctx
        .effect("publish", async |key| {
            far_end.note(&key.to_string());
            Ok(format!("published/{job}"))
        })
        .await?;
    Ok(json!({ "read": read, "paid": paid.is_ok(), "answer": answer, "url": url }))
}

/// What a careless change makes of it. A journal that begins with `plan` must not let it run.
async fn changed(ctx: &mut Ctx, far_end: &FarEnd) -> longhaul::Result<Value> {
    ctx.step("another plan", async || {
        far_end.note(CHANGED_RAN);
        Ok(json!(null))
    })
    .await
}

/// What [`Deployed::Changed`] is noted under, should it ever run.
pub const CHANGED_RAN: &str = "a step ran that the journal does not know";

/// A child for each item; a child that fails counts as -1.
async fn parent(ctx: &mut Ctx, far_end: &FarEnd, items: Vec<i64>) -> longhaul::Result<Vec<i64>> {
    let child = AgentRef { name: "child".parse().unwrap(), version: 1 };
    let results = ctx
        .fan_out("review", &items, async |ctx, item| match ctx.child::<i64>("child", child.clone(), *item).await {
            Ok(result) => Ok(result),
            Err(Error::Step(failure)) if failure.class == ErrorClass::Invalid => Ok(-1),
            Err(other) => Err(other),
        })
        .await?;
    ctx.effect("tell", async |key| {
        far_end.note(&key.to_string());
        Ok(())
    })
    .await?;
    Ok(results)
}

async fn child(ctx: &mut Ctx, far_end: &FarEnd, item: i64) -> longhaul::Result<i64> {
    ctx.sleep("pause", Duration::from_secs(30)).await?;
    ctx.effect("square", async |key| {
        far_end.note(&key.to_string());
        tokio::time::sleep(Duration::from_secs(3)).await;
        match item {
            13 => Err(StepError::new(ErrorClass::Invalid, "13 is not reviewed")),
            _ => Ok(item * item),
        }
    })
    .await
}

/// Fails for good at its second step until its input says that it was mended.
async fn mended(ctx: &mut Ctx, far_end: &FarEnd, input: Value) -> longhaul::Result<String> {
    let plan: String = ctx
        .effect("plan", async |key| {
            far_end.note(&key.to_string());
            Ok("plan".to_owned())
        })
        .await?;
    let is_mended = input["mended"] == json!(true);
    ctx.effect("publish", async |key| {
        far_end.note(&key.to_string());
        if is_mended { Ok(()) } else { Err(StepError::new(ErrorClass::Refused, "the model refused")) }
    })
    .await?;
    Ok(plan)
}
