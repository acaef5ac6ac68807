/** The two APIs. Routes, integrations, stages and permissions are declared one by one, so that each permission stands
 * where a reviewer sees it.
 */

import { Aws, RemovalPolicy, Stack } from 'aws-cdk-lib';
import * as gateway from 'aws-cdk-lib/aws-apigatewayv2';
import { IKey } from 'aws-cdk-lib/aws-kms';
import * as lambda from 'aws-cdk-lib/aws-lambda';
import * as logs from 'aws-cdk-lib/aws-logs';
import { Construct } from 'constructs';

import { LonghaulProps, Settings } from './properties';

/** The stage of the WebSocket API. */
const STAGE = 'live';
/** How long the HTTP API waits for the function: its longest. */
const INTEGRATION_TIMEOUT_MS = 30_000;

/** No path, query or address: they may hold what is a caller's own. */
const HTTP_LOG = {
  requestId: '$context.requestId',
  time: '$context.requestTime',
  routeKey: '$context.routeKey',
  status: '$context.status',
  latencyMs: '$context.responseLatency',
  responseBytes: '$context.responseLength',
  error: '$context.error.messageString',
  integrationError: '$context.integrationErrorMessage',
};
const WEBSOCKET_LOG = {
  requestId: '$context.requestId',
  time: '$context.requestTime',
  routeKey: '$context.routeKey',
  eventType: '$context.eventType',
  connectionId: '$context.connectionId',
  status: '$context.status',
};

/** What both APIs are made with. */
export interface ApisContext {
  readonly props: LonghaulProps;
  readonly settings: Settings;
  readonly name: string;
  readonly key: IKey | undefined;
}

export function httpApi(scope: Construct, context: ApisContext, api: lambda.IFunction): gateway.CfnApi {
  const { props, settings } = context;
  const http = new gateway.CfnApi(scope, 'HttpApi', {
    name: `${context.name}-http`,
    protocolType: 'HTTP',
    corsConfiguration: settings.allowedOrigins.length === 0 ? undefined : {
      allowOrigins: settings.allowedOrigins,
      allowMethods: ['GET', 'POST', 'PUT', 'DELETE'],
      allowHeaders: ['authorization', 'content-type', 'idempotency-key', 'prefer', 'traceparent'],
      exposeHeaders: ['location', 'retry-after', 'x-request-id'],
      maxAge: 600,
    },
  });
  const integration = new gateway.CfnIntegration(scope, 'HttpIntegration', {
    apiId: http.ref,
    integrationType: 'AWS_PROXY',
    integrationUri: invocations(scope, api),
    payloadFormatVersion: '2.0',
    timeoutInMillis: INTEGRATION_TIMEOUT_MS,
  });
  permit(scope, 'HttpPermission', api, http, '*');
  const authorizer = props.tokens.authorizerAtGateway && new gateway.CfnAuthorizer(scope, 'HttpAuthorizer', {
    apiId: http.ref,
    name: 'tokens',
    authorizerType: 'JWT',
    identitySource: ['$request.header.Authorization'],
    jwtConfiguration: { issuer: props.tokens.issuer, audience: [props.tokens.audience] },
  });
  const route = (id: string, routeKey: string, open: boolean) =>
    new gateway.CfnRoute(scope, id, {
      apiId: http.ref,
      routeKey,
      target: `integrations/${integration.ref}`,
      authorizationType: authorizer && !open ? 'JWT' : 'NONE',
      authorizerId: authorizer && !open ? authorizer.ref : undefined,
    });
  // A route of its own, so that the latency of submissions is a metric of its own.
  route('HttpSubmitRoute', 'POST /v1/jobs', false);
  route('HttpRoute', 'ANY /v1/{proxy+}', false);
  // Health, the interface's description, and problems for paths that do not exist.
  route('HttpOpenRoute', '$default', true);
  new gateway.CfnStage(scope, 'HttpStage', {
    apiId: http.ref,
    stageName: '$default',
    autoDeploy: true,
    defaultRouteSettings: {
      detailedMetricsEnabled: true,
      throttlingRateLimit: settings.requestsPerSecond,
      throttlingBurstLimit: settings.requestsBurst,
    },
    accessLogSettings: {
      destinationArn: accessLogs(scope, 'HttpAccessLogs', context, 'http'),
      format: JSON.stringify(HTTP_LOG),
    },
  });
  return http;
}

