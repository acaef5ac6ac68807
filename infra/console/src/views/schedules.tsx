/** The schedules: when each submits a job, what its last firing came to, and the way to change or remove one. */
import { useEffect, useRef, useState } from "preact/hooks";
import { LonghaulProblem } from "longhaul-client";
import { useFetched } from "../fetched.ts";
import { Act } from "../parts/buttons.tsx";
import { Empty, Fault } from "../parts/fault.tsx";
import { route } from "../route.ts";
import { api } from "../session.ts";
import type { Schedule, ScheduleList } from "../wire.ts";
import { Last, Next } from "../parts/firings.tsx";
import { addressOf, ScheduleForm } from "./schedule.tsx";

/** How often the list is asked for: a schedule fires once a minute at most. */
const EVERY_MS = 5_000;

export function Schedules() {
  const { rest, query } = route.value;
  if (rest || query.has("new")) return <ScheduleForm key={rest} name={rest} />;
  return <List />;
}

function List() {
  const { value, error, again } = useFetched<ScheduleList>((signal) => api().call("GET", "/v1/schedules", { signal }), "", EVERY_MS);
  const [removed, setRemoved] = useState("");
  const done = (name: string) => {
    setRemoved(name);
    again();
    // The button that had the focus is gone.
    document.getElementById("main")?.focus();
  };
  return (
    <>
      <div class="page-head">
        <h1>Schedules</h1>
        <a class="button primary" href="#/schedules?new">New schedule</a>
      </div>
      <p class="lead">Jobs that the clock submits, up to a minute late.</p>
      <p class="said" role="status">{removed && `Removed ${removed}. The jobs that it has submitted stay.`}</p>
      <Fault error={error} />
      {value && value.schedules.length === 0 && !value.unreadable && <Empty>There is no schedule yet.</Empty>}
      {value && value.schedules.length > 0 && <Table schedules={value.schedules} onRemoved={done} />}
      {value?.unreadable?.map(({ name, detail }) => (
        <section class="card bad" key={name} aria-label={`Schedule ${name}`}>
          <h2>{name}</h2>
          <p>It cannot be read by this version and does not fire: {detail}.</p>
          <Remove name={name} onRemoved={done} />
        </section>
      ))}
    </>
  );
}

function Table({ schedules, onRemoved }: { schedules: Schedule[]; onRemoved: (name: string) => void }) {
  return (
    <table class="jobs schedules">
      <caption class="hidden">Schedules, by name</caption>
      <thead>
        <tr>
          <th scope="col">Schedule</th><th scope="col">Agent</th><th scope="col">Times</th>
          <th scope="col">Next</th><th scope="col">Last</th><th scope="col"><span class="hidden">Remove</span></th>
        </tr>
      </thead>
      <tbody>
        {schedules.map((view) => (
          <tr key={view.name}>
            <th scope="row"><a href={`#/schedules/${view.name}`}>{view.name}</a></th>
            <td class="cell-agent">{view.schedule.job.agent}</td>
            <td class="cell-times"><code>{view.schedule.cron}</code> <span class="quiet">{view.schedule.time_zone}</span></td>
            <td class="cell-next"><Next of={view} /></td>
            <td class="cell-last"><Last firing={view.last} /></td>
            <td class="cell-remove"><Remove name={view.name} onRemoved={onRemoved} /></td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

/** Removes a schedule, once it was asked twice. */
function Remove({ name, onRemoved }: { name: string; onRemoved: (name: string) => void }) {
  const [asked, setAsked] = useState(false);
  const [error, setError] = useState<unknown>();
  const sure = useRef<HTMLSpanElement>(null);
  useEffect(() => {
    if (asked) sure.current?.querySelector("button")?.focus();
  }, [asked]);
  const remove = async () => {
    setError(undefined);
    try {
      await api().call("DELETE", addressOf(name));
    } catch (fault) {
      // Somebody else has removed it, or we have, and the answer was lost.
      if (!(fault instanceof LonghaulProblem && fault.status === 404)) return setError(fault);
    }
    onRemoved(name);
  };
  if (!asked) {
    return <button type="button" class="danger small" onClick={() => setAsked(true)}>Remove<span class="hidden"> {name}</span>…</button>;
  }
  return (
    <span class="sure" ref={sure} role="group" aria-label={`Remove ${name}?`}>
      <Act class="danger small" does={remove}>Remove it</Act>
      <button type="button" class="small" onClick={() => setAsked(false)}>Keep it</button>
      <Fault error={error} />
    </span>
  );
}
