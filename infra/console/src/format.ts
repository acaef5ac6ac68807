/** Numbers and times as people read them. */

/** A length of time: `85 ms`, `4.2 s`, `3 min 5 s`, `2 d 4 h`. */
export function duration(ms: number): string {
  if (!Number.isFinite(ms)) return "–";
  if (ms < 0) return "0 ms";
  if (ms < 1_000) return `${Math.round(ms)} ms`;
  const seconds = ms / 1_000;
  if (seconds < 9.95) return `${seconds.toFixed(1)} s`;
  if (seconds < 59.5) return `${Math.round(seconds)} s`;
  const rest = Math.round(seconds);
  const parts: [number, string][] = [
    [Math.floor(rest / 86_400), "d"],
    [Math.floor(rest / 3_600) % 24, "h"],
    [Math.floor(rest / 60) % 60, "min"],
    [rest % 60, "s"],
  ];
  const first = parts.findIndex(([count]) => count > 0);
  return parts
    .slice(first, first + 2)
    .filter(([count]) => count > 0)
    .map(([count, unit]) => `${count} ${unit}`)
    .join(" ");
}

/** How long ago: `now`, `12 s`, `3 h`. */
export function age(from: string, now: number): string {
  const ms = now - Date.parse(from);
  if (ms < 1_500) return "now";
  return duration(Math.floor(ms / 1_000) * 1_000).split(" ").slice(0, 2).join(" ");
}

/** How long until: `in 12 s`, `in 3 h 5 min`; `now` for what has come. */
export function ahead(to: string, now: number): string {
  const ms = Date.parse(to) - now;
  return ms <= 0 ? "now" : `in ${duration(Math.ceil(ms / 1_000) * 1_000)}`;
}

const counts = new Intl.NumberFormat("en", { maximumFractionDigits: 1, notation: "compact" });
const whole = new Intl.NumberFormat("en");

export const compact = (count: number) => (count < 10_000 ? whole.format(count) : counts.format(count));
export const exact = (count: number) => whole.format(count);

/** An amount in millionths of a dollar, small ones with two figures that count: `$12.30`, `$0.0042`. */
export function dollars(micros: number): string {
  const value = micros / 1_000_000;
  if (value === 0) return "$0";
  const digits = value >= 1 ? 2 : Math.min(6, 1 - Math.floor(Math.log10(value)));
  return `$${value.toFixed(Math.max(2, digits))}`;
}

const moments = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "medium" });
export const moment = (time: string | number) => moments.format(new Date(time));

/** An id in a table: enough to tell two apart. The end, since ids of one minute begin alike. */
export const shortId = (id: string) => id.slice(-8);

export const plural = (count: number, one: string, many = `${one}s`) => `${exact(count)} ${count === 1 ? one : many}`;

export const json = (value: unknown) => JSON.stringify(value, null, 2) ?? "";
