//! What the functions of a stack are told, as the template tells them on AWS.

use std::collections::BTreeMap;
use std::path::Path;

use super::{AUDIENCE, ISSUER, Ports, STAGE, StackError, StackOptions, TENANT_DEFAULT};
use crate::corpus;
use crate::rehearsal::{self, RehearsalHandle};
use crate::stores::Stores;

/// The file of the data folder that holds the keys of tools and model servers (docs/running.md).
const SECRETS_FILE: &str = "secrets.json";

/// What the functions are told, as the template tells them on AWS.
pub(super) fn environment(
    options: &StackOptions,
    stores: &Stores,
    rehearsal: Option<&RehearsalHandle>,
    ports: Ports,
    shipped: &Path,
    webhook_secret: &str,
) -> BTreeMap<String, String> {
    let sqs = &stores.sqs;
    let secrets = options.data.join(SECRETS_FILE);
    let mut env = BTreeMap::from(
        [
            ("LONGHAUL_TABLE", stores.dynamodb.table().to_owned()),
            ("LONGHAUL_QUEUE_URL", sqs.sqs.queue_url(&sqs.jobs)),
            ("LONGHAUL_DEAD_LETTER_QUEUE_URL", sqs.sqs.queue_url(&sqs.dead_letters)),
            ("LONGHAUL_WEBHOOK_QUEUE_URL", sqs.sqs.queue_url(&sqs.webhooks)),
            ("LONGHAUL_BUCKET", stores.s3.bucket.clone()),
            ("LONGHAUL_PUSH_ENDPOINT", format!("http://127.0.0.1:{}/{STAGE}", ports.websocket)),
            ("LONGHAUL_JWKS_URL", format!("http://127.0.0.1:{}/.well-known/jwks.json", ports.api)),
            ("LONGHAUL_JWT_ISSUER", ISSUER.to_owned()),
            ("LONGHAUL_JWT_AUDIENCE", AUDIENCE.to_owned()),
            ("LONGHAUL_CORPUS", shipped.join(corpus::CORPUS_FOLDER).display().to_string()),
            ("LONGHAUL_LOG_FORMAT", "text".to_owned()),
            ("LONGHAUL_SECRETS_FILE", secrets.display().to_string()),
            // The same rest as on AWS, for workers that may live less long here.
            ("LONGHAUL_ERASURE_REST_SECONDS", options.worker_timeout.as_secs().saturating_add(60).to_string()),
            // Nobody calls the functions of a real account from here: where they run on this machine is for the person to
            // say (docs/running.md), and this address answers nobody until then.
            ("AWS_ENDPOINT_URL_LAMBDA", "http://127.0.0.1:3001".to_owned()),
            ("LONGHAUL_WEBHOOK_LOOPBACK", "1".to_owned()),
            ("LONGHAUL_WEBHOOK_SECRETS", serde_json::json!({ TENANT_DEFAULT: webhook_secret }).to_string()),
            ("AWS_ENDPOINT_URL_DYNAMODB", stores.dynamodb.endpoint().to_owned()),
            ("AWS_ENDPOINT_URL_SQS", sqs.endpoint.clone()),
            ("AWS_ENDPOINT_URL_S3", stores.s3.endpoint.clone()),
            ("AWS_ACCESS_KEY_ID", stores.credentials.access_key_id.clone()),
            ("AWS_SECRET_ACCESS_KEY", stores.credentials.secret_access_key.clone()),
            ("AWS_REGION", stores.region.clone()),
        ]
        .map(|(name, value)| (name.to_owned(), value)),
    );
    let mut set = |name: &str, value: &str| env.insert(name.to_owned(), value.to_owned());
    if let Some(model) = &options.model {
        set("LONGHAUL_MODEL_URL", &model.url);
        set("LONGHAUL_MODEL", &model.model);
        if let Some(key) = &model.key {
            set("LONGHAUL_MODEL_KEY", key);
        }
    } else if let Some(rehearsal) = rehearsal {
        set("LONGHAUL_MODEL_URL", &rehearsal.base_url);
        set("LONGHAUL_MODEL", rehearsal::MODEL_NAME);
    }
    env.extend(options.env.clone());
    env
}

/// Of the functions' variables those by which the stores are reached and documents found: no key of any model.
pub(super) fn access_of(env: &BTreeMap<String, String>) -> BTreeMap<String, String> {
    const NAMES: [&str; 6] = [
        "LONGHAUL_TABLE",
        "LONGHAUL_QUEUE_URL",
        "LONGHAUL_DEAD_LETTER_QUEUE_URL",
        "LONGHAUL_BUCKET",
        "LONGHAUL_CORPUS",
        "LONGHAUL_DOCUMENTS",
    ];
    let shown = |name: &str| NAMES.contains(&name) || name.starts_with("AWS_");
    env.iter().filter(|(name, _)| shown(name)).map(|(name, value)| (name.clone(), value.clone())).collect()
}

/// What the functions would stumble over when they start, where nobody sees it and every job waits: said here instead.
pub(super) fn look_at_settings(env: &BTreeMap<String, String>) -> Result<(), StackError> {
    let settings = longhaul_agent::Settings::read(|name| env.get(name).cloned())?;
    longhaul_agent::shipped(&settings)?;
    longhaul_agent::defined::equipment::Equipment::of(&settings)?;
    Ok(())
}
