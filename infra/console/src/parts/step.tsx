/** Everything about one step: its attempts and waits, what went in and what came out. */
import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import { duration, exact, moment } from "../format.ts";
import { api } from "../session.ts";
import { costOf } from "../story/cost.ts";
import { answerOf, type Call } from "../story/exchange.ts";
import type { Step, Wait } from "../story/fold.ts";
import type { Job, Journal } from "../wire.ts";
import { Act } from "./buttons.tsx";
import { AnswerShown, SentShown } from "./exchange.tsx";
import { FailureChain } from "./failure.tsx";
import { Fault } from "./fault.tsx";
import { JobLink } from "./job_marks.tsx";
import { Tree, Value } from "./value.tsx";

export function StepDetails({ step, job, to, call, forgotten, onReplayFrom, onForkFrom }: {
  step: Step; job: Job; to: number; call?: Call; forgotten: boolean; onReplayFrom?: (position: number, step: Step) => void;
  onForkFrom?: (position: number, step: Step) => void;
}) {
  const [entry, setEntry] = useState<{ value?: Record<string, any>; error?: unknown }>({});
  const load = async () => {
    try {
      const query = { after: step.position - 1, limit: 1 };
      const page: Journal = await api().call("GET", `/v1/jobs/${job.id}/journal`, { query });
      setEntry({ value: page.entries[0]?.entry as Record<string, any> | undefined });
    } catch (error) {
      setEntry({ error });
    }
  };
  const value = entry.value?.output ?? entry.value?.data ?? step.value;
  const answer = answerOf(value);
  // A failed job says itself what its failed step had sent; of other steps the journal knows.
  const sent = entry.value?.failure?.sent ?? (job.failure?.step === step.key ? job.failure.sent : undefined);
  return (
    <div class="step-details">
      <p class="facts">
        <span><b>{step.kind.replace("_", " ")}</b> at <code>{step.key}</code></span>
        <span>began {moment(step.startedAt)}</span>
        {step.usage && <Used step={step} />}
        <span>journal {step.firstPosition === step.position ? step.position : `${step.firstPosition}–${step.position}`}</span>
      </p>
      {(step.attempts.length > 1 || step.attempts.some((one) => one.failure)) && (
        <ol class="attempts">
          {step.attempts.map((one) => (
            <li key={one.number}>
              Attempt {one.number}: {one.end}, {duration(one.endedAt - one.startedAt)}
              {one.retryAt !== undefined && <>, again at {moment(one.retryAt)}</>}
              {one.failure && <FailureChain failure={one.failure} />}
            </li>
          ))}
        </ol>
      )}
      {step.waits.map((wait, at) => <WaitLine key={at} wait={wait} to={to} />)}
      {call && <Folded name="Called with"><Tree value={call.arguments} /></Folded>}
      {sent !== undefined && <Folded name="What was sent to the model"><SentShown value={sent} /></Folded>}
      {value !== undefined && (
        <Folded name={answer ? "What the model answered" : step.state === "shown" ? "What it shows" : "What came of it"} open>
          {answer ? <AnswerShown answer={answer} what={`the answer to ${step.name}`} /> : <Value value={value} what={`the result of ${step.name}`} />}
        </Folded>
      )}
      <Fault error={entry.error} />
      <div class="tools">
        {step.truncated && entry.value === undefined && <Act class="small" does={load}>Load the whole value</Act>}
        {step.state === "failed" && sent === undefined && entry.value === undefined && (
          <Act class="small" does={load}>Look for what was sent</Act>
        )}
        {onReplayFrom && !forgotten && (
          <button type="button" class="small" onClick={() => onReplayFrom(step.firstPosition, step)}>Replay from here</button>
        )}
        {onForkFrom && !forgotten && (
          <button type="button" class="small" onClick={() => onForkFrom(step.firstPosition, step)}>Fork from here</button>
        )}
      </div>
      {step.state === "failed" && entry.value !== undefined && sent === undefined && <p class="quiet">Nothing was sent to a model, or nothing of it was kept.</p>}
    </div>
  );
}

function Folded({ name, open = false, children }: { name: string; open?: boolean; children: ComponentChildren }) {
  return (
    <details class="folded" open={open}>
      <summary>{name}</summary>
      {children}
    </details>
  );
}

function Used({ step }: { step: Step }) {
  const usage = step.usage ?? {};
  const cost = costOf(usage);
  return (
    <>
      <span>
        {exact(usage.input_tokens ?? 0)} tokens in{usage.cached_tokens ? ` (${exact(usage.cached_tokens)} cached)` : ""},
        {" "}{exact(usage.output_tokens ?? 0)} out{usage.reasoning_tokens ? ` (${exact(usage.reasoning_tokens)} thought)` : ""}
      </span>
      <span title={cost.title}>cost {cost.text}</span>
    </>
  );
}

function WaitLine({ wait, to }: { wait: Wait; to: number }) {
  const what =
    wait.for.kind === "signal" ? <>the signal <code>{wait.for.signal}</code></>
    : wait.for.kind === "child" ? <>the job <JobLink id={wait.for.child} /></>
    : <>its time</>;
  return (
    <p>
      {wait.to === undefined ? "Waits" : "Waited"} for {what} {duration((wait.to ?? to) - wait.from)}
      {wait.until !== undefined && wait.to === undefined && <>, until {moment(wait.until)} at the latest</>}
      {wait.by === "time" && wait.for.kind !== "time" && <>; its time ran out</>}
    </p>
  );
}
