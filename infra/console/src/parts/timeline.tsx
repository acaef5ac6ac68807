/** A job's steps over time: a row for each, with bars for its attempts and waits. */
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import type { Longhaul } from "longhaul-client";
import { now } from "../clock.ts";
import { duration, exact, plural } from "../format.ts";
import { callsOf, type Call } from "../story/exchange.ts";
import { endOf, type Attempt, type Step, type Story } from "../story/fold.ts";
import { scaleOf, type Scale } from "../story/scale.ts";
import { isOver, type Job } from "../wire.ts";
import { StepDetails } from "./step.tsx";

/** Rows that are shown before somebody asks for more: a job may have thousands of steps. */
const ROWS_SHOWN = 200;

/** What a running step has said so far. */
export type Draft = Longhaul extends { watch(id: string): { drafts: ReadonlyMap<string, infer D> } } ? D : never;

/** Characters of it that are shown: the end, where it grows. */
const DRAFT_SHOWN = 4_000;

interface Props {
  story: Story;
  job: Job;
  drafts?: Draft[];
  /** Offers to replay the job from a position; none where it cannot be. */
  onReplayFrom?: (position: number, step: Step) => void;
  /** Offers to make another job of this one, from a position. */
  onForkFrom?: (position: number, step: Step) => void;
}

export function Timeline({ story, job, drafts = [], onReplayFrom, onForkFrom }: Props) {
  const [shorten, setShorten] = useState(true);
  const [shown, setShown] = useState(ROWS_SHOWN);
  const from = Math.min(Date.parse(job.submitted_at), story.firstAt ?? Infinity);
  const works = job.status === "PROCESSING" && !story.ended;
  // The job's own end may be known before the last events have come.
  const end = isOver(job.status) ? Date.parse(job.updated_at) : now.value;
  const to = story.ended ? (story.lastAt ?? from) : Math.max(end, story.lastAt ?? from);
  const steps = [...story.forgotten, ...story.steps].sort((a, b) => a.startedAt - b.startedAt || a.position - b.position);
  const forgotten = new Set(story.forgotten);
  const calls = useMemo(() => callsOf(story.steps), [story.position]);
  const busy = steps.flatMap((step) => step.attempts.map((one): [number, number] => [one.startedAt, one.endedAt]));
  if (works) busy.push([story.lastAt ?? from, to]);
  const canShorten = scaleOf(from, to, busy, true).stretches.some((stretch) => stretch.short);
  const scale = scaleOf(from, to, busy, shorten);
  return (
    <div class="timeline">
      <div class="timeline-head">
        <Legend />
        {canShorten && (
          <label class="inline">
            <input type="checkbox" checked={shorten} onChange={(event) => setShorten(event.currentTarget.checked)} />
            Draw idle time short
          </label>
        )}
      </div>
      <Axis scale={scale} from={from} to={to} />
      <Invocations story={story} scale={scale} to={to} isWorking={works} />
      <ol class="steps" aria-label="Steps">
        {steps.slice(0, shown).map((step) => (
          <Row
            key={`${step.opening}/${step.key}`} step={step} scale={scale} to={to} job={job} call={calls.get(step.key)}
            forgotten={forgotten.has(step)} onReplayFrom={onReplayFrom} onForkFrom={onForkFrom}
          />
        ))}
      </ol>
      {steps.length > shown && (
        <button type="button" onClick={() => setShown(shown + 1_000)}>{exact(steps.length - shown)} more steps</button>
      )}
      {works && (
        <div class="step-row working">
          <span class="step-name">{drafts.length > 0 ? drafts.map((draft) => draft.name).join(", ") : "working on the next step"}</span>
          <span class="track" aria-hidden="true">
            <Bar scale={scale} from={story.lastAt ?? from} to={to} kind="running" />
          </span>
          <span class="step-time">{duration(to - (story.lastAt ?? from))}</span>
        </div>
      )}
      {works && drafts.map((draft) => <Writing key={draft.step} draft={draft} />)}
    </div>
  );
}

/** A running step's words as they come. Each is new to who listens by ear, so they are not read out. */
function Writing({ draft }: { draft: Draft }) {
  const place = useRef<HTMLPreElement>(null);
  useEffect(() => {
    place.current?.scrollTo(0, place.current.scrollHeight);
  }, [draft.text]);
  const text = draft.text.length > DRAFT_SHOWN ? `…${draft.text.slice(-DRAFT_SHOWN)}` : draft.text;
  return (
    <figure class="writing">
      <figcaption>{draft.name}{draft.attempt > 1 && `, attempt ${draft.attempt}`}</figcaption>
      <pre class="text" ref={place} tabIndex={0}>{text}</pre>
    </figure>
  );
}

function Legend() {
  return (
    <ul class="legend" aria-label="What the bars mean">
      {[["completed", "done"], ["retrying", "failed, tried again"], ["failed", "failed"], ["waiting", "waiting"], ["event", "shown"]].map(
        ([kind, text]) => <li key={kind}><span class={`swatch ${kind}`} aria-hidden="true" />{text}</li>,
      )}
    </ul>
  );
}

function Bar({ scale, from, to, kind, title }: { scale: Scale; from: number; to: number; kind: string; title?: string }) {
  const left = scale.at(from);
  const width = Math.max(scale.at(to) - left, 0);
  return <span class={`bar ${kind}`} title={title} style={{ left: `${left * 100}%`, width: `max(3px, ${width * 100}%)` }} />;
}

