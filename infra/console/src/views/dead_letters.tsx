/** Jobs that failed for good and wait for a person. */
import { useState } from "preact/hooks";
import { useFetched } from "../fetched.ts";
import { exact, plural } from "../format.ts";
import { Act } from "../parts/buttons.tsx";
import { Empty, Fault } from "../parts/fault.tsx";
import { Age, JobLink, Labels } from "../parts/job_marks.tsx";
import { filter, route } from "../route.ts";
import { api } from "../session.ts";
import { canOpen, classesOf, matches, type DeadFilter } from "../story/letters.ts";
import type { DeadLetterList, Job } from "../wire.ts";
import { FailureChain } from "../parts/failure.tsx";

/** How often the list is asked for. */
const EVERY_MS = 5_000;
/** Letters of a page, and pages that are gone through for a replay of all that match. */
const PAGE = 50;
const PAGES_MAX = 100;
/** Replays that are asked for at once. */
const AT_ONCE = 4;

/** What became of replaying many. It is kept by the page: the list may be empty when they are done. */
interface Bulk {
  /** Letters that were found, of which so many have been asked for. */
  found: number;
  asked: number;
  opened: number;
  faults: string[];
  running: boolean;
}

const page = (cursor: string | undefined, signal?: AbortSignal): Promise<DeadLetterList> =>
  api().call("GET", "/v1/dead-letters", { query: { cursor, limit: PAGE }, signal });

/** Every letter that matches, over all pages. */
async function all(of: DeadFilter): Promise<Job[]> {
  const found: Job[] = [];
  let cursor: string | undefined;
  for (let at = 0; at < PAGES_MAX; at += 1) {
    const list = await page(cursor);
    found.push(...list.dead_letters.filter((job) => matches(job, of) && canOpen(job)));
    if (!list.next) break;
    cursor = list.next;
  }
  return found;
}

