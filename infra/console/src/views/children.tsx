/** The jobs that a job waited for, as a tree, each as it stands. */
import { useEffect, useMemo, useState } from "preact/hooks";
import { now } from "../clock.ts";
import { compact, duration, plural } from "../format.ts";
import { Fault } from "../parts/fault.tsx";
import { JobLink, StatusBadge } from "../parts/job_marks.tsx";
import { api } from "../session.ts";
import { costOf, tokensOf } from "../story/cost.ts";
import { childrenOf, emptyStory, fold, type Story } from "../story/fold.ts";
import { isOver, type Job } from "../wire.ts";

/** How often a child that has not ended is asked for. */
const EVERY_MS = 2_000;
/** Generations that are shown; deeper ones are a click away. */
const DEPTH_MAX = 4;

export function Children({ story }: { story: Story }) {
  const children = useMemo(() => childrenOf(story), [story.position]);
  if (children.length === 0) return null;
  return (
    <section class="card" aria-labelledby="children">
      <h2 id="children">{plural(children.length, "child", "children")}</h2>
      <ul class="children">{children.map(({ child, step }) => <Child key={child} id={child} name={step.name} depth={0} />)}</ul>
    </section>
  );
}

interface Seen {
  job?: Job;
  story?: Story;
  error?: unknown;
}

/** Follows a child: what is new of it each time, until it has ended. */
function useChild(id: string): Seen {
  const [seen, setSeen] = useState<Seen>({});
  useEffect(() => {
    const abort = new AbortController();
    const { signal } = abort;
    const story = emptyStory();
    let timer: ReturnType<typeof setTimeout> | undefined;
    const look = async () => {
      try {
        const job: Job = await api().job(id, { signal });
        for (;;) {
          const page = await api().call("GET", `/v1/jobs/${id}/events`, { query: { after: story.position }, signal });
          for (const event of page.events) fold(story, event);
          if (page.events.length === 0 || page.ended) break;
        }
        setSeen({ job, story: { ...story } });
        if (!isOver(job.status)) timer = setTimeout(look, EVERY_MS);
      } catch (error) {
        if (!signal.aborted) setSeen((before) => ({ ...before, error }));
      }
    };
    void look();
    return () => {
      abort.abort();
      clearTimeout(timer);
    };
  }, [id]);
  return seen;
}

function Child({ id, name, depth }: { id: string; name: string; depth: number }) {
  const { job, story, error } = useChild(id);
  const below = story ? childrenOf(story) : [];
  const line = (
    <span class="child">
      {job && <StatusBadge status={job.status} />} <b>{name}</b> <span>{job?.agent}</span> <JobLink id={id} />
      {job && <Figures job={job} />}
    </span>
  );
  return (
    <li>
      {below.length > 0 ? (
        <details open>
          <summary>{line}</summary>
          {depth < DEPTH_MAX
            ? <ul>{below.map(({ child, step }) => <Child key={child} id={child} name={step.name} depth={depth + 1} />)}</ul>
            : <p class="quiet">{plural(below.length, "child", "children")} of its own</p>}
        </details>
      ) : line}
      {job?.failure && <p class="quiet"><span class="failure"><span class="class">{job.failure.class}</span></span> {job.failure.message}</p>}
      <Fault error={error} />
    </li>
  );
}

function Figures({ job }: { job: Job }) {
  const end = isOver(job.status) ? Date.parse(job.updated_at) : now.value;
  const tokens = tokensOf(job.usage);
  const cost = costOf(job.usage);
  return (
    <span class="quiet">
      {duration(end - Date.parse(job.submitted_at))}, {plural(job.steps, "step")}
      {tokens > 0 && <>, {compact(tokens)} tokens, <span title={cost.title}>cost {cost.text}</span></>}
    </span>
  );
}