/** Times along the top; a stretch that is drawn short says how long it was. */
function Axis({ scale, from, to }: { scale: Scale; from: number; to: number }) {
  const marks: { at: number; text: string }[] = [];
  const isStraight = scale.stretches.every((stretch) => !stretch.short);
  if (isStraight) for (const part of [0, 0.25, 0.5, 0.75, 1]) marks.push({ at: part, text: duration((to - from) * part) });
  else for (const { from: begin, to: end, short } of scale.stretches) if (short) marks.push({ at: (scale.at(begin) + scale.at(end)) / 2, text: duration(end - begin) });
  return (
    <div class={`axis ${isStraight ? "" : "broken"}`} aria-hidden="true">
      <span class="step-name">{isStraight ? "since submission" : "idle, drawn short"}</span>
      <span class="track">
        {scale.stretches.filter((stretch) => stretch.short).map((stretch) => (
          <Bar key={stretch.from} scale={scale} from={stretch.from} to={stretch.to} kind="idle" />
        ))}
        {marks.map(({ at, text }) => (
          <span key={at} class={`tick ${at === 0 ? "first" : at === 1 ? "last" : at > 0.94 ? "end" : ""}`} style={{ left: `${at * 100}%` }}>{text}</span>
        ))}
      </span>
      <span class="step-time">took</span>
    </div>
  );
}

function Invocations({ story, scale, to, isWorking }: { story: Story; scale: Scale; to: number; isWorking: boolean }) {
  if (story.claims.length === 0) return null;
  const takeovers = story.claims.filter((claim) => claim.takeover).length;
  const text = `${plural(story.claims.length, "invocation")}${takeovers ? `, ${takeovers} after a crash` : ""}`;
  return (
    <div class="step-row invocations">
      <span class="step-name quiet">{text}</span>
      <span class="track" aria-hidden="true">
        {story.claims.map((claim, at) => {
          const works = at === story.claims.length - 1 && isWorking;
          return (
            <Bar
              key={claim.epoch} scale={scale} from={claim.at} to={works ? to : claim.lastAt} kind={claim.takeover ? "claim takeover" : "claim"}
              title={`Epoch ${claim.epoch}${claim.takeover ? ", took over from a session that died" : ""}, session ${claim.session}`}
            />
          );
        })}
      </span>
      <span class="step-time" />
    </div>
  );
}

function said(step: Step, to: number): string {
  const end = endOf(step);
  switch (step.state) {
    case "completed":
      return step.waits.length ? "came" : "done";
    case "failed":
      return "failed";
    case "retrying":
      return "tried again soon";
    case "waiting":
      return `waiting for ${duration(to - (step.waits.at(-1)?.from ?? to))}`;
    case "started":
      return "acting";
    case "shown":
      return end === undefined ? "" : "shown";
  }
}

function Row({ step, scale, to, job, call, forgotten, onReplayFrom, onForkFrom }: {
  step: Step; scale: Scale; to: number; job: Job; call?: Call; forgotten: boolean; onReplayFrom?: Props["onReplayFrom"]; onForkFrom?: Props["onForkFrom"];
}) {
  const [open, setOpen] = useState(false);
  const end = endOf(step);
  const took = step.state === "shown" ? "" : duration((end ?? to) - step.startedAt);
  const tries = step.attempts.length > 1 ? plural(step.attempts.length, "attempt") : "";
  return (
    <li class={`step ${step.state} ${forgotten ? "forgotten" : ""}`}>
      <button type="button" class="step-row" aria-expanded={open} onClick={() => setOpen(!open)}>
        <span class="step-name">
          {step.branch && <span class="branch">{step.branch.index + 1}/{step.branch.of}</span>}
          <span class="name" title={step.name}>{step.name}</span>
          {tries && <span class="tries" aria-hidden="true">{step.attempts.length}×</span>}
          <span class="hidden">
            {[said(step, to), tries, forgotten && "forgotten by a replay", took && "took"].filter(Boolean).join(", ")}
          </span>
        </span>
        <span class="track" aria-hidden="true">
          {step.waits.map((wait, at) => (
            <Bar key={`w${at}`} scale={scale} from={wait.from} to={wait.to ?? to} kind="waiting" />
          ))}
          {step.attempts.map((one, at) => <AttemptBar key={at} one={one} next={step.attempts[at + 1]} scale={scale} to={to} />)}
          {step.state === "started" && <Bar scale={scale} from={step.startedAt} to={to} kind="running" />}
          {step.state === "shown" && <span class="event" style={{ left: `${scale.at(step.startedAt) * 100}%` }} />}
        </span>
        <span class="step-time">{took}</span>
      </button>
      {open && <StepDetails step={step} job={job} to={to} call={call} forgotten={forgotten} onReplayFrom={onReplayFrom} onForkFrom={onForkFrom} />}
    </li>
  );
}

function AttemptBar({ one, next, scale, to }: { one: Attempt; next?: Attempt; scale: Scale; to: number }) {
  return (
    <>
      <Bar scale={scale} from={one.startedAt} to={one.endedAt} kind={one.end} title={`Attempt ${one.number}: ${one.end}`} />
      {one.end === "retrying" && (
        <Bar scale={scale} from={one.endedAt} to={next?.startedAt ?? Math.min(one.retryAt ?? to, to)} kind="pause" />
      )}
    </>
  );
}
