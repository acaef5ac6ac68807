/** When a schedule fires next, and what its last firing came to. */
import { now } from "../clock.ts";
import { ahead, moment } from "../format.ts";
import type { Firing, Schedule } from "../wire.ts";
import { Age, JobLink } from "./job_marks.tsx";

export function Next({ of: { next_at, schedule } }: { of: Schedule }) {
  if (schedule.paused) return <span class="status waiting"><span class="sign" aria-hidden="true">◷</span>PAUSED</span>;
  if (!next_at) return <>never</>;
  return <time dateTime={next_at}>{moment(next_at)} <span class="quiet">{ahead(next_at, now.value)}</span></time>;
}

export function Last({ firing }: { firing?: Firing | null }) {
  if (!firing) return <span class="quiet">not yet</span>;
  return (
    <>
      {firing.job ? <JobLink id={firing.job} /> : <span class="outcome failed">no job: {firing.error}</span>}{" "}
      <span class="quiet"><Age of={firing.time} /> ago</span>
    </>
  );
}
