"""The settings with which template and construct are checked: as they come, and with everything switched on."""

from __future__ import annotations

NEEDED = {
    "JwtIssuer": "https://issuer.example/",
    "JwtAudience": "longhaul",
    "JwksUrl": "https://issuer.example/keys",
    "ModelUrl": "https://models.example/v1",
    "ModelName": "a-model",
}

EVERYTHING = NEEDED | {
    "JwtTenantClaim": "org",
    "JwtScopeClaim": "permissions",
    "JwtAuthorizerAtGateway": "true",
    "AllowedOrigins": "https://a.example,https://b.example",
    "ModelKeySecretArn": "arn:aws:secretsmanager:eu-west-1:111122223333:secret:model-key-AbCdEf",
    "ModelTimeLimitSeconds": "300",
    # As JavaScript writes it.
    "ModelPrices": '{"a-model":{"input":1,"output":4}}',
    # As JavaScript writes it.
    "Providers": '{"claude":{"wire":"messages","model":"claude",'
                 '"key_secret":"arn:aws:secretsmanager:eu-west-1:111122223333:secret:claude-AbCdEf"}}',
    "ProviderKeySecretArns": "arn:aws:secretsmanager:eu-west-1:111122223333:secret:claude-AbCdEf",
    "BedrockModelArns": "arn:aws:bedrock:eu-west-1::foundation-model/a-model,"
                        "arn:aws:bedrock:eu-west-1:111122223333:inference-profile/eu.a-model",
    "SecretsPrefix": "longhaul/agents",
    "ToolHosts": "tickets.internal,*.corp.example",
    "ToolFunctionArns": "arn:aws:lambda:eu-west-1:111122223333:function:charge,"
                        "arn:aws:lambda:eu-west-1:111122223333:function:refund:live",
    "Architecture": "x86_64",
    "WorkerTimeoutSeconds": "300",
    "WorkerMemoryMegabytes": "1024",
    "WorkerConcurrencyMax": "200",
    "QueueBatchSize": "100",
    "ApiRequestsPerSecond": "50",
    "ApiRequestsBurst": "100",
    "EventStreamsMax": "40",
    "TenantLimits": '{"jobs_open":500,"tenants":{"acme":{"jobs_open":5000}}}',
    "WebhookSecretsArn": "arn:aws:secretsmanager:eu-west-1:111122223333:secret:webhook-secrets-GhIjKl",
    "DeletionProtection": "false",
    "KmsKeyArn": "arn:aws:kms:eu-west-1:111122223333:key/0f5c1c1e-9d3b-4f39-8f7e-3d8f2f1c7a10",
    "PayloadDaysMax": "800",
    "AlarmTopicArn": "arn:aws:sns:eu-west-1:111122223333:alarms",
    "LogLevel": "DEBUG",
    "LogRetentionDays": "90",
    "WebSocketAccessLogs": "true",
    "QueueAgeAlarmSeconds": "900",
    "DeadLettersPerMinuteAlarm": "3",
    "SubmitLatencyAlarmMilliseconds": "500",
    "MoneyPerHourAlarmMicros": "1000000",
}

# Name and parameters; infra/cdk's tests synthesise the construct with the same two sets of settings.
SETTINGS = {"usual": NEEDED, "everything": EVERYTHING}
