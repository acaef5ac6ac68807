/** Longhaul as one construct: the same system as template.yaml, for those who deploy by CDK.
 *
 * Constructs are called as the template's resources are, and a test holds the two to each other, property by property.
 */

import { Lazy, Stack } from 'aws-cdk-lib';
import * as dynamodb from 'aws-cdk-lib/aws-dynamodb';
import * as lambda from 'aws-cdk-lib/aws-lambda';
import * as s3 from 'aws-cdk-lib/aws-s3';
import * as sqs from 'aws-cdk-lib/aws-sqs';
import { Construct } from 'constructs';

import { httpApi, webSocketAddress, webSocketApi, webSocketRoutes } from './apis';
import { functions } from './functions';
import { LonghaulProps, settled } from './properties';
import { Rights } from './rights';
import { storage } from './storage';
import { acknowledge } from './suppressions';
import { watching } from './watching';

/** Long agent jobs on AWS Lambda, one checkpointed step at a time. */
export class Longhaul extends Construct {
  /** Where jobs are submitted. */
  readonly apiUrl: string;
  /** Where events come as a stream, under the paths of the API; undefined unless `api.eventStreamsMax` says how many. */
  readonly eventsUrl: string | undefined;
  /** Where jobs are watched. */
  readonly webSocketUrl: string;
  readonly table: dynamodb.ITable;
  /** Large payloads. */
  readonly bucket: s3.IBucket;
  /** Continuations. */
  readonly jobsQueue: sqs.IQueue;
  readonly deadLetterQueue: sqs.IQueue;
  readonly apiFunction: lambda.IFunction;
  readonly workerFunction: lambda.IFunction;
  readonly webSocketFunction: lambda.IFunction;
  readonly sweeperFunction: lambda.IFunction;

  constructor(scope: Construct, id: string, props: LonghaulProps) {
    super(scope, id);
    const settings = settled(props);
    const name = props.name ?? Stack.of(this).stackName;
    const key = props.encryptionKey;
    const kept = storage(this, name, settings, key);
    const apis = { props, settings, name, key };
    const sockets = webSocketApi(this, apis);
    let consoleOrigin: string | undefined;
    const made = functions(this, {
      props,
      settings,
      storage: kept,
      key,
      rights: new Rights(this, kept, key, sockets.ref),
      pushEndpoint: webSocketAddress('https', sockets),
      consoleOrigin: Lazy.string({ produce: () => consoleOrigin }),
    });
    const http = httpApi(this, apis, made.api);
    consoleOrigin = http.attrApiEndpoint;
    webSocketRoutes(this, apis, sockets, made.webSocket);
    watching(this, { name, settings, storage: kept, functions: made, http, topic: props.alarms?.topic });
    acknowledge(this, props.tools?.secretsPrefix, settings.eventStreamsMax > 0);

    this.apiUrl = http.attrApiEndpoint;
    this.eventsUrl = made.eventsUrl;
    this.webSocketUrl = webSocketAddress('wss', sockets);
    this.table = kept.table;
    this.bucket = kept.bucket;
    this.jobsQueue = kept.jobs;
    this.deadLetterQueue = kept.deadLetters;
    this.apiFunction = made.api;
    this.workerFunction = made.worker;
    this.webSocketFunction = made.webSocket;
    this.sweeperFunction = made.sweeper;
  }
}
