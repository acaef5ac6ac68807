export { Longhaul } from './longhaul';
export { AlarmProps, ApiProps, LogLevel, LonghaulProps, ModelProps, TenantLimitProps, TenantLimitsProps, TokenProps, WorkerProps } from './properties';
