//! What each function's role allows is what the function does, no less and no more.
//!
//! `tests/deploy/rights.json` lists the rights; `make lint-template` holds template.yaml and the CDK construct to it. Here
//! everything is done once, and what the embedded stack saw each function call is compared with the list, in both
//! directions: with resource, and with the kind of keys where a right is bound to it.

use std::collections::{BTreeMap, BTreeSet};

use longhaul_local::stores::usage::Right;
use serde_json::Value;

use crate::everything::{Brought, Everything};

/// Services that the embedded stack has. Calls of others go to AWS itself or nowhere, so that nothing can be seen of them.
const EMBEDDED: [&str; 4] = ["dynamodb", "sqs", "s3", "execute-api"];
const FUNCTIONS: [&str; 5] = ["api", "streams", "worker", "websocket", "sweeper"];

/// A right as the list has it: function, action, resource, and the keys that it is bound to.
type Allowed = BTreeMap<(String, String, String), Vec<String>>;

/// The resource of a policy, as the embedded stack names it.
fn embedded(resource: &str) -> String {
    let named = [
        ("<Table.Arn>/index/", "table/index/"),
        ("<Table.Arn>", "table"),
        ("<JobsQueue.Arn>", "queue/longhaul-jobs"),
        ("<DeadLetterQueue.Arn>", "queue/longhaul-dead-letters"),
        ("<WebhooksQueue.Arn>", "queue/longhaul-webhooks"),
        ("<Bucket.Arn>/", "bucket/"),
        ("<Bucket.Arn>", "bucket"),
    ];
    for method in ["POST", "DELETE"] {
        if resource.ends_with(&format!("/live/{method}/@connections/*")) {
            return format!("connections/{method}");
        }
    }
    let found = named.iter().find_map(|(policy, ours)| Some(format!("{ours}{}", resource.strip_prefix(policy)?)));
    found.unwrap_or_else(|| panic!("{resource} is no resource that the embedded stack has; name it here"))
}

/// The list, and what of it cannot be seen here.
fn allowed() -> (Allowed, Vec<String>) {
    let list: Value = serde_json::from_str(include_str!("../../deploy/rights.json")).unwrap();
    let (mut allowed, mut elsewhere) = (Allowed::new(), Vec::new());
    for function in FUNCTIONS {
        for right in list[function]["calls"].as_array().unwrap() {
            let action = right["action"].as_str().unwrap();
            if !EMBEDDED.contains(&action.split(':').next().unwrap()) {
                elsewhere.push(format!("{function} {action}"));
                continue;
            }
            let keys = &right["condition"]["ForAllValues:StringLike"]["dynamodb:LeadingKeys"];
            assert!(
                right.get("condition").is_none() || keys.is_array(),
                "{right} is bound to what is not looked at here"
            );
            for resource in right["resources"].as_array().unwrap() {
                let place = (function.to_owned(), action.to_owned(), embedded(resource.as_str().unwrap()));
                let keys = keys.as_array().into_iter().flatten();
                allowed.insert(place, keys.map(|key| key.as_str().unwrap().to_owned()).collect());
            }
        }
    }
    (allowed, elsewhere)
}

#[test]
fn what_each_function_does_is_what_its_role_allows() {
    let all = Everything::done(&Brought {
        model_key: "a-key".to_owned(),
        webhook_key: "another".to_owned(),
        webhook_secret: "c2lnbmVkIHdpdGggdGhpcywgd2hpY2ggaXMgbG9uZw==".to_owned(),
        variables: Vec::new(),
        word: "word".to_owned(),
    });
    let url = all.stack.address("calls");
    let used: Vec<Right> =
        all.outside.runtime.block_on(async { reqwest::get(url).await.unwrap().json().await.unwrap() });
    let (allowed, elsewhere) = allowed();
    let (mut seen, mut faults) = (BTreeSet::new(), Vec::new());
    let each = allowed.iter().flat_map(|(place, keys)| keys.iter().map(|key| (place.clone(), key.clone())));
    let mut unused: BTreeSet<_> = each.collect();
    for right in used {
        let Some(function) = right.by.strip_prefix("longhaul-local-") else { continue };
        let place = (function.to_owned(), right.action.clone(), right.of.clone());
        match allowed.get(&place) {
            None => faults.push(format!("{place:?} was called and is not allowed")),
            Some(keys) if keys.is_empty() => {}
            Some(keys) => match &right.keys {
                Some(key) if keys.contains(key) => {
                    unused.remove(&(place.clone(), key.clone()));
                }
                other => faults.push(format!("{place:?} was called with keys {other:?}; only {keys:?} are allowed")),
            },
        }
        seen.insert(place);
    }
    faults.extend(
        allowed
            .keys()
            .filter(|place| !seen.contains(*place))
            .map(|place| format!("{place:?} is allowed and was never called")),
    );
    faults
        .extend(unused.iter().map(|(place, key)| format!("{place:?} is allowed with keys {key} and never used them")));
    println!(
        "{} rights were used: {seen:#?}\nnot seen here, since the embedded stack has no such service: {elsewhere:#?}",
        seen.len()
    );
    assert!(faults.is_empty(), "{faults:#?}");
}
