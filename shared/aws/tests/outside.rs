//! Secrets, functions and a role's credentials over real HTTP, against a scripted server that speaks as AWS does.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, Uri};
use axum::response::{IntoResponse, Response};
use longhaul_aws::functions::{Invocation, Invoke, InvokeError, InvokeFault, LambdaFunctions};
use longhaul_aws::secrets::{AwsSecrets, SecretError, SecretPlace};
use longhaul_aws::{Clients, Config};
use serde_json::{Value, json};

/// An answer of the script.
struct Scripted {
    status: u16,
    headers: Vec<(&'static str, &'static str)>,
    body: String,
    after: Duration,
}

fn says(status: u16, body: &Value) -> Scripted {
    Scripted { status, headers: Vec::new(), body: body.to_string(), after: Duration::ZERO }
}

/// A request as it came.
#[derive(Debug, Clone)]
struct Seen {
    path: String,
    headers: HeaderMap,
    body: Value,
}

impl Seen {
    fn header(&self, name: &str) -> &str {
        self.headers.get(name).map(|value| value.to_str().unwrap()).unwrap_or_default()
    }
}

#[derive(Default)]
struct Script {
    answers: Mutex<VecDeque<Scripted>>,
    seen: Mutex<Vec<Seen>>,
    /// Requests whose answer was waited for.
    answered: Mutex<usize>,
}

impl Script {
    fn seen(&self) -> Vec<Seen> {
        self.seen.lock().unwrap().clone()
    }
}

async fn play(State(script): State<Arc<Script>>, uri: Uri, headers: HeaderMap, body: Bytes) -> Response {
    let body = serde_json::from_slice(&body).unwrap_or(Value::Null);
    script.seen.lock().unwrap().push(Seen { path: uri.path().to_owned(), headers, body });
    let next = script.answers.lock().unwrap().pop_front().expect("an answer for each request");
    tokio::time::sleep(next.after).await;
    *script.answered.lock().unwrap() += 1;
    let mut response = (axum::http::StatusCode::from_u16(next.status).unwrap(), next.body).into_response();
    for (name, value) in next.headers {
        response.headers_mut().insert(name, value.parse().unwrap());
    }
    response
}

/// A server with a script, and clients that take it for AWS.
async fn aws(answers: Vec<Scripted>, more: &[(&'static str, &str)]) -> (Arc<Script>, Arc<Clients>, Config) {
    let script = Arc::new(Script { answers: Mutex::new(answers.into()), ..Script::default() });
    let routes = Router::new().fallback(play).with_state(Arc::clone(&script));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, routes).await.unwrap() });
    let mut environment: BTreeMap<&str, String> = [
        ("LONGHAUL_TABLE", "jobs"),
        ("LONGHAUL_QUEUE_URL", "http://127.0.0.1/jobs"),
        ("LONGHAUL_DEAD_LETTER_QUEUE_URL", "http://127.0.0.1/dead-letters"),
        ("LONGHAUL_BUCKET", "payloads"),
        ("LONGHAUL_SECRETS_PREFIX", "longhaul"),
        ("AWS_REGION", "eu-west-1"),
        ("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE"),
        ("AWS_SECRET_ACCESS_KEY", "secret"),
        ("AWS_SESSION_TOKEN", "of-the-role"),
    ]
    .map(|(name, value)| (name, value.to_owned()))
    .into();
    for service in ["SECRETS_MANAGER", "SSM", "LAMBDA"] {
        let name: &'static str = match service {
            "SECRETS_MANAGER" => "AWS_ENDPOINT_URL_SECRETS_MANAGER",
            "SSM" => "AWS_ENDPOINT_URL_SSM",
            _ => "AWS_ENDPOINT_URL_LAMBDA",
        };
        environment.insert(name, address.clone());
    }
    environment.extend(more.iter().map(|(name, value)| (*name, (*value).to_owned())));
    let config = Config::from_lookup(|name| environment.get(name).cloned()).unwrap();
    let clients = Arc::new(Clients::load(&config).await);
    (script, clients, config)
}

