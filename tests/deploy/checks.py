"""What must hold of the deployed system and no linter looks for.

Each check takes the resources that would be created (see `resolve`) and gives the faults that it finds, each a sentence
that names the resource. MiniStack and cfn-lint let every one of these faults pass.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, Callable, Iterator

from resolve import canonical

ROOT = Path(__file__).resolve().parents[2]
HERE = Path(__file__).resolve().parent
RUNBOOK = ROOT / "docs" / "runbook"

Resources = dict[str, dict]

# Actions for which AWS knows no resource finer than `*`. test_security.py holds this to AWS's own definitions.
WITHOUT_RESOURCE = {"xray:PutTraceSegments", "xray:PutTelemetryRecords", "dynamodb:ListStreams"}
# What an event source needs of its function's role, by the kind of source.
SOURCE_ACTIONS = {
    "JobsQueue": {"sqs:ReceiveMessage", "sqs:DeleteMessage", "sqs:GetQueueAttributes"},
    "WebhooksQueue": {"sqs:ReceiveMessage", "sqs:DeleteMessage", "sqs:GetQueueAttributes"},
    "Table": {"dynamodb:DescribeStream", "dynamodb:GetShardIterator", "dynamodb:GetRecords"},
}
# The longest that one can wait for a message of a batch without a window.
BATCH_WITHOUT_WINDOW_MAX = 10
# Metrics that AWS publishes by itself, as far as alarms and the dashboard use them, with their dimensions.
AWS_METRICS = {
    "AWS/SQS": ({"ApproximateNumberOfMessagesVisible", "ApproximateNumberOfMessagesNotVisible",
                 "ApproximateAgeOfOldestMessage", "NumberOfMessagesSent"}, [{"QueueName"}]),
    "AWS/Lambda": ({"Invocations", "Errors", "Throttles", "Duration", "ConcurrentExecutions", "IteratorAge",
                    "RecursiveInvocationsDropped"}, [{"FunctionName"}]),
    "AWS/DynamoDB": ({"ConsumedReadCapacityUnits", "ConsumedWriteCapacityUnits", "ReadThrottleEvents",
                      "WriteThrottleEvents"}, [{"TableName"}, {"TableName", "GlobalSecondaryIndexName"}]),
    # Of HTTP APIs; those of REST APIs have other names.
    "AWS/ApiGateway": ({"Latency", "IntegrationLatency", "Count", "4xx", "5xx"},
                       [{"ApiId"}, {"ApiId", "Stage"}, {"ApiId", "Stage", "Method", "Resource"}]),
}


def of_type(resources: Resources, kind: str) -> Iterator[tuple[str, dict]]:
    """The properties of all resources of a type."""
    for name, resource in resources.items():
        if resource["Type"] == kind:
            yield name, resource["Properties"]


def listed(value: Any) -> list:
    """A value that may stand alone or in a list, as a list."""
    if value is None:
        return []
    return value if isinstance(value, list) else [value]


def symbol(text: Any) -> str:
    """The resource that a symbol stands for: `<Table.Arn>` and `<Table>` are `Table`."""
    found = re.fullmatch(r"<([^.>]+)(?:\.[^>]+)?>", str(text))
    return found.group(1) if found else ""


def statements(resources: Resources, role: str) -> list[dict]:
    """The statements of a role, whichever policy they stand in."""
    found = [statement
             for policy in listed(resources[role]["Properties"].get("Policies"))
             for statement in listed(policy["PolicyDocument"]["Statement"])]
    for _, policy in of_type(resources, "AWS::IAM::Policy"):
        if any(symbol(attached) == role for attached in listed(policy.get("Roles"))):
            found += listed(policy["PolicyDocument"]["Statement"])
    return found


def rights(resources: Resources, role: str) -> dict[str, tuple[set[str], str]]:
    """What a role allows: action to resources and condition."""
    allowed: dict[str, tuple[set[str], str]] = {}
    for statement in statements(resources, role):
        if statement["Effect"] != "Allow":
            continue
        condition = json.dumps(canonical(statement.get("Condition", {})), sort_keys=True)
        for action in listed(statement["Action"]):
            on, before = allowed.get(action, (set(), condition))
            # Two statements on one action with different conditions allow what either does: the wider one counts.
            allowed[action] = (on | set(listed(statement["Resource"])), condition if before == condition else "{}")
    return allowed


def role_of(resources: Resources, function: str) -> str:
    """The role of a function."""
    return symbol(resources[function]["Properties"]["Role"])


# ---- The checks ------------------------------------------------------------------------------------------------------


def permissions(resources: Resources) -> Iterator[str]:
    """Each integration and authorizer that calls a function has that function's leave, for its own API."""
    yield from _function_urls(resources)
    granted = [(symbol(grant["FunctionName"]), str(grant.get("SourceArn", "")))
               for _, grant in of_type(resources, "AWS::Lambda::Permission")
               if grant.get("Principal") == "apigateway.amazonaws.com" and grant.get("Action") == "lambda:InvokeFunction"]
    for name, grant in of_type(resources, "AWS::Lambda::Permission"):
        if not grant.get("SourceArn") and name not in URL_PERMISSIONS:
            yield f"{name} lets any API of the region call the function: it has no SourceArn"

    def called(uri: str) -> str:
        found = re.search(r"/functions/<([^.>]+)\.Arn>/invocations", uri)
        return found.group(1) if found else ""

    for name, integration in of_type(resources, "AWS::ApiGatewayV2::Integration"):
        function, api = called(str(integration.get("IntegrationUri"))), integration["ApiId"]
        if not function:
            yield f"{name} calls no function of this template"
        elif not any(to == function and f":{api}/" in source and "/authorizers/" not in source for to, source in granted):
            yield f"{name} may not call {function}: there is no permission for its API"
    for name, authorizer in of_type(resources, "AWS::ApiGatewayV2::Authorizer"):
        if authorizer["AuthorizerType"] != "REQUEST":
            continue
        function, api = called(str(authorizer.get("AuthorizerUri"))), authorizer["ApiId"]
        if not any(to == function and source.endswith(f":{api}/authorizers/<{name}>") for to, source in granted):
            yield f"{name} may not call {function}: there is no permission for the authorizer"


