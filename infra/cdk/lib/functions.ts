/** The four functions, the api's second one where events are to come as a stream, and what invokes two of them without an API. */

import { join } from 'node:path';

import { Duration, RemovalPolicy, Stack } from 'aws-cdk-lib';
import * as iam from 'aws-cdk-lib/aws-iam';
import { IKey } from 'aws-cdk-lib/aws-kms';
import * as lambda from 'aws-cdk-lib/aws-lambda';
import * as logs from 'aws-cdk-lib/aws-logs';
import * as scheduler from 'aws-cdk-lib/aws-scheduler';
import { Construct } from 'constructs';

import {
  BATCH_WITHOUT_WINDOW_MAX, LonghaulProps, Settings, TenantLimitProps, TenantLimitsProps,
} from './properties';
import { Rights } from './rights';
import { Storage } from './storage';

/** Under the 30 s that API Gateway waits. */
const API_TIMEOUT = Duration.seconds(29);
/** A stream ends with it, and the reader comes again. */
const STREAMS_TIMEOUT = Duration.minutes(15);
const WEBSOCKET_TIMEOUT = Duration.seconds(30);
/** Over before the next sweep begins. */
const SWEEPER_TIMEOUT = Duration.seconds(55);
/** Records of the stream that are handed over at once. */
const STREAM_BATCH = 100;
/** Tries of a part of the stream after the first. */
const STREAM_RETRIES = 5;
/** Webhook deliveries that are handed over at once, and batches of them at the same time. */
const WEBHOOK_BATCH = 10;
const WEBHOOK_CONCURRENCY = 20;
/** The folder of a package that the inputs of jobs may name files in. */
const DOCUMENTS = '/var/task/documents';

export interface Functions {
  readonly api: lambda.Function;
  /** Where events come as a stream; undefined where they do nowhere. */
  readonly eventsUrl: string | undefined;
  readonly worker: lambda.Function;
  readonly webSocket: lambda.Function;
  readonly sweeper: lambda.Function;
  readonly workerLogs: logs.LogGroup;
}

/** What the functions are made with. */
export interface FunctionsContext {
  readonly props: LonghaulProps;
  readonly settings: Settings;
  readonly storage: Storage;
  readonly key: IKey | undefined;
  readonly rights: Rights;
  /** The management endpoint of the WebSocket API. */
  readonly pushEndpoint: string;
  /** Where the console comes from: the HTTP API. */
  readonly consoleOrigin: string;
}

