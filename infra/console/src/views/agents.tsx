/** The agents: what each does, what it takes, what it waits for. */
import { signal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { api } from "../session.ts";
import { fieldsOf, type Schema } from "../story/form.ts";
import type { Agent } from "../wire.ts";
import { Empty, Fault } from "../parts/common.tsx";
import { Tree } from "../parts/value.tsx";

const agents = signal<{ value?: Agent[]; error?: unknown }>({});
let asked = false;

/** The agents; asked for once by the whole page. */
export function useAgents() {
  useEffect(() => {
    if (asked) return;
    asked = true;
    api().call("GET", "/v1/agents").then(
      ({ agents: value }: { agents: Agent[] }) => (agents.value = { value }),
      (error) => {
        asked = false;
        agents.value = { error };
      },
    );
  }, []);
  return agents.value;
}

export function Agents() {
  const { value, error } = useAgents();
  return (
    <>
      <div class="page-head"><h1>Agents</h1></div>
      <Fault error={error} />
      {value?.length === 0 && <Empty>This service has no agent.</Empty>}
      <ul class="cards">
        {value?.map((agent) => (
          <li key={`${agent.name}@${agent.version}`} class="card">
            <h2>{agent.name} <span class="quiet">version {agent.version}</span></h2>
            <p>{agent.description}</p>
            <Takes schema={agent.input_schema as Schema} />
            {(agent.signals?.length ?? 0) > 0 && <p>Waits for {agent.signals?.map((name) => <code key={name}>{name}</code>)}</p>}
            <details><summary>Schema of its input</summary><Tree value={agent.input_schema} /></details>
            <div class="tools">
              <a class="button primary" href={`#/submit/${agent.name}@${agent.version}`}>Submit a job</a>
              <a class="button" href={`#/jobs?agent=${agent.name}`}>Its jobs</a>
            </div>
          </li>
        ))}
      </ul>
    </>
  );
}

function Takes({ schema }: { schema: Schema }) {
  const fields = fieldsOf(schema);
  if (!fields?.length) return null;
  return (
    <dl class="takes">
      {fields.map((field) => (
        <div key={field.name}>
          <dt><code>{field.name}</code>{field.required && <span class="needed"> needed</span>}</dt>
          <dd>{field.help}</dd>
        </div>
      ))}
    </dl>
  );
}