export function webSocketApi(scope: Construct, context: ApisContext): gateway.CfnApi {
  return new gateway.CfnApi(scope, 'WebSocketApi', {
    name: `${context.name}-websocket`,
    protocolType: 'WEBSOCKET',
    routeSelectionExpression: '$request.body.action',
  });
}

/** The management endpoint of a WebSocket API, or its address for clients. */
export function webSocketAddress(scheme: 'https' | 'wss', api: gateway.CfnApi): string {
  return `${scheme}://${api.ref}.execute-api.${Aws.REGION}.${Aws.URL_SUFFIX}/${STAGE}`;
}

export function webSocketRoutes(scope: Construct, context: ApisContext, api: gateway.CfnApi, handler: lambda.IFunction) {
  const { settings } = context;
  const integration = new gateway.CfnIntegration(scope, 'WebSocketIntegration', {
    apiId: api.ref,
    integrationType: 'AWS_PROXY',
    integrationMethod: 'POST',
    integrationUri: invocations(scope, handler),
  });
  permit(scope, 'WebSocketPermission', handler, api, `${STAGE}/*`);
  // No identity source: a browser can send its token only as a parameter, other clients send a header, and the gateway
  // would ask for all that are named.
  const authorizer = new gateway.CfnAuthorizer(scope, 'WebSocketAuthorizer', {
    apiId: api.ref,
    name: 'tokens',
    authorizerType: 'REQUEST',
    authorizerUri: invocations(scope, handler),
  });
  permit(scope, 'WebSocketAuthorizerPermission', handler, api, `authorizers/${authorizer.ref}`);
  const route = (id: string, routeKey: string, authorizerId?: string) =>
    new gateway.CfnRoute(scope, id, {
      apiId: api.ref,
      routeKey,
      target: `integrations/${integration.ref}`,
      authorizationType: authorizerId ? 'CUSTOM' : 'NONE',
      authorizerId,
    });
  const routes = [
    route('WebSocketConnectRoute', '$connect', authorizer.ref),
    route('WebSocketDisconnectRoute', '$disconnect'),
    // Every message of a client. The function reads the action itself and refuses what it does not know.
    route('WebSocketMessageRoute', '$default'),
  ];
  const stage = new gateway.CfnStage(scope, 'WebSocketStage', {
    apiId: api.ref,
    stageName: STAGE,
    autoDeploy: true,
    defaultRouteSettings: {
      detailedMetricsEnabled: true,
      dataTraceEnabled: false,
      throttlingRateLimit: settings.requestsPerSecond,
      throttlingBurstLimit: settings.requestsBurst,
    },
    accessLogSettings: !settings.webSocketAccessLogs ? undefined : {
      destinationArn: accessLogs(scope, 'WebSocketAccessLogGroup', context, 'websocket'),
      format: JSON.stringify(WEBSOCKET_LOG),
    },
  });
  // An API without routes cannot be deployed.
  stage.node.addDependency(...routes);
  return { integration, authorizer, routes, stage };
}

function invocations(scope: Construct, handler: lambda.IFunction): string {
  const { partition, region } = Stack.of(scope);
  return `arn:${partition}:apigateway:${region}:lambda:path/2015-03-31/functions/${handler.functionArn}/invocations`;
}

function permit(scope: Construct, id: string, handler: lambda.IFunction, api: gateway.CfnApi, what: string) {
  new lambda.CfnPermission(scope, id, {
    action: 'lambda:InvokeFunction',
    functionName: handler.functionName,
    principal: 'apigateway.amazonaws.com',
    sourceArn: Stack.of(scope).formatArn({ service: 'execute-api', resource: api.ref, resourceName: what }),
  });
}

/** The prefix keeps API Gateway from writing each group into the account's one policy for log deliveries. */
function accessLogs(scope: Construct, id: string, context: ApisContext, of: string): string {
  const group = new logs.LogGroup(scope, id, {
    logGroupName: `/aws/vendedlogs/${context.name}/${of}`,
    retention: context.settings.logRetention,
    encryptionKey: context.key,
    removalPolicy: RemovalPolicy.DESTROY,
  });
  return group.logGroupArn;
}
