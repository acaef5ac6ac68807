//! What an agent looks like; the other files differ from it by one mistake each.

use std::time::Duration;

use longhaul::{Ctx, Registry, Result, RetryPolicy, Usage};

async fn agent(ctx: &mut Ctx, topic: String) -> Result<Vec<u64>> {
    let plan: Vec<String> = ctx.step("plan", async || Ok(vec![topic.clone()])).retry(RetryPolicy::never()).await?;
    let lengths = ctx
        .fan_out("measure", &plan, async |ctx, item| {
            ctx.step("length", async || Ok(item.len() as u64)).metered(10, |_| Usage::default()).await
        })
        .await?;
    ctx.emit("measured", &lengths).await?;
    ctx.sleep("pause", Duration::from_secs(1)).await?;
    let _yes: bool = ctx.signal("approval").timeout(Duration::from_secs(60)).await?;
    let _sent: String = ctx.effect("send", async |key| Ok(key.to_string())).at_most_once().await?;
    Ok(lengths)
}

fn main() {
    let mut registry = Registry::default();
    registry.add("measure", 1, agent).unwrap();
}