# What lets anybody call an address, and nothing else of its function: by the permission's action.
URL_PERMISSIONS = {
    "StreamsUrlPermission": {"Action": "lambda:InvokeFunctionUrl", "FunctionUrlAuthType": "NONE"},
    "StreamsPermission": {"Action": "lambda:InvokeFunction", "InvokedViaFunctionUrl": "true"},
}


def _function_urls(resources: Resources) -> Iterator[str]:
    """The one function with an address of its own is the one that streams; it may be called by that address alone."""
    urls = dict(of_type(resources, "AWS::Lambda::Url"))
    if {symbol(url["TargetFunctionArn"]) for url in urls.values()} - {"StreamsFunction"}:
        yield "only StreamsFunction may have an address of its own"
    if ("StreamsUrl" in urls) != ("StreamsFunction" in resources):
        yield "StreamsFunction and its address come together"
    for name, url in urls.items():
        if url.get("InvokeMode") != "RESPONSE_STREAM":
            yield f"{name} hands over whole answers"
        if "*" in listed(url.get("Cors", {}).get("AllowOrigins")):
            yield f"{name} may be called by every page"
        if "<HttpApi.ApiEndpoint>" not in listed(url.get("Cors", {}).get("AllowOrigins")):
            yield f"{name} may not be called by the console, which comes from the HTTP API"
        for permission, wanted in URL_PERMISSIONS.items():
            found = canonical(resources.get(permission, {}).get("Properties", {}))
            if found != canonical({"FunctionName": "<StreamsFunction>", "Principal": "*"} | wanted):
                yield f"{name} may not be called by its address, or its function by more: {permission} is {found}"


