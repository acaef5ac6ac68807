/** A job's submission: a form made from the agent's schema, or JSON. */
import { useMemo, useState } from "preact/hooks";
import { LonghaulProblem } from "longhaul-client";
import { json } from "../format.ts";
import { go, route } from "../route.ts";
import { api } from "../session.ts";
import { faultsByField, fieldsOf, read, shown, type Schema } from "../story/form.ts";
import type { Agent } from "../wire.ts";
import { Act, Fault } from "../parts/common.tsx";
import { JsonEditor } from "../parts/editor.tsx";
import { budgetOf, BudgetFields, budgetText, FieldInput } from "../parts/fields.tsx";
import { Markdown } from "../parts/value.tsx";
import { useAgents } from "./agents.tsx";

/** An input to begin with, left by a page that leads here. */
let prepared: unknown;
export const prepare = (input: unknown) => (prepared = input);

export function Submit() {
  const { value: agents, error } = useAgents();
  const wanted = route.value.rest;
  const agent = agents?.find((one) => `${one.name}@${one.version}` === wanted) ?? agents?.[0];
  return (
    <>
      <div class="page-head"><h1>Submit a job</h1></div>
      <Fault error={error} />
      {agents && agent && (
        <>
          <div class="field agent-choice">
            <label for="agent">Agent</label>
            <select id="agent" value={`${agent.name}@${agent.version}`} onChange={(event) => go(`/submit/${event.currentTarget.value}`)}>
              {agents.map((one) => {
                const name = `${one.name}@${one.version}`;
                return <option key={name} value={name}>{name}</option>;
              })}
            </select>
          </div>
          <Form key={`${agent.name}@${agent.version}`} agent={agent} />
        </>
      )}
    </>
  );
}

function Form({ agent }: { agent: Agent }) {
  const fields = useMemo(() => fieldsOf(agent.input_schema as Schema), [agent]);
  const [begin] = useState(() => {
    const input = prepared;
    prepared = undefined;
    return input as Record<string, unknown> | undefined;
  });
  const [texts, setTexts] = useState<Record<string, string>>(() =>
    Object.fromEntries((fields ?? []).map((field) => [field.name, shown(field.kind, begin?.[field.name])])),
  );
  const [asJson, setAsJson] = useState(fields === undefined);
  const [raw, setRaw] = useState(() => json(begin ?? {}));
  const [labels, setLabels] = useState("");
  const [budget, setBudget] = useState(budgetText());
  const [error, setError] = useState<unknown>();
  const [key] = useState(() => crypto.randomUUID());

  const input = (): Record<string, unknown> | { fault: true } => {
    const faults: Record<string, string> = {};
    const value: Record<string, unknown> = {};
    for (const field of fields ?? []) {
      const found = read(field, texts[field.name] ?? "");
      if ("fault" in found) faults[field.name] = found.fault;
      else if (found.value !== undefined) value[field.name] = found.value;
    }
    setLocal(faults);
    return Object.keys(faults).length > 0 ? { fault: true } : value;
  };
  const [local, setLocal] = useState<Record<string, string>>({});
  const problem = error instanceof LonghaulProblem ? error.body : undefined;
  const faults = { ...faultsByField(problem?.violations ?? []), ...local };

  const show = (json_: boolean) => {
    if (json_) {
      const value = input();
      if ("fault" in value) return;
      setRaw(json(value));
    } else {
      try {
        const value = JSON.parse(raw);
        setTexts(Object.fromEntries((fields ?? []).map((field) => [field.name, shown(field.kind, value[field.name])])));
      } catch {
        return;
      }
    }
    setAsJson(json_);
  };

  const submit = async () => {
    setError(undefined);
    try {
      const value = asJson ? JSON.parse(raw) : input();
      if (!asJson && "fault" in value) return;
      const named = labelsOf(labels);
      const request = { agent: `${agent.name}@${agent.version}`, input: value, budget: budgetOf(budget), labels: named };
      // Pressed twice, it is the same job.
      const job = await api().submit(request, { key: `${key}-${hash(json(request))}` });
      go(`/jobs/${job.id}`);
    } catch (fault) {
      setError(fault);
    }
  };

  return (
    <form class="card form" noValidate onSubmit={(event) => { event.preventDefault(); void submit(); }}>
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
        <summary>Labels and budget</summary>
        <div class="field">
          <label for="labels">Labels</label>
          <textarea id="labels" rows={2} value={labels} placeholder="name=value, one on each line" onInput={(event) => setLabels(event.currentTarget.value)} />
        </div>
        <BudgetFields text={budget} onText={setBudget} />
      </details>
      <Fault error={error} />
      <div class="tools"><Act class="primary" does={submit}>Submit</Act></div>
    </form>
  );
}

function labelsOf(text: string): Record<string, string> {
  const lines = text.split("\n").map((line) => line.trim()).filter((line) => line !== "");
  return Object.fromEntries(lines.map((line) => {
    const at = line.indexOf("=");
    return at < 0 ? [line, ""] : [line.slice(0, at).trim(), line.slice(at + 1).trim()];
  }));
}

/** A short mark of a text, so that a changed form is another request (FNV-1a). */
function hash(text: string): string {
  let value = 0x811c9dc5;
  for (const char of new TextEncoder().encode(text)) value = Math.imul(value ^ char, 0x01000193);
  return (value >>> 0).toString(16);
}
