/** What is kept: table, bucket and queues. */

import { ArnFormat, Duration, RemovalPolicy, Stack } from 'aws-cdk-lib';
import * as dynamodb from 'aws-cdk-lib/aws-dynamodb';
import { IKey } from 'aws-cdk-lib/aws-kms';
import * as s3 from 'aws-cdk-lib/aws-s3';
import * as sqs from 'aws-cdk-lib/aws-sqs';
import { Construct } from 'constructs';

import { Settings } from './properties';

/** Receives after which a message is one that no worker can read. A job is never judged by this. */
const RECEIVES_MAX = 10;
/** By this much longer than the worker may take a message stays hidden: Lambda may try again after a throttle. */
const VISIBILITY_MARGIN = Duration.minutes(1);
/** Longer than the function that delivers may take, with room for Lambda's own tries after a throttle. */
const WEBHOOK_VISIBILITY = Duration.minutes(3);
/** The longest that SQS keeps a message. */
const MESSAGE_RETENTION = Duration.days(14);

/** What the functions read and write. */
export interface Storage {
  readonly table: dynamodb.Table;
  readonly bucket: s3.Bucket;
  readonly jobs: sqs.Queue;
  readonly deadLetters: sqs.Queue;
  /** Where Lambda notes parts of the stream that it gave up on. They are no jobs and so no dead letters. */
  readonly streamFailures: sqs.Queue;
  /** When a webhook delivery is to be looked at. */
  readonly webhooks: sqs.Queue;
}

export function storage(scope: Construct, name: string, settings: Settings, key: IKey | undefined): Storage {
  return { table: table(scope, settings, key), bucket: bucket(scope, settings, key), ...queues(scope, name, settings, key) };
}

/** The table as `shared/aws/src/dynamo/table.rs` defines it. */
function table(scope: Construct, settings: Settings, key: IKey | undefined): dynamodb.Table {
  const text = dynamodb.AttributeType.STRING;
  const made = new dynamodb.Table(scope, 'Table', {
    partitionKey: { name: 'PK', type: text },
    sortKey: { name: 'SK', type: text },
    billingMode: dynamodb.BillingMode.PAY_PER_REQUEST,
    stream: dynamodb.StreamViewType.NEW_IMAGE,
    timeToLiveAttribute: 'expires_at',
    pointInTimeRecoverySpecification: { pointInTimeRecoveryEnabled: true },
    deletionProtection: settings.deletionProtection,
    encryption: key ? dynamodb.TableEncryption.CUSTOMER_MANAGED : undefined,
    encryptionKey: key,
    removalPolicy: RemovalPolicy.RETAIN_ON_UPDATE_OR_DELETE,
  });
  made.addGlobalSecondaryIndex({
    indexName: 'due',
    partitionKey: { name: 'due_shard', type: text },
    sortKey: { name: 'due_at', type: dynamodb.AttributeType.NUMBER },
    projectionType: dynamodb.ProjectionType.INCLUDE,
    nonKeyAttributes: ['tenant'],
  });
  made.addGlobalSecondaryIndex({
    indexName: 'jobs',
    partitionKey: { name: 'tenant', type: text },
    sortKey: { name: 'listed', type: text },
    projectionType: dynamodb.ProjectionType.KEYS_ONLY,
  });
  made.addGlobalSecondaryIndex({
    indexName: 'search',
    partitionKey: { name: 'found_by', type: text },
    sortKey: { name: 'listed', type: text },
    projectionType: dynamodb.ProjectionType.KEYS_ONLY,
  });
  return made;
}

/** Payloads too large for the table. An object is written once and removed with its job, so versions would only keep
 * what was to be forgotten. */
function bucket(scope: Construct, settings: Settings, key: IKey | undefined): s3.Bucket {
  return new s3.Bucket(scope, 'Bucket', {
    encryption: key ? s3.BucketEncryption.KMS : s3.BucketEncryption.S3_MANAGED,
    encryptionKey: key,
    bucketKeyEnabled: key ? true : undefined,
    enforceSSL: true,
    objectOwnership: s3.ObjectOwnership.BUCKET_OWNER_ENFORCED,
    blockPublicAccess: s3.BlockPublicAccess.BLOCK_ALL,
    lifecycleRules: [
      { id: 'half-written', abortIncompleteMultipartUploadAfter: Duration.days(1) },
      { id: 'left-over', expiration: settings.payloadLifetime },
    ],
    removalPolicy: RemovalPolicy.RETAIN_ON_UPDATE_OR_DELETE,
  });
}

function queues(scope: Construct, name: string, settings: Settings, key: IKey | undefined) {
  const safe = {
    enforceSSL: true,
    encryption: key ? sqs.QueueEncryption.KMS : sqs.QueueEncryption.SQS_MANAGED,
    encryptionMasterKey: key,
    retentionPeriod: MESSAGE_RETENTION,
    removalPolicy: RemovalPolicy.DESTROY,
  };
  // The dead-letter queue says whose letters it takes, and the two would otherwise need each other first.
  const jobsName = `${name}-jobs`;
  const jobsArn = Stack.of(scope).formatArn({ service: 'sqs', resource: jobsName, arnFormat: ArnFormat.NO_RESOURCE_NAME });
  const deadLetters = new sqs.Queue(scope, 'DeadLetterQueue', {
    ...safe,
    queueName: `${name}-dead-letters`,
    redriveAllowPolicy: {
      redrivePermission: sqs.RedrivePermission.BY_QUEUE,
      sourceQueues: [sqs.Queue.fromQueueArn(scope, 'JobsQueueByName', jobsArn)],
    },
  });
  const jobs = new sqs.Queue(scope, 'JobsQueue', {
    ...safe,
    queueName: jobsName,
    // AWS's general advice is six times the timeout. Here a message that stays hidden delays nothing (a dead worker's
    // jobs go on by its watchdog and the sweeper), but one that was given back comes sooner.
    visibilityTimeout: settings.workerTimeout.plus(VISIBILITY_MARGIN),
    deadLetterQueue: { queue: deadLetters, maxReceiveCount: RECEIVES_MAX },
  });
  const streamFailures = new sqs.Queue(scope, 'StreamFailuresQueue', {
    ...safe,
    queueName: `${name}-stream-failures`,
    redriveAllowPolicy: { redrivePermission: sqs.RedrivePermission.DENY_ALL },
  });
  // A message carries no state: the delivery's item has it, counts its tries and ends them, so that there is nothing here
  // for a dead-letter queue to keep.
  const webhooks = new sqs.Queue(scope, 'WebhooksQueue', {
    ...safe,
    queueName: `${name}-webhooks`,
    visibilityTimeout: WEBHOOK_VISIBILITY,
    redriveAllowPolicy: { redrivePermission: sqs.RedrivePermission.DENY_ALL },
  });
  return { jobs, deadLetters, streamFailures, webhooks };
}