def routes(resources: Resources) -> Iterator[str]:
    """Each route leads to an integration of its own API; nobody connects without the authorizer."""
    seen = set()
    for name, route in of_type(resources, "AWS::ApiGatewayV2::Route"):
        target = re.fullmatch(r"integrations/<(.+)>", str(route.get("Target")))
        integration = resources.get(target.group(1)) if target else None
        if integration is None or integration["Properties"]["ApiId"] != route["ApiId"]:
            yield f"{name} leads to no integration of its API"
        if route["RouteKey"] == "$connect" and (route.get("AuthorizationType"), bool(route.get("AuthorizerId"))) != ("CUSTOM", True):
            yield f"{name} lets anybody connect"
        seen.add((symbol(route["ApiId"]), route["RouteKey"]))
    wanted = {("HttpApi", "POST /v1/jobs"), ("HttpApi", "ANY /v1/{proxy+}"), ("HttpApi", "$default"),
              ("WebSocketApi", "$connect"), ("WebSocketApi", "$disconnect"), ("WebSocketApi", "$default")}
    for api, key in sorted(wanted - seen):
        yield f"{api} has no route {key}"
    if any(authorizer["AuthorizerType"] == "JWT" for _, authorizer in of_type(resources, "AWS::ApiGatewayV2::Authorizer")):
        for name, route in of_type(resources, "AWS::ApiGatewayV2::Route"):
            if "/v1/" in route["RouteKey"] and route.get("AuthorizationType") != "JWT":
                yield f"{name} goes past the JWT authorizer"


def wildcards(resources: Resources) -> Iterator[str]:
    """No role allows `*` actions, nor `*` resources where AWS has a finer one."""
    for role, properties in of_type(resources, "AWS::IAM::Role"):
        if properties.get("ManagedPolicyArns"):
            yield f"{role} takes managed policies, which allow more than the function calls"
        for statement in statements(resources, role):
            if statement["Effect"] != "Allow":
                continue
            for action in listed(statement["Action"]):
                if "*" in action:
                    yield f"{role} allows {action}"
                if "*" in listed(statement["Resource"]) and action not in WITHOUT_RESOURCE:
                    yield f"{role} allows {action} on every resource"


def least_rights(resources: Resources) -> Iterator[str]:
    """Each role allows exactly what rights.json lists, and nobody has a role that is not listed."""
    expected = json.loads((HERE / "rights.json").read_text())
    expected.pop("comment")
    with_key = any("kms:Decrypt" in rights(resources, name) for name, _ in of_type(resources, "AWS::IAM::Role"))
    given = _given(resources)
    expected = {name: listing for name, listing in expected.items() if listing.get("given", "") in given | {""}}
    for function, listing in expected.items():
        role, allowed = listing["role"], rights(resources, listing["role"])
        if with_key and function != "schedule":
            key = {action: allowed.pop(action, None) for action in ("kms:Decrypt", "kms:GenerateDataKey")}
            for action, grant in key.items():
                if grant is None or any(":key/" not in resource for resource in grant[0]):
                    yield f"{role} must allow {action} on the one key"
        wanted: dict[str, tuple[set[str], str]] = {}
        for right in listing["calls"] + listing["platform"]:
            if "given" in right and right["given"] not in given:
                continue
            on, before = wanted.get(right["action"], (set(), None))
            condition = json.dumps(canonical(right.get("condition", {})), sort_keys=True)
            wanted[right["action"]] = (on | set(right["resources"]), condition)
        for action in sorted(set(wanted) | set(allowed)):
            if action not in allowed:
                yield f"{role} does not allow {action}, which {function} calls"
            elif action not in wanted:
                yield f"{role} allows {action}, which {function} does not call"
            elif allowed[action] != wanted[action]:
                yield f"{role} allows {action} on {sorted(allowed[action][0])} {allowed[action][1]}; rights.json says {sorted(wanted[action][0])} {wanted[action][1]}"
    roles = {name for name, _ in of_type(resources, "AWS::IAM::Role")}
    for role in sorted(roles - {listing["role"] for listing in expected.values()}):
        yield f"{role} is not in rights.json"


