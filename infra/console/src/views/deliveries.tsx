/** What became of the events that the job's caller wants to hear of: each with its tries, to be sent again. */
import { useState } from "preact/hooks";
import { useFetched } from "../fetched.ts";
import { exact, moment } from "../format.ts";
import { Act } from "../parts/buttons.tsx";
import { Fault } from "../parts/fault.tsx";
import { api } from "../session.ts";
import type { Delivery, DeliveryList } from "../wire.ts";

/** Deliveries that one look brings: a job has few, but one that reports every step has many. */
const PAGE = 50;
/** How often the log is asked for while it is open: a try comes and goes within seconds. */
const EVERY_MS = 3_000;

const WHY: Record<string, string> = {
  tries_used: "tried as often as it may be", gone: "the receiver wants no more", address_refused: "its address may not be reached",
};

/** The log is read once somebody opens it. */
export function Deliveries({ job }: { job: string }) {
  const [open, setOpen] = useState(false);
  return (
    <details class="card" onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary><h2>Webhook deliveries</h2></summary>
      {open && <Log job={job} />}
    </details>
  );
}

function Log({ job }: { job: string }) {
  const [pages, setPages] = useState(1);
  const read = async (signal: AbortSignal) => {
    const deliveries: Delivery[] = [];
    let after: number | null | undefined = 0;
    for (let page = 0; page < pages && typeof after === "number"; page += 1) {
      const list: DeliveryList = await api().call("GET", `/v1/jobs/${job}/deliveries`, { query: { after, limit: PAGE }, signal });
      deliveries.push(...list.deliveries);
      after = list.next;
    }
    return { deliveries, more: typeof after === "number" };
  };
  const { value, error, again } = useFetched(read, `${job} ${pages}`, EVERY_MS);
  if (!value) return <Fault error={error} />;
  return (
    <>
      {value.deliveries.length === 0 && <p class="quiet">Nothing was reported: the job names no webhook, or none of the events that it wants has come yet.</p>}
      <ol class="deliveries">
        {value.deliveries.map((one) => <Row key={one.id} job={job} delivery={one} onSent={again} />)}
      </ol>
      {value.more && <button type="button" class="small" onClick={() => setPages(pages + 1)}>More deliveries</button>}
      <Fault error={error} />
    </>
  );
}

function Row({ job, delivery, onSent }: { job: string; delivery: Delivery; onSent: () => void }) {
  const [error, setError] = useState<unknown>();
  const send = async () => {
    setError(undefined);
    try {
      await api().call("POST", `/v1/jobs/${job}/deliveries/${encodeURIComponent(delivery.id)}/resend`, { body: {} });
      onSent();
    } catch (found) {
      setError(found);
    }
  };
  const { status, next_try_at: next, attempts } = delivery;
  return (
    <li>
      <p class="delivery">
        <span class="seq">{delivery.sequence}</span>
        <b>{delivery.type.replace(/^longhaul\.Agent/, "")}</b>
        <span class={`outcome ${status.toLowerCase()}`}>{status}</span>
        {delivery.failure && <span>{WHY[delivery.failure] ?? delivery.failure}</span>}
        {status === "PENDING" && next && <span class="quiet">next try {moment(next)}</span>}
        <Act class="small" does={send}>Send again</Act>
      </p>
      {attempts.length > 0 && (
        <ol class="tries" aria-label={`Tries of ${delivery.type} at ${delivery.sequence}`}>
          {attempts.map((made) => (
            <li key={made.at}>
              <time dateTime={made.at}>{moment(made.at)}</time> {made.status ? `answered ${made.status}` : made.reason}
              <span class="quiet"> after {exact(made.took_ms)} ms</span>
              {made.excerpt && <pre class="text" tabIndex={0}>{made.excerpt}</pre>}
            </li>
          ))}
        </ol>
      )}
      <Fault error={error} />
    </li>
  );
}
