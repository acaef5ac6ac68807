//! What a warm process keeps of a tenant's data: nothing for longer than an erasure rests, so that what begins anew behind
//! it, under the same names and keys, is not taken for what was erased.

use std::rc::Rc;
use std::time::Duration;

use longhaul::Clock;
use longhaul::engine::job::Order;
use longhaul::engine::{AgentRef, Entry, Seq, TenantId, Timestamp, limits};
use longhaul::store::JobRef;
use longhaul_agent::Settings;
use longhaul_agent::defined::equipment::Equipment;
use longhaul_aws::dynamo::{NewDefinition, Saved};
use longhaul_worker::Definitions;
use serde_json::{Value, json};

use crate::far_end::{FarEnd, text};
use crate::ground::{Ground, now, order};
use crate::stream::{Stream, nothing_again};
use crate::watchers::{append, shown};

/// The soonest that an erasure can be over whose tenant's data was read a moment before it began.
const REST_SECONDS: u64 = limits::ERASURE_REST_SECONDS;
/// How long what was read is known.
const KEPT_SECONDS: u64 = limits::TENANT_DATA_KEPT_SECONDS;

fn equipment() -> Rc<Equipment> {
    let settings = Settings::read(|name| match name {
        "LONGHAUL_MODEL_URL" => Some("http://127.0.0.1:9/v1".to_owned()),
        "LONGHAUL_MODEL" => Some("none".to_owned()),
        _ => None,
    });
    Rc::new(Equipment::of(&settings.unwrap()).unwrap())
}

async fn define(ground: &Ground, tenant: &TenantId, instructions: &str) -> AgentRef {
    let definition = json!({
        "name": "clerk", "description": "Files.", "instructions": instructions, "models": [{ "provider": "default" }],
    });
    let new = NewDefinition {
        name: "clerk".parse().unwrap(),
        digest: instructions.to_owned(),
        definition: definition.to_string(),
        by: "ada".to_owned(),
    };
    match ground.store.save_definition(tenant, &new, now(), |_| "{}".to_owned()).await.unwrap() {
        Saved::Created(agent) => agent,
        Saved::Unchanged(agent) => panic!("{agent} says the same already"),
    }
}

/// How often the table was asked since the last look.
fn reads(ground: &Ground) -> u64 {
    ground.store.clients().counts().take().get("GetItem").copied().unwrap_or_default()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_warm_worker_knows_an_erased_agent() {
    let ground = Ground::lay().await;
    let tenant: TenantId = "acme".parse().unwrap();
    let (busy, quiet) =
        (Definitions::new(ground.store.clone(), equipment()), Definitions::new(ground.store.clone(), equipment()));
    let start = now();
    let at = |seconds: u64| start.plus(Duration::from_secs(seconds));
    let agent = define(&ground, &tenant, "Of before the erasure.").await;
    reads(&ground);
    let is_known = async |definitions: &Definitions, time: Timestamp| {
        let found = definitions.look_up(&tenant, &agent, time).await.unwrap().is_some();
        (found, reads(&ground))
    };
    for definitions in [&busy, &quiet] {
        assert_eq!(is_known(definitions, at(0)).await, (true, 1), "it is read once");
        assert_eq!(is_known(definitions, at(KEPT_SECONDS - 1)).await, (true, 0), "and known for a while");
    }
    ground.store.clear_tenant(&tenant).await.unwrap();
    reads(&ground);
    // One meets it while it is erased, the other only when another has its name and its version.
    assert_eq!(is_known(&busy, at(KEPT_SECONDS)).await, (false, 1));
    assert_eq!(define(&ground, &tenant, "Of behind the erasure.").await, agent, "its version is given again");
    reads(&ground);
    for definitions in [&busy, &quiet] {
        assert_eq!(is_known(definitions, at(REST_SECONDS)).await, (true, 1), "it is read anew");
    }
}

/// A deployment whose erasures rest shorter has its processes know things shorter.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_shorter_rest_is_a_shorter_memory() {
    let ground = Ground::lay().await;
    let tenant: TenantId = "acme".parse().unwrap();
    let agent = define(&ground, &tenant, "Anything.").await;
    for (rest, known_for) in [("0", 0), ("5", 5), ("3600", KEPT_SECONDS)] {
        let store = ground.store_with(&[("LONGHAUL_ERASURE_REST_SECONDS", rest.to_owned())]).await;
        assert_eq!(store.config().tenant_data_kept(), Duration::from_secs(known_for));
        let (definitions, start) = (Definitions::new(store.clone(), equipment()), now());
        for (second, read) in [(0, 1), (known_for, 1)] {
            store.clients().counts().take();
            let time = start.plus(Duration::from_secs(second));
            assert!(definitions.look_up(&tenant, &agent, time).await.unwrap().is_some());
            assert_eq!(store.clients().counts().take().get("GetItem"), Some(&read), "{rest} s, after {second} s");
        }
    }
}

/// What a job's caller wants to hear: nothing, or these types at a webhook.
type Wanted = Option<&'static [&'static str]>;

/// Submits a job under this id, tells the stream of its two events by a clock so much later, and gives the positions of
/// the deliveries that were ordered.
async fn ordered(far: &FarEnd, order: &Order, wanted: Wanted, later: u64) -> Vec<u64> {
    let mut order = order.clone();
    order.webhook = wanted.map(|_| format!("{}/hooks/end", far.base));
    order.webhook_events = wanted.into_iter().flatten().map(|&event| event.to_owned()).collect();
    let mut stream = Stream::of(far);
    let job = far.ground.submit(order).await;
    append(&far.ground, &job, 1, vec![shown(1), Entry::Completed { output: Value::Null }]).await;
    let clock = Clock::set_to(now().plus(Duration::from_secs(later)));
    let deadline = clock.now().plus(Duration::from_secs(30)).as_millis();
    let answer = far.function.handle_by(clock, text(&stream.event().await), deadline).await.unwrap();
    assert_eq!(answer, nothing_again());
    let page = far.ground.store.deliveries(&job, Seq(0), 10).await.unwrap();
    page.deliveries.iter().map(|delivery| delivery.seq.0).collect()
}

/// Under an idempotency key that is used again there is another job of the same id, whose webhook is its own.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_under_a_key_that_is_used_again_has_its_own_webhook() {
    const END: Wanted = Some(&[]);
    const SHOWN: Wanted = Some(&["longhaul.AgentProgress"]);
    let far = FarEnd::set_up().await;
    for (before, then) in [
        ((None, vec![]), (END, vec![2])),
        ((END, vec![2]), (None, vec![])),
        ((END, vec![2]), (SHOWN, vec![1])),
        ((SHOWN, vec![1]), (END, vec![2])),
    ] {
        let order = order("acme", "ten", Value::Null);
        assert_eq!(ordered(&far, &order, before.0, 0).await, before.1, "{before:?}");
        let job = JobRef { tenant: order.tenant.clone(), job: order.id };
        far.ground.remove_job(&job).await;
        assert_eq!(ordered(&far, &order, then.0, REST_SECONDS).await, then.1, "{before:?}, then {then:?}");
    }
}
