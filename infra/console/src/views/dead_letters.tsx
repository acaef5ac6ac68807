/** Jobs that failed for good and wait for a person. */
import { useState } from "preact/hooks";
import { plural } from "../format.ts";
import { api } from "../session.ts";
import type { DeadLetterList, Job } from "../wire.ts";
import { Act, Age, Empty, Fault, JobLink, Labels, useFetched } from "../parts/common.tsx";
import { FailureChain } from "../parts/timeline.tsx";

/** How often the list is asked for. */
const EVERY_MS = 5_000;

export function DeadLetters() {
  const [cursors, setCursors] = useState<string[]>([]);
  const cursor = cursors.at(-1);
  const { value, error, again } = useFetched<DeadLetterList>(
    (signal) => api().call("GET", "/v1/dead-letters", { query: { cursor }, signal }), cursor ?? "", EVERY_MS,
  );
  const [chosen, setChosen] = useState<ReadonlySet<string>>(new Set());
  const [agent, setAgent] = useState("");
  const [failure, setFailure] = useState("");
  const all = value?.dead_letters ?? [];
  const letters = all.filter((job) => (!agent || job.agent === agent) && (!failure || job.failure?.class === failure));
  const picked = letters.filter((job) => chosen.has(job.id));
  const choose = (ids: string[], on: boolean) => {
    const next = new Set(chosen);
    for (const id of ids) if (on) next.add(id);
    else next.delete(id);
    setChosen(next);
  };
  const classes = [...new Set(all.map((job) => job.failure?.class ?? ""))].filter(Boolean);
  const agents = [...new Set(all.map((job) => job.agent))];
  return (
    <>
      <div class="page-head"><h1>Dead letters</h1></div>
      <p class="lead">Jobs that failed for good. Each has its whole story; mend what was wrong and replay it from its last good step.</p>
      <Fault error={error} />
      {value && all.length === 0 && <Empty>No job waits here.</Empty>}
      {all.length > 0 && (
        <div class="filters">
          <Choice id="dead-agent" label="Agent" of={agents} value={agent} onValue={setAgent} />
          <Choice id="dead-class" label="Failure" of={classes} value={failure} onValue={setFailure} />
          <label class="inline">
            <input
              type="checkbox" checked={letters.length > 0 && picked.length === letters.length}
              onChange={(event) => choose(letters.map((job) => job.id), event.currentTarget.checked)}
            />
            All {letters.length} shown
          </label>
          <ReplayChosen jobs={picked} onDone={() => { setChosen(new Set()); again(); }} />
        </div>
      )}
      <ul class="letters">
        {letters.map((job) => <Letter key={job.id} job={job} chosen={chosen.has(job.id)} onChoose={(on) => choose([job.id], on)} />)}
      </ul>
      <div class="tools">
        {cursors.length > 0 && <button type="button" onClick={() => setCursors(cursors.slice(0, -1))}>Later ones</button>}
        {value?.next && <button type="button" onClick={() => setCursors([...cursors, value.next!])}>Earlier ones</button>}
      </div>
    </>
  );
}

function Choice({ id, label, of, value, onValue }: {
  id: string; label: string; of: string[]; value: string; onValue: (value: string) => void;
}) {
  return (
    <div class="field">
      <label for={id}>{label}</label>
      <select id={id} value={value} onChange={(event) => onValue(event.currentTarget.value)}>
        <option value="">all</option>
        {of.map((one) => <option key={one}>{one}</option>)}
      </select>
    </div>
  );
}

function Letter({ job, chosen, onChoose }: { job: Job; chosen: boolean; onChoose: (on: boolean) => void }) {
  return (
    <li class="card letter">
      <input type="checkbox" aria-label={`Choose ${job.agent}, ${job.id}`} checked={chosen} onChange={(event) => onChoose(event.currentTarget.checked)} />
      <div class="grow">
        <p class="letter-head">
          <b>{job.agent}</b> <JobLink id={job.id} /> <span class="quiet">failed <Age of={job.updated_at} /> ago, {plural(job.steps, "step")}</span>
          <Labels of={job.labels} />
        </p>
        {job.failure && <FailureChain failure={job.failure} />}
      </div>
      <a class="button" href={`#/jobs/${job.id}?replay`}>Edit and replay</a>
    </li>
  );
}

/** Replays jobs one after the other, as they are: for a cause that lay outside of them. */
function ReplayChosen({ jobs, onDone }: { jobs: Job[]; onDone: () => void }) {
  const [faults, setFaults] = useState<string[]>([]);
  const [done, setDone] = useState<number | undefined>();
  const replay = async () => {
    const found: string[] = [];
    for (const job of jobs) {
      try {
        await api().replay(job.id, {});
      } catch (error) {
        found.push(`${job.id}: ${(error as Error).message}`);
      }
    }
    setFaults(found);
    setDone(jobs.length - found.length);
    onDone();
  };
  return (
    <>
      <Act does={replay} disabled={jobs.length === 0}>Replay {jobs.length || ""} as {jobs.length === 1 ? "it is" : "they are"}</Act>
      <span role="status">{done !== undefined && jobs.length === 0 && `${plural(done, "job")} opened again.`}</span>
      {faults.length > 0 && <ul class="fault" role="alert">{faults.map((fault) => <li key={fault}>{fault}</li>)}</ul>}
    </>
  );
}
