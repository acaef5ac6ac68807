//! Jobs come into the store, once, and are read back by their owner alone.

use longhaul::outside::fresh_nonce;
use longhaul::store::{JobRef, Store, Submit};
use longhaul_engine::{Job, limits};
use serde_json::json;

use crate::sample::{self, job, noise, reference, tenant};
use crate::stage::Stage;

/// All of a job comes back: no number, letter or label is changed on the way.
pub async fn a_new_job_is_stored_and_read_back<S: Stage>(stage: &S) {
    let store = stage.store();
    let job = job();
    assert_eq!(store.job(&reference(&job)).await.unwrap(), None);
    assert_eq!(store.submit(&job).await.unwrap(), Submit::Created);
    assert_eq!(store.job(&reference(&job)).await.unwrap(), Some(job));
}

/// `Exists` brings the stored job: another submission's, or the call's own earlier try, told by its mark.
pub async fn a_second_submission_finds_the_first<S: Stage>(stage: &S) {
    let store = stage.store();
    let first = job();
    store.submit(&first).await.unwrap();

    assert_eq!(store.submit(&first).await.unwrap(), Submit::Exists(Box::new(first.clone())), "its own echo");

    let mut order = first.order.clone();
    order.input = json!("something else");
    let second = Job::accepted(order, fresh_nonce());
    assert_eq!(store.submit(&second).await.unwrap(), Submit::Exists(Box::new(first.clone())));
    assert_eq!(store.job(&reference(&first)).await.unwrap(), Some(first), "the first stands unchanged");
}

/// Also one that is too large for an item, and also out of a conflict.
pub async fn a_large_input_comes_back_whole<S: Stage>(stage: &S) {
    let store = stage.store();
    for bytes in [limits::INPUT_INLINE_BYTES_MAX - 2, limits::INPUT_INLINE_BYTES_MAX - 1, limits::BODY_BYTES_MAX] {
        let mut job = job();
        job.order.input = json!(noise(bytes));
        assert_eq!(store.submit(&job).await.unwrap(), Submit::Created);
        assert_eq!(store.job(&reference(&job)).await.unwrap(), Some(job.clone()), "{bytes} bytes");
        let mut other = job.clone();
        other.last_write = fresh_nonce();
        assert_eq!(store.submit(&other).await.unwrap(), Submit::Exists(Box::new(job)));
    }
}

/// A job is looked up together with its owner.
pub async fn another_tenants_job_is_none<S: Stage>(stage: &S) {
    let store = stage.store();
    let job = sample::job_of("acme");
    store.submit(&job).await.unwrap();
    for other in ["acm", "acme2", "ACME"] {
        let foreign = JobRef { tenant: tenant(other), job: job.order.id };
        assert_eq!(store.job(&foreign).await.unwrap(), None, "{other}");
    }
}