export function functions(scope: Construct, context: FunctionsContext): Functions {
  const { props, settings, rights, pushEndpoint } = context;
  const logGroup = (id: string) =>
    new logs.LogGroup(scope, id, {
      retention: settings.logRetention,
      encryptionKey: context.key,
      removalPolicy: RemovalPolicy.DESTROY,
    });
  const tokens = {
    LONGHAUL_JWKS_URL: props.tokens.jwksUrl,
    LONGHAUL_JWT_ISSUER: props.tokens.issuer,
    LONGHAUL_JWT_AUDIENCE: props.tokens.audience,
    LONGHAUL_JWT_TENANT_CLAIM: props.tokens.tenantClaim ?? 'tenant',
    LONGHAUL_JWT_SCOPE_CLAIM: props.tokens.scopeClaim ?? 'scope',
  };
  const tenants = {
    LONGHAUL_WEBHOOK_QUEUE_URL: context.storage.webhooks.queueUrl,
    LONGHAUL_TENANT_LIMITS: tenantLimits(props.tenantLimits),
  };
  // What a definition may name is checked when it is saved, and again when it runs.
  const definitions = {
    LONGHAUL_PROVIDERS: props.model.providers ? JSON.stringify(props.model.providers) : '',
    LONGHAUL_TOOL_HOSTS: (props.tools?.hosts ?? []).join(','),
  };
  const eventsUrl = settings.eventStreamsMax > 0 ? streams(scope, context, tokens, logGroup) : undefined;
  const apiLogs = logGroup('ApiLogs');
  const api = bootstrap(scope, 'ApiFunction', context, {
    description: 'Longhaul - the HTTP interface',
    package: 'longhaul-api',
    timeout: API_TIMEOUT,
    memorySize: 256,
    logGroup: apiLogs,
    role: rights.api(apiLogs),
    environment: {
      ...tokens,
      ...tenants,
      // Where the console finds the live events.
      LONGHAUL_PUSH_ENDPOINT: pushEndpoint,
      // Told to who asks for a stream of events, which this function's API cannot hand over.
      LONGHAUL_STREAM_URL: eventsUrl ?? '',
      ...definitions,
    },
  });
  const workerLogs = logGroup('WorkerLogs');
  const worker = bootstrap(scope, 'WorkerFunction', context, {
    description: 'Longhaul - drives jobs on, a batch at a time',
    package: 'longhaul-worker',
    timeout: settings.workerTimeout,
    memorySize: settings.workerMemory,
    logGroup: workerLogs,
    role: rights.worker(workerLogs, props),
    // Worker, queue, worker is a loop on purpose, which Lambda would cut after some sixteen rounds. What bounds it is
    // each job's limit of steps and budget.
    recursiveLoop: lambda.RecursiveLoop.ALLOW,
    environment: {
      LONGHAUL_MODEL_URL: props.model.url,
      LONGHAUL_MODEL: props.model.name,
      // Where keys lie, never a key: the worker reads them when it needs them.
      LONGHAUL_MODEL_KEY_SECRET: props.model.key?.secretArn ?? '',
      LONGHAUL_PRICES: props.model.prices ? JSON.stringify(props.model.prices) : '',
      ...definitions,
      LONGHAUL_SECRETS_PREFIX: props.tools?.secretsPrefix ?? '',
      LONGHAUL_TOOL_FUNCTIONS: (props.tools?.functionArns ?? []).join(','),
      LONGHAUL_MODEL_TIME_LIMIT_SECONDS: String(settings.modelTimeLimit.toSeconds()),
      LONGHAUL_DOCUMENTS: DOCUMENTS,
      LONGHAUL_CORPUS: DOCUMENTS,
      LONGHAUL_PUSH_ENDPOINT: pushEndpoint,
    },
  });
  const webSocketLogs = logGroup('WebSocketLogs');
  const webSocket = bootstrap(scope, 'WebSocketFunction', context, {
    description: 'Longhaul - watchers, webhooks, and the end of expired jobs',
    package: 'longhaul-websocket',
    timeout: WEBSOCKET_TIMEOUT,
    memorySize: 256,
    logGroup: webSocketLogs,
    role: rights.webSocket(webSocketLogs, props),
    environment: {
      ...tokens,
      ...tenants,
      LONGHAUL_PUSH_ENDPOINT: pushEndpoint,
      // Where they lie, never a secret.
      LONGHAUL_WEBHOOK_SECRETS_ARN: props.webhookSecrets?.secretArn ?? '',
    },
  });
  const sweeperLogs = logGroup('SweeperLogs');
  const sweeper = bootstrap(scope, 'SweeperFunction', context, {
    description: 'Longhaul - calls up due and lost jobs, fires schedules',
    package: 'longhaul-sweeper',
    timeout: SWEEPER_TIMEOUT,
    memorySize: 256,
    logGroup: sweeperLogs,
    role: rights.sweeper(sweeperLogs),
    environment: {
      // Connections of a tenant whose data is erased are closed.
      LONGHAUL_PUSH_ENDPOINT: pushEndpoint,
      // What schedules submit is held to them as well.
      LONGHAUL_TENANT_LIMITS: tenants.LONGHAUL_TENANT_LIMITS,
    },
  });
  invoke(scope, context, worker, webSocket, sweeper);
  return { api, eventsUrl, worker, webSocket, sweeper, workerLogs };
}

