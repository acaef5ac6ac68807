import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';

import { App, Duration, Stack, Validations } from 'aws-cdk-lib';
import { Match, Template } from 'aws-cdk-lib/assertions';
import { Key } from 'aws-cdk-lib/aws-kms';
import { AwsSolutionsChecks, ServerlessChecks } from 'cdk-nag';

import { Longhaul, LonghaulProps } from '../lib';
import { suppressions } from '../lib/suppressions';
import { everything, folderFor, KEY_ARN, packages, SECRETS_PREFIX, stackWith, usual } from './example';

const SYSTEMS: Record<string, (stack: Stack) => LonghaulProps> = { usual, everything };

/** Runs cdk-nag over a system: what it found and what was suppressed, as `rule at construct`. */
function nagged(props: (stack: Stack) => LonghaulProps): { found: string[]; suppressed: string[] } {
  const outdir = folderFor('cdk');
  const app = new App({ outdir });
  Validations.of(app).addPlugins(new AwsSolutionsChecks(app), new ServerlessChecks(app));
  stackWith(props, app);
  try {
    app.synth();
  } catch (error) {
    // The report says what it was.
    assert.match(String(error), /^ValidationFailed/);
  }
  const report = JSON.parse(readFileSync(join(outdir, 'validation-report.json'), 'utf8'));
  assert.deepEqual(report.pluginReports.map((plugin: { pluginName: string }) => plugin.pluginName).sort(), ['AwsSolutions', 'Serverless']);
  const named = (kind: string) =>
    report.pluginReports.flatMap((plugin: any) => plugin[kind].flatMap((violation: any) =>
      violation.violatingConstructs.map((at: any) => `${violation.ruleName} at ${at.constructPath.split('/')[2]}`)));
  return { found: named('violations'), suppressed: named('suppressedViolations') };
}

test('cdk-nag finds nothing, and every suppression is needed and says why', () => {
  const [system] = stackWith((stack) => ({ ...usual(), api: everything(stack).api })).node.findAll().filter((found): found is Longhaul => found instanceof Longhaul);
  assert.ok(system);
  const listed = suppressions(system, SECRETS_PREFIX, true).flatMap(({ rules, at, reason }) => {
    assert.ok(reason.endsWith('.') && reason.length > 30, reason);
    return rules.flatMap((rule) => at.map((id) => `${rule} at ${id}`));
  });
  const used = new Set<string>();
  for (const props of Object.values(SYSTEMS)) {
    const { found, suppressed } = nagged(props);
    assert.deepEqual(found, []);
    suppressed.forEach((finding) => used.add(finding));
  }
  assert.deepEqual([...used].sort(), listed.sort());
});

const REFUSED: [string, Partial<LonghaulProps>, RegExp][] = [
  ['an invocation longer than Lambda allows', { worker: { timeout: Duration.minutes(16) } }, /worker\.timeout is 960/],
  ['an invocation too short for any step', { worker: { timeout: Duration.seconds(5) } }, /worker\.timeout is 5/],
  ['a batch that no process drives', { worker: { batchSize: 501 } }, /worker\.batchSize is 501/],
  ['a concurrency that AWS refuses', { worker: { maxConcurrency: 1 } }, /worker\.maxConcurrency is 1/],
  ['a model call that fits no invocation', { model: { ...usual().model, timeLimit: Duration.minutes(11) } }, /model\.timeLimit is 660/],
  ['more readers of streams than an account has invocations', { api: { eventStreamsMax: 1_001 } }, /api\.eventStreamsMax is 1001/],
  ['payloads that go before their jobs', { payloadLifetime: Duration.days(30) }, /payloadLifetime is 30/],
  ["a prefix of secrets' names that is none", { tools: { secretsPrefix: 'a//b' } }, /tools\.secretsPrefix is a\/\/b/],
  ['an alarm that a long invocation raises', { alarms: { queueAge: Duration.minutes(15) } }, /alarms\.queueAge is 900/],
];
for (const [name, change, error] of REFUSED) {
  test(`refused: ${name}`, () => {
    assert.throws(() => stackWith(() => ({ ...usual(), ...change })), error);
  });
}

test('packages that are not there are missed at once', () => {
  assert.throws(() => stackWith(() => ({ ...usual(), packages: '/nowhere' })), /longhaul-api/);
});

test('a queue hides its messages for longer than the worker may take', () => {
  for (const [timeout, visibility] of [[30, 90], [300, 360], [900, 960]] as const) {
    const template = Template.fromStack(stackWith(() => ({ ...usual(), worker: { timeout: Duration.seconds(timeout) } })));
    template.hasResourceProperties('AWS::SQS::Queue', { QueueName: 'longhaul-jobs', VisibilityTimeout: visibility });
  }
});

test('a stack may hold two, with names of their own', () => {
  const stack = new Stack(new App(), 'Two', { stackName: 'two' });
  new Longhaul(stack, 'First', { ...usual(), name: 'first' });
  new Longhaul(stack, 'Second', { ...usual(), name: 'second' });
  const template = Template.fromStack(stack);
  template.resourceCountIs('AWS::Lambda::Function', 8);
  template.hasResourceProperties('AWS::SQS::Queue', { QueueName: 'first-jobs' });
  template.hasResourceProperties('AWS::SQS::Queue', { QueueName: 'second-jobs' });
});

test("a key of the same stack protects everything, and its policy stays its owner's", () => {
  const stack = stackWith((stack) => ({ ...usual(), encryptionKey: new Key(stack, 'Key') }));
  const template = Template.fromStack(stack);
  const groups = template.findResources('AWS::Logs::LogGroup');
  assert.equal(Object.values(groups).filter((group) => group['Properties'].KmsKeyId === undefined).length, 0);
  template.allResourcesProperties('AWS::Lambda::Function', { KmsKeyArn: Match.anyValue() });
});

test("a key from elsewhere is given to the functions' roles alone", () => {
  const template = Template.fromStack(stackWith(everything));
  const roles = Object.values(template.findResources('AWS::IAM::Role'));
  const withKey = roles.filter((role) => JSON.stringify(role).includes(KEY_ARN));
  assert.equal(withKey.length, 5);
  template.resourceCountIs('AWS::IAM::Policy', 0);
  template.resourceCountIs('AWS::IAM::ManagedPolicy', 0);
});

test('what a system offers can be used by the rest of an app', () => {
  const stack = new Stack(new App(), 'Offers');
  const system = new Longhaul(stack, 'Longhaul', { ...usual(), packages: packages() });
  for (const offered of [system.apiUrl, system.webSocketUrl, system.table.tableArn, system.bucket.bucketArn, system.jobsQueue.queueArn,
    system.deadLetterQueue.queueArn, system.apiFunction.functionArn, system.workerFunction.functionArn,
    system.webSocketFunction.functionArn, system.sweeperFunction.functionArn]) {
    assert.ok(stack.resolve(offered));
  }
});
