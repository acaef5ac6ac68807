/** A job's submission: a form made from the agent's schema, or JSON. */
import { useState } from "preact/hooks";
import { json } from "../format.ts";
import { Fault } from "../parts/fault.tsx";
import { go, route } from "../route.ts";
import { api } from "../session.ts";
import type { Agent } from "../wire.ts";
import { AgentChoice, JobForm, nameOf, type JobAsked } from "../parts/job_form.tsx";
import { useAgents } from "./agents.tsx";

/** An input to begin with, left by a page that leads here. */
let prepared: unknown;
export const prepare = (input: unknown) => (prepared = input);

export function Submit() {
  const { value: agents, error } = useAgents();
  const wanted = route.value.rest;
  const agent = agents?.find((one) => nameOf(one) === wanted) ?? agents?.[0];
  return (
    <>
      <div class="page-head"><h1>Submit a job</h1></div>
      <Fault error={error} />
      {agents && agent && (
        <>
          <AgentChoice agents={agents} agent={agent} onAgent={(name) => go(`/submit/${name}`)} />
          <Form key={nameOf(agent)} agent={agent} />
        </>
      )}
    </>
  );
}

function Form({ agent }: { agent: Agent }) {
  const [begin] = useState(() => {
    const input = prepared;
    prepared = undefined;
    return { input };
  });
  const [key] = useState(() => crypto.randomUUID());
  const submit = async (request: JobAsked) => {
    // Pressed twice, it is the same job.
    const job = await api().submit(request, { key: `${key}-${hash(json(request))}` });
    go(`/jobs/${job.id}`);
  };
  return <JobForm agent={agent} begin={begin} act="Submit" does={submit} />;
}

/** A short mark of a text, so that a changed form is another request (FNV-1a). */
function hash(text: string): string {
  let value = 0x811c9dc5;
  for (const char of new TextEncoder().encode(text)) value = Math.imul(value ^ char, 0x01000193);
  return (value >>> 0).toString(16);
}