# Parameters that bring rights along, by the variable of a function that says whether they are given. What no variable
# tells apart is given together with what one does.
GIVEN = {"ModelKeySecretArn": "LONGHAUL_MODEL_KEY_SECRET", "ProviderKeySecretArns": "LONGHAUL_PROVIDERS",
         "BedrockModelArns": "LONGHAUL_PROVIDERS", "SecretsPrefix": "LONGHAUL_SECRETS_PREFIX",
         "ToolFunctionArns": "LONGHAUL_TOOL_FUNCTIONS", "WebhookSecretsArn": "LONGHAUL_WEBHOOK_SECRETS_ARN"}


def _given(resources: Resources) -> set[str]:
    """The parameters of `GIVEN` that are not empty."""
    variables = {name: value for function in ("WebSocketFunction", "WorkerFunction")
                 for name, value in resources[function]["Properties"]["Environment"]["Variables"].items()}
    given = {parameter for parameter, variable in GIVEN.items() if variables.get(variable)}
    return given | {"EventStreamsMax"} if "StreamsFunction" in resources else given


def event_sources(resources: Resources) -> Iterator[str]:
    """Each event source answers by item, may read its source, and is set up as the embedded stack's is."""
    sources = {}
    for name, mapping in of_type(resources, "AWS::Lambda::EventSourceMapping"):
        source, function = symbol(mapping["EventSourceArn"]), symbol(mapping["FunctionName"])
        sources[source] = mapping
        if mapping.get("FunctionResponseTypes") != ["ReportBatchItemFailures"]:
            yield f"{name} does not take reports of single messages"
        allowed = rights(resources, role_of(resources, function))
        for action in sorted(SOURCE_ACTIONS.get(source, set())):
            if mapping["EventSourceArn"] not in allowed.get(action, (set(), ""))[0]:
                yield f"{name} needs {action} on {mapping['EventSourceArn']}, which the role of {function} does not allow"
        destination = mapping.get("DestinationConfig", {}).get("OnFailure", {}).get("Destination")
        if destination and destination not in allowed.get("sqs:SendMessage", (set(), ""))[0]:
            yield f"{name} may not send to its on-failure destination"
    jobs, stream = sources.get("JobsQueue"), sources.get("Table")
    if jobs is None or stream is None:
        yield "the queue and the stream need an event source each"
        return
    if not 2 <= int(jobs.get("ScalingConfig", {}).get("MaximumConcurrency", 0)) <= 1000:
        yield "the queue's event source has no MaximumConcurrency that AWS takes"
    if int(jobs["BatchSize"]) > BATCH_WITHOUT_WINDOW_MAX and not jobs.get("MaximumBatchingWindowInSeconds"):
        yield "the queue's event source has a batch size that needs a window"
    if not stream.get("DestinationConfig"):
        yield "the stream's event source drops what it gives up on"
    if stream.get("BisectBatchOnFunctionError") is not True:
        yield "the stream's event source does not bisect"
    retries = _constant("infra/local/src/lambda/event_sources/stream.rs", "RETRIES_USUAL")
    if int(stream.get("MaximumRetryAttempts", -1)) != retries:
        yield f"the stream's event source does not try {retries} times again, as the embedded stack does"
    patterns = sorted((json.loads(entry["Pattern"]) for entry in stream.get("FilterCriteria", {}).get("Filters", [])), key=str)
    if patterns != STREAM_FILTERS:
        yield f"the stream's event source filters {patterns} and not {STREAM_FILTERS}"


