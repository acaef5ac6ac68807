//! A durable call inside a step's body would be recorded inside something that is recorded as one.

use longhaul::{Ctx, Result};

async fn agent(ctx: &mut Ctx, _: ()) -> Result<u64> {
    ctx.step("outer", async || {
        ctx.emit("inner", 1).await.ok();
        Ok(1)
    })
    .await
}

fn main() {}
