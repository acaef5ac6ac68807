/** A job's journal: its events in a line each, and every entry whole. */
import { useState } from "preact/hooks";
import { exact, json, moment } from "../format.ts";
import { Act, Copy } from "../parts/buttons.tsx";
import { Fault } from "../parts/fault.tsx";
import { api } from "../session.ts";
import type { Entry, JobEvent, Journal } from "../wire.ts";

/** Lines that are shown at first, and entries that are fetched at a time. */
const LINES_SHOWN = 100;
const ENTRIES_PAGE = 200;

const NAMES: Record<string, string> = {
  AgentJobClaimed: "taken over", AgentStepStarted: "acts", AgentStepCompleted: "done", AgentAttemptFailed: "attempt failed",
  AgentStepFailed: "failed", AgentWaiting: "waits", AgentWaitEnded: "wait ended", AgentProgress: "shows",
  AgentSignalled: "signal", AgentCancelRequested: "cancel asked", AgentJobCompleted: "job completed",
  AgentJobFailed: "job failed", AgentJobCancelled: "job cancelled", AgentJobReplayed: "replayed", AgentJobForked: "forked",
};

function about({ data, type }: JobEvent): string {
  if (data.failure) return `${data.name ?? ""} ${data.failure.class}: ${data.failure.message}`.trim();
  if (type.endsWith("JobClaimed")) return `epoch ${data.epoch}${data.takeover ? ", after a crash" : ""}`;
  if (data.signal) return `${data.signal} by ${data.by}: ${JSON.stringify(data.payload)}`;
  if (type.endsWith("Replayed")) return `by ${data.by}${data.from ? `, from ${data.from}` : ""}${data.input ? ", with an edited input" : ""}`;
  if (type.endsWith("Forked")) return `of job ${data.job}, ${exact(data.kept)} outcomes before position ${data.at} kept`;
  if (data.by) return `by ${data.by}${data.reason ? `: ${data.reason}` : ""}`;
  return data.name ?? "";
}

export function Activity({ events }: { events: JobEvent[] }) {
  const [all, setAll] = useState(false);
  const shown = all ? events : events.slice(-LINES_SHOWN);
  return (
    <details class="card">
      <summary><h2>Activity <span class="quiet">{exact(events.length)} events</span></h2></summary>
      {shown.length < events.length && <button type="button" class="small" onClick={() => setAll(true)}>Earlier events</button>}
      <ol class="activity">
        {shown.map((event) => (
          <li key={event.sequence}>
            <span class="seq">{Number(event.sequence)}</span>
            <time dateTime={event.time} title={moment(event.time)}>{event.time.slice(11, 23)}</time>
            <span class={`what ${event.type.slice(9)}`}>{NAMES[event.type.slice(9)] ?? event.type}</span>
            <span class="about">{about(event)}</span>
          </li>
        ))}
      </ol>
    </details>
  );
}

export function RawJournal({ job, position }: { job: string; position: number }) {
  const [state, setState] = useState<{ entries: Entry[]; open: boolean; more: boolean; error?: unknown }>({ entries: [], open: false, more: true });
  const last = state.entries.at(-1)?.seq ?? 0;
  const load = async () => {
    try {
      const query = { after: last, limit: ENTRIES_PAGE };
      const page: Journal = await api().call("GET", `/v1/jobs/${job}/journal`, { query });
      setState({ open: true, entries: [...state.entries, ...page.entries], more: page.next !== undefined && page.next !== null });
    } catch (error) {
      setState({ ...state, open: true, error });
    }
  };
  const behind = state.more || last < position;
  return (
    <details class="card" onToggle={(event) => event.currentTarget.open && !state.open && void load()}>
      <summary><h2>Raw journal</h2></summary>
      <Fault error={state.error} />
      <ol class="entries">
        {state.entries.map((entry) => <EntryRow key={entry.seq} entry={entry} />)}
      </ol>
      {state.open && behind && <Act class="small" does={load}>Entries behind {last}</Act>}
    </details>
  );
}

function EntryRow({ entry }: { entry: Entry }) {
  const [open, setOpen] = useState(false);
  const { type, name } = entry.entry as { type?: string; name?: string };
  return (
    <li>
      <details onToggle={(event) => setOpen(event.currentTarget.open)}>
        <summary><span class="seq">{entry.seq}</span> <code>{type}</code> {name} <span class="quiet">{entry.at}</span></summary>
        {open && (
          <>
            {entry.truncated && <p class="quiet">The entry is larger than a page; only its kind is shown.</p>}
            <Copy text={json(entry.entry)} what={`entry ${entry.seq}`} />
            <pre class="text code" tabIndex={0}>{json(entry.entry)}</pre>
          </>
        )}
      </details>
    </li>
  );
}