# As `StreamFilter` in infra/local: new jobs, entries that were appended, and job items that expired. Sorted as text.
STREAM_FILTERS = [
    {"eventName": ["INSERT"], "dynamodb": {"Keys": {"SK": {"S": ["JOB"]}}}},
    {"eventName": ["INSERT"], "dynamodb": {"Keys": {"SK": {"S": [{"prefix": "J#"}]}}}},
    {"eventName": ["REMOVE"], "dynamodb": {"Keys": {"SK": {"S": ["JOB"]}}}},
]


def _constant(file: str, name: str) -> int:
    """A number that the Rust code holds."""
    found = re.search(rf"const {name}: \w+ = ([0-9_]+);", (ROOT / file).read_text())
    if found is None:
        raise LookupError(f"{file} has no constant {name}")
    return int(found.group(1).replace("_", ""))


def queues(resources: Resources) -> Iterator[str]:
    """The queue hides a message for as long as an invocation may take; redrive works both ways; all is encrypted."""
    worker, jobs, letters = (resources[name]["Properties"] for name in ("WorkerFunction", "JobsQueue", "DeadLetterQueue"))
    if int(jobs["VisibilityTimeout"]) < int(worker["Timeout"]):
        yield f"JobsQueue hides a message for {jobs['VisibilityTimeout']} s, less than the worker's {worker['Timeout']} s"
    delivering, webhooks = resources["WebSocketFunction"]["Properties"], resources["WebhooksQueue"]["Properties"]
    visibility = _constant("infra/local/src/stores/mod.rs", "WEBHOOK_VISIBILITY_SECONDS")
    if int(webhooks["VisibilityTimeout"]) != visibility or visibility < int(delivering["Timeout"]):
        yield f"WebhooksQueue hides a message for {webhooks['VisibilityTimeout']} s and not for {visibility} s"
    redrive = jobs.get("RedrivePolicy", {})
    if symbol(redrive.get("deadLetterTargetArn")) != "DeadLetterQueue":
        yield "JobsQueue has no dead-letter queue"
    receives = _constant("infra/local/src/stores/mod.rs", "CONTINUATION_RECEIVES_MAX")
    if int(redrive.get("maxReceiveCount", 0)) != receives:
        yield f"JobsQueue gives a message up after other than {receives} receives"
    allow = letters.get("RedriveAllowPolicy", {})
    arn = f"arn:<AWS::Partition>:sqs:<AWS::Region>:<AWS::AccountId>:{jobs['QueueName']}"
    if (allow.get("redrivePermission"), allow.get("sourceQueueArns")) != ("byQueue", [arn]):
        yield "DeadLetterQueue does not take JobsQueue's letters, or takes others'"
    kept = _constant("infra/local/src/stores/mod.rs", "DEAD_LETTER_RETENTION_SECONDS")
    if int(letters.get("MessageRetentionPeriod", 0)) != kept:
        yield f"DeadLetterQueue does not keep letters for {kept} s"
    guarded = {symbol(queue) for _, policy in of_type(resources, "AWS::SQS::QueuePolicy")
               for queue in policy["Queues"] if _only_tls(policy)}
    for name, queue in of_type(resources, "AWS::SQS::Queue"):
        if name not in guarded:
            yield f"{name} takes connections without TLS"
        if not (queue.get("SqsManagedSseEnabled") or queue.get("KmsMasterKeyId")):
            yield f"{name} is not encrypted"


def _only_tls(policy: dict) -> bool:
    return any(statement["Effect"] == "Deny" and statement["Principal"] == "*"
               and statement.get("Condition") == {"Bool": {"aws:SecureTransport": "false"}}
               for statement in canonical(listed(policy["PolicyDocument"]["Statement"])))


