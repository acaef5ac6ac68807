/** The roles of the functions: what each one's own code calls, what AWS does on its behalf, and no more.
 *
 * `tests/deploy/rights.json` lists the same with the reason of each, and a test compares. Grants of the library are not
 * used, since they allow more than is called.
 */

import { Stack } from 'aws-cdk-lib';
import * as iam from 'aws-cdk-lib/aws-iam';
import { IKey } from 'aws-cdk-lib/aws-kms';
import { ILogGroup } from 'aws-cdk-lib/aws-logs';
import { Construct } from 'constructs';

import { LonghaulProps } from './properties';
import { Storage } from './storage';

type Actions = string | string[];

/** One statement that allows actions on resources. */
function allow(sid: string, actions: Actions, resources: string | string[], conditions?: Record<string, unknown>) {
  const list = <T>(value: T | T[]) => (Array.isArray(value) ? value : [value]);
  return new iam.PolicyStatement({ sid, actions: list(actions), resources: list(resources), conditions });
}

/** Makes the roles of one system. */
export class Rights {
  constructor(
    private readonly scope: Construct,
    private readonly storage: Storage,
    private readonly key: IKey | undefined,
    private readonly webSocketApiId: string,
  ) {}

  api(logs: ILogGroup): iam.IRole {
    const { table, jobs, webhooks } = this.storage;
    return this.role('ApiRole', logs, [
      allow('Table', ['dynamodb:GetItem', 'dynamodb:BatchGetItem', 'dynamodb:Query', 'dynamodb:PutItem', 'dynamodb:UpdateItem'], table.tableArn),
      allow('Indexes', 'dynamodb:Query', [this.index('due'), this.index('jobs'), this.index('search')]),
      allow('Schedules', 'dynamodb:DeleteItem', table.tableArn, onlyKeys('TENANT#*')),
      allow('ContinuationsAndDeliveries', 'sqs:SendMessage', [jobs.queueArn, webhooks.queueArn]),
      allow('Payloads', ['s3:GetObject', 's3:PutObject'], this.payloads()),
    ], [this.missingPayloads()]);
  }

  /** It has an address of its own, and so it can do nothing but read. */
  streams(logs: ILogGroup): iam.IRole {
    return this.role('StreamsRole', logs, [
      allow('Table', ['dynamodb:GetItem', 'dynamodb:Query'], this.storage.table.tableArn),
      allow('Payloads', 's3:GetObject', this.payloads()),
    ], [this.missingPayloads()]);
  }

  worker(logs: ILogGroup, props: LonghaulProps): iam.IRole {
    const { table, jobs, deadLetters } = this.storage;
    return this.role('WorkerRole', logs, [
      allow('Table', ['dynamodb:GetItem', 'dynamodb:Query', 'dynamodb:PutItem', 'dynamodb:UpdateItem'], table.tableArn),
      allow('Sessions', 'dynamodb:DeleteItem', table.tableArn, onlyKeys('SESSION#*')),
      allow('ContinuationsAndDeadLetters', 'sqs:SendMessage', [jobs.queueArn, deadLetters.queueArn]),
      allow('Payloads', ['s3:GetObject', 's3:PutObject'], this.payloads()),
      this.push(),
    ], [
      allow('EventSource', ['sqs:ReceiveMessage', 'sqs:DeleteMessage', 'sqs:GetQueueAttributes'], jobs.queueArn),
      this.missingPayloads(),
    ], this.granted(props));
  }

  /** What the models and the tools of definitions need, and nothing of it where nothing is named. */
  private granted({ model, tools }: LonghaulProps): Record<string, iam.PolicyStatement[]> {
    const policies: Record<string, iam.PolicyStatement[]> = {};
    if (model.key) {
      policies['model-key'] = [allow('ModelKey', 'secretsmanager:GetSecretValue', model.key.secretArn)];
    }
    if (model.providerKeys?.length) {
      const keys = model.providerKeys.map((key) => key.secretArn);
      policies['provider-keys'] = [allow('ProviderKeys', 'secretsmanager:GetSecretValue', keys)];
    }
    if (model.bedrockModelArns?.length) {
      const actions = ['bedrock:InvokeModel', 'bedrock:InvokeModelWithResponseStream'];
      policies['bedrock'] = [allow('Models', actions, model.bedrockModelArns)];
    }
    if (tools?.secretsPrefix) {
      const { partition, region, account } = Stack.of(this.scope);
      const below = (service: string, kind: string) =>
        `arn:${partition}:${service}:${region}:${account}:${kind}${tools.secretsPrefix}/*`;
      policies['secrets'] = [
        allow('TenantsSecrets', 'secretsmanager:GetSecretValue', below('secretsmanager', 'secret:')),
        allow('TenantsParameters', 'ssm:GetParameter', below('ssm', 'parameter/')),
      ];
    }
    if (tools?.functionArns?.length) {
      policies['functions'] = [allow('ToolFunctions', 'lambda:InvokeFunction', tools.functionArns)];
    }
    return policies;
  }

