/**
 * A job's story out of its events: its steps with their attempts and waits, who worked on it, and how it ended. Pure: the
 * same events give the same story, whenever they came.
 */
import type { Failure, JobEvent, Usage } from "../wire.ts";

export type AttemptEnd = "completed" | "failed" | "retrying" | "interrupted";

export interface Attempt {
  number: number;
  startedAt: number;
  endedAt: number;
  end: AttemptEnd;
  failure?: Failure;
  /** When the next attempt begins, at the earliest. */
  retryAt?: number;
}

export interface Wait {
  from: number;
  to?: number;
  /** The latest end. */
  until?: number;
  for: { kind: "time" } | { kind: "signal"; signal: string } | { kind: "child"; child: string };
  /** How it ended. */
  by?: "time" | "signal";
}

/** `started`: an at-most-once step that acts now, or was acting when its worker died. */
export type StepState = "started" | "retrying" | "waiting" | "completed" | "failed" | "shown";

export interface Step {
  key: string;
  name: string;
  kind: string;
  branch?: { index: number; of: number };
  state: StepState;
  attempts: Attempt[];
  waits: Wait[];
  startedAt: number;
  /** The position of its last entry, from which a replay can forget it. */
  position: number;
  /** The position of its first entry. */
  firstPosition: number;
  value?: unknown;
  truncated: boolean;
  usage?: Usage;
  /** Which opening of the job it belongs to, from 0: a replay opens the next. */
  opening: number;
}

export interface Claim {
  at: number;
  epoch: number;
  session: string;
  takeover: boolean;
  position: number;
  /** When its session last wrote. */
  lastAt: number;
}

/** Something that happened to the job as a whole. */
export interface Note {
  at: number;
  position: number;
  kind: "signalled" | "cancel requested" | "replayed" | "completed" | "failed" | "cancelled";
  by?: string;
  data: Record<string, any>;
}

export interface Story {
  steps: Step[];
  /** Steps whose outcomes a replay has forgotten. */
  forgotten: Step[];
  claims: Claim[];
  notes: Note[];
  position: number;
  firstAt?: number;
  lastAt?: number;
  openings: number;
  ended: boolean;
}

export const emptyStory = (): Story => ({
  steps: [], forgotten: [], claims: [], notes: [], position: 0, openings: 0, ended: false,
});

const time = (text: unknown) => (typeof text === "string" ? Date.parse(text) : Number(text));

/** What comes from outside, and not from the session that works on the job. */
const OUTSIDE = new Set(["longhaul.AgentSignalled", "longhaul.AgentCancelRequested", "longhaul.AgentJobReplayed"]);

