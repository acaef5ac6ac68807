/** One job, as it goes on. */
import { useEffect, useRef, useState } from "preact/hooks";
import type { Longhaul } from "longhaul-client";
import { now } from "../clock.ts";
import { compact, dollars, duration, exact, moment } from "../format.ts";
import { Act, Copy } from "../parts/buttons.tsx";
import { Fault } from "../parts/fault.tsx";
import { Age, JobLink, Labels, StatusBadge } from "../parts/job_marks.tsx";
import { go, route } from "../route.ts";
import { api } from "../session.ts";
import { costOf } from "../story/cost.ts";
import { emptyStory, fold, type Story } from "../story/fold.ts";
import { isOver, type Job as JobView, type JobEvent } from "../wire.ts";
import { SentShown } from "../parts/exchange.tsx";
import { FailureChain } from "../parts/failure.tsx";
import { Timeline, type Draft } from "../parts/timeline.tsx";
import { Value } from "../parts/value.tsx";
import { Children } from "./children.tsx";
import { Deliveries } from "./deliveries.tsx";
import { Invocations } from "./invocations.tsx";
import { Activity, RawJournal } from "./journal.tsx";
import { Replay } from "./replay.tsx";
import { Signals } from "./signals.tsx";
import { prepare } from "./submit.tsx";

type WatchState = ReturnType<Longhaul["watch"]>["state"];

/** How often a job that has not ended is asked for: its status changes also without an event. */
const EVERY_MS = 1_500;
/** Events that come together are shown together. */
const TOGETHER_MS = 60;

interface Seen {
  story: Story;
  events: JobEvent[];
  /** What running steps have said so far. */
  drafts: Draft[];
  link: WatchState;
  error?: unknown;
}

/** Follows a job's events. */
function useEvents(id: string): Seen {
  const [seen, setSeen] = useState<Seen>(() => ({ story: emptyStory(), events: [], drafts: [], link: "connecting" }));
  useEffect(() => {
    const abort = new AbortController();
    const story = emptyStory();
    const events: JobEvent[] = [];
    let link: WatchState = "connecting";
    let drafts: Draft[] = [];
    let timer: ReturnType<typeof setTimeout> | undefined;
    const show = (error?: unknown) => {
      timer = undefined;
      if (!abort.signal.aborted) setSeen({ story: { ...story }, events: [...events], drafts, link, error });
    };
    const soon = () => (timer ??= setTimeout(show, TOGETHER_MS));
    const onState = (state: WatchState) => {
      link = state;
      soon();
    };
    const follow = async () => {
      try {
        const onDraft = () => {
          drafts = [...watch.drafts.values()];
          soon();
        };
        const watch = api().watch(id, { follow: true, signal: abort.signal, onState, onDraft });
        for await (const event of watch) {
          fold(story, event);
          events.push(event);
          soon();
        }
      } catch (error) {
        show(error);
      }
    };
    void follow();
    return () => {
      abort.abort();
      clearTimeout(timer);
    };
  }, [id]);
  return seen;
}

/**
 * The job itself: asked for again at once when its status may have changed, and with other news now and then, for the
 * service reads the whole journal to answer.
 */
function useJob(id: string, story: Story) {
  const [state, setState] = useState<{ job?: JobView; error?: unknown }>({});
  const [round, setRound] = useState(0);
  const asked = useRef(0);
  const again = () => setRound((before) => before + 1);
  const waits = story.steps.filter((step) => step.state === "waiting").length;
  const turn = `${story.ended} ${story.openings} ${story.notes.length} ${waits} ${story.claims.length}`;
  useEffect(() => {
    const abort = new AbortController();
    asked.current = Date.now();
    api().job(id, { signal: abort.signal }).then(
      (job) => setState({ job }),
      (error) => !abort.signal.aborted && setState((before) => ({ ...before, error })),
    );
    return () => abort.abort();
  }, [id, turn, round]);
  const over = state.job !== undefined && isOver(state.job.status);
  useEffect(() => {
    if (over) return;
    const timer = setInterval(() => {
      if (!document.hidden && Date.now() - asked.current >= EVERY_MS) again();
    }, EVERY_MS / 2);
    return () => clearInterval(timer);
  }, [over]);
  return { ...state, again };
}

export function Job() {
  const id = route.value.rest;
  return <JobOf key={id} id={id} />;
}