/** The function that gives events as a stream, with an address of its own: HTTP APIs hand over whole answers only. */
function streams(
  scope: Construct,
  context: FunctionsContext,
  tokens: Record<string, string>,
  logGroup: (id: string) => logs.LogGroup,
): string {
  const { settings, rights } = context;
  const streamsLogs = logGroup('StreamsLogs');
  const handler = bootstrap(scope, 'StreamsFunction', context, {
    description: 'Longhaul - events as a stream',
    package: 'longhaul-api',
    timeout: STREAMS_TIMEOUT,
    memorySize: 128,
    logGroup: streamsLogs,
    role: rights.streams(streamsLogs),
    // Readers that hold invocations must not take them from the workers, nor may a crowd without tokens.
    reservedConcurrentExecutions: settings.eventStreamsMax,
    environment: { LONGHAUL_RESPONSE_STREAM: '1', ...tokens },
  });
  // The function checks the token of every call, as the api does: callers have tokens of your issuer and no rights in AWS.
  const url = new lambda.CfnUrl(scope, 'StreamsUrl', {
    targetFunctionArn: handler.functionArn,
    authType: 'NONE',
    invokeMode: 'RESPONSE_STREAM',
    cors: {
      allowOrigins: [...settings.allowedOrigins, context.consoleOrigin],
      allowMethods: ['GET'],
      allowHeaders: ['authorization', 'last-event-id', 'traceparent'],
      exposeHeaders: ['retry-after', 'x-request-id'],
      maxAge: 600,
    },
  });
  // Both are asked for, and both hold for calls by the address alone.
  const anybody = { functionName: handler.functionName, principal: '*' };
  new lambda.CfnPermission(scope, 'StreamsUrlPermission', {
    ...anybody, action: 'lambda:InvokeFunctionUrl', functionUrlAuthType: 'NONE',
  });
  new lambda.CfnPermission(scope, 'StreamsPermission', { ...anybody, action: 'lambda:InvokeFunction', invokedViaFunctionUrl: true });
  return url.attrFunctionUrl;
}

/** The limits as the functions read them. */
function tenantLimits(limits: TenantLimitsProps | undefined): string {
  const written = (of: TenantLimitProps) => ({
    jobs_open: of.jobsOpen,
    submissions_per_second: of.submissionsPerSecond,
    submissions_burst: of.submissionsBurst,
    body_bytes: of.bodyBytes,
    connections: of.connections,
  });
  if (!limits) return '';
  const single = Object.entries(limits.tenants ?? {}).map(([tenant, own]) => [tenant, written(own)]);
  return JSON.stringify({ ...written(limits), tenants: single.length > 0 ? Object.fromEntries(single) : undefined });
}

interface Bootstrap {
  readonly description: string;
  readonly package: string;
  readonly timeout: Duration;
  readonly memorySize: number;
  readonly logGroup: logs.ILogGroup;
  readonly role: iam.IRole;
  readonly environment: Record<string, string>;
  readonly recursiveLoop?: lambda.RecursiveLoop;
  readonly reservedConcurrentExecutions?: number;
}

function bootstrap(scope: Construct, id: string, context: FunctionsContext, wanted: Bootstrap): lambda.Function {
  const { props, settings, storage, key } = context;
  const packages = props.packages ?? join(__dirname, '..', '..', '..', '..', 'target', 'lambda');
  return new lambda.Function(scope, id, {
    description: wanted.description,
    code: lambda.Code.fromAsset(join(packages, wanted.package)),
    runtime: lambda.Runtime.PROVIDED_AL2023,
    handler: 'bootstrap',
    architecture: settings.architecture,
    timeout: wanted.timeout,
    memorySize: wanted.memorySize,
    role: wanted.role,
    tracing: lambda.Tracing.ACTIVE,
    recursiveLoop: wanted.recursiveLoop,
    reservedConcurrentExecutions: wanted.reservedConcurrentExecutions,
    logGroup: wanted.logGroup,
    loggingFormat: lambda.LoggingFormat.JSON,
    applicationLogLevelV2: settings.logLevel as lambda.ApplicationLogLevel,
    environmentEncryption: key,
    environment: {
      LONGHAUL_TABLE: storage.table.tableName,
      LONGHAUL_QUEUE_URL: storage.jobs.queueUrl,
      LONGHAUL_DEAD_LETTER_QUEUE_URL: storage.deadLetters.queueUrl,
      LONGHAUL_BUCKET: storage.bucket.bucketName,
      ...wanted.environment,
    },
  });
}