fn place(text: &str) -> SecretPlace {
    text.parse().unwrap()
}

#[tokio::test]
async fn secrets_are_read_from_below_the_tenants_place() {
    let answers = vec![
        says(
            200,
            &json!({"ARN": "arn", "Name": "longhaul/acme/tickets/key", "SecretString": "key-of-tickets", "VersionStages": ["AWSCURRENT"]}),
        ),
        says(
            200,
            &json!({"Parameter": {"Name": "/longhaul/acme/other", "Type": "SecureString", "Value": "key-of-other", "Version": 3}}),
        ),
    ];
    let (script, clients, config) = aws(answers, &[]).await;
    let secrets = AwsSecrets::new(&clients, config.secrets_prefix.clone());
    let acme = "acme".parse().unwrap();
    let name = place("secretsmanager:tickets/key");
    // Three at once and one later: one read.
    let (a, b, c) =
        tokio::join!(secrets.of_tenant(&acme, &name), secrets.of_tenant(&acme, &name), secrets.of_tenant(&acme, &name));
    for found in [a, b, c, secrets.of_tenant(&acme, &name).await] {
        assert_eq!(found.unwrap().reveal(), "key-of-tickets");
    }
    assert_eq!(secrets.of_tenant(&acme, &place("ssm:other")).await.unwrap().reveal(), "key-of-other");
    let seen = script.seen();
    assert_eq!(seen.len(), 2, "{seen:?}");
    assert_eq!(seen[0].body, json!({"SecretId": "longhaul/acme/tickets/key"}));
    assert_eq!(seen[0].header("x-amz-target"), "secretsmanager.GetSecretValue");
    assert_eq!(seen[1].body, json!({"Name": "/longhaul/acme/other", "WithDecryption": true}));
    assert_eq!(seen[1].header("x-amz-target"), "AmazonSSM.GetParameter");
    for (seen, service) in seen.iter().zip(["secretsmanager", "ssm"]) {
        assert_eq!(seen.path, "/");
        assert_eq!(seen.header("content-type"), "application/x-amz-json-1.1");
        assert_eq!(seen.header("x-amz-security-token"), "of-the-role");
        let signature = seen.header("authorization");
        assert!(signature.starts_with("AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/"), "{signature}");
        assert!(signature.contains(&format!("/eu-west-1/{service}/aws4_request")), "{signature}");
        assert!(signature.contains("SignedHeaders=content-type;host;x-amz-date;"), "{signature}");
    }
    assert_eq!(clients.counts().read().get("GetSecretValue"), Some(&1));
    assert!(!format!("{secrets:?}").contains("key-of"), "a key is never shown");
}

/// Another tenant's name, an ARN, a path out: refused without a question to AWS.
#[tokio::test]
async fn what_is_not_the_tenants_is_not_asked_for() {
    let (script, clients, config) = aws(Vec::new(), &[]).await;
    let secrets = AwsSecrets::new(&clients, config.secrets_prefix.clone());
    let acme = "acme".parse().unwrap();
    for name in [
        "secretsmanager:../other/key",
        "ssm:a/../../other/key",
        "arn:aws:secretsmanager:eu-west-1:111122223333:secret:longhaul/other/key-AbCdEf",
    ] {
        let error = secrets.of_tenant(&acme, &place(name)).await.unwrap_err();
        assert!(matches!(error, SecretError::Name { .. }) && error.to_string().contains(name), "{error}");
    }
    let shelfless = AwsSecrets::new(&clients, None);
    let error = shelfless.of_tenant(&acme, &place("ssm:key")).await.unwrap_err();
    assert!(error.to_string().contains("LONGHAUL_SECRETS_PREFIX"), "{error}");
    assert!(script.seen().is_empty());
}

