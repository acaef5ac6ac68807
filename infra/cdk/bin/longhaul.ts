/** An example app: one Longhaul in one stack, set up by context (`-c issuer=… -c model=…`). cdk.json names it. */

import { App, CfnOutput, Stack } from 'aws-cdk-lib';
import { Secret } from 'aws-cdk-lib/aws-secretsmanager';

import { Longhaul } from '../lib';


const app = new App();

/** A value of the context that must be there. */
function needed(name: string, meaning: string): string {
  const value = app.node.tryGetContext(name) as string | undefined;
  if (!value) {
    throw new Error(`say ${meaning} with -c ${name}=…`);
  }
  return value;
}

const stack = new Stack(app, 'Longhaul', { stackName: 'longhaul', description: 'Longhaul - long agent jobs on AWS Lambda' });
const keySecret = app.node.tryGetContext('modelKeySecretArn') as string | undefined;
const longhaul = new Longhaul(stack, 'Longhaul', {
  tokens: {
    issuer: needed('issuer', "the tokens' issuer"),
    audience: needed('audience', "the tokens' audience"),
    jwksUrl: needed('jwksUrl', "the address of the issuer's keys"),
  },
  model: {
    url: needed('modelUrl', 'the base address of a Chat Completions server'),
    name: needed('model', "the model's name"),
    key: keySecret ? Secret.fromSecretCompleteArn(stack, 'ModelKey', keySecret) : undefined,
  },
});
new CfnOutput(stack, 'ApiUrl', { value: longhaul.apiUrl });
new CfnOutput(stack, 'WebSocketUrl', { value: longhaul.webSocketUrl });
