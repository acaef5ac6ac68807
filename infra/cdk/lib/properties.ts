/** What may be said about a Longhaul, and what is taken where nothing is said. */

import { Duration } from 'aws-cdk-lib';
import { IKey } from 'aws-cdk-lib/aws-kms';
import { Architecture } from 'aws-cdk-lib/aws-lambda';
import { RetentionDays } from 'aws-cdk-lib/aws-logs';
import { ISecret } from 'aws-cdk-lib/aws-secretsmanager';
import { ITopic } from 'aws-cdk-lib/aws-sns';

/** Whose tokens are taken. */
export interface TokenProps {
  /** The claim `iss`, exactly as it stands in the tokens. */
  readonly issuer: string;
  /** The claim `aud`. */
  readonly audience: string;
  /** Where the issuer publishes its keys. */
  readonly jwksUrl: string;
  /**
   * The claim that names the tenant.
   * @default tenant
   */
  readonly tenantClaim?: string;
  /**
   * The claim that lists the scopes.
   * @default scope
   */
  readonly scopeClaim?: string;
  /**
   * Whether the HTTP API refuses bad tokens itself, before a function runs. The functions check every token in any case.
   * It needs an issuer with a discovery document and RSA keys.
   * @default false
   */
  readonly authorizerAtGateway?: boolean;
}

/** The model that the agents ask. */
export interface ModelProps {
  /** Base address of a Chat Completions server, ending in `/v1`. */
  readonly url: string;
  /** The model's name there. */
  readonly name: string;
  /**
   * The secret whose whole text is the server's key. The worker reads it when it needs it.
   * @default a server that asks for none
   */
  readonly key?: ISecret;
  /**
   * How long one call may take, at most ten minutes.
   * @default two minutes
   */
  readonly timeLimit?: Duration;
  /**
   * Prices of models, laid over the published ones that come with the program: the form of shared/llm/prices.json.
   * @default the published ones alone
   */
  readonly prices?: Record<string, unknown>;
  /**
   * Further providers that agent definitions may name: endpoints by name, as docs/models.md describes them. A key is named
   * by `key_secret` with the ARN of a secret, which must be among `providerKeys`.
   * @default none
   */
  readonly providers?: Record<string, Record<string, unknown>>;
  /**
   * The secrets that `providers` names.
   * @default none
   */
  readonly providerKeys?: ISecret[];
  /**
   * ARNs of the Bedrock models and inference profiles that the worker's role may ask, for providers of the wire
   * `converse` without a key.
   * @default none
   */
  readonly bedrockModelArns?: string[];
}

/** What tools of agents that tenants define may use. */
export interface ToolProps {
  /**
   * What the names of tenants' secrets begin with. A tenant's definitions reach secrets of Secrets Manager and Parameter
   * Store below `secretsPrefix/TENANT/` and no others.
   * @default definitions have no secrets
   */
  readonly secretsPrefix?: string;
  /**
   * Hosts beyond the public internet that tools may reach: names, `*.name` or addresses.
   * @default none
   */
  readonly hosts?: string[];
  /**
   * ARNs of the functions that definitions of all tenants may call, with `:alias` or `:version` if need be. The event says
   * which tenant calls.
   * @default none
   */
  readonly functionArns?: string[];
}

/** How jobs are driven. */
export interface WorkerProps {
  /**
   * How long one invocation may take. A job goes on over as many as it needs; a step starts only where its own time limit
   * still fits. The queue hides a message for a minute longer.
   * @default 15 minutes
   */
  readonly timeout?: Duration;
  /**
   * Megabytes. One invocation drives a whole batch of jobs, and processor share grows with memory.
   * @default 512
   */
  readonly memorySize?: number;
  /**
   * Batches that are worked on at the same time, 2 to 1,000. Times `batchSize`, it is the number of jobs that run at once.
   * @default 50
   */
  readonly maxConcurrency?: number;
  /**
   * Jobs that one invocation drives at most, 1 to 500. Above 10, the queue is given a second to gather a batch, once an
   * invocation: for deployments with hundreds of jobs at once (docs/scale.md).
   * @default 10
   */
  readonly batchSize?: number;
}