def table(resources: Resources) -> Iterator[str]:
    """The table is the one that the code asks for, and safe."""
    properties = resources["Table"]["Properties"]
    golden = json.loads((ROOT / "shared/aws/tests/golden/table.json").read_text())
    golden["StreamSpecification"].pop("StreamEnabled")
    for name, wanted in golden.items():
        if name != "TableName" and canonical(properties.get(name)) != canonical({name: wanted})[name] \
                and canonical({name: properties.get(name)}) != canonical({name: wanted}):
            yield f"Table has {name} {properties.get(name)}; the code asks for {wanted}"
    source = (ROOT / "shared/aws/src/dynamo/table.rs").read_text()
    expiry = re.search(r'EXPIRY_ATTRIBUTE: &str = "(\w+)"', source)
    if canonical(properties.get("TimeToLiveSpecification")) != {"AttributeName": expiry.group(1), "Enabled": "true"}:
        yield "Table does not remove what has expired"
    if not properties.get("PointInTimeRecoverySpecification", {}).get("PointInTimeRecoveryEnabled"):
        yield "Table has no point-in-time recovery"
    if "DeletionProtectionEnabled" not in properties:
        yield "Table has no deletion protection"
    for name in ("Table", "Bucket"):
        if resources[name]["DeletionPolicy"] not in ("Retain", "RetainExceptOnCreate") or resources[name]["UpdateReplacePolicy"] != "Retain":
            yield f"{name} goes with the stack, and with it every job"


def bucket(resources: Resources) -> Iterator[str]:
    """The bucket is nobody else's."""
    properties = resources["Bucket"]["Properties"]
    block = properties.get("PublicAccessBlockConfiguration", {})
    if [block.get(name) for name in ("BlockPublicAcls", "BlockPublicPolicy", "IgnorePublicAcls", "RestrictPublicBuckets")] != [True] * 4:
        yield "Bucket may become public"
    if not any(symbol(policy["Bucket"]) == "Bucket" and _only_tls(policy) for _, policy in of_type(resources, "AWS::S3::BucketPolicy")):
        yield "Bucket takes connections without TLS"
    rules = properties.get("LifecycleConfiguration", {}).get("Rules", [])
    if not any("AbortIncompleteMultipartUpload" in rule for rule in rules) or not any("ExpirationInDays" in rule for rule in rules):
        yield "Bucket keeps what is left over for ever"
    if not properties.get("BucketEncryption"):
        yield "Bucket is not encrypted"


FUNCTIONS = {"ApiFunction": "longhaul-api", "WorkerFunction": "longhaul-worker",
             "WebSocketFunction": "longhaul-websocket", "SweeperFunction": "longhaul-sweeper",
             # The api's package once more; only where events are to come as a stream.
             "StreamsFunction": "longhaul-api"}


def functions(resources: Resources) -> Iterator[str]:
    """All four run the same way; only the worker may loop; logs are JSON and end some day."""
    found = dict(of_type(resources, "AWS::Lambda::Function"))
    if set(found) | {"StreamsFunction"} != set(FUNCTIONS):
        yield f"there are other functions than {sorted(FUNCTIONS)}: {sorted(found)}"
        return
    for name, function in found.items():
        if function.get("Runtime") != "provided.al2023" or function.get("Handler") != "bootstrap":
            yield f"{name} does not run on provided.al2023"
        if function.get("Architectures") not in (["arm64"], ["x86_64"]):
            yield f"{name} has no architecture"
        if function.get("TracingConfig", {}).get("Mode") != "Active":
            yield f"{name} is not traced"
        logging = function.get("LoggingConfig", {})
        group = symbol(logging.get("LogGroup"))
        if logging.get("LogFormat") != "JSON" or group not in resources:
            yield f"{name} does not log JSON into a group of this template"
        elif not resources[group]["Properties"].get("RetentionInDays"):
            yield f"{group} is kept for ever"
        if function.get("RecursiveLoop", "Terminate") != ("Allow" if name == "WorkerFunction" else "Terminate"):
            yield f"{name} has the wrong RecursiveLoop: the worker's loop over the queue must not be cut, any other must"
        if name == "StreamsFunction":
            if not int(function.get("ReservedConcurrentExecutions", 0)):
                yield "StreamsFunction may take every invocation of the account: nothing bounds its readers"
        elif function.get("ReservedConcurrentExecutions") is not None:
            yield f"{name} has reserved concurrency, whose throttles cost messages a receive"
    if int(found["ApiFunction"]["Timeout"]) >= 30:
        yield "ApiFunction may take longer than API Gateway waits"
    if int(found["SweeperFunction"]["Timeout"]) >= 60:
        yield "SweeperFunction may still sweep when the next sweep begins"


