export { Longhaul } from './longhaul';
export { AlarmProps, ApiProps, LogLevel, LonghaulProps, ModelProps, TokenProps, WorkerProps } from './properties';