/** Queue to worker, stream to websocket, schedule to sweeper. */
function invoke(scope: Construct, context: FunctionsContext, worker: lambda.Function, webSocket: lambda.Function, sweeper: lambda.Function) {
  const { settings, storage, key } = context;
  new lambda.EventSourceMapping(scope, 'JobsEventSource', {
    target: worker,
    eventSourceArn: storage.jobs.queueArn,
    batchSize: settings.batchSize,
    maxBatchingWindow: settings.batchSize > BATCH_WITHOUT_WINDOW_MAX ? Duration.seconds(1) : undefined,
    reportBatchItemFailures: true,
    // Bounds the workers before messages are received. Reserved concurrency would throttle after it, and each throttle
    // costs messages a receive.
    maxConcurrency: settings.maxConcurrency,
  });
  new lambda.EventSourceMapping(scope, 'WebhooksEventSource', {
    target: webSocket,
    eventSourceArn: storage.webhooks.queueArn,
    batchSize: WEBHOOK_BATCH,
    reportBatchItemFailures: true,
    // Receivers that hang hold no more invocations than these, which leaves the watchers theirs.
    maxConcurrency: WEBHOOK_CONCURRENCY,
  });
  const stream = new lambda.EventSourceMapping(scope, 'StreamEventSource', {
    target: webSocket,
    eventSourceArn: storage.table.tableStreamArn,
    // With LATEST, what is written while the mapping comes up would be pushed to nobody.
    startingPosition: lambda.StartingPosition.TRIM_HORIZON,
    batchSize: STREAM_BATCH,
    filters: [
      // Entries that were appended. Job items change at every claim and are nobody's news.
      lambda.FilterCriteria.filter({ eventName: ['INSERT'], dynamodb: { Keys: { SK: { S: [{ prefix: 'J#' }] } } } }),
      // New jobs: they get their places in the index by which they are found.
      lambda.FilterCriteria.filter({ eventName: ['INSERT'], dynamodb: { Keys: { SK: { S: ['JOB'] } } } }),
      // Job items that expired: their journals and payloads go after them.
      lambda.FilterCriteria.filter({ eventName: ['REMOVE'], dynamodb: { Keys: { SK: { S: ['JOB'] } } } }),
    ],
    reportBatchItemFailures: true,
    bisectBatchOnError: true,
    retryAttempts: STREAM_RETRIES,
    onFailure: { bind: () => ({ destination: storage.streamFailures.queueArn }) },
  });
  stream.node.addDependency(webSocket);
  const scheduleRole = new iam.Role(scope, 'ScheduleRole', {
    assumedBy: new iam.ServicePrincipal('scheduler.amazonaws.com', {
      conditions: { StringEquals: { 'aws:SourceAccount': Stack.of(scope).account } },
    }),
    inlinePolicies: {
      calls: new iam.PolicyDocument({
        statements: [new iam.PolicyStatement({ sid: 'Sweep', actions: ['lambda:InvokeFunction'], resources: [sweeper.functionArn] })],
      }),
    },
  });
  // The next minute's sweep does what this one could not.
  const retries = { maximumRetryAttempts: 0, maximumEventAgeInSeconds: 60 };
  new scheduler.CfnSchedule(scope, 'SweepSchedule', {
    description: 'Longhaul - looks every minute for jobs that nobody looks after',
    scheduleExpression: 'rate(1 minute)',
    flexibleTimeWindow: { mode: 'OFF' },
    state: 'ENABLED',
    kmsKeyArn: key?.keyArn,
    target: { arn: sweeper.functionArn, roleArn: scheduleRole.roleArn, retryPolicy: retries },
  });
  new lambda.CfnEventInvokeConfig(scope, 'SweeperInvokes', { functionName: sweeper.functionName, qualifier: '$LATEST', ...retries });
}