# Variables that every function needs before it can begin, and those that some need when asked for.
ENVIRONMENT_FILES = ["shared/aws/src/config.rs", "shared/agent/src/settings.rs", "shared/aws/src/telemetry.rs"]
NEEDED = {
    "ApiFunction": {"LONGHAUL_JWKS_URL", "LONGHAUL_JWT_ISSUER", "LONGHAUL_JWT_AUDIENCE", "LONGHAUL_PUSH_ENDPOINT",
                    "LONGHAUL_STREAM_URL", "LONGHAUL_WEBHOOK_QUEUE_URL", "LONGHAUL_TENANT_LIMITS"},
    "StreamsFunction": {"LONGHAUL_RESPONSE_STREAM", "LONGHAUL_JWKS_URL", "LONGHAUL_JWT_ISSUER", "LONGHAUL_JWT_AUDIENCE"},
    "WorkerFunction": {"LONGHAUL_MODEL_URL", "LONGHAUL_MODEL", "LONGHAUL_DOCUMENTS", "LONGHAUL_PUSH_ENDPOINT"},
    "WebSocketFunction": {"LONGHAUL_JWKS_URL", "LONGHAUL_JWT_ISSUER", "LONGHAUL_JWT_AUDIENCE", "LONGHAUL_PUSH_ENDPOINT",
                          "LONGHAUL_WEBHOOK_QUEUE_URL", "LONGHAUL_WEBHOOK_SECRETS_ARN", "LONGHAUL_TENANT_LIMITS"},
    "SweeperFunction": {"LONGHAUL_PUSH_ENDPOINT", "LONGHAUL_TENANT_LIMITS"},
}
NEEDED_BY_ALL = {"LONGHAUL_TABLE", "LONGHAUL_QUEUE_URL", "LONGHAUL_DEAD_LETTER_QUEUE_URL", "LONGHAUL_BUCKET"}


def environment(resources: Resources) -> Iterator[str]:
    """Each function is told what it needs, under names that the code reads; secrets are references."""
    known = {name for file in ENVIRONMENT_FILES for name in re.findall(r'"(LONGHAUL_[A-Z_]+)"', (ROOT / file).read_text())}
    for name, function in of_type(resources, "AWS::Lambda::Function"):
        variables = function.get("Environment", {}).get("Variables", {})
        for missing in sorted((NEEDED_BY_ALL | NEEDED.get(name, set())) - set(variables)):
            yield f"{name} is not told {missing}"
        for unknown in sorted(set(variables) - known):
            yield f"{name} is told {unknown}, which no code reads"
        for variable, value in variables.items():
            if variable == "LONGHAUL_WEBHOOK_LOOPBACK":
                yield f"{name} may report to its own machine"
            if variable == "LONGHAUL_RESPONSE_STREAM" and name != "StreamsFunction":
                yield f"{name} streams, which its API does not take"
            if variable == "LONGHAUL_SECRETS_PREFIX":
                continue
            # Secrets are read at run time, by their ARN.
            reference = r"arn:[a-z-]+:secretsmanager:.+"
            if re.search(r"KEY|SECRET|TOKEN|PASSWORD", variable) and value and not re.fullmatch(reference, str(value)):
                yield f"{name} holds the secret {variable} itself and not a reference"


