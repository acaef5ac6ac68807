/** Alarms, the dashboard, and who uses how much. Each alarm has its page in docs/runbook. */

import { Aws, Duration, Stack } from 'aws-cdk-lib';
import * as gateway from 'aws-cdk-lib/aws-apigatewayv2';
import * as cloudwatch from 'aws-cdk-lib/aws-cloudwatch';
import { SnsAction } from 'aws-cdk-lib/aws-cloudwatch-actions';
import { ITopic } from 'aws-cdk-lib/aws-sns';
import { Construct } from 'constructs';

import { Functions } from './functions';
import { Settings } from './properties';
import { Storage } from './storage';

/** What is watched. */
export interface WatchingContext {
  readonly name: string;
  readonly settings: Settings;
  readonly storage: Storage;
  readonly functions: Functions;
  readonly http: gateway.CfnApi;
  readonly topic: ITopic | undefined;
}

type Dimensions = Record<string, string>;

interface AlarmRow {
  readonly id: string;
  readonly name: string;
  readonly says: string;
  /** The page in docs/runbook; the name's own when it has the same. */
  readonly page?: string;
  readonly metric: [namespace: string, metric: string, dimensions: Dimensions];
  readonly statistic: string;
  readonly periodSeconds: number;
  readonly periods: number;
  readonly datapoints: number;
  readonly threshold: number;
  readonly comparison?: cloudwatch.ComparisonOperator;
}

export function watching(scope: Construct, context: WatchingContext): void {
  for (const row of alarmRows(context)) {
    const [namespace, metricName, dimensionsMap] = row.metric;
    const silent = row.comparison === cloudwatch.ComparisonOperator.LESS_THAN_THRESHOLD;
    const alarm = new cloudwatch.Alarm(scope, row.id, {
      alarmName: `${context.name}-${row.name}`,
      alarmDescription: `${row.says} - docs/runbook/${row.page ?? row.name}.md`,
      metric: new cloudwatch.Metric({
        namespace,
        metricName,
        dimensionsMap,
        statistic: row.statistic,
        period: Duration.seconds(row.periodSeconds),
      }),
      evaluationPeriods: row.periods,
      datapointsToAlarm: row.datapoints,
      threshold: row.threshold,
      comparisonOperator: row.comparison ?? cloudwatch.ComparisonOperator.GREATER_THAN_THRESHOLD,
      treatMissingData: silent ? cloudwatch.TreatMissingData.BREACHING : cloudwatch.TreatMissingData.NOT_BREACHING,
    });
    if (context.topic) {
      const action = new SnsAction(context.topic);
      alarm.addAlarmAction(action);
      alarm.addOkAction(action);
    }
  }
  // Contributor Insights over the worker's own metric lines: no metric a tenant, and so no price a tenant.
  const tokens = insight(scope, 'TenantTokens', context, 'tokens-by-tenant', 'Tokens');
  const money = insight(scope, 'TenantMoney', context, 'money-by-tenant', 'MoneyMicros');
  new cloudwatch.CfnDashboard(scope, 'Dashboard', {
    dashboardName: context.name,
    dashboardBody: Stack.of(scope).toJsonString({ widgets: widgets(context, tokens, money) }),
  });
}