/** Takes an event into the story. The story is changed and given back; a step that changes is a new object. */
export function fold(story: Story, event: JobEvent): Story {
  const { data } = event;
  const at = time(event.time);
  const position = Number(event.sequence);
  const claim = story.claims.at(-1);
  if (claim && !OUTSIDE.has(event.type) && !event.type.endsWith("JobClaimed")) claim.lastAt = at;
  story.position = position;
  story.firstAt ??= at;
  story.lastAt = Math.max(story.lastAt ?? at, at);
  const note = (kind: Note["kind"]) => {
    story.notes.push({ at, position, kind, by: data.by, data });
  };
  const step = () => stepOf(story, event, at, position);
  switch (event.type.replace(/^longhaul\.Agent/, "")) {
    case "JobClaimed":
      story.claims.push({ at, epoch: data.epoch, session: data.session, takeover: data.takeover === true, position, lastAt: at });
      break;
    case "StepStarted":
      step().state = "started";
      break;
    case "StepCompleted": {
      const one = step();
      attempt(one, data, at, "completed");
      one.state = "completed";
      one.value = data.output;
      one.truncated = data.truncated === true;
      one.usage = data.usage;
      break;
    }
    case "AttemptFailed": {
      const one = step();
      attempt(one, data, at, "retrying");
      one.state = "retrying";
      break;
    }
    case "StepFailed": {
      const one = step();
      attempt(one, data, at, data.failure?.class === "interrupted" ? "interrupted" : "failed");
      one.state = "failed";
      break;
    }
    case "Waiting": {
      const one = step();
      one.state = "waiting";
      one.waits.push({ from: at, until: data.until ? time(data.until) : undefined, for: waitFor(data.on) });
      break;
    }
    case "WaitEnded": {
      const one = step();
      one.state = "completed";
      const wait = one.waits.at(-1);
      if (wait) Object.assign(wait, { to: at, by: data.end?.by });
      break;
    }
    case "Progress": {
      const one = step();
      one.state = "shown";
      one.value = data.value;
      one.truncated = data.truncated === true;
      break;
    }
    case "Signalled":
      note("signalled");
      break;
    case "CancelRequested":
      note("cancel requested");
      break;
    case "JobCompleted":
      note("completed");
      story.ended = true;
      break;
    case "JobFailed":
      note("failed");
      story.ended = true;
      break;
    case "JobCancelled":
      note("cancelled");
      story.ended = true;
      break;
    case "JobReplayed":
      note("replayed");
      reopen(story, data.from);
      break;
    default:
      // A newer service tells of something that this page cannot show; the journal has it.
      break;
  }
  return story;
}

function stepOf(story: Story, event: JobEvent, at: number, position: number): Step {
  const key = event.subject ?? "";
  const index = story.steps.findIndex((step) => step.key === key);
  const before = story.steps[index];
  let one: Step;
  if (before) {
    one = { ...before, attempts: [...before.attempts], waits: before.waits.map((wait) => ({ ...wait })) };
    story.steps[index] = one;
  } else {
    const { name, kind, branch, started_at } = event.data;
    one = {
      key, name: name ?? key, kind: kind ?? "step", branch, state: "started", attempts: [], waits: [],
      startedAt: started_at ? time(started_at) : at,
      position, firstPosition: position, truncated: false, opening: story.openings,
    };
    story.steps.push(one);
  }
  one.position = position;
  return one;
}

function attempt(step: Step, data: Record<string, any>, at: number, end: AttemptEnd): void {
  const startedAt = data.started_at ? time(data.started_at) : at;
  step.startedAt = Math.min(step.startedAt, startedAt);
  step.attempts.push({
    number: data.attempt ?? step.attempts.length + 1,
    startedAt,
    endedAt: Math.max(at, startedAt),
    end,
    failure: data.failure,
    retryAt: data.retry_at ? time(data.retry_at) : undefined,
  });
}

function waitFor(on: any): Wait["for"] {
  if (on?.for === "signal") return { kind: "signal", signal: String(on.signal) };
  if (on?.for === "child") return { kind: "child", child: String(on.child) };
  return { kind: "time" };
}

/** A replay forgets outcomes: those from a position on, or only failed ones. */
function reopen(story: Story, from: unknown): void {
  const lost = (step: Step) =>
    typeof from === "number" ? step.position >= from : step.state === "failed" || step.state === "retrying";
  story.forgotten.push(...story.steps.filter(lost));
  story.steps = story.steps.filter((step) => !lost(step));
  story.openings += 1;
  story.ended = false;
}

/** The children that the job has waited for, in order. */
export function childrenOf(story: Story): { child: string; step: Step }[] {
  return story.steps.flatMap((step) =>
    step.waits.flatMap((wait) => (wait.for.kind === "child" ? [{ child: wait.for.child, step }] : [])),
  );
}

/** When a step was over, or none while it goes on. */
export function endOf(step: Step): number | undefined {
  if (step.state === "shown") return step.startedAt;
  if (step.state === "completed" || step.state === "failed") {
    return Math.max(step.startedAt, step.attempts.at(-1)?.endedAt ?? 0, step.waits.at(-1)?.to ?? 0);
  }
  return undefined;
}
