/** What the newest jobs say together: rates, latencies, tokens, and how old the queue is. */
import { isOver, type JobSummary, type Status, type Usage } from "../wire.ts";
import { sumOf, tokensOf } from "./cost.ts";

export interface Statistics {
  jobs: number;
  byStatus: Map<Status, number>;
  /** Milliseconds from submission to the end, of jobs that have ended, sorted. */
  latencies: number[];
  /** What they have used together. */
  usage: Usage;
  /** Milliseconds that the oldest PENDING job has waited. */
  queueAge?: number;
  /** Of the jobs that ended, those that completed, from 0 to 1. */
  success?: number;
  buckets: Bucket[];
  bucketMs: number;
}

export interface Bucket {
  /** Its beginning, milliseconds since the Unix epoch. */
  at: number;
  submitted: number;
  completed: number;
  failed: number;
  tokens: number;
  moneyMicros: number;
  p50?: number;
  p95?: number;
}

/** Lengths of a bucket. */
const STEPS_MS = [1, 2, 5, 10, 30, 60, 300, 600, 1_800, 3_600, 21_600, 86_400].map((seconds) => seconds * 1_000);
/** Buckets of a chart, at most. */
const BUCKETS_MAX = 48;

/** The value below which a share of sorted values lies. */
export function quantile(sorted: number[], share: number): number | undefined {
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))];
}

export function statistics(jobs: JobSummary[], now: number): Statistics {
  const byStatus = new Map<Status, number>();
  for (const { status } of jobs) byStatus.set(status, (byStatus.get(status) ?? 0) + 1);
  const over = jobs.filter(({ status }) => isOver(status));
  const took = (job: JobSummary) => Math.max(0, Date.parse(job.updated_at) - Date.parse(job.submitted_at));
  const pending = jobs.filter(({ status }) => status === "PENDING").map((job) => Math.max(0, now - Date.parse(job.updated_at)));
  const first = Math.min(now, ...jobs.map((job) => Date.parse(job.submitted_at)));
  const bucketMs = STEPS_MS.find((step) => (now - first) / step <= BUCKETS_MAX) ?? STEPS_MS.at(-1)!;
  const begin = Math.floor(first / bucketMs) * bucketMs;
  const count = Math.min(BUCKETS_MAX + 1, Math.floor((now - begin) / bucketMs) + 1);
  const buckets = Array.from({ length: jobs.length ? count : 0 }, (_, index): Bucket => ({
    at: begin + index * bucketMs, submitted: 0, completed: 0, failed: 0, tokens: 0, moneyMicros: 0,
  }));
  const latencies = new Map<Bucket, number[]>();
  const bucketOf = (time: string) => buckets[Math.floor((Date.parse(time) - begin) / bucketMs)];
  for (const job of jobs) {
    const begun = bucketOf(job.submitted_at);
    if (begun) begun.submitted += 1;
    const bucket = isOver(job.status) ? bucketOf(job.updated_at) : undefined;
    if (!bucket) continue;
    if (job.status === "COMPLETED") bucket.completed += 1;
    if (job.status === "FAILED") bucket.failed += 1;
    bucket.tokens += tokensOf(job.usage);
    bucket.moneyMicros += job.usage.money_micros ?? 0;
    latencies.set(bucket, [...(latencies.get(bucket) ?? []), took(job)]);
  }
  for (const [bucket, values] of latencies) {
    values.sort((a, b) => a - b);
    bucket.p50 = quantile(values, 0.5);
    bucket.p95 = quantile(values, 0.95);
  }
  return {
    jobs: jobs.length,
    byStatus,
    latencies: over.map(took).sort((a, b) => a - b),
    usage: sumOf(jobs.map((job) => job.usage)),
    queueAge: pending.length ? Math.max(...pending) : undefined,
    success: over.length ? (byStatus.get("COMPLETED") ?? 0) / over.length : undefined,
    buckets,
    bucketMs,
  };
}
