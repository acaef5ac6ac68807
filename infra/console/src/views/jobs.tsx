/** The list of jobs, live. */
import { useEffect, useState } from "preact/hooks";
import { now } from "../clock.ts";
import { compact, duration } from "../format.ts";
import { filter, go, route } from "../route.ts";
import { api } from "../session.ts";
import { isOver, STATUSES, type JobList, type JobSummary } from "../wire.ts";
import { Age, Empty, Fault, JobLink, Labels, StatusBadge, useFetched } from "../parts/common.tsx";
import { useAgents } from "./agents.tsx";

/** How often the newest jobs are asked for. */
const EVERY_MS = 2_000;
const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i;

export function Jobs() {
  const { query } = route.value;
  const filters = { status: query.get("status") ?? "", agent: query.get("agent") ?? "", label: query.get("label") ?? "" };
  const key = JSON.stringify(filters);
  const [older, setOlder] = useState<{ key: string; jobs: JobSummary[]; next?: string | null; error?: unknown }>({ key, jobs: [] });
  const { value, error } = useFetched<JobList>((signal) => api().call("GET", "/v1/jobs", { query: filters, signal }), key, EVERY_MS);
  const behind = older.key === key ? older : { key, jobs: [], next: undefined, error: undefined };
  const newest = value?.jobs ?? [];
  const known = new Set(newest.map((job) => job.id));
  const jobs = [...newest, ...behind.jobs.filter((job) => !known.has(job.id))];
  const next = behind.jobs.length > 0 ? behind.next : value?.next;
  const more = async () => {
    try {
      const page: JobList = await api().call("GET", "/v1/jobs", { query: { ...filters, cursor: next ?? undefined } });
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
        <Empty>{key === JSON.stringify({ status: "", agent: "", label: "" }) ? "There is no job yet." : "No job is so."}</Empty>
      ) : (
        <Table jobs={jobs} />
      )}
      {next && <button type="button" onClick={more}>Older jobs</button>}
    </>
  );
}

function Filters({ filters }: { filters: { status: string; agent: string; label: string } }) {
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
          <th scope="col" class="number">Steps</th><th scope="col" class="number">Tokens</th>
          <th scope="col" class="number">Took</th><th scope="col" class="number">Age</th>
        </tr>
      </thead>
      <tbody>{jobs.map((job) => <Row key={job.id} job={job} />)}</tbody>
    </table>
  );
}

function Row({ job }: { job: JobSummary }) {
  const end = isOver(job.status) ? Date.parse(job.updated_at) : now.value;
  return (
    <tr>
      <td class="cell-status"><StatusBadge status={job.status} /></td>
      <td class="cell-agent">{job.agent}</td>
      <td class="cell-id"><JobLink id={job.id} /></td>
      <td class="cell-labels"><Labels of={job.labels} /></td>
      <td class="number" data-label="steps">{job.steps}</td>
      <td class="number" data-label="tokens">{compact((job.usage.input_tokens ?? 0) + (job.usage.output_tokens ?? 0))}</td>
      <td class="number" data-label="took">{duration(end - Date.parse(job.submitted_at))}</td>
      <td class="number" data-label="ago"><Age of={job.submitted_at} /></td>
    </tr>
  );
}
