/** How the newest jobs do together. */
import { now } from "../clock.ts";
import { useFetched } from "../fetched.ts";
import { compact, dollars, duration, exact } from "../format.ts";
import { Empty, Fault } from "../parts/fault.tsx";
import { StatusBadge } from "../parts/job_marks.tsx";
import { api } from "../session.ts";
import { costOf, tokensOf } from "../story/cost.ts";
import { quantile, statistics, type Bucket, type Statistics } from "../story/statistics.ts";
import { STATUSES, type JobList, type JobSummary } from "../wire.ts";
import { Chart, type Line } from "../parts/chart.tsx";

/** Jobs that are looked at: so many pages of so many. */
const PAGES = 3;
const PAGE = 200;
const EVERY_MS = 5_000;

async function newest(signal: AbortSignal): Promise<JobSummary[]> {
  const jobs: JobSummary[] = [];
  let cursor: string | undefined;
  for (let page = 0; page < PAGES; page += 1) {
    const list: JobList = await api().call("GET", "/v1/jobs", { query: { limit: PAGE, cursor }, signal });
    jobs.push(...list.jobs);
    if (!list.next) break;
    cursor = list.next;
  }
  return jobs;
}

export function Dashboard() {
  const { value: jobs, error } = useFetched(newest, "", EVERY_MS);
  const found = jobs && statistics(jobs, now.value);
  return (
    <>
      <div class="page-head"><h1>Dashboard</h1></div>
      <Fault error={error} />
      {found && (found.jobs === 0 ? <Empty>There is no job yet.</Empty> : <Shown found={found} />)}
    </>
  );
}

const pick = (buckets: Bucket[], of: (bucket: Bucket) => number | undefined) => buckets.map((bucket) => of(bucket) ?? null);

function Shown({ found }: { found: Statistics }) {
  const { buckets, latencies } = found;
  const times = buckets.map((bucket) => bucket.at / 1_000);
  const each = duration(found.bucketMs).replace(".0 ", " ").replace(/^1 /, "");
  const charts: { title: string; lines: Line[]; format: (value: number) => string }[] = [
    {
      title: `Jobs in each ${each}`,
      lines: [
        { name: "submitted", tone: "accent", kind: "line", values: pick(buckets, (one) => one.submitted) },
        { name: "completed", tone: "good", kind: "bars", values: pick(buckets, (one) => one.completed || undefined) },
        { name: "failed", tone: "bad", kind: "line", values: pick(buckets, (one) => one.failed) },
      ],
      format: exact,
    },
    {
      title: "Time from submission to end",
      lines: [
        { name: "half are under", tone: "accent", kind: "line", values: pick(buckets, (one) => one.p50) },
        { name: "95 of 100 are under", tone: "warn", kind: "line", values: pick(buckets, (one) => one.p95) },
      ],
      format: duration,
    },
    {
      title: `Tokens of the jobs that ended in each ${each}`,
      lines: [{ name: "tokens", tone: "accent", kind: "bars", values: pick(buckets, (one) => one.tokens || undefined) }],
      format: compact,
    },
  ];
  const cost = costOf(found.usage);
  // Without any price there is nothing to draw; the tile says so.
  if (cost.micros > 0) {
    charts.push({
      title: `Cost of the jobs that ended in each ${each}`,
      lines: [{ name: "dollars, as far as prices are known", tone: "accent", kind: "bars", values: pick(buckets, (one) => one.moneyMicros || undefined) }],
      format: dollars,
    });
  }
  return (
    <>
      <p class="lead">Of the newest {exact(found.jobs)} jobs.</p>
      <dl class="tiles">
        <Tile name="completed of those that ended" value={found.success === undefined ? "–" : `${Math.round(found.success * 100)} %`} />
        <Tile name="half end within" value={duration(quantile(latencies, 0.5) ?? NaN)} />
        <Tile name="95 of 100 end within" value={duration(quantile(latencies, 0.95) ?? NaN)} />
        <Tile name="longest in the queue" value={found.queueAge === undefined ? "none" : duration(found.queueAge)} />
        <Tile name="tokens" value={compact(tokensOf(found.usage))} />
        <Tile name="cost" value={cost.text} title={cost.title} />
      </dl>
      <ul class="by-status" aria-label="Jobs by status">
        {STATUSES.filter((status) => found.byStatus.has(status)).map((status) => (
          <li key={status}><a href={`#/jobs?status=${status}`}><StatusBadge status={status} /> <b>{exact(found.byStatus.get(status) ?? 0)}</b></a></li>
        ))}
      </ul>
      <div class="charts">
        {charts.map((chart) => <Chart key={chart.title} times={times} {...chart} />)}
      </div>
    </>
  );
}

function Tile({ name, value, title }: { name: string; value: string; title?: string }) {
  return <div class="tile" title={title}><dt>{name}</dt><dd>{value}</dd></div>;
}
