/**
 * What went to models and tools and came back, read out of what steps have recorded. A model's answer holds the calls that
 * it asks for; the steps behind it carry them out, each in a branch of its own.
 */
import type { Step } from "./fold.ts";

export interface Call {
  name: string;
  arguments: unknown;
}

/** An answer of a model. */
export interface Answer {
  text: string;
  calls: Call[];
  model?: string;
}

/** One message of what was sent to a model; `leftOut` stands for so many that are not shown. */
export type SentMessage = { role: string; text: string; calls: Call[] } | { leftOut: number };

export interface Sent {
  model?: string;
  messages: SentMessage[];
  tools: string[];
}

const record = (value: unknown): Record<string, any> | undefined =>
  typeof value === "object" && value !== null && !Array.isArray(value) ? value : undefined;

function callsIn(list: unknown): Call[] {
  if (!Array.isArray(list)) return [];
  return list.map((one) => {
    const given = record(one?.arguments);
    return { name: String(one?.name ?? "?"), arguments: given?.object ?? given?.text ?? one?.arguments };
  });
}

/** The answer of a model that a step has recorded; none when its result is something else. */
export function answerOf(value: unknown): Answer | undefined {
  const reply = record(record(value)?.reply);
  const message = record(reply?.message);
  if (!reply || !message) return undefined;
  const parts: unknown[] = Array.isArray(message.content) ? message.content : [];
  const text = parts.map((part) => record(part)?.text).filter((one) => typeof one === "string").join("");
  return { text, calls: callsIn(message.tool_calls), model: reply.model };
}

/** What a failed step had sent to a model. */
export function sentOf(value: unknown): Sent | undefined {
  const sent = record(value);
  if (!sent || !Array.isArray(sent.messages)) return undefined;
  const messages = sent.messages.map((one): SentMessage =>
    typeof one?.left_out === "number"
      ? { leftOut: one.left_out }
      : { role: String(one?.role ?? "?"), text: String(one?.text ?? ""), calls: callsIn(one?.tool_calls) });
  return { model: sent.model, messages, tools: Array.isArray(sent.tools) ? sent.tools.map(String) : [] };
}

/** A step's branch: the fan-out's place, and its number. */
const BRANCH = /^(.*)\[(\d+)\]\.\d+$/;

/** What the steps were called with that carry out a model's calls, by the step's key. */
export function callsOf(steps: Step[]): Map<string, Call> {
  const found = new Map<string, Call>();
  const inOrder = [...steps].sort((a, b) => a.firstPosition - b.firstPosition);
  const places = new Set(inOrder.map((step) => BRANCH.exec(step.key)?.[1]).filter((place) => place !== undefined));
  for (const place of places) {
    const branches = inOrder.filter((step) => BRANCH.exec(step.key)?.[1] === place && step.state !== "shown");
    const first = Math.min(...branches.map((step) => step.firstPosition));
    const asked = inOrder.filter((step) => step.position < first && step.state === "completed").at(-1);
    const calls = answerOf(asked?.value)?.calls ?? [];
    let next = 0;
    let at = -1;
    for (const step of branches.sort((a, b) => number(a) - number(b))) {
      // Of a branch's steps one is the call itself; a call that was not carried out has no branch.
      if (number(step) === at) continue;
      const index = calls.findIndex((call, index) => index >= next && call.name === step.name);
      const call = calls[index];
      if (!call) continue;
      found.set(step.key, call);
      next = index + 1;
      at = number(step);
    }
  }
  return found;
}

const number = (step: Step) => Number(BRANCH.exec(step.key)?.[2] ?? -1);
