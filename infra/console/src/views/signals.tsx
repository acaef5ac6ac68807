/** What a job waits for from people: an approval by one button, an answer in words, any other signal by its payload. */
import { useEffect, useState } from "preact/hooks";
import { now } from "../clock.ts";
import { duration, json } from "../format.ts";
import { Act } from "../parts/buttons.tsx";
import { Fault } from "../parts/fault.tsx";
import { api } from "../session.ts";
import type { Story } from "../story/fold.ts";
import type { Job } from "../wire.ts";
import { Diff, jsonFault, JsonEditor } from "../parts/editor.tsx";
import { Tree } from "../parts/value.tsx";
import { useAgents } from "./agents.tsx";

/** How a signal is given: the agents that ship wait for `approval`; definitions name theirs after the call. */
type Way = "approval" | "words" | "json";

function wayOf(name: string): Way {
  if (name === "approval" || name.startsWith("approval:")) return "approval";
  return name.startsWith("answer:") || name.startsWith("interrupted:") ? "words" : "json";
}

/** What the agent has shown of its waits for a signal, one after the other. */
function shownOf(story: Story, name: string): Record<string, any>[] {
  const values = story.steps.filter((step) => step.state === "shown").map((step) => step.value as Record<string, any>);
  return values.filter((value) => value?.signal === name);
}

export function Signals({ job, story, onSent }: { job: Job; story: Story; onSent: () => void }) {
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
          {until !== undefined && <>for {duration(until - now.value)} more</>}. It costs nothing meanwhile.
        </p>
      ) : (
        <p class="quiet">The agent will wait for this; a signal that comes early is kept.</p>
      )}
      {names.map((name) => (
        <Signal key={name} job={job} name={name} shown={shownOf(story, name)} asked={open.includes(name)} onSent={onSent} />
      ))}
    </section>
  );
}

function Signal({ job, name, shown, asked, onSent }: {
  job: Job; name: string; shown: Record<string, any>[]; asked: boolean; onSent: () => void;
}) {
  const way = wayOf(name);
  const [payload, setPayload] = useState("null");
  const [words, setWords] = useState("");
  const [state, setState] = useState<{ sent?: boolean; error?: unknown }>({});
  const [raw, setRaw] = useState(way === "json");
  // Once taken, the next wait for this signal is another one. A job that is quick may ask again before the page has seen
  // that it did not; what it shows then is one more.
  useEffect(() => setState({}), [asked, shown.length]);
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
  // The newer over the older.
  const { signal: _, why, expected: __, ...about } = Object.assign({}, ...shown) as Record<string, any>;
  const decide = (decision: string) => send({ decision, ...(words.trim() ? { reason: words.trim() } : {}) });
  return (
    <div class="signal">
      {typeof about.question === "string" && <p class="question">{about.question}</p>}
      {typeof why === "string" && <p class="field-fault" role="alert">What was sent was not taken: {why}</p>}
      {Object.keys(about).length > 0 && typeof about.question !== "string" && <Tree value={about} />}
      {way === "approval" && (
        <div class="approval">
          <div class="field grow">
            <label for={`reason-${name}`}>Reason <span class="quiet">optional</span></label>
            <input id={`reason-${name}`} value={words} onInput={(event) => setWords(event.currentTarget.value)} />
          </div>
          <Act class="good" does={() => decide("approved")}>Approve</Act>
          {name !== "approval" && <Act does={() => decide("changes")} disabled={words.trim() === ""}>Ask for changes</Act>}
          <Act class="danger" does={() => decide("rejected")}>Reject</Act>
        </div>
      )}
      {way === "approval" && about.arguments !== undefined && (
        <OtherArguments name={name} of={about.arguments} onSend={(changed) => send({ decision: "approved", arguments: changed })} />
      )}
      {way === "words" && (
        <div class="approval">
          <div class="field grow">
            <label for={`words-${name}`}>Your answer</label>
            <textarea id={`words-${name}`} rows={2} value={words} onInput={(event) => setWords(event.currentTarget.value)} />
          </div>
          <Act class="primary" does={() => send(words.trim())} disabled={words.trim() === ""}>Answer</Act>
        </div>
      )}
      {raw ? <RawSignal name={name} payload={payload} onPayload={setPayload} onSend={send} /> : (
        <button type="button" class="plain small" onClick={() => setRaw(true)}>Send something else…</button>
      )}
      <Fault error={state.error} />
    </div>
  );
}

/** Approves a call with other arguments than the model gave it. */
function OtherArguments({ name, of, onSend }: { name: string; of: unknown; onSend: (value: unknown) => Promise<void> }) {
  const before = json(of);
  const [text, setText] = useState<string | undefined>();
  if (text === undefined) {
    return <button type="button" class="plain small" onClick={() => setText(before)}>Approve with other arguments…</button>;
  }
  const fault = jsonFault(text);
  const value = fault === undefined ? JSON.parse(text) : undefined;
  const isObject = typeof value === "object" && value !== null && !Array.isArray(value);
  return (
    <>
      <JsonEditor id={`arguments-${name}`} label="Arguments" text={text} onText={setText} rows={6} />
      {fault === undefined && !isObject && <p class="field-fault" role="status">Arguments are an object, by name.</p>}
      {isObject && <Diff before={before} after={json(value)} what="the arguments" json />}
      <div class="tools">
        <Act class="good" does={() => onSend(value)} disabled={!isObject}>Approve with these arguments</Act>
        <button type="button" onClick={() => setText(undefined)}>Leave them as they are</button>
      </div>
    </>
  );
}

function RawSignal({ name, payload, onPayload, onSend }: {
  name: string; payload: string; onPayload: (text: string) => void; onSend: (value: unknown) => Promise<void>;
}) {
  return (
    <>
      <JsonEditor id={`payload-${name}`} label={`What ${name} says`} text={payload} onText={onPayload} rows={4} />
      <div class="tools"><Act does={() => onSend(JSON.parse(payload))} disabled={jsonFault(payload) !== undefined}>Send {name}</Act></div>
    </>
  );
}