def alarms(resources: Resources) -> Iterator[str]:
    """Each alarm is about a metric that exists and has a page of what to do; each page belongs to an alarm."""
    ours = emitted()
    pages = set()
    for name, alarm in of_type(resources, "AWS::CloudWatch::Alarm"):
        dimensions = {entry["Name"] for entry in alarm.get("Dimensions", [])}
        yield from _metric(name, alarm["Namespace"], alarm["MetricName"], dimensions, ours)
        page = re.search(r"docs/runbook/([a-z-]+\.md)$", alarm.get("AlarmDescription", ""))
        if page is None or not (RUNBOOK / page.group(1)).exists():
            yield f"{name} names no page of the runbook"
        else:
            pages.add(page.group(1))
        if alarm.get("TreatMissingData") not in ("notBreaching", "breaching"):
            yield f"{name} does not say what missing data means"
    for page in sorted({path.name for path in RUNBOOK.glob("*.md")} - pages - {"README.md"}):
        yield f"docs/runbook/{page} is about no alarm"
    age = resources["QueueAgeAlarm"]["Properties"]
    if float(age["Threshold"]) <= float(resources["WorkerFunction"]["Properties"]["Timeout"]):
        yield "QueueAgeAlarm rises while a worker still drives the job"
    for name, dashboard in of_type(resources, "AWS::CloudWatch::Dashboard"):
        for widget in json.loads(dashboard["DashboardBody"])["widgets"]:
            for metric in widget["properties"].get("metrics", []):
                texts = [part for part in metric if isinstance(part, str)]
                yield from _metric(name, texts[0], texts[1], set(texts[2::2]), ours)


def emitted() -> set[tuple[str, str, frozenset[str]]]:
    """The metrics that our functions emit, as their golden lines have them: namespace, name, dimensions."""
    found = set()
    for file in sorted(ROOT.glob("functions/*/src/snapshots/*metrics*.snap")):
        line = json.loads(file.read_text().split("---", 2)[2])
        for directive in line["_aws"]["CloudWatchMetrics"]:
            found |= {(directive["Namespace"], metric["Name"], frozenset(dimensions))
                      for metric in directive["Metrics"] for dimensions in directive["Dimensions"]}
    return found


def _metric(name: str, namespace: str, metric: str, dimensions: set[str], ours: set[tuple[str, str, frozenset[str]]]) -> Iterator[str]:
    if namespace == "Longhaul":
        if (namespace, metric, frozenset(dimensions)) not in ours:
            yield f"{name} looks at {metric} by {sorted(dimensions)}, which no function emits"
        return
    names, kinds = AWS_METRICS.get(namespace, (set(), []))
    if metric not in names or dimensions not in kinds:
        yield f"{name} looks at {namespace} {metric} by {sorted(dimensions)}, which AWS does not publish"


def key(resources: Resources) -> Iterator[str]:
    """Where a key is given, it is used for everything at rest; where none is, nothing names one."""
    kinds = {
        "AWS::DynamoDB::Table": lambda p: p.get("SSESpecification", {}).get("KMSMasterKeyId"),
        "AWS::S3::Bucket": lambda p: p["BucketEncryption"]["ServerSideEncryptionConfiguration"][0]["ServerSideEncryptionByDefault"].get("KMSMasterKeyID"),
        "AWS::SQS::Queue": lambda p: p.get("KmsMasterKeyId"),
        "AWS::Logs::LogGroup": lambda p: p.get("KmsKeyId"),
        "AWS::Lambda::Function": lambda p: p.get("KmsKeyArn"),
        "AWS::Scheduler::Schedule": lambda p: p.get("KmsKeyArn"),
    }
    found = {name: read(properties) for kind, read in kinds.items() for name, properties in of_type(resources, kind)}
    if len(set(found.values())) > 1:
        without = sorted(name for name, used in found.items() if not used)
        yield f"the key does not protect {without}"


CHECKS: list[Callable[[Resources], Iterator[str]]] = [
    permissions, routes, wildcards, least_rights, event_sources, queues, table, bucket, functions, environment, alarms, key,
]


def faults(resources: Resources) -> list[str]:
    """All faults that the checks find."""
    return [fault for check in CHECKS for fault in check(resources)]