#[tokio::test]
async fn each_refusal_of_a_secret_has_its_meaning() {
    type Is = fn(&SecretError) -> bool;
    let missing: Is = |error| matches!(error, SecretError::Missing { .. });
    let denied: Is = |error| matches!(error, SecretError::Denied { .. });
    let unfit: Is = |error| matches!(error, SecretError::Unfit { .. });
    let throttled: Is = |error| matches!(error, SecretError::Unavailable { throttled: true, .. });
    let away: Is = |error| matches!(error, SecretError::Unavailable { throttled: false, .. });
    let fault = |name: &str| json!({"__type": name, "Message": "because"});
    let rows: Vec<(u16, Value, Is, usize)> = vec![
        (400, fault("ResourceNotFoundException"), missing, 1),
        (400, fault("com.amazonaws.ssm#ParameterNotFound"), missing, 1),
        (400, fault("AccessDeniedException"), denied, 1),
        (403, json!({}), denied, 1),
        (400, fault("InvalidRequestException"), unfit, 1),
        (200, json!({"SecretBinary": "AAEC"}), unfit, 1),
        (200, json!({"SecretString": ""}), unfit, 1),
        (200, json!("nothing"), unfit, 1),
        (400, fault("ThrottlingException"), throttled, 3),
        (500, fault("InternalServiceError"), away, 3),
    ];
    for (status, body, is, tries) in rows {
        let (script, clients, _) = aws((0..tries).map(|_| says(status, &body)).collect(), &[]).await;
        let secrets = AwsSecrets::new(&clients, None);
        let error = secrets.read(&place("secretsmanager:longhaul/model")).await.unwrap_err();
        assert!(is(&error), "{status} {body}: {error:?}");
        assert!(error.to_string().contains("longhaul/model"), "it says what was asked: {error}");
        assert_eq!(script.seen().len(), tries, "{status} {body}");
    }
    // A fault that passes is not seen at all.
    let passing = vec![says(500, &json!({})), says(200, &json!({"SecretString": "key"}))];
    let (_, clients, _) = aws(passing, &[]).await;
    let read = AwsSecrets::new(&clients, None).read(&place("secretsmanager:m")).await;
    assert_eq!(read.unwrap().reveal(), "key");
}

const CHARGE: &str = "arn:aws:lambda:eu-west-1:111122223333:function:charge:live";

async fn invoke(
    clients: &Arc<Clients>,
    config: &Config,
    function: &str,
    limit: Duration,
) -> Result<Invocation, InvokeError> {
    let event = json!({"arguments": {"amount": 5}, "idempotency_key": "job/1"});
    let (tenant, functions) = ("acme".parse().unwrap(), LambdaFunctions::new(clients, config.tool_functions.clone()));
    functions.invoke(&Invoke { tenant: &tenant, function, event: &event, time_limit: limit }).await
}

const SOON: Duration = Duration::from_secs(5);

#[tokio::test]
async fn functions_are_invoked_and_their_answers_read() {
    let failed = |body: Value| Scripted { headers: vec![("X-Amz-Function-Error", "Unhandled")], ..says(200, &body) };
    let charge = [("LONGHAUL_TOOL_FUNCTIONS", CHARGE)];
    let (script, clients, config) = aws(vec![says(200, &json!({"charged": 5}))], &charge).await;
    let answered = invoke(&clients, &config, "charge:live", SOON).await.unwrap();
    assert_eq!(answered, Invocation::Answered(json!({"charged": 5})));
    let seen = &script.seen()[0];
    let encoded = CHARGE.replace(':', "%3A");
    assert_eq!(seen.path, format!("/2015-03-31/functions/{encoded}/invocations"));
    assert_eq!(seen.header("x-amz-invocation-type"), "RequestResponse");
    assert_eq!(seen.body, json!({"arguments": {"amount": 5}, "idempotency_key": "job/1"}), "the key goes along");
    assert!(seen.header("authorization").contains("/eu-west-1/lambda/aws4_request"));

    let own = json!({"errorType": "CardRefused", "errorMessage": "no money"});
    let (_, clients, config) = aws(vec![failed(own.clone())], &charge).await;
    assert_eq!(invoke(&clients, &config, CHARGE, SOON).await.unwrap(), Invocation::Failed(own));

    for (body, fault) in [
        (
            json!({"errorMessage": "2026-11-30T00:00:00.000Z 1a2b Task timed out after 3.00 seconds"}),
            InvokeFault::TimedOut,
        ),
        (
            json!({"errorType": "Sandbox.Timedout", "errorMessage": "RequestId: 1 Error: Task timed out after 3.00 seconds"}),
            InvokeFault::TimedOut,
        ),
        (
            json!({"errorType": "Runtime.ExitError", "errorMessage": "RequestId: 1 Error: Runtime exited with error: signal: killed"}),
            InvokeFault::Broken,
        ),
    ] {
        let (_, clients, config) = aws(vec![failed(body.clone())], &charge).await;
        let error = invoke(&clients, &config, CHARGE, SOON).await.unwrap_err();
        assert_eq!(error.fault, fault, "{body}: {error}");
        assert!(error.to_string().contains("charge"), "{error}");
    }
}

