//! A step's body that changes captured state would change it at the first run and not at replay.

use longhaul::{Ctx, Result};

async fn agent(ctx: &mut Ctx, _: ()) -> Result<u64> {
    let mut calls = 0;
    ctx.step("count", async || {
        calls += 1;
        Ok(1)
    })
    .await?;
    Ok(calls)
}

fn main() {}
