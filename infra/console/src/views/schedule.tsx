/** One schedule: a form for its times and its job, new or as it stands. */
import { useState } from "preact/hooks";
import { LonghaulProblem } from "longhaul-client";
import { useFetched } from "../fetched.ts";
import { moment } from "../format.ts";
import { Fault } from "../parts/fault.tsx";
import { go } from "../route.ts";
import { api } from "../session.ts";
import { nameFault, ON_BUSY, scheduleOf, scheduleText, USUAL, type ScheduleText } from "../story/schedule.ts";
import type { Agent, Schedule } from "../wire.ts";
import { Last, Next } from "../parts/firings.tsx";
import { AgentChoice, JobForm, nameOf, type FaultAt, type JobAsked } from "../parts/job_form.tsx";
import { useAgents } from "./agents.tsx";

/** The time zones that this browser knows; the service may know others. */
const ZONES = Intl.supportedValuesOf("timeZone").map((zone): [string, string] => [zone, ""]);

export const addressOf = (name: string) => `/v1/schedules/${encodeURIComponent(name)}`;

export function ScheduleForm({ name }: { name: string }) {
  const { value: agents, error: noAgents } = useAgents();
  const { value, error } = useFetched<Schedule | "new">(
    (signal) => (name ? api().call("GET", addressOf(name), { signal }) : Promise.resolve("new")), name,
  );
  return (
    <>
      <p class="crumb"><a href="#/schedules">Schedules</a></p>
      <div class="page-head"><h1>{name || "New schedule"}</h1></div>
      <Fault error={error ?? noAgents} />
      {value && agents && agents.length > 0 && <Form agents={agents} stands={value === "new" ? undefined : value} />}
    </>
  );
}

function Form({ agents, stands }: { agents: Agent[]; stands?: Schedule }) {
  const before = stands?.schedule;
  const [wanted, setWanted] = useState(before?.job.agent);
  const [name, setName] = useState("");
  const [wrong, setWrong] = useState<string>();
  const [text, setText] = useState(() => scheduleText(before, Intl.DateTimeFormat().resolvedOptions().timeZone));
  const agent = agents.find((one) => nameOf(one) === wanted) ?? agents[0]!;
  const same = nameOf(agent) === before?.job.agent;
  const change = (part: Partial<ScheduleText>) => setText({ ...text, ...part });
  const save = async (job: JobAsked) => {
    const address = addressOf(stands?.name ?? name.trim());
    if (!stands) {
      const fault = nameFault(name.trim()) ?? ((await isThere(address)) ? "is the name of another schedule" : undefined);
      setWrong(fault);
      if (fault) return;
    }
    await api().call("PUT", address, { body: scheduleOf(text, job, before) });
    go("/schedules");
  };
  // Another agent takes another input.
  const begin = { input: same ? before?.job.input : undefined, labels: before?.job.labels, budget: before?.job.budget ?? undefined };
  return (
    <>
      {stands && <Stands of={stands} />}
      <AgentChoice agents={agents} agent={agent} onAgent={setWanted} />
      {before && wanted === before.job.agent && !same && <p class="fault">Its agent {wanted} is not there any more.</p>}
      <JobForm
        key={nameOf(agent)} agent={agent} begin={begin} act="Save" does={save} moreIs="Labels, budget and thread"
        more={(fault) => <ThreadFields text={text} onText={change} fault={fault} />}
      >
        {(fault) => (
          <>
            {!stands && (
              <TextField
                id="schedule-name" label="Name" text={name} onText={setName} needed
                help="Its jobs are submitted by it." fault={wrong}
              />
            )}
            <TimeFields text={text} onText={change} fault={fault} />
          </>
        )}
      </JobForm>
    </>
  );
}

/** Whether there is a schedule, which a new one of its name would take the place of. */
function isThere(address: string): Promise<boolean> {
  return api().call("GET", address).then(() => true, (error) => {
    if (error instanceof LonghaulProblem && error.status === 404) return false;
    throw error;
  });
}

function Stands({ of }: { of: Schedule }) {
  return (
    <dl class="pairs">
      <dt>next</dt><dd><Next of={of} /></dd>
      <dt>last</dt><dd><Last firing={of.last} /></dd>
      <dt>changed</dt><dd>{moment(of.changed_at)} by {of.changed_by}</dd>
      {of.schedule.job.webhook && <><dt>reports to</dt><dd>{of.schedule.job.webhook}</dd></>}
    </dl>
  );
}

interface FieldsProps {
  text: ScheduleText;
  onText: (part: Partial<ScheduleText>) => void;
  fault: FaultAt;
}

function TimeFields({ text, onText, fault }: FieldsProps) {
  return (
    <>
      <div class="row">
        <TextField
          id="schedule-cron" label="Times" text={text.cron} onText={(cron) => onText({ cron })} needed code list={USUAL}
          help="Minute, hour, day of the month, month and weekday; or @hourly, @daily, @weekly, @monthly, @yearly." fault={fault("/cron")}
        />
        <TextField
          id="schedule-zone" label="Time zone" text={text.time_zone} onText={(time_zone) => onText({ time_zone })} list={ZONES}
          help="By its name in the IANA database, such as Europe/Berlin." fault={fault("/time_zone")}
        />
      </div>
      <div class="field check">
        <label for="schedule-paused">Paused</label>
        <input
          id="schedule-paused" type="checkbox" checked={text.paused} aria-describedby="schedule-paused-help"
          onChange={(event) => onText({ paused: event.currentTarget.checked })}
        />
        <p class="help" id="schedule-paused-help">What comes while it rests is not made up for.</p>
      </div>
    </>
  );
}

function ThreadFields({ text, onText, fault }: FieldsProps) {
  return (
    <div class="row">
      <TextField
        id="schedule-thread" label="Thread" text={text.thread} onText={(thread) => onText({ thread })}
        help="Jobs of one thread run one after another; without one they may overlap." fault={fault("/job/thread")}
      />
      <div class="field">
        <label for="schedule-busy">While another of its jobs has not ended</label>
        <select
          id="schedule-busy" value={text.on_busy} disabled={text.thread.trim() === ""}
          onChange={(event) => onText({ on_busy: event.currentTarget.value })}
        >
          {ON_BUSY.map(([word, means]) => <option key={word} value={word}>{means}</option>)}
        </select>
      </div>
    </div>
  );
}

function TextField({ id, label, text, onText, help, fault, needed = false, code = false, list }: {
  id: string; label: string; text: string; onText: (text: string) => void; help: string; fault?: string; needed?: boolean;
  code?: boolean; list?: [string, string][];
}) {
  return (
    <div class="field">
      <label for={id}>{label}{!needed && <span class="quiet"> optional</span>}</label>
      <input
        id={id} type="text" class={code ? "code" : ""} value={text} required={needed} autocomplete="off" spellcheck={false}
        list={list && `${id}-list`} aria-describedby={`${id}-help ${id}-fault`} aria-invalid={fault !== undefined}
        onInput={(event) => onText(event.currentTarget.value)}
      />
      {list && <datalist id={`${id}-list`}>{list.map(([value, means]) => <option key={value} value={value}>{means}</option>)}</datalist>}
      <p class="help" id={`${id}-help`}>{help}</p>
      <p class="field-fault" id={`${id}-fault`} aria-live="polite">{fault}</p>
    </div>
  );
}
