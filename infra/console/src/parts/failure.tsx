/** What went wrong with an attempt, a step or a job. */
import type { Failure } from "../wire.ts";

/** An error with what is underneath, outermost first. */
export function FailureChain({ failure }: { failure: Failure }) {
  return (
    <div class="failure">
      <p><span class="class">{failure.class}</span> <span class="message">{failure.message}</span></p>
      {(failure.causes?.length ?? 0) > 0 && (
        <ol aria-label="Because">{failure.causes?.map((cause, at) => <li key={at}>{cause}</li>)}</ol>
      )}
    </div>
  );
}
