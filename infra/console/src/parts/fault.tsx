/** What is said in the place of what was asked for: that it failed, or that there is nothing. */
import type { ComponentChildren } from "preact";
import { LonghaulProblem } from "longhaul-client";

/** What went wrong, with what to do next where the API says so. */
export function Fault({ error, children }: { error: unknown; children?: ComponentChildren }) {
  if (error === undefined || error === null) return null;
  const problem = error instanceof LonghaulProblem ? error.body : undefined;
  return (
    <div class="fault" role="alert">
      <strong>{problem?.title ?? "That did not work"}</strong>
      <p>{problem?.detail ?? (error instanceof Error ? error.message : String(error))}</p>
      {problem?.violations && (
        <ul>{problem.violations.map(({ field, detail }) => <li key={field}><code>{field}</code> {detail}</li>)}</ul>
      )}
      {problem?.request_id && <p class="quiet">Request <code>{problem.request_id}</code></p>}
      {children}
    </div>
  );
}

export function Empty({ children }: { children: ComponentChildren }) {
  return <p class="empty">{children}</p>;
}