#[tokio::test]
async fn each_refusal_of_a_function_has_its_meaning() {
    let charge = [("LONGHAUL_TOOL_FUNCTIONS", CHARGE)];
    for (status, kind, fault) in [
        (429, "TooManyRequestsException", InvokeFault::Throttled),
        (403, "AccessDeniedException", InvokeFault::Denied),
        (404, "ResourceNotFoundException", InvokeFault::Refused),
        (413, "RequestTooLargeException", InvokeFault::Refused),
        (400, "InvalidRequestContentException", InvokeFault::Refused),
        (409, "ResourceConflictException", InvokeFault::Broken),
        (502, "EC2ThrottledException", InvokeFault::Broken),
        (500, "ServiceException", InvokeFault::Broken),
    ] {
        let refused = Scripted {
            headers: vec![("x-amzn-errortype", kind), ("retry-after", "7")],
            ..says(status, &json!({"Type": "User", "message": "because"}))
        };
        let (script, clients, config) = aws(vec![refused], &charge).await;
        let error = invoke(&clients, &config, CHARGE, SOON).await.unwrap_err();
        assert_eq!(error.fault, fault, "{status}: {error}");
        assert!(error.to_string().contains(kind) && error.retry_after == Some(Duration::from_secs(7)), "{error}");
        assert_eq!(script.seen().len(), 1, "{status}: whether it is called again is the caller's business");
    }
    // Not on the list, another tenant's, none listed: Lambda is not asked.
    for (allowed, asked) in [("other", CHARGE), ("rival=charge", "charge"), ("", "charge"), (CHARGE, "charge")] {
        let (script, clients, config) = aws(Vec::new(), &[("LONGHAUL_TOOL_FUNCTIONS", allowed)]).await;
        let error = invoke(&clients, &config, asked, SOON).await.unwrap_err();
        assert_eq!(error.fault, InvokeFault::Refused, "{error}");
        assert!(error.to_string().contains("LONGHAUL_TOOL_FUNCTIONS"), "{error}");
        assert!(script.seen().is_empty());
    }
    let (_, clients, config) =
        aws(vec![says(200, &json!("done"))], &[("LONGHAUL_TOOL_FUNCTIONS", "acme=charge")]).await;
    assert_eq!(invoke(&clients, &config, "charge", SOON).await.unwrap(), Invocation::Answered(json!("done")));
}

