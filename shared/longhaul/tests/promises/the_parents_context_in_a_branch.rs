//! The parent's context inside a branch would give its steps keys that depend on which branch came first.

use longhaul::{Ctx, Result};

async fn agent(ctx: &mut Ctx, items: Vec<u64>) -> Result<Vec<u64>> {
    ctx.fan_out("double", &items, async |_, item| ctx.step("double", async || Ok(item * 2)).await).await
}

fn main() {}
