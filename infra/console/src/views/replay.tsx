/**
 * A job opened again, or another one made of it: its input, model, instructions and budget edited, from its last good step
 * or from one that is named.
 */
import { useEffect, useRef, useState } from "preact/hooks";
import { useFetched } from "../fetched.ts";
import { json } from "../format.ts";
import { Act } from "../parts/buttons.tsx";
import { Fault } from "../parts/fault.tsx";
import { go } from "../route.ts";
import { api } from "../session.ts";
import type { Agent, Job, Taken } from "../wire.ts";
import { Diff, jsonFault, JsonEditor } from "../parts/editor.tsx";
import { budgetOf, BudgetFields, budgetText } from "../parts/fields.tsx";

/** What an agent's definition says that a replay may change; nothing for agents that ship. */
interface Defined {
  instructions?: string;
  model?: string;
}

function definedIn(agent: Agent & { definition?: any }): Defined {
  const { definition } = agent;
  return { instructions: definition?.instructions, model: definition?.models?.[0]?.model };
}

interface Props {
  job: Job;
  from?: number;
  stepName?: string;
  /** Whether another job is made, and this one stays as it is. */
  fork?: boolean;
  onDone: () => void;
  onClose: () => void;
}

export function Replay(props: Props) {
  const { job } = props;
  const { value, error } = useFetched<Defined>(
    (signal) => api().call("GET", `/v1/agents/${encodeURIComponent(job.agent)}`, { signal }).then(definedIn), job.agent,
  );
  // Without the definition the rest can be edited all the same.
  const defined = value ?? (error ? {} : undefined);
  if (!defined) return <section class="card replay" aria-busy="true"><h2>Edit and {props.fork ? "fork" : "replay"}</h2></section>;
  return <Form {...props} defined={defined} />;
}

function Form({ job, from, stepName, fork = false, onDone, onClose, defined }: Props & { defined: Defined }) {
  const before = {
    input: json(job.input),
    budget: json(budgetOf(budgetText(job.budget)) ?? {}),
    // An agent that ships keeps its own to itself.
    instructions: job.instructions ?? defined.instructions ?? "",
    model: job.model ?? defined.model ?? "",
  };
  const [text, setText] = useState(before.input);
  const [budget, setBudget] = useState(budgetText(job.budget));
  const [instructions, setInstructions] = useState(before.instructions);
  const [model, setModel] = useState(before.model);
  const [fromText, setFrom] = useState(from === undefined ? "" : String(from));
  const [repeats, setRepeats] = useState(false);
  const [error, setError] = useState<unknown>();
  const heading = useRef<HTMLHeadingElement>(null);
  useEffect(() => heading.current?.focus(), []);
  const fault = jsonFault(text);
  const after = { input: text, budget: json(budgetOf(budget) ?? {}), instructions, model };
  const changes = {
    input: after.input !== before.input,
    budget: after.budget !== before.budget,
    instructions: instructions.trim() !== before.instructions.trim(),
    model: model.trim() !== before.model,
  };
  const replay = async () => {
    setError(undefined);
    const edit = {
      ...(changes.input ? { input: JSON.parse(text) } : {}),
      ...(changes.budget ? { budget: budgetOf(budget) ?? {} } : {}),
      ...(changes.instructions ? { instructions } : {}),
      ...(changes.model ? { model: model.trim() } : {}),
    };
    const position = fromText ? { from: Number(fromText) } : {};
    try {
      if (fork) {
        const body = { ...position, edit, ...(repeats ? { repeat_effects: true } : {}) };
        const made = await api().call("POST", `/v1/jobs/${job.id}/fork`, { body });
        return go(`/jobs/${made.job.id}`);
      }
      const taken: Taken = await api().replay(job.id, { ...position, edit });
      if (taken) onDone();
    } catch (found) {
      setError(found);
    }
  };
  const noModel = changes.model && model.trim() === "";
  const noInstructions = changes.instructions && instructions.trim() === "";
  const forgotten = fork ? "are not brought along" : "are forgotten";
  return (
    <section class="card replay" aria-labelledby="replay">
      <h2 id="replay" tabIndex={-1} ref={heading}>Edit and {fork ? "fork" : "replay"}</h2>
      <p>
        {fromText
          ? <>Outcomes from journal position {fromText} on{stepName && from === Number(fromText) && <> (<b>{stepName}</b>)</>} {forgotten}; what stands before is kept and not paid for again.</>
          : <>{fork ? "Another job" : "The job"} goes on from its last good step; what succeeded is kept and not paid for again.</>}
        {fork && <> This job stays as it is.</>}
      </p>
      <div class="columns">
        <div>
          <JsonEditor id="replay-input" label="Input" text={text} onText={setText} rows={6} />
          <div class="field">
            <label for="replay-instructions">Instructions <span class="quiet">{before.instructions ? "for this job; the definition stays as it is" : "optional"}</span></label>
            <textarea
              id="replay-instructions" rows={before.instructions ? 10 : 2} value={instructions} placeholder="the agent's own"
              onInput={(event) => setInstructions(event.currentTarget.value)}
            />
          </div>
          <div class="field">
            <label for="replay-model">Model <span class="quiet">optional</span></label>
            <input id="replay-model" value={model} placeholder="as before" autocomplete="off" spellcheck={false} onInput={(event) => setModel(event.currentTarget.value)} />
            <p class="field-fault" aria-live="polite">{noModel && "A model that was named cannot be unnamed: give the name of another."}</p>
          </div>
        </div>
        <div>
          <h3>What changes</h3>
          {fault !== undefined ? <p class="quiet">…</p> : !Object.values(changes).includes(true) && <p class="quiet">Nothing is changed yet.</p>}
          {fault === undefined && changes.input && <Diff before={before.input} after={after.input} what="the input" json />}
          {changes.instructions && <Diff before={before.instructions || "(the agent's own)"} after={instructions} what="the instructions" />}
          {changes.model && <Diff before={before.model || "(as before)"} after={model.trim()} what="the model" />}
          {changes.budget && <Diff before={before.budget} after={after.budget} what="the budget" json />}
        </div>
      </div>
      <details open={before.budget !== "{}" || job.failure?.class === "budget"}>
        <summary>Budget and position</summary>
        <BudgetFields text={budget} onText={setBudget} />
        <div class="field">
          <label for="replay-from">{fork ? "Bring nothing along" : "Forget"} from journal position <span class="quiet">optional</span></label>
          <input id="replay-from" type="number" min={1} step={1} value={fromText} placeholder="only failed outcomes" onInput={(event) => setFrom(event.currentTarget.value)} />
        </div>
      </details>
      {fork && (
        <label class="inline">
          <input type="checkbox" checked={repeats} onChange={(event) => setRepeats(event.currentTarget.checked)} />
          Do effects again that were declared to happen once at most
        </label>
      )}
      <Fault error={error} />
      <div class="tools">
        <Act class="primary" does={replay} disabled={fault !== undefined || noModel || noInstructions}>{fork ? "Fork" : "Replay"}</Act>
        <button type="button" onClick={onClose}>Not now</button>
      </div>
    </section>
  );
}