/** What a tenant may use. What is not named is as docs/limits.md says. */
export interface TenantLimitProps {
  /** Jobs that have not ended. */
  readonly jobsOpen?: number;
  /** Submissions a second, over time. */
  readonly submissionsPerSecond?: number;
  /** Submissions that may come at once. */
  readonly submissionsBurst?: number;
  /** Bytes of a submission's body. */
  readonly bodyBytes?: number;
  /** WebSocket connections at a time. */
  readonly connections?: number;
}

/** What each tenant may use. */
export interface TenantLimitsProps extends TenantLimitProps {
  /**
   * In what single tenants differ, by their names.
   * @default all are alike
   */
  readonly tenants?: Record<string, TenantLimitProps>;
}

/** How the APIs are offered. */
export interface ApiProps {
  /**
   * Requests a second from all callers together; above it the answer is 429.
   * @default 200
   */
  readonly requestsPerSecond?: number;
  /**
   * Requests that may come at once above that rate.
   * @default 400
   */
  readonly requestsBurst?: number;
  /**
   * Origins of web pages that may call from a browser.
   * @default none
   */
  readonly allowedOrigins?: string[];
  /**
   * Readers that may have a job's events as a stream (server-sent events) at the same time. With more than 0 the api has a
   * second address for it, at which each reader holds an invocation, so that many are reserved of the account's.
   * @default 0: no such address
   */
  readonly eventStreamsMax?: number;
  /**
   * Whether the WebSocket API writes access logs. API Gateway can do that only where the account's settings name a role
   * for it, which this construct leaves alone since the whole account shares them.
   * @default false
   */
  readonly webSocketAccessLogs?: boolean;
}

/** When alarms rise, and who is told. */
export interface AlarmProps {
  /**
   * Told when an alarm rises or ends.
   * @default alarms only show
   */
  readonly topic?: ITopic;
  /**
   * Age of the oldest continuation. It must be longer than the worker's timeout: a message is in the queue as long as its
   * job is being driven.
   * @default 30 minutes
   */
  readonly queueAge?: Duration;
  /**
   * Jobs that fail for good within a minute.
   * @default 10
   */
  readonly deadLettersPerMinute?: number;
  /**
   * Latency of the slowest hundredth of submissions.
   * @default one second
   */
  readonly submitLatency?: Duration;
  /**
   * What all model calls of an hour may cost, in millionths of your price table's currency.
   * @default 50 units
   */
  readonly moneyPerHourMicros?: number;
}

/** Least level of the functions' own log lines. */
export type LogLevel = 'TRACE' | 'DEBUG' | 'INFO' | 'WARN' | 'ERROR';

/** A whole Longhaul. */
export interface LonghaulProps {
  readonly tokens: TokenProps;
  readonly model: ModelProps;
  readonly tools?: ToolProps;
  /**
   * What each tenant may use.
   * @default docs/limits.md has the defaults
   */
  readonly tenantLimits?: TenantLimitsProps;
  /**
   * The secret with what webhooks are signed with: a JSON object of tenants and their secrets (docs/webhooks.md). It is
   * read when it is needed, and again after five minutes.
   * @default no webhook is sent
   */
  readonly webhookSecrets?: ISecret;
  /**
   * The folder into which `make package` puts the functions, one folder each.
   * @default target/lambda of the repository that this file lies in
   */
  readonly packages?: string;
  /**
   * What the names of queues, alarms and the dashboard begin with. Give one where a stack holds two of these.
   * @default the stack's name
   */
  readonly name?: string;
  /**
   * The processor that the packages have been built for.
   * @default arm64
   */
  readonly architecture?: Architecture;
  readonly worker?: WorkerProps;
  readonly api?: ApiProps;
  /**
   * Your key for table, bucket, queues, logs and the functions' settings. Its policy must let CloudWatch Logs use it.
   * @default keys that AWS owns
   */
  readonly encryptionKey?: IKey;
  /**
   * Whether the table refuses to be deleted.
   * @default true
   */
  readonly deletionProtection?: boolean;
  /**
   * After which time a large payload is removed whatever became of its job: a net under the removal with the job. It must
   * be longer than any job runs and is kept.
   * @default 400 days
   */
  readonly payloadLifetime?: Duration;
  /** @default INFO */
  readonly logLevel?: LogLevel;
  /** @default one month */
  readonly logRetention?: RetentionDays;
  readonly alarms?: AlarmProps;
}

