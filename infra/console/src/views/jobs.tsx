/** The list of jobs, live. */
import { useEffect, useState } from "preact/hooks";
import { now } from "../clock.ts";
import { useFetched } from "../fetched.ts";
import { compact, duration, exact } from "../format.ts";
import { Empty, Fault } from "../parts/fault.tsx";
import { Age, JobLink, Labels, StatusBadge } from "../parts/job_marks.tsx";
import { filter, go, route } from "../route.ts";
import { api } from "../session.ts";
import { costOf, tokensOf } from "../story/cost.ts";
import { isOver, STATUSES, type JobList, type JobSummary } from "../wire.ts";
import { useAgents } from "./agents.tsx";

/** How often the newest jobs are asked for. */
const EVERY_MS = 2_000;
const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i;

export function Jobs() {
  const { query } = route.value;
  const filters = { status: query.get("status") ?? "", agent: query.get("agent") ?? "", label: query.get("label") ?? "", within: query.get("within") ?? "" };
  const key = JSON.stringify(filters);
  const [older, setOlder] = useState<{ key: string; jobs: JobSummary[]; next?: string | null; error?: unknown }>({ key, jobs: [] });
  const { value, error } = useFetched<JobList>((signal) => api().call("GET", "/v1/jobs", { query: asked(filters), signal }), key, EVERY_MS);
  const behind = older.key === key ? older : { key, jobs: [], next: undefined, error: undefined };
  const newest = value?.jobs ?? [];
  const known = new Set(newest.map((job) => job.id));
  const jobs = [...newest, ...behind.jobs.filter((job) => !known.has(job.id))];
  const next = behind.jobs.length > 0 ? behind.next : value?.next;
  const more = async () => {
    try {
      const page: JobList = await api().call("GET", "/v1/jobs", { query: { ...asked(filters), cursor: next ?? undefined } });
      setOlder({ key, jobs: [...behind.jobs, ...page.jobs], next: page.next });
    } catch (fault) {
      setOlder({ ...behind, error: fault });
    }
  };
  return (
    <>
      <div class="page-head">
        <h1>Jobs</h1>
        <a class="button primary" href="#/submit">Submit a job</a>
      </div>
      <Filters filters={filters} />
      <Fault error={error ?? behind.error} />
      {value && jobs.length === 0 ? (
        <Empty>{Object.values(filters).every((one) => one === "") ? "There is no job yet." : "No job is so."}</Empty>
      ) : (
        <Table jobs={jobs} />
      )}
      {next && <button type="button" onClick={more}>Older jobs</button>}
    </>
  );
}

interface JobFilters {
  status: string;
  agent: string;
  label: string;
  /** Submitted within so many seconds. */
  within: string;
}

const WITHIN: [string, string][] = [["3600", "the last hour"], ["86400", "the last day"], ["604800", "the last week"]];
/** Pages of one list ask for the same time: a cursor belongs to its list. */
const since = new Map<string, string>();

function asked({ within, ...filters }: JobFilters): Record<string, string | undefined> {
  if (within === "" || !Number.isFinite(Number(within))) return filters;
  const from = since.get(within) ?? new Date(Date.now() - Number(within) * 1_000).toISOString();
  since.set(within, from);
  return { ...filters, since: from };
}

function Filters({ filters }: { filters: JobFilters }) {
  const { value: agents } = useAgents();
  const [label, setLabel] = useState(filters.label);
  const [id, setId] = useState("");
  useEffect(() => setLabel(filters.label), [filters.label]);
  const names = [...new Set(agents?.map((agent) => agent.name))];
  const set = (change: Partial<typeof filters>) => filter("jobs", { ...filters, ...change });
  return (
    <div class="filters">
      <div class="field">
        <label for="filter-status">Status</label>
        <select id="filter-status" value={filters.status} onChange={(event) => set({ status: event.currentTarget.value })}>
          <option value="">all</option>
          {STATUSES.map((status) => <option key={status}>{status}</option>)}
        </select>
      </div>
      <div class="field">
        <label for="filter-agent">Agent</label>
        <select id="filter-agent" value={filters.agent} onChange={(event) => set({ agent: event.currentTarget.value })}>
          <option value="">all</option>
          {names.map((name) => <option key={name}>{name}</option>)}
        </select>
      </div>
      <form class="field" onSubmit={(event) => { event.preventDefault(); set({ label }); }}>
        <label for="filter-label">Label</label>
        <input
          id="filter-label" value={label} placeholder="name=value" autocomplete="off" pattern=".+=.*"
          onInput={(event) => setLabel(event.currentTarget.value)} onBlur={() => (label === "" || label.includes("=")) && set({ label })}
        />
      </form>
      <div class="field">
        <label for="filter-within">Submitted</label>
        <select id="filter-within" value={filters.within} onChange={(event) => { since.clear(); set({ within: event.currentTarget.value }); }}>
          <option value="">at any time</option>
          {WITHIN.map(([seconds, text]) => <option key={seconds} value={seconds}>in {text}</option>)}
        </select>
      </div>
      <form class="field grow" onSubmit={(event) => { event.preventDefault(); if (UUID.test(id.trim())) go(`/jobs/${id.trim()}`); }}>
        <label for="find-id">Find by id</label>
        <input
          id="find-id" type="search" value={id} placeholder="a job's id" autocomplete="off"
          onInput={(event) => { setId(event.currentTarget.value); if (UUID.test(event.currentTarget.value.trim())) go(`/jobs/${event.currentTarget.value.trim()}`); }}
        />
      </form>
    </div>
  );
}

function Table({ jobs }: { jobs: JobSummary[] }) {
  return (
    <table class="jobs">
      <caption class="hidden">Jobs, newest first</caption>
      <thead>
        <tr>
          <th scope="col">Status</th><th scope="col">Agent</th><th scope="col">Job</th><th scope="col">Labels</th>
          <th scope="col" class="number">Steps</th><th scope="col" class="number">Tokens</th><th scope="col" class="number">Cost</th>
          <th scope="col" class="number">Took</th><th scope="col" class="number">Age</th>
        </tr>
      </thead>
      <tbody>{jobs.map((job) => <Row key={job.id} job={job} />)}</tbody>
    </table>
  );
}

function Row({ job }: { job: JobSummary }) {
  const end = isOver(job.status) ? Date.parse(job.updated_at) : now.value;
  // The list counts when a status changes or now and then; the job's own page counts as it goes.
  const counting = job.status === "PROCESSING";
  const counted = (count: number, text: string) => (!counting ? text : count === 0 ? "…" : `${text} +`);
  const tokens = tokensOf(job.usage);
  const cost = costOf(job.usage);
  return (
    <tr>
      <td class="cell-status"><StatusBadge status={job.status} /></td>
      <td class="cell-agent">{job.agent}</td>
      <td class="cell-id"><JobLink id={job.id} /></td>
      <td class="cell-labels"><Labels of={job.labels} /></td>
      <td class="number" data-label={job.steps === 1 ? "step" : "steps"} title={counting ? "as last counted" : undefined}>{counted(job.steps, exact(job.steps))}</td>
      <td class="number" data-label="tokens" title={counting ? "as last counted" : undefined}>{counted(tokens, compact(tokens))}</td>
      <td class={`number cost ${cost.known.replace(" ", "-")}`} data-label="cost" title={cost.title}>{counting && cost.known === "nothing" ? "…" : cost.text}</td>
      <td class="number" data-label="took">{duration(end - Date.parse(job.submitted_at))}</td>
      <td class="number" data-label="ago"><Age of={job.submitted_at} /></td>
    </tr>
  );
}
