/** What tells a job in a list, a table or a title: its status, age, id and labels. */
import { now } from "../clock.ts";
import { age, moment, shortId } from "../format.ts";
import type { Status } from "../wire.ts";

/** Each status has a sign of its own: colour alone would not do for everybody. */
const SIGNS: Record<Status, string> = {
  PENDING: "○", PROCESSING: "◐", WAITING: "◷", BLOCKED: "⚠", COMPLETED: "✓", FAILED: "✕", CANCELLED: "⊘",
};

export function StatusBadge({ status }: { status: Status }) {
  return (
    <span class={`status ${status.toLowerCase()}`}>
      <span class="sign" aria-hidden="true">{SIGNS[status]}</span>
      {status}
    </span>
  );
}

export function Age({ of }: { of: string }) {
  return <time dateTime={of} title={moment(of)}>{age(of, now.value)}</time>;
}

export function JobLink({ id, whole }: { id: string; whole?: boolean }) {
  return <a class="id" href={`#/jobs/${id}`} title={id}>{whole ? id : `…${shortId(id)}`}</a>;
}

export function Labels({ of }: { of?: Record<string, string> }) {
  const labels = Object.entries(of ?? {});
  if (labels.length === 0) return null;
  return (
    <ul class="labels" aria-label="Labels">
      {labels.map(([name, value]) => (
        <li key={name}>
          <a href={`#/jobs?label=${encodeURIComponent(`${name}=${value}`)}`}>{name}={value}</a>
        </li>
      ))}
    </ul>
  );
}
