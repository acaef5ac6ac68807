/**
 * What a job is to do: its agent's input as fields made from the schema, or as JSON, its labels and its budget. Who submits
 * one now and who schedules one say it in the same form.
 */
import type { ComponentChildren } from "preact";
import { useMemo, useState } from "preact/hooks";
import { LonghaulProblem } from "longhaul-client";
import { json } from "../format.ts";
import { faultsByField, fieldsOf, isCovered, labelsOf, labelsText, read, shown, type Field, type Schema } from "../story/form.ts";
import type { Agent, Budget } from "../wire.ts";
import { Act } from "./buttons.tsx";
import { JsonEditor } from "./editor.tsx";
import { Fault } from "./fault.tsx";
import { budgetOf, BudgetFields, budgetText, FieldInput } from "./fields.tsx";
import { Markdown } from "./value.tsx";

/** What the form says of a job. */
export interface JobAsked {
  agent: string;
  input: unknown;
  budget?: Budget;
  labels: Record<string, string>;
}

/** What is wrong with a field of the request beside the input, by its JSON pointer. */
export type FaultAt = (pointer: string) => string | undefined;

export const nameOf = (agent: Agent) => `${agent.name}@${agent.version}`;

export function AgentChoice({ agents, agent, onAgent }: { agents: Agent[]; agent: Agent; onAgent: (name: string) => void }) {
  return (
    <div class="field agent-choice">
      <label for="agent">Agent</label>
      <select id="agent" value={nameOf(agent)} onChange={(event) => onAgent(event.currentTarget.value)}>
        {agents.map((one) => <option key={nameOf(one)} value={nameOf(one)}>{nameOf(one)}</option>)}
      </select>
    </div>
  );
}

const textsOf = (fields: Field[] | undefined, input: unknown): Record<string, string> =>
  Object.fromEntries((fields ?? []).map((field) => [field.name, shown(field.kind, (input as Record<string, unknown> | undefined)?.[field.name])]));

export function JobForm({ agent, begin = {}, act, does, more, moreIs = "Labels and budget", children }: {
  agent: Agent;
  /** What stands in it at first. */
  begin?: Partial<JobAsked>;
  /** The word on its button. */
  act: string;
  does: (job: JobAsked) => Promise<void>;
  /** Fields of whoever uses the form, below the labels, and what all these are called. */
  more?: (fault: FaultAt) => ComponentChildren;
  moreIs?: string;
  /** Fields in front of the input. */
  children?: (fault: FaultAt) => ComponentChildren;
}) {
  const fields = useMemo(() => fieldsOf(agent.input_schema as Schema), [agent]);
  const [texts, setTexts] = useState(() => textsOf(fields, begin.input));
  // Fields show what the schema names; an input that has more is left to JSON, which loses nothing.
  const [asJson, setAsJson] = useState(() => fields === undefined || !isCovered(fields, begin.input));
  const [raw, setRaw] = useState(() => json(begin.input ?? {}));
  const [labels, setLabels] = useState(() => labelsText(begin.labels));
  const [budget, setBudget] = useState(() => budgetText(begin.budget));
  const [error, setError] = useState<unknown>();
  const [local, setLocal] = useState<Record<string, string>>({});
  const problem = error instanceof LonghaulProblem ? error.body : undefined;
  const faults = { ...faultsByField(problem?.violations ?? []), ...local };
  const faultAt: FaultAt = (pointer) => (problem?.field === pointer ? problem.detail : undefined);

  /** The input that the fields hold; none when one of them is wrong, which it then says. */
  const ofFields = (): Record<string, unknown> | undefined => {
    const wrong: Record<string, string> = {};
    const value: Record<string, unknown> = {};
    for (const field of fields ?? []) {
      const found = read(field, texts[field.name] ?? "");
      if ("fault" in found) wrong[field.name] = found.fault;
      else if (found.value !== undefined) value[field.name] = found.value;
    }
    setLocal(wrong);
    return Object.keys(wrong).length > 0 ? undefined : value;
  };

  const show = (json_: boolean) => {
    if (json_) {
      const value = ofFields();
      if (!value) return;
      setRaw(json(value));
    } else {
      try {
        setTexts(textsOf(fields, JSON.parse(raw)));
      } catch {
        return;
      }
    }
    setAsJson(json_);
  };

  const act_ = async () => {
    setError(undefined);
    try {
      const input = asJson ? JSON.parse(raw) : ofFields();
      if (input === undefined) return;
      await does({ agent: nameOf(agent), input, budget: budgetOf(budget), labels: labelsOf(labels) });
    } catch (fault) {
      setError(fault);
    }
  };

  return (
    <form class="card form" noValidate onSubmit={(event) => { event.preventDefault(); void act_(); }}>
      {children?.(faultAt)}
      <div class="about"><Markdown text={agent.description} /></div>
      {fields && (
        <div class="switch" role="group" aria-label="How to give the input">
          <button type="button" aria-pressed={!asJson} onClick={() => show(false)}>Form</button>
          <button type="button" aria-pressed={asJson} onClick={() => show(true)}>JSON</button>
        </div>
      )}
      {asJson ? (
        <JsonEditor id="raw-input" label="Input" text={raw} onText={setRaw} rows={12} />
      ) : (
        fields?.map((field) => (
          <FieldInput
            key={field.name} field={field} text={texts[field.name] ?? ""} fault={faults[field.name]}
            onText={(text) => setTexts({ ...texts, [field.name]: text })}
          />
        ))
      )}
      <details>
        <summary>{moreIs}</summary>
        <div class="field">
          <label for="labels">Labels</label>
          <textarea id="labels" rows={2} value={labels} placeholder="name=value, one on each line" onInput={(event) => setLabels(event.currentTarget.value)} />
        </div>
        <BudgetFields text={budget} onText={setBudget} />
        {more?.(faultAt)}
      </details>
      <Fault error={error} />
      <div class="tools"><Act class="primary" does={act_}>{act}</Act></div>
    </form>
  );
}
