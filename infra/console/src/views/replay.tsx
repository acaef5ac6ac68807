/** A job opened again: its input and budget edited, from its last good step or from one that is named. */
import { useEffect, useRef, useState } from "preact/hooks";
import { json } from "../format.ts";
import { api } from "../session.ts";
import type { Job, Taken } from "../wire.ts";
import { Act, Fault } from "../parts/common.tsx";
import { Diff, jsonFault, JsonEditor } from "../parts/editor.tsx";
import { budgetOf, BudgetFields, budgetText } from "../parts/fields.tsx";

export function Replay({ job, from, stepName, onDone, onClose }: {
  job: Job; from?: number; stepName?: string; onDone: () => void; onClose: () => void;
}) {
  const before = json(job.input);
  const [text, setText] = useState(before);
  const [budget, setBudget] = useState(budgetText(job.budget));
  const [fromText, setFrom] = useState(from === undefined ? "" : String(from));
  const [error, setError] = useState<unknown>();
  const heading = useRef<HTMLHeadingElement>(null);
  useEffect(() => heading.current?.focus(), []);
  const fault = jsonFault(text);
  const budgetBefore = json(budgetOf(budgetText(job.budget)) ?? {});
  const budgetAfter = json(budgetOf(budget) ?? {});
  const replay = async () => {
    setError(undefined);
    const edit = {
      ...(text === before ? {} : { input: JSON.parse(text) }),
      ...(budgetAfter === budgetBefore ? {} : { budget: budgetOf(budget) ?? {} }),
    };
    try {
      const taken: Taken = await api().replay(job.id, { ...(fromText ? { from: Number(fromText) } : {}), edit });
      if (taken) onDone();
    } catch (found) {
      setError(found);
    }
  };
  return (
    <section class="card replay" aria-labelledby="replay">
      <h2 id="replay" tabIndex={-1} ref={heading}>Edit and replay</h2>
      <p>
        {fromText
          ? <>Outcomes from journal position {fromText} on{stepName && from === Number(fromText) && <> (<b>{stepName}</b>)</>} are forgotten; what stands before is kept and not paid for again.</>
          : <>The job goes on from its last good step; what succeeded is kept and not paid for again.</>}
      </p>
      <div class="columns">
        <JsonEditor id="replay-input" label="Input" text={text} onText={setText} rows={12} />
        <div>
          <h3>What changes</h3>
          {fault === undefined ? <Diff before={before} after={text} what="the input" /> : <p class="quiet">…</p>}
          {budgetAfter !== budgetBefore && <Diff before={budgetBefore} after={budgetAfter} what="the budget" />}
        </div>
      </div>
      <details open={budgetBefore !== "{}" || job.failure?.class === "budget"}>
        <summary>Budget and position</summary>
        <BudgetFields text={budget} onText={setBudget} />
        <div class="field">
          <label for="replay-from">Forget from journal position <span class="quiet">optional</span></label>
          <input id="replay-from" type="number" min={1} step={1} value={fromText} placeholder="only failed outcomes" onInput={(event) => setFrom(event.currentTarget.value)} />
        </div>
      </details>
      <Fault error={error} />
      <div class="tools">
        <Act class="primary" does={replay} disabled={fault !== undefined}>Replay</Act>
        <button type="button" onClick={onClose}>Not now</button>
      </div>
    </section>
  );
}