  webSocket(logs: ILogGroup, props: LonghaulProps): iam.IRole {
    const { table, bucket, streamFailures, webhooks } = this.storage;
    return this.role('WebSocketRole', logs, [
      allow('Table', ['dynamodb:GetItem', 'dynamodb:Query', 'dynamodb:BatchWriteItem'], table.tableArn),
      allow('ConnectionsAndDeliveries', 'dynamodb:PutItem', table.tableArn, onlyKeys('CONN#*', 'HOOK#*', 'TENANT#*')),
      allow('Books', 'dynamodb:UpdateItem', table.tableArn, onlyKeys('TENANT#*')),
      allow('Deliveries', 'sqs:SendMessage', webhooks.queueArn),
      allow('Payloads', ['s3:GetObject', 's3:DeleteObject'], this.payloads()),
      allow('PayloadsOfExpiredJobs', 's3:ListBucket', bucket.bucketArn),
      this.push(),
      allow('ExpiredConnections', 'execute-api:ManageConnections', this.connections('DELETE')),
    ], [
      allow('EventSource', ['dynamodb:DescribeStream', 'dynamodb:GetShardIterator', 'dynamodb:GetRecords'], table.tableStreamArn ?? ''),
      allow('DeliveriesEventSource', ['sqs:ReceiveMessage', 'sqs:DeleteMessage', 'sqs:GetQueueAttributes'], webhooks.queueArn),
      // AWS has no finer resource for this one, nor for traces.
      allow('FindStream', 'dynamodb:ListStreams', '*'),
      allow('StreamFailures', 'sqs:SendMessage', streamFailures.queueArn),
    ], props.webhookSecrets && {
      'webhook-secrets': [allow('WebhookSecrets', 'secretsmanager:GetSecretValue', props.webhookSecrets.secretArn)],
    });
  }

  sweeper(logs: ILogGroup): iam.IRole {
    const { table, jobs, deadLetters, bucket } = this.storage;
    return this.role('SweeperRole', logs, [
      allow('Table', ['dynamodb:GetItem', 'dynamodb:Query', 'dynamodb:UpdateItem', 'dynamodb:BatchWriteItem'], table.tableArn),
      allow('Indexes', 'dynamodb:Query', [this.index('due'), this.index('jobs')]),
      allow('JobsAndTenants', 'dynamodb:PutItem', table.tableArn, onlyKeys('JOB#*', 'TENANT#*')),
      allow('ErasedJobs', 'dynamodb:DeleteItem', table.tableArn, onlyKeys('JOB#*')),
      allow('Continuations', 'sqs:SendMessage', jobs.queueArn),
      allow('ErasedDeadLetters', ['sqs:ReceiveMessage', 'sqs:DeleteMessage', 'sqs:ChangeMessageVisibility', 'sqs:GetQueueAttributes'], deadLetters.queueArn),
      allow('Payloads', ['s3:GetObject', 's3:PutObject', 's3:DeleteObject'], this.payloads()),
      allow('PayloadsOfErasedJobs', 's3:ListBucket', bucket.bucketArn),
      allow('ErasedTenantsConnections', 'execute-api:ManageConnections', this.connections('DELETE')),
    ], []);
  }

  private role(
    id: string,
    logs: ILogGroup,
    calls: iam.PolicyStatement[],
    platform: iam.PolicyStatement[],
    granted: Record<string, iam.PolicyStatement[]> = {},
  ): iam.IRole {
    const role = new iam.Role(this.scope, id, {
      assumedBy: new iam.ServicePrincipal('lambda.amazonaws.com'),
      inlinePolicies: {
        calls: new iam.PolicyDocument({ minimize: false, statements: calls }),
        platform: new iam.PolicyDocument({
          minimize: false,
          statements: [
            ...platform,
            allow('Logs', ['logs:CreateLogStream', 'logs:PutLogEvents'], logs.logGroupArn),
            allow('Traces', ['xray:PutTraceSegments', 'xray:PutTelemetryRecords'], '*'),
          ],
        }),
        ...Object.fromEntries(Object.entries(granted).map(([name, statements]) =>
          [name, new iam.PolicyDocument({ minimize: false, statements })])),
        ...(this.key && {
          key: new iam.PolicyDocument({
            minimize: false,
            statements: [allow('Key', ['kms:Decrypt', 'kms:GenerateDataKey'], this.key.keyArn)],
          }),
        }),
      },
    });
    // What the library would add on its own (traces, the event source) is there already.
    return role.withoutPolicyUpdates();
  }

  private index(name: string): string {
    return `${this.storage.table.tableArn}/index/${name}`;
  }

  private payloads(): string {
    return this.storage.bucket.arnForObjects('jobs/*');
  }

  /** Without this right S3 says of a missing object that it is forbidden. */
  private missingPayloads(): iam.PolicyStatement {
    return allow('MissingPayloads', 's3:ListBucket', this.storage.bucket.bucketArn);
  }

  private push(): iam.PolicyStatement {
    return allow('Push', 'execute-api:ManageConnections', this.connections('POST'));
  }

  private connections(method: 'POST' | 'DELETE'): string {
    return Stack.of(this.scope).formatArn({
      service: 'execute-api',
      resource: this.webSocketApiId,
      resourceName: `live/${method}/@connections/*`,
    });
  }
}

function onlyKeys(...patterns: string[]) {
  return { 'ForAllValues:StringLike': { 'dynamodb:LeadingKeys': patterns } };
}