function JobOf({ id }: { id: string }) {
  const seen = useEvents(id);
  const { job, error, again } = useJob(id, seen.story);
  const [replay, setReplay] = useState<{ from?: number; name?: string; fork?: boolean } | undefined>();
  const wanted = route.value.query.has("replay");
  useEffect(() => {
    if (wanted) setReplay((open) => open ?? {});
  }, [wanted]);
  useEffect(() => {
    document.title = job ? `${job.agent} ${job.status} – Longhaul` : "Longhaul";
    return () => {
      document.title = "Longhaul";
    };
  }, [job?.agent, job?.status]);
  if (!job) return <Fault error={error ?? seen.error} />;
  const over = isOver(job.status);
  // No worker would go on with an imported one: its fork is driven, and `longhaul jobs step` goes through it.
  const canReplay = (job.status === "FAILED" || job.status === "CANCELLED") && !job.imported_at;
  const replaying = canReplay || replay?.fork ? replay : undefined;
  return (
    <article class="job">
      <Head job={job} link={seen.link} over={over} />
      <Facts job={job} story={seen.story} over={over} />
      <Fault error={seen.error} />
      {job.blocked && <Blocked job={job} />}
      {job.failure && (
        <section class="card bad" aria-labelledby="failure">
          <h2 id="failure">Why it failed</h2>
          <FailureChain failure={job.failure} />
          {job.failure.sent !== undefined && (
            <details class="folded">
              <summary>What was sent to the model</summary>
              <SentShown value={job.failure.sent} />
            </details>
          )}
          {job.failure.partial !== undefined && (
            <details class="folded">
              <summary>What the job had come to</summary>
              <Value value={job.failure.partial} what="what the job had come to" />
            </details>
          )}
        </section>
      )}
      {job.cancelled && (
        <section class="card" aria-labelledby="cancelled">
          <h2 id="cancelled">Cancelled by {job.cancelled.by}</h2>
          {job.cancelled.reason && <p>{job.cancelled.reason}</p>}
        </section>
      )}
      {over && !replaying && (
        <div class="tools">
          {canReplay && <button type="button" class="primary" onClick={() => setReplay({})}>Edit and replay…</button>}
          <button type="button" onClick={() => setReplay({ fork: true })}>Edit and fork…</button>
        </div>
      )}
      {replaying && (
        <Replay key={`${replaying.fork} ${replaying.from}`} job={job} from={replaying.from} stepName={replaying.name} fork={replaying.fork} onDone={() => { setReplay(undefined); again(); }} onClose={() => setReplay(undefined)} />
      )}
      {!over && <Signals job={job} story={seen.story} onSent={again} />}
      <section class="card" aria-labelledby="timeline">
        <h2 id="timeline">Timeline</h2>
        <Timeline
          story={seen.story} job={job} drafts={seen.drafts}
          onForkFrom={(from, step) => { setReplay({ from, name: step.name, fork: true }); scrollTo({ top: 0 }); }}
          onReplayFrom={canReplay ? (from, step) => { setReplay({ from, name: step.name }); scrollTo({ top: 0 }); } : undefined}
        />
      </section>
      {job.result !== undefined && <Result job={job} />}
      <Children story={seen.story} />
      <details class="card" open>
        <summary><h2>Input</h2></summary>
        <Value value={job.input} what="the input" />
        {(job.instructions || job.model) && (
          <dl class="pairs">
            {job.model && <><dt>model, as edited</dt><dd><code>{job.model}</code></dd></>}
            {job.instructions && <><dt>instructions, as edited</dt><dd><pre class="text" tabIndex={0}>{job.instructions}</pre></dd></>}
          </dl>
        )}
        <div class="tools">
          <button type="button" onClick={() => { prepare(job.input); go(`/submit/${job.agent}`); }}>New job with this input</button>
        </div>
      </details>
      <Invocations story={seen.story} works={job.status === "PROCESSING"} />
      <Activity events={seen.events} />
      <Deliveries job={job.id} />
      <RawJournal job={job.id} position={seen.story.position} />
      {!over && <Cancel job={job} onDone={again} />}
    </article>
  );
}

const LINKS: Record<WatchState, string> = {
  connecting: "connecting…", live: "live", polling: "live by polling", ended: "not watched",
};

function Head({ job, link, over }: { job: JobView; link: WatchState; over: boolean }) {
  return (
    <header class="page-head">
      <div>
        <p class="crumb"><a href="#/jobs">Jobs</a>{job.parent && <> / child of <JobLink id={job.parent} /></>}{job.forked_from && <> / fork of <JobLink id={job.forked_from.job} /></>}{job.imported_at && <> / imported, driven by no worker</>}</p>
        <h1>{job.agent} <StatusBadge status={job.status} /></h1>
        <p class="under">
          <code class="whole-id">{job.id}</code> <Copy text={job.id} what="the id" />
          <span class={`link ${link}`} role="status"><span aria-hidden="true">●</span> {over && link === "live" ? "up to date" : LINKS[link]}</span>
        </p>
      </div>
    </header>
  );
}

