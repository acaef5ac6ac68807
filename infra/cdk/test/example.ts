/** Two Longhauls for the tests: as it comes, and with everything switched on. `tests/deploy/settings.py` says the same of
 * the template's parameters.
 */

import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { App, Duration, Stack } from 'aws-cdk-lib';
import { Key } from 'aws-cdk-lib/aws-kms';
import { Architecture } from 'aws-cdk-lib/aws-lambda';
import { RetentionDays } from 'aws-cdk-lib/aws-logs';
import { Secret } from 'aws-cdk-lib/aws-secretsmanager';
import { Topic } from 'aws-cdk-lib/aws-sns';

import { Longhaul, LonghaulProps } from '../lib';

export const KEY_ARN = 'arn:aws:kms:eu-west-1:111122223333:key/0f5c1c1e-9d3b-4f39-8f7e-3d8f2f1c7a10';
const SECRET_ARN = 'arn:aws:secretsmanager:eu-west-1:111122223333:secret:model-key-AbCdEf';
const WEBHOOK_SECRETS_ARN = 'arn:aws:secretsmanager:eu-west-1:111122223333:secret:webhook-secrets-GhIjKl';
export const SECRETS_PREFIX = 'longhaul/agents';
const CLAUDE_ARN = 'arn:aws:secretsmanager:eu-west-1:111122223333:secret:claude-AbCdEf';
const TOPIC_ARN = 'arn:aws:sns:eu-west-1:111122223333:alarms';

/** A temporary folder that goes with this process. */
export function folderFor(what: string): string {
  const folder = mkdtempSync(join(tmpdir(), `longhaul-${what}-`));
  process.on('exit', () => rmSync(folder, { recursive: true, force: true }));
  return folder;
}

let packaged: string | undefined;

/** Stands for what `make package` makes. */
export function packages(): string {
  return (packaged ??= packagesIn(folderFor('packages')));
}

function packagesIn(folder: string): string {
  for (const name of ['api', 'worker', 'websocket', 'sweeper']) {
    mkdirSync(join(folder, `longhaul-${name}`));
    writeFileSync(join(folder, `longhaul-${name}`, 'bootstrap'), name);
  }
  return folder;
}

export function usual(): LonghaulProps {
  return {
    packages: packages(),
    tokens: { issuer: 'https://issuer.example/', audience: 'longhaul', jwksUrl: 'https://issuer.example/keys' },
    model: { url: 'https://models.example/v1', name: 'a-model' },
  };
}

export function everything(stack: Stack): LonghaulProps {
  const { tokens, model, ...rest } = usual();
  return {
    ...rest,
    tokens: { ...tokens, tenantClaim: 'org', scopeClaim: 'permissions', authorizerAtGateway: true },
    model: {
      ...model,
      key: Secret.fromSecretCompleteArn(stack, 'ModelKey', SECRET_ARN),
      timeLimit: Duration.minutes(5),
      prices: { 'a-model': { input: 1, output: 4 } },
      providers: { claude: { wire: 'messages', model: 'claude', key_secret: CLAUDE_ARN } },
      providerKeys: [Secret.fromSecretCompleteArn(stack, 'ClaudeKey', CLAUDE_ARN)],
      bedrockModelArns: [
        'arn:aws:bedrock:eu-west-1::foundation-model/a-model',
        'arn:aws:bedrock:eu-west-1:111122223333:inference-profile/eu.a-model',
      ],
    },
    tools: {
      secretsPrefix: SECRETS_PREFIX,
      hosts: ['tickets.internal', '*.corp.example'],
      functionArns: [
        'arn:aws:lambda:eu-west-1:111122223333:function:charge',
        'arn:aws:lambda:eu-west-1:111122223333:function:refund:live',
      ],
    },
    tenantLimits: { jobsOpen: 500, tenants: { acme: { jobsOpen: 5000 } } },
    webhookSecrets: Secret.fromSecretCompleteArn(stack, 'WebhookSecrets', WEBHOOK_SECRETS_ARN),
    architecture: Architecture.X86_64,
    worker: { timeout: Duration.minutes(5), memorySize: 1024, maxConcurrency: 200, batchSize: 100 },
    api: {
      requestsPerSecond: 50,
      requestsBurst: 100,
      allowedOrigins: ['https://a.example', 'https://b.example'],
      eventStreamsMax: 40,
      webSocketAccessLogs: true,
    },
    deletionProtection: false,
    encryptionKey: Key.fromKeyArn(stack, 'Key', KEY_ARN),
    payloadLifetime: Duration.days(800),
    logLevel: 'DEBUG',
    logRetention: RetentionDays.THREE_MONTHS,
    alarms: {
      topic: Topic.fromTopicArn(stack, 'Alarms', TOPIC_ARN),
      queueAge: Duration.minutes(15),
      deadLettersPerMinute: 3,
      submitLatency: Duration.millis(500),
      moneyPerHourMicros: 1_000_000,
    },
  };
}

/** A stack of its own for one Longhaul. */
export function stackWith(props: (stack: Stack) => LonghaulProps, app = new App()): Stack {
  const stack = new Stack(app, 'Longhaul', { stackName: 'longhaul' });
  new Longhaul(stack, 'Longhaul', props(stack));
  return stack;
}
