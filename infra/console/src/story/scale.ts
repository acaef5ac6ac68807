/**
 * Where a moment stands on the timeline, from 0 to 1. Stretches in which nothing ran (a wait of three days for an
 * approval) may be drawn short, for else the work around them would be too thin to see.
 */

export interface Stretch {
  from: number;
  to: number;
  /** Its share of the width. */
  share: number;
  /** Whether it is drawn shorter than it was. */
  short: boolean;
}

export interface Scale {
  at(moment: number): number;
  stretches: Stretch[];
}

/** A stretch of this share of the busy time, and longer, is drawn short. */
const IDLE_SHARE = 0.5;
/** The width of a short one. */
const SHORT_SHARE = 0.06;
/** Short ones take at most so much together. */
const SHORT_ALL_MAX = 0.4;

/** Merges spans that touch. */
export function union(spans: [number, number][]): [number, number][] {
  const merged: [number, number][] = [];
  for (const [from, to] of [...spans].sort((a, b) => a[0] - b[0])) {
    const last = merged.at(-1);
    if (last && from <= last[1]) last[1] = Math.max(last[1], to);
    else merged.push([from, to]);
  }
  return merged;
}

/** A scale over `from` to `to`, in which something ran in the `busy` spans. */
export function scaleOf(from: number, to: number, busy: [number, number][], shorten: boolean): Scale {
  const end = Math.max(to, from + 1);
  const cut = busy.map(([a, b]): [number, number] => [Math.max(a, from), Math.min(b, end)]);
  const spans = union(cut.filter(([a, b]) => b > a));
  const busyTime = spans.reduce((sum, [a, b]) => sum + b - a, 0);
  const idleMin = Math.max(busyTime * IDLE_SHARE, 1_000);
  const parts: { from: number; to: number; short: boolean }[] = [];
  let position = from;
  const push = (until: number, short: boolean) => {
    const last = parts.at(-1);
    if (until <= position) return;
    if (last && last.short === short && !short) last.to = until;
    else parts.push({ from: position, to: until, short });
    position = until;
  };
  for (const [a, b] of spans) {
    push(a, shorten && a - position >= idleMin);
    push(b, false);
  }
  push(end, shorten && spans.length > 0 && end - position >= idleMin);
  const shorts = parts.filter((part) => part.short).length;
  const shortShare = shorts === 0 ? 0 : Math.min(SHORT_SHARE, SHORT_ALL_MAX / shorts);
  const drawn = parts.filter((part) => !part.short).reduce((sum, part) => sum + part.to - part.from, 0) || 1;
  const stretches = parts.map((part): Stretch => ({
    ...part,
    share: part.short ? shortShare : ((part.to - part.from) / drawn) * (1 - shorts * shortShare),
  }));
  return { stretches, at: (moment) => positionOf(stretches, moment) };
}

function positionOf(stretches: Stretch[], moment: number): number {
  let left = 0;
  for (const { from, to, share } of stretches) {
    if (moment <= to) return left + share * Math.max(0, (moment - from) / (to - from));
    left += share;
  }
  return 1;
}
