/** The agents: what each does and takes, what it waits for, its versions, and how it is defined. */
import { signal } from "@preact/signals";
import { useEffect, useState } from "preact/hooks";
import { useFetched } from "../fetched.ts";
import { json, moment, plural } from "../format.ts";
import { Copy } from "../parts/buttons.tsx";
import { Empty, Fault } from "../parts/fault.tsx";
import { go, route } from "../route.ts";
import { api } from "../session.ts";
import { fieldsOf, type Schema } from "../story/form.ts";
import type { Agent, AgentView } from "../wire.ts";
import { Diff } from "../parts/editor.tsx";
import { Tree } from "../parts/value.tsx";

const agents = signal<{ value?: Agent[]; error?: unknown }>({});
let asked = false;

/** The agents; asked for once by the whole page. */
export function useAgents() {
  useEffect(() => {
    if (!asked) void refresh();
  }, []);
  return agents.value;
}

function refresh() {
  asked = true;
  return api().call("GET", "/v1/agents").then(
    ({ agents: value }: { agents: Agent[] }) => (agents.value = { value }),
    (error) => {
      asked = false;
      agents.value = { error };
    },
  );
}

export function Agents() {
  // Somebody may have saved a version since the page was opened.
  useEffect(() => void refresh(), []);
  const { value, error } = agents.value;
  const name = route.value.rest;
  const names = [...new Set(value?.map((agent) => agent.name))];
  const versions = (of: string) => value!.filter((agent) => agent.name === of).sort((a, b) => b.version - a.version);
  if (name && value) return <OneAgent name={name.split("@")[0]!} version={Number(name.split("@")[1])} versions={versions(name.split("@")[0]!)} />;
  return (
    <>
      <div class="page-head"><h1>Agents</h1></div>
      <Fault error={error} />
      {value?.length === 0 && <Empty>This service has no agent.</Empty>}
      <ul class="cards">
        {value && names.map((one) => <Card key={one} versions={versions(one)} />)}
      </ul>
    </>
  );
}

function Card({ versions }: { versions: Agent[] }) {
  const agent = versions[0]!;
  return (
    <li class="card">
      <h2><a href={`#/agents/${agent.name}@${agent.version}`}>{agent.name}</a> <span class="quiet">version {agent.version}{versions.length > 1 && ` of ${versions.length}`}</span></h2>
      <p>{agent.description}</p>
      <Takes schema={agent.input_schema as Schema} />
      <Waits agent={agent} />
      <Links agent={agent} />
    </li>
  );
}

const Waits = ({ agent }: { agent: Agent }) =>
  (agent.signals?.length ?? 0) > 0 ? <p>Waits for {agent.signals?.map((name) => <code key={name}>{name}</code>)}</p> : null;

const Links = ({ agent }: { agent: Agent }) => (
  <div class="tools">
    <a class="button primary" href={`#/submit/${agent.name}@${agent.version}`}>Submit a job</a>
    <a class="button" href={`#/jobs?agent=${agent.name}`}>Its jobs</a>
  </div>
);

function OneAgent({ name, version, versions }: { name: string; version: number; versions: Agent[] }) {
  const agent = versions.find((one) => one.version === version) ?? versions[0];
  if (!agent) return <Empty>There is no agent {name}. <a href="#/agents">All agents</a></Empty>;
  return (
    <>
      <p class="crumb"><a href="#/agents">Agents</a></p>
      <div class="page-head">
        <h1>{name} <span class="quiet">version {agent.version}</span></h1>
        {versions.length > 1 && (
          <div class="field version">
            <label for="version">Version</label>
            <select id="version" value={String(agent.version)} onChange={(event) => go(`/agents/${name}@${event.currentTarget.value}`)}>
              {versions.map((one) => <option key={one.version} value={String(one.version)}>{one.version}</option>)}
            </select>
          </div>
        )}
      </div>
      <p class="lead">{agent.description}</p>
      <Links agent={agent} />
      <section class="card" aria-labelledby="takes">
        <h2 id="takes">What it takes</h2>
        <Takes schema={agent.input_schema as Schema} />
        <Waits agent={agent} />
        <details><summary>Schema of its input</summary><Tree value={agent.input_schema} /></details>
      </section>
      <Definition key={`${name}@${agent.version}`} agent={agent} before={versions.find((one) => one.version < agent.version)} />
    </>
  );
}

function Definition({ agent, before }: { agent: Agent; before?: Agent }) {
  const view = (one: Agent) => (signal: AbortSignal) => api().call("GET", `/v1/agents/${one.name}@${one.version}`, { signal });
  const { value, error } = useFetched<AgentView>(view(agent), "");
  const [compare, setCompare] = useState(false);
  const definition = value?.definition;
  return (
    <section class="card" aria-labelledby="definition">
      <h2 id="definition">Definition</h2>
      <Fault error={error} />
      {value && !definition && <p class="quiet">It ships with Longhaul: an agent in code, without a definition.</p>}
      {value && definition && (
        <>
          <p class="quiet">saved {value.created_at && moment(value.created_at)} by {value.created_by}, digest <code>{value.digest?.slice(0, 12)}</code></p>
          <Summary definition={definition as Record<string, any>} />
          <div class="tools">
            <Copy text={json(definition)} what="the definition" />
            {before && <button type="button" class="small" aria-expanded={compare} onClick={() => setCompare(!compare)}>Compare with version {before.version}</button>}
          </div>
          {compare && before && <Compared before={before} view={view} definition={definition} />}
          <details class="folded"><summary>The whole, as JSON</summary><pre class="text code" tabIndex={0}>{json(definition)}</pre></details>
        </>
      )}
    </section>
  );
}

function Compared({ before, view, definition }: { before: Agent; view: (one: Agent) => (signal: AbortSignal) => Promise<AgentView>; definition: unknown }) {
  const { value, error } = useFetched<AgentView>(view(before), before.version);
  return <>{value && <Diff before={json(value.definition)} after={json(definition)} what="the definition" json />}<Fault error={error} /></>;
}

/** The parts that people ask for first. */
function Summary({ definition }: { definition: Record<string, any> }) {
  const models: any[] = definition.models ?? [];
  const tools: any[] = definition.tools ?? [];
  return (
    <>
      <h3>Instructions</h3>
      <pre class="text" tabIndex={0}>{definition.instructions}</pre>
      <dl class="pairs">
        <dt>models</dt><dd>{models.map((one) => [one.provider, one.model].filter(Boolean).join("/")).join(", then ")}</dd>
        <dt>tools</dt>
        <dd>{tools.length === 0 ? "none" : <ul>{tools.map((tool, at) => <li key={at}><code>{tool.name ?? tool.server ?? tool.kind}</code> <span class="quiet">{tool.kind}{tool.approval ? ", after approval" : ""}{tool.description ? `: ${tool.description}` : ""}</span></li>)}</ul>}</dd>
        {definition.budget && <><dt>budget</dt><dd>{Object.entries(definition.budget).map(([name, value]) => `${name} ${value}`).join(", ")}</dd></>}
        {definition.limits && <><dt>limits</dt><dd>{Object.entries(definition.limits).map(([name, value]) => `${name} ${value}`).join(", ")}</dd></>}
        {definition.output_schema && <><dt>gives</dt><dd>{plural(Object.keys(definition.output_schema.properties ?? {}).length, "field")} by its output schema</dd></>}
      </dl>
    </>
  );
}

function Takes({ schema }: { schema: Schema }) {
  const fields = fieldsOf(schema);
  if (!fields?.length) return <p class="quiet">Any JSON.</p>;
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
