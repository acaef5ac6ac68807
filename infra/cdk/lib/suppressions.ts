/** Where cdk-nag's rules (AwsSolutions, Serverless) ask for something that would be wrong here, and why. A test holds the
 * list to what the rules find: nothing else is found, and nothing is in the list that is not.
 */

import { CfnElement, Stack, Validations } from 'aws-cdk-lib';
import { IConstruct } from 'constructs';

interface Suppression {
  readonly rules: string[];
  readonly at: string[];
  readonly reason: string;
}

const ROLES = ['ApiRole', 'WorkerRole', 'WebSocketRole', 'SweeperRole'];
const FUNCTIONS = ['ApiFunction', 'WorkerFunction', 'WebSocketFunction', 'SweeperFunction'];

/** The suppressions of one system, whose resources' names, and whose prefix of tenants' secrets, stand in some findings. */
export function suppressions(system: IConstruct, secretsPrefix?: string, streams = false): Suppression[] {
  const roles = streams ? [...ROLES, 'StreamsRole'] : ROLES;
  const functions = streams ? [...FUNCTIONS, 'StreamsFunction'] : FUNCTIONS;
  const bucket = logicalId(system, 'Bucket');
  const webSocketApi = logicalId(system, 'WebSocketApi');
  const below = (service: string, kind: string) =>
    `AwsSolutions-IAM5[Resource::arn:<AWS::Partition>:${service}:<AWS::Region>:<AWS::AccountId>:${kind}${secretsPrefix}/*]`;
  const secrets: Suppression[] = secretsPrefix === undefined ? [] : [
    {
      rules: [below('secretsmanager', 'secret:'), below('ssm', 'parameter/')],
      at: ['WorkerRole'],
      reason: "Tenants' secrets come and go below this prefix; the worker keeps each tenant below its own name.",
    },
  ];
  return [
    ...secrets,
    {
      rules: ['AwsSolutions-S1'],
      at: ['Bucket'],
      reason: 'Objects are read and written by the functions alone, whose calls CloudTrail data events can record; access logs would be a second copy of job ids with a life of its own.',
    },
    {
      rules: ['AwsSolutions-SQS3', 'Serverless-SQSRedrivePolicy'],
      at: ['StreamFailuresQueue'],
      reason: 'It is itself where failures end: the on-failure destination of the stream.',
    },
    {
      rules: ['AwsSolutions-SQS3', 'Serverless-SQSRedrivePolicy'],
      at: ['WebhooksQueue'],
      reason: "A message carries no state: the delivery's item has it, counts its tries and ends them, and a person orders it again there.",
    },
    { rules: ['Serverless-SQSRedrivePolicy'], at: ['DeadLetterQueue'], reason: 'It is itself the dead-letter queue.' },
    {
      rules: [`AwsSolutions-IAM5[Resource::<${bucket}.Arn>/jobs/*]`],
      at: roles,
      reason: "Objects are named by their job, so the finest resource is the prefix of all jobs' payloads.",
    },
    {
      rules: [`AwsSolutions-IAM5[Resource::arn:<AWS::Partition>:execute-api:<AWS::Region>:<AWS::AccountId>:<${webSocketApi}>/live/POST/@connections/*]`],
      at: ['WorkerRole', 'WebSocketRole'],
      reason: 'Connections come and go: the finest resource is the posting to the connections of this one stage.',
    },
    {
      rules: [`AwsSolutions-IAM5[Resource::arn:<AWS::Partition>:execute-api:<AWS::Region>:<AWS::AccountId>:<${webSocketApi}>/live/DELETE/@connections/*]`],
      at: ['SweeperRole', 'WebSocketRole'],
      reason: 'As above, for closing those of a tenant whose data is erased, and those whose token has expired.',
    },
    {
      rules: ['AwsSolutions-IAM5[Resource::*]', 'Serverless-LambdaStarPermissions'],
      at: roles,
      reason: 'X-Ray, and ListStreams of the stream event source, know no finer resource; each action is named.',
    },
    {
      rules: ['AwsSolutions-APIG4'],
      at: ['HttpSubmitRoute', 'HttpRoute', 'HttpOpenRoute'],
      reason: 'The function checks the token of every call under /v1; the rest is health and the description. The authorizer at the gateway is a property, since it takes RSA keys only.',
    },
    {
      rules: ['AwsSolutions-APIG4'],
      at: ['WebSocketDisconnectRoute', 'WebSocketMessageRoute'],
      reason: 'API Gateway has authorizers for $connect alone; the function holds each message to the token of its connection.',
    },
    {
      rules: ['AwsSolutions-APIG1', 'Serverless-APIGWAccessLogging'],
      at: ['WebSocketStage'],
      reason: "They need a role in the account's own settings, which the whole account shares: a property switches them on.",
    },
    {
      rules: ['Serverless-LambdaDLQ'],
      at: functions,
      reason: 'A dead-letter target is for asynchronous invocations. These come from APIs and event sources, which have their own, and from a schedule whose next sweep does what the last could not.',
    },
    {
      rules: ['Serverless-LambdaAsyncFailureDestination'],
      at: ['SweeperInvokes'],
      reason: "The next minute's sweep does what this one could not, and an alarm rises when none runs.",
    },
    {
      rules: ['Serverless-LambdaEventSourceMappingDestination'],
      at: ['JobsEventSource', 'WebhooksEventSource'],
      reason: 'SQS event sources have no on-failure destination: the queue has its dead-letter queue.',
    },
  ];
}

/** Tells cdk-nag. */
export function acknowledge(system: IConstruct, secretsPrefix?: string, streams = false): void {
  for (const { rules, at, reason } of suppressions(system, secretsPrefix, streams)) {
    for (const id of at) {
      for (const rule of rules) {
        const found = system.node.findChild(id);
        Validations.of(found.node.defaultChild ?? found).acknowledge({ id: `${rule.split('-')[0]}::${rule}`, reason });
      }
    }
  }
}

function logicalId(system: IConstruct, id: string): string {
  const found = system.node.findChild(id);
  return Stack.of(system).getLogicalId((found.node.defaultChild ?? found) as CfnElement);
}