export function DeadLetters() {
  const { query } = route.value;
  const of: DeadFilter = { agent: query.get("agent") ?? "", failure: query.get("failure") ?? "", text: query.get("text") ?? "" };
  const [cursors, setCursors] = useState<string[]>([]);
  const cursor = cursors.at(-1);
  const { value, error, again } = useFetched<DeadLetterList>((signal) => page(cursor, signal), cursor ?? "", EVERY_MS);
  const [chosen, setChosen] = useState<ReadonlySet<string>>(new Set());
  const [bulk, setBulk] = useState<Bulk | undefined>();
  const [fault, setFault] = useState<unknown>();
  const here = value?.dead_letters ?? [];
  const letters = here.filter((job) => matches(job, of));
  const open = letters.filter(canOpen);
  const picked = open.filter((job) => chosen.has(job.id));
  const filtered = of.agent !== "" || of.failure !== "" || of.text !== "";
  const many = (value?.next ?? undefined) !== undefined || cursors.length > 0;
  const choose = (ids: string[], on: boolean) => {
    const next = new Set(chosen);
    for (const id of ids) if (on) next.add(id);
    else next.delete(id);
    setChosen(next);
  };
  const replay = async (find: () => Promise<Job[]>) => {
    setFault(undefined);
    setBulk({ found: 0, asked: 0, opened: 0, faults: [], running: true });
    try {
      const jobs = await find();
      await replayAll(jobs, setBulk);
      setChosen(new Set());
      setCursors([]);
      again();
    } catch (found) {
      setFault(found);
      setBulk(undefined);
    }
  };
  return (
    <>
      <div class="page-head"><h1>Dead letters</h1></div>
      <p class="lead">Jobs that failed for good. Each has its whole story; mend what was wrong and replay it from its last good step.</p>
      <Fault error={error ?? fault} />
      {bulk && <BulkSaid bulk={bulk} />}
      {value && here.length === 0 && <Empty>No job waits here.</Empty>}
      {here.length > 0 && (
        <>
          <Filters of={of} jobs={here} />
          <div class="tools bulk">
            <label class="inline">
              <input
                type="checkbox" checked={open.length > 0 && picked.length === open.length} disabled={open.length === 0}
                onChange={(event) => choose(open.map((job) => job.id), event.currentTarget.checked)}
              />
              All {open.length} shown{open.length < letters.length && ` that can be replayed`}
            </label>
            <Act does={() => replay(async () => picked)} disabled={picked.length === 0 || bulk?.running}>
              Replay {picked.length || ""} as {picked.length === 1 ? "it is" : "they are"}
            </Act>
            {(filtered || many) && (
              <Act does={() => replay(() => all(of))} disabled={bulk?.running}>
                Replay {filtered ? "all that match" : "every one"}{many ? ", on all pages" : ""}
              </Act>
            )}
          </div>
          {letters.length === 0 && <Empty>None of this page is so.</Empty>}
        </>
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

/** Replays jobs as they are, some at a time: for a cause that lay outside of them. */
async function replayAll(jobs: Job[], say: (bulk: Bulk) => void): Promise<void> {
  const bulk: Bulk = { found: jobs.length, asked: 0, opened: 0, faults: [], running: true };
  const rest = [...jobs];
  const work = async () => {
    for (let job = rest.shift(); job; job = rest.shift()) {
      try {
        await api().replay(job.id, {});
        bulk.opened += 1;
      } catch (error) {
        bulk.faults.push(`${job.id}: ${(error as Error).message}`);
      }
      bulk.asked += 1;
      say({ ...bulk, faults: [...bulk.faults] });
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, work));
  say({ ...bulk, faults: [...bulk.faults], running: false });
}

function BulkSaid({ bulk }: { bulk: Bulk }) {
  return (
    <div class="card">
      <p role="status">
        {bulk.running ? `${exact(bulk.asked)} of ${exact(bulk.found)} …` : `${plural(bulk.opened, "job")} opened again.`}
        {" "}{!bulk.running && <a href="#/jobs">Watch them</a>}
      </p>
      {bulk.running && <progress max={Math.max(bulk.found, 1)} value={bulk.asked} aria-label="Replays" />}
      {bulk.faults.length > 0 && <ul class="fault" role="alert">{bulk.faults.map((fault) => <li key={fault}>{fault}</li>)}</ul>}
    </div>
  );
}

function Filters({ of, jobs }: { of: DeadFilter; jobs: Job[] }) {
  const set = (change: Partial<DeadFilter>) => filter("dead-letters", { ...of, ...change });
  const agents = [...new Set([...jobs.map((job) => job.agent), of.agent])].filter(Boolean).sort();
  const failures = [...new Set([...classesOf(jobs), of.failure])].filter(Boolean).sort();
  return (
    <div class="filters">
      <Choice id="dead-agent" label="Agent" of={agents} value={of.agent} onValue={(agent) => set({ agent })} />
      <Choice id="dead-class" label="Failure" of={failures} value={of.failure} onValue={(failure) => set({ failure })} />
      <div class="field grow">
        <label for="dead-text">Text</label>
        <input
          id="dead-text" type="search" value={of.text} placeholder="in the error, a label or the id" autocomplete="off"
          onInput={(event) => set({ text: event.currentTarget.value })}
        />
      </div>
    </div>
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
      <input type="checkbox" aria-label={`Choose ${job.agent}, ${job.id}`} checked={chosen && canOpen(job)} disabled={!canOpen(job)} onChange={(event) => onChoose(event.currentTarget.checked)} />
      <div class="grow">
        <p class="letter-head">
          <b>{job.agent}</b> <JobLink id={job.id} /> <span class="quiet">failed <Age of={job.updated_at} /> ago, {plural(job.steps, "step")}</span>
          <Labels of={job.labels} />
        </p>
        {job.failure && <FailureChain failure={job.failure} />}
      </div>
      {canOpen(job)
        ? <a class="button" href={`#/jobs/${job.id}?replay`}>Edit and replay</a>
        : <span class="quiet">imported, driven by no worker</span>}
    </li>
  );
}
