//! Two operations in flight on one context would race for their positions.

use longhaul::{Ctx, Result};

async fn agent(ctx: &mut Ctx, _: ()) -> Result<(u64, u64)> {
    let first = ctx.step("first", async || Ok(1));
    let second = ctx.step("second", async || Ok(2));
    Ok((first.await?, second.await?))
}

fn main() {}
