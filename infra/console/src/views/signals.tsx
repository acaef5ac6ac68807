/** What a job waits for from people: an approval by one button, any other signal by its payload. */
import { useEffect, useState } from "preact/hooks";
import { now } from "../clock.ts";
import { duration } from "../format.ts";
import { api } from "../session.ts";
import type { Job } from "../wire.ts";
import { Act, Fault } from "../parts/common.tsx";
import { jsonFault, JsonEditor } from "../parts/editor.tsx";
import { useAgents } from "./agents.tsx";

/** The signal by which the agents that come with Longhaul are approved. */
const APPROVAL = "approval";

export function Signals({ job, onSent }: { job: Job; onSent: () => void }) {
  const { value: agents } = useAgents();
  const open = job.waiting?.signals ?? [];
  const known = agents?.find((agent) => `${agent.name}@${agent.version}` === job.agent)?.signals ?? [];
  const names = [...new Set([...open, ...known])];
  if (names.length === 0) return null;
  const until = job.waiting?.until ? Date.parse(job.waiting.until) : undefined;
  return (
    <section class={`card ${open.length > 0 ? "asks" : ""}`} aria-labelledby="signals">
      <h2 id="signals">{open.length > 0 ? "It waits for you" : "Signals"}</h2>
      {open.length > 0 ? (
        <p>
          The job waits for {open.map((name) => <code key={name}>{name}</code>)}
          {until !== undefined && <>, for {duration(until - now.value)} more</>}. It costs nothing meanwhile.
        </p>
      ) : (
        <p class="quiet">The agent will wait for this; a signal that comes early is kept.</p>
      )}
      {names.map((name) => <Signal key={name} job={job} name={name} asked={open.includes(name)} onSent={onSent} />)}
    </section>
  );
}

function Signal({ job, name, asked, onSent }: { job: Job; name: string; asked: boolean; onSent: () => void }) {
  const [payload, setPayload] = useState("null");
  const [reason, setReason] = useState("");
  const [state, setState] = useState<{ sent?: boolean; error?: unknown }>({});
  const [raw, setRaw] = useState(name !== APPROVAL);
  // Once taken, the next wait for this signal is another one.
  useEffect(() => setState({}), [asked]);
  const send = async (value: unknown) => {
    try {
      await api().signal(job.id, name, value);
      setState({ sent: true });
      onSent();
    } catch (error) {
      setState({ error });
    }
  };
  if (state.sent) return <p role="status">Sent <code>{name}</code>.</p>;
  const fault = jsonFault(payload);
  return (
    <div class="signal">
      {name === APPROVAL && (
        <div class="approval">
          <div class="field grow">
            <label for="approval-reason">Reason <span class="quiet">optional</span></label>
            <input id="approval-reason" value={reason} onInput={(event) => setReason(event.currentTarget.value)} />
          </div>
          <Act class="good" does={() => send({ decision: "approved" })}>Approve</Act>
          <Act class="danger" does={() => send({ decision: "rejected", reason: reason.trim() || "rejected" })}>Reject</Act>
        </div>
      )}
      {raw ? (
        <>
          <JsonEditor id={`payload-${name}`} label={`What ${name} says`} text={payload} onText={setPayload} rows={4} />
          <div class="tools"><Act does={() => send(JSON.parse(payload))} disabled={fault !== undefined}>Send {name}</Act></div>
        </>
      ) : (
        <button type="button" class="plain small" onClick={() => setRaw(true)}>Send something else…</button>
      )}
      <Fault error={state.error} />
    </div>
  );
}