function alarmRows({ settings, storage, functions, http }: WatchingContext): AlarmRow[] {
  const queue = (name: string) => ({ QueueName: name });
  const called = (fn: { functionName: string }) => ({ FunctionName: fn.functionName });
  const emitter = (fn: { functionName: string }) => ({ function: fn.functionName });
  const deadLetters = queue(storage.deadLetters.queueName);
  const atLeast = cloudwatch.ComparisonOperator.GREATER_THAN_OR_EQUAL_TO_THRESHOLD;
  const five = { periodSeconds: 60, periods: 5, datapoints: 5, threshold: 0 };
  const threeOfFive = { ...five, datapoints: 3 };
  const any = { periodSeconds: 300, periods: 1, datapoints: 1, threshold: 0 };
  return [
    { id: 'DeadLettersWaitingAlarm', name: 'dead-letters-waiting', says: 'Jobs failed for good and wait for a person, or messages could not be read', metric: ['AWS/SQS', 'ApproximateNumberOfMessagesVisible', deadLetters], statistic: 'Maximum', ...any },
    { id: 'ManyDeadLettersAlarm', name: 'dead-letters-per-minute', says: 'Many jobs fail for good at once', metric: ['AWS/SQS', 'NumberOfMessagesSent', deadLetters], statistic: 'Sum', periodSeconds: 60, periods: 3, datapoints: 2, threshold: settings.deadLettersPerMinute, comparison: atLeast },
    { id: 'QueueAgeAlarm', name: 'queue-age', says: 'Continuations wait too long for a worker', metric: ['AWS/SQS', 'ApproximateAgeOfOldestMessage', queue(storage.jobs.queueName)], statistic: 'Maximum', ...five, threshold: settings.queueAge.toSeconds() },
    { id: 'BlockedJobsAlarm', name: 'blocked-jobs', says: 'The journal of a job does not match the code that should go on with it', metric: ['Longhaul', 'JobsBlocked', emitter(functions.worker)], statistic: 'Sum', ...any },
    { id: 'SweeperRepairsAlarm', name: 'sweeper-repairs', says: 'The sweeper had to send continuations for many jobs', metric: ['Longhaul', 'ContinuationsSent', emitter(functions.sweeper)], statistic: 'Sum', periodSeconds: 300, periods: 3, datapoints: 3, threshold: 500 },
    { id: 'SweepFailuresAlarm', name: 'sweep-failures', says: 'The sweeper could not look after jobs', metric: ['Longhaul', 'SweepFailures', emitter(functions.sweeper)], statistic: 'Sum', periodSeconds: 300, periods: 2, datapoints: 2, threshold: 0 },
    { id: 'SweeperSilentAlarm', name: 'sweeper-silent', says: 'The sweeper does not run: lost jobs are not found', metric: ['AWS/Lambda', 'Invocations', called(functions.sweeper)], statistic: 'Sum', periodSeconds: 300, periods: 2, datapoints: 2, threshold: 1, comparison: cloudwatch.ComparisonOperator.LESS_THAN_THRESHOLD },
    { id: 'StreamFailuresAlarm', name: 'stream-failures', says: 'Part of the stream was given up on: watchers or webhooks missed something', metric: ['AWS/SQS', 'ApproximateNumberOfMessagesVisible', queue(storage.streamFailures.queueName)], statistic: 'Maximum', ...any },
    { id: 'StreamAgeAlarm', name: 'stream-age', says: 'The stream is read too slowly: watchers see late what happens', metric: ['AWS/Lambda', 'IteratorAge', called(functions.webSocket)], statistic: 'Maximum', ...five, threshold: 60_000 },
    { id: 'RecursionAlarm', name: 'recursive-invocations-dropped', says: "Lambda cut the worker's loop over the queue", metric: ['AWS/Lambda', 'RecursiveInvocationsDropped', called(functions.worker)], statistic: 'Sum', ...any, periodSeconds: 60 },
    { id: 'WorkerThrottlesAlarm', name: 'worker-throttles', says: 'The worker is throttled', page: 'throttles', metric: ['AWS/Lambda', 'Throttles', called(functions.worker)], statistic: 'Sum', ...five },
    { id: 'ApiThrottlesAlarm', name: 'api-throttles', says: 'The api is throttled', page: 'throttles', metric: ['AWS/Lambda', 'Throttles', called(functions.api)], statistic: 'Sum', ...five },
    { id: 'TableWriteThrottlesAlarm', name: 'table-write-throttles', says: 'The table refuses writes for a while', page: 'throttles', metric: ['AWS/DynamoDB', 'WriteThrottleEvents', { TableName: storage.table.tableName }], statistic: 'Sum', ...five },
    { id: 'WorkerErrorsAlarm', name: 'worker-errors', says: 'Invocations of the worker end with an error', page: 'function-errors', metric: ['AWS/Lambda', 'Errors', called(functions.worker)], statistic: 'Sum', ...threeOfFive },
    { id: 'ApiErrorsAlarm', name: 'api-errors', says: 'The HTTP API answers with errors of ours', page: 'function-errors', metric: ['AWS/ApiGateway', '5xx', { ApiId: http.ref }], statistic: 'Sum', ...threeOfFive },
    { id: 'SubmitLatencyAlarm', name: 'submit-latency', says: 'Submissions are slow', metric: ['AWS/ApiGateway', 'Latency', submissions(http)], statistic: 'p99', periodSeconds: 300, periods: 3, datapoints: 3, threshold: settings.submitLatency.toMilliseconds() },
    { id: 'MoneyAlarm', name: 'money-per-hour', says: 'Model calls cost more than expected', metric: ['Longhaul', 'MoneyMicros', emitter(functions.worker)], statistic: 'Sum', periodSeconds: 3600, periods: 1, datapoints: 1, threshold: settings.moneyPerHourMicros },
  ];
}

function submissions(http: gateway.CfnApi): Dimensions {
  return { ApiId: http.ref, Stage: '$default', Method: 'POST', Resource: '/v1/jobs' };
}

function insight(scope: Construct, id: string, context: WatchingContext, name: string, field: string): cloudwatch.CfnInsightRule {
  return new cloudwatch.CfnInsightRule(scope, id, {
    ruleName: `${context.name}-${name}`,
    ruleState: 'ENABLED',
    ruleBody: Stack.of(scope).toJsonString({
      Schema: { Name: 'CloudWatchLogRule', Version: 1 },
      LogGroupNames: [context.functions.workerLogs.logGroupName],
      LogFormat: 'JSON',
      Contribution: { Keys: ['$.tenant'], ValueOf: `$.${field}`, Filters: [{ Match: `$.${field}`, GreaterThan: 0 }] },
      AggregateOn: 'Sum',
    }),
  });
}

