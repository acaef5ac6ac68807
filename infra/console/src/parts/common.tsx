/** Small pieces that many pages show. */
import type { ComponentChildren } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { LonghaulProblem } from "longhaul-client";
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

export function Copy({ text, what }: { text: string; what: string }) {
  const [done, setDone] = useState(false);
  const copy = async () => {
    await navigator.clipboard.writeText(text);
    setDone(true);
    setTimeout(() => setDone(false), 1_500);
  };
  return (
    <button type="button" class="plain small" onClick={copy} aria-label={`Copy ${what}`}>
      {done ? "Copied" : "Copy"}
    </button>
  );
}

/** A button that does something which takes a while, once. */
export function Act({ does, class: kind = "", children, disabled }: {
  does: () => Promise<void>; class?: string; children: ComponentChildren; disabled?: boolean;
}) {
  const [busy, setBusy] = useState(false);
  const click = async () => {
    setBusy(true);
    try {
      await does();
    } finally {
      setBusy(false);
    }
  };
  return (
    <button type="button" class={kind} onClick={click} disabled={busy || disabled} aria-busy={busy}>{children}</button>
  );
}

/** Something that is fetched; fetched again when `key` changes, and every `everyMs` while somebody looks. */
export function useFetched<T>(fetch: (signal: AbortSignal) => Promise<T>, key: unknown, everyMs?: number) {
  const [state, setState] = useState<{ value?: T; error?: unknown; key?: unknown }>({});
  const [round, setRound] = useState(0);
  const busy = useRef(false);
  useEffect(() => {
    const abort = new AbortController();
    busy.current = true;
    fetch(abort.signal)
      .then((value) => setState({ value, key }))
      .catch((error) => {
        if (!abort.signal.aborted) setState((before) => ({ ...before, error, key }));
      })
      .finally(() => (busy.current = false));
    return () => abort.abort();
  }, [key, round]);
  useEffect(() => {
    if (everyMs === undefined) return;
    const again = () => !document.hidden && !busy.current && setRound((before) => before + 1);
    const timer = setInterval(again, everyMs);
    document.addEventListener("visibilitychange", again);
    return () => {
      clearInterval(timer);
      document.removeEventListener("visibilitychange", again);
    };
  }, [everyMs]);
  // What belongs to another key is not shown under this one.
  const current = state.key === key ? state : {};
  return { ...current, again: () => setRound((before) => before + 1) };
}