#[tokio::test]
async fn calls_of_functions_have_bounds() {
    let charge = [("LONGHAUL_TOOL_FUNCTIONS", CHARGE)];
    let slow = Scripted { after: Duration::from_secs(20), ..says(200, &json!(1)) };
    let (script, clients, config) = aws(vec![slow], &charge).await;
    let begun = std::time::Instant::now();
    let error = invoke(&clients, &config, CHARGE, Duration::from_millis(300)).await.unwrap_err();
    assert_eq!(error.fault, InvokeFault::TimedOut, "{error}");
    assert!(begun.elapsed() < Duration::from_secs(3), "{:?}", begun.elapsed());
    assert_eq!((script.seen().len(), *script.answered.lock().unwrap()), (1, 0));

    let long = "x".repeat(7 * 1024 * 1024);
    let (_, clients, config) = aws(vec![says(200, &json!(long))], &charge).await;
    let error = invoke(&clients, &config, CHARGE, SOON).await.unwrap_err();
    assert!(error.fault == InvokeFault::Refused && error.to_string().contains("longer"), "{error}");

    let (script, clients, config) = aws(Vec::new(), &charge).await;
    let (tenant, functions) = ("acme".parse().unwrap(), LambdaFunctions::new(&clients, config.tool_functions));
    let event = json!({ "arguments": { "text": long } });
    let call = Invoke { tenant: &tenant, function: CHARGE, event: &event, time_limit: SOON };
    let error = functions.invoke(&call).await.unwrap_err();
    assert!(error.fault == InvokeFault::Refused && error.to_string().contains("bytes"), "{error}");
    assert!(script.seen().is_empty());

    // Nobody there.
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let nowhere = format!("http://{}", listener.local_addr().unwrap());
    drop(listener);
    let (_, clients, config) = aws(Vec::new(), &[charge[0], ("AWS_ENDPOINT_URL_LAMBDA", &nowhere)]).await;
    assert_eq!(invoke(&clients, &config, CHARGE, SOON).await.unwrap_err().fault, InvokeFault::Broken);
}

/// Set in the process that plays a function with a container's role.
const IN_ROLE: &str = "LONGHAUL_TEST_IN_ROLE";

/// The chain of `aws-config` finds the container endpoint that Lambda and ECS give a process; what it gives is renewed
/// when its end is near. The chain reads the process's environment, so it runs in a process of its own.
#[tokio::test]
async fn a_roles_credentials_come_from_where_the_platform_gives_them() {
    if std::env::var_os(IN_ROLE).is_some() {
        return in_role().await;
    }
    let credentials = |id: &str, end: &str| {
        says(200, &json!({"AccessKeyId": id, "SecretAccessKey": "s", "Token": "t", "Expiration": end}))
    };
    // The first are over in the year 2000, so that each use renews them; the second are good for long.
    let answers = vec![credentials("first", "2000-01-01T00:00:00Z"), credentials("second", "2199-01-01T00:00:00Z")];
    let script = Arc::new(Script { answers: Mutex::new(answers.into()), ..Script::default() });
    let routes = Router::new().fallback(play).with_state(Arc::clone(&script));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}/role", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, routes).await.unwrap() });
    let child = tokio::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "a_roles_credentials_come_from_where_the_platform_gives_them", "--nocapture"])
        .env_clear()
        .envs([(IN_ROLE, "1"), ("AWS_CONTAINER_CREDENTIALS_FULL_URI", address.as_str()), ("HOME", "/nonexistent")])
        .envs([("AWS_CONTAINER_AUTHORIZATION_TOKEN", "of-the-container"), ("AWS_EC2_METADATA_DISABLED", "true")])
        .output()
        .await
        .unwrap();
    let said = String::from_utf8_lossy(&child.stdout).into_owned() + &String::from_utf8_lossy(&child.stderr);
    assert!(child.status.success(), "{said}");
    let seen = script.seen();
    assert_eq!(seen.len(), 2, "{seen:?}");
    assert_eq!((seen[0].path.as_str(), seen[0].header("authorization")), ("/role", "of-the-container"));
}

async fn in_role() {
    let environment: BTreeMap<&str, &str> = BTreeMap::from([
        ("LONGHAUL_TABLE", "jobs"),
        ("LONGHAUL_QUEUE_URL", "http://127.0.0.1/jobs"),
        ("LONGHAUL_DEAD_LETTER_QUEUE_URL", "http://127.0.0.1/dead-letters"),
        ("LONGHAUL_BUCKET", "payloads"),
        ("AWS_REGION", "eu-west-1"),
    ]);
    let config = Config::from_lookup(|name| environment.get(name).map(|value| (*value).to_owned())).unwrap();
    let clients = Clients::load(&config).await;
    let ids = [(); 3].map(|()| clients.role().get());
    let mut found = Vec::new();
    for id in ids {
        found.push(id.await.unwrap().access_key_id().to_owned());
    }
    assert_eq!(found, ["first", "second", "second"]);
}