function Facts({ job, story, over }: { job: JobView; story: Story; over: boolean }) {
  const end = over ? (story.lastAt ?? Date.parse(job.updated_at)) : now.value;
  const { usage, budget } = job;
  const tokens = (usage.input_tokens ?? 0) + (usage.output_tokens ?? 0);
  const took = end - Date.parse(job.submitted_at);
  const cost = costOf(usage);
  const bound = budget.money_micros ?? undefined;
  const takeovers = story.claims.filter((claim) => claim.takeover).length;
  return (
    <>
      <dl class="facts-row">
        <Fact name={over ? "took" : "since"} value={duration(took)} of={budget.wall_seconds ? took / 1_000 / budget.wall_seconds : undefined} bound={budget.wall_seconds && duration(budget.wall_seconds * 1_000)} />
        <Fact name="steps" value={exact(job.steps)} of={budget.steps ? job.steps / budget.steps : undefined} bound={budget.steps && exact(budget.steps)} />
        <Fact name="tokens" value={compact(tokens)} of={budget.tokens ? tokens / budget.tokens : undefined} bound={budget.tokens && compact(budget.tokens)}
          more={`${compact(usage.input_tokens ?? 0)} in${usage.cached_tokens ? ` (${compact(usage.cached_tokens)} cached)` : ""}, ${compact(usage.output_tokens ?? 0)} out`} />
        <Fact name="cost" value={cost.text} title={cost.title} of={bound ? cost.micros / bound : undefined} bound={bound && dollars(bound)} more={cost.known === "at least" ? "some tokens have no price" : cost.known === "unknown" ? "the model has no price" : undefined} />
        <Fact name="invocations" value={exact(story.claims.length)} more={takeovers ? `${exact(takeovers)} after a crash` : undefined} />
      </dl>
      <p class="under">
        <span>submitted <Age of={job.submitted_at} /> ago ({moment(job.submitted_at)}) by {job.submitted_by}</span> <Labels of={job.labels} />
      </p>
    </>
  );
}

function Fact({ name, value, title, more, of, bound }: {
  name: string; value: string; title?: string; more?: string; of?: number; bound?: string | number | null;
}) {
  return (
    <div title={title}>
      <dt>{name}</dt>
      <dd>
        <b>{value}</b>
        {bound ? <span class="quiet"> of {bound}</span> : null}
        {of !== undefined && <meter min={0} max={1} high={0.8} optimum={0} value={Math.min(1, of)} aria-label={`${name}: share of the budget`} />}
        {more && <span class="more">{more}</span>}
      </dd>
    </div>
  );
}

function Blocked({ job }: { job: JobView }) {
  const { blocked } = job;
  if (!blocked) return null;
  return (
    <section class="card bad" aria-labelledby="blocked">
      <h2 id="blocked">Blocked: the journal does not match the agent's code</h2>
      <p>Nothing was executed. The job goes on when the code that began it, or a fixed one, is deployed.</p>
      <dl class="pairs">
        {blocked.step && <><dt>step</dt><dd><code>{blocked.step}</code></dd></>}
        <dt>recorded</dt><dd>{blocked.recorded}</dd>
        <dt>attempted</dt><dd>{blocked.attempted}</dd>
      </dl>
    </section>
  );
}

function Result({ job }: { job: JobView }) {
  return (
    <details class="card" open>
      <summary><h2>Result</h2></summary>
      {job.truncated && <p class="quiet">The beginning of it; the journal has the whole.</p>}
      <Value value={job.result} what="the result" />
    </details>
  );
}

function Cancel({ job, onDone }: { job: JobView; onDone: () => void }) {
  const [open, setOpen] = useState(false);
  const [reason, setReason] = useState("");
  const [state, setState] = useState<{ asked?: boolean; error?: unknown }>({});
  const cancel = async () => {
    try {
      await api().cancel(job.id, reason.trim() || undefined);
      setState({ asked: true });
      onDone();
    } catch (error) {
      setState({ error });
    }
  };
  if (state.asked) return <p class="card" role="status">Asked the job to end; it ends at its next look.</p>;
  if (!open) {
    return <div class="tools"><button type="button" class="danger" onClick={() => setOpen(true)}>Cancel this job…</button></div>;
  }
  return (
    <section class="card" aria-labelledby="cancel">
      <h2 id="cancel">Cancel this job</h2>
      <div class="field">
        <label for="cancel-reason">Why <span class="quiet">optional, for those who read its events</span></label>
        <input id="cancel-reason" maxLength={1000} value={reason} onInput={(event) => setReason(event.currentTarget.value)} />
      </div>
      <Fault error={state.error} />
      <div class="tools">
        <Act class="danger" does={cancel}>End the job</Act>
        <button type="button" onClick={() => setOpen(false)}>Let it go on</button>
      </div>
    </section>
  );
}