/** Longest invocation that Lambda allows. */
const TIMEOUT_MAX_SECONDS = 900;
/** Longest model call: a step must fit into an invocation with room to spare. */
const MODEL_TIME_LIMIT_MAX_SECONDS = 600;
/** Largest batch that SQS hands over without a window. */
export const BATCH_WITHOUT_WINDOW_MAX = 10;
/** Largest batch: what one process drives with the memory that a worker can have. */
const BATCH_MAX = 500;
/** What `MaximumConcurrency` of an SQS event source may be. */
const CONCURRENCY_MIN = 2;
const CONCURRENCY_MAX = 1_000;
/** A finished job is kept for thirty days, so payloads must be for longer. */
const PAYLOAD_LIFETIME_MIN_DAYS = 60;

/** The properties with all that was not said put in, or an error that names what cannot be. */
export function settled(props: LonghaulProps) {
  const settings = {
    architecture: props.architecture ?? Architecture.ARM_64,
    workerTimeout: props.worker?.timeout ?? Duration.seconds(TIMEOUT_MAX_SECONDS),
    workerMemory: props.worker?.memorySize ?? 512,
    maxConcurrency: props.worker?.maxConcurrency ?? 50,
    batchSize: props.worker?.batchSize ?? BATCH_WITHOUT_WINDOW_MAX,
    modelTimeLimit: props.model.timeLimit ?? Duration.minutes(2),
    requestsPerSecond: props.api?.requestsPerSecond ?? 200,
    requestsBurst: props.api?.requestsBurst ?? 400,
    allowedOrigins: props.api?.allowedOrigins ?? [],
    eventStreamsMax: props.api?.eventStreamsMax ?? 0,
    webSocketAccessLogs: props.api?.webSocketAccessLogs ?? false,
    deletionProtection: props.deletionProtection ?? true,
    payloadLifetime: props.payloadLifetime ?? Duration.days(400),
    logLevel: props.logLevel ?? 'INFO',
    logRetention: props.logRetention ?? RetentionDays.ONE_MONTH,
    queueAge: props.alarms?.queueAge ?? Duration.minutes(30),
    deadLettersPerMinute: props.alarms?.deadLettersPerMinute ?? 10,
    submitLatency: props.alarms?.submitLatency ?? Duration.seconds(1),
    moneyPerHourMicros: props.alarms?.moneyPerHourMicros ?? 50_000_000,
  };
  const seconds = settings.workerTimeout.toSeconds();
  within('worker.timeout', seconds, 30, TIMEOUT_MAX_SECONDS, 'seconds');
  within('model.timeLimit', settings.modelTimeLimit.toSeconds(), 1, MODEL_TIME_LIMIT_MAX_SECONDS, 'seconds');
  within('worker.batchSize', settings.batchSize, 1, BATCH_MAX, 'jobs');
  within('worker.maxConcurrency', settings.maxConcurrency, CONCURRENCY_MIN, CONCURRENCY_MAX, 'batches');
  within('api.eventStreamsMax', settings.eventStreamsMax, 0, CONCURRENCY_MAX, 'readers');
  within('payloadLifetime', settings.payloadLifetime.toDays(), PAYLOAD_LIFETIME_MIN_DAYS, Infinity, 'days');
  within('alarms.queueAge', settings.queueAge.toSeconds(), seconds + 1, Infinity, 'seconds (longer than the worker may take)');
  const prefix = props.tools?.secretsPrefix;
  if (prefix !== undefined && !PREFIX.test(prefix)) {
    throw new Error(`tools.secretsPrefix is ${prefix}; it must be made of letters, digits, - _ . and single strokes between`);
  }
  return settings;
}

/** What a prefix of secrets' names may be: every part of it is a part of a name in both stores. */
const PREFIX = /^[A-Za-z0-9._-]+(\/[A-Za-z0-9._-]+)*$/;

/** The properties with nothing left open. */
export type Settings = ReturnType<typeof settled>;

function within(name: string, value: number, least: number, most: number, unit: string) {
  if (!(value >= least && value <= most)) {
    throw new Error(`${name} is ${value}; it must be from ${least} to ${most} ${unit}`);
  }
}