type Shown = { stat?: string; yAxis?: 'right' };
type Line = [namespace: string, metric: string, dimensions: Dimensions, shown?: Shown];

function widgets(context: WatchingContext, tokens: cloudwatch.CfnInsightRule, money: cloudwatch.CfnInsightRule) {
  const { storage, functions, http } = context;
  const of = (fn: { functionName: string }) => ({ FunctionName: fn.functionName });
  const by = (fn: { functionName: string }) => ({ function: fn.functionName });
  const deadLetters = { QueueName: storage.deadLetters.queueName };
  const jobs = { QueueName: storage.jobs.queueName };
  const table = { TableName: storage.table.tableName };
  const right = { yAxis: 'right' as const };
  const place = (column: number, row: number) => ({ type: 'metric', x: column * 8, y: row * 6, width: 8, height: 6 });
  const chart = (column: number, row: number, title: string, lines: Line[], more: { stat?: string; period?: number } = {}) => ({
    ...place(column, row),
    properties: {
      title,
      region: Aws.REGION,
      period: 60,
      ...more,
      metrics: lines.map(([namespace, metric, dimensions, shown]) => [
        namespace, metric, ...Object.entries(dimensions).flat(), ...(shown ? [shown] : []),
      ]),
    },
  });
  const contributors = (column: number, row: number, title: string, rule: cloudwatch.CfnInsightRule) => ({
    ...place(column, row),
    properties: {
      title,
      region: Aws.REGION,
      period: 300,
      insightRule: { maxContributorCount: 20, orderBy: 'Sum', ruleName: rule.attrRuleName },
    },
  });
  const sum = { stat: 'Sum' };
  return [
    chart(0, 0, 'Jobs that ended', ['JobsCompleted', 'JobsFailed', 'JobsCancelled', 'JobsBlocked'].map((metric): Line => ['Longhaul', metric, by(functions.worker)]), sum),
    chart(1, 0, 'Steps', ['StepsCompleted', 'AttemptsFailed'].map((metric): Line => ['Longhaul', metric, by(functions.worker)]), sum),
    chart(2, 0, 'Submissions (ms)', ['p50', 'p99'].map((stat): Line => ['AWS/ApiGateway', 'Latency', submissions(http), { stat }])),
    chart(0, 1, 'Dead letters', [
      ['AWS/SQS', 'ApproximateNumberOfMessagesVisible', deadLetters, { stat: 'Maximum' }],
      ['AWS/SQS', 'NumberOfMessagesSent', deadLetters, sum],
    ]),
    chart(1, 1, 'Queue', [
      ['AWS/SQS', 'ApproximateAgeOfOldestMessage', jobs],
      ['AWS/SQS', 'ApproximateNumberOfMessagesVisible', jobs, right],
      ['AWS/SQS', 'ApproximateNumberOfMessagesNotVisible', jobs, right],
    ], { stat: 'Maximum' }),
    chart(2, 1, 'Sweeper', ['JobsLookedAt', 'ContinuationsSent', 'SweepFailures'].map((metric): Line => ['Longhaul', metric, by(functions.sweeper)]), sum),
    chart(0, 2, 'Functions: errors and throttles', [
      ['AWS/Lambda', 'Errors', of(functions.worker)],
      ['AWS/Lambda', 'Errors', of(functions.api)],
      ['AWS/Lambda', 'Errors', of(functions.webSocket)],
      ['AWS/Lambda', 'Errors', of(functions.sweeper)],
      ['AWS/Lambda', 'Throttles', of(functions.worker)],
      ['AWS/Lambda', 'Throttles', of(functions.api)],
      ['AWS/Lambda', 'RecursiveInvocationsDropped', of(functions.worker)],
    ], sum),
    chart(1, 2, 'Workers', [
      ['AWS/Lambda', 'ConcurrentExecutions', of(functions.worker), { stat: 'Maximum' }],
      ['AWS/Lambda', 'Duration', of(functions.worker), { stat: 'p99', ...right }],
    ]),
    chart(2, 2, 'Table and stream', [
      ['AWS/DynamoDB', 'ConsumedWriteCapacityUnits', table, sum],
      ['AWS/DynamoDB', 'ConsumedReadCapacityUnits', table, sum],
      ['AWS/DynamoDB', 'WriteThrottleEvents', table, { ...sum, ...right }],
      ['AWS/Lambda', 'IteratorAge', of(functions.webSocket), { stat: 'Maximum', ...right }],
    ]),
    chart(0, 3, 'Tokens and money, all tenants', [
      ['Longhaul', 'Tokens', by(functions.worker)],
      ['Longhaul', 'MoneyMicros', by(functions.worker), right],
    ], { ...sum, period: 300 }),
    contributors(1, 3, 'Tokens by tenant', tokens),
    contributors(2, 3, 'Money by tenant (millionths)', money),
  ];
}
