/** What model calls cost, by the deployment's table of prices; what has no price there is said to have none. */
import { compact, dollars } from "../format.ts";
import type { Usage } from "../wire.ts";

/** `known`: the whole; `at least`: some tokens have no price; `unknown`: none has; `nothing`: no model was asked. */
export type Known = "nothing" | "known" | "at least" | "unknown";

export interface Cost {
  known: Known;
  micros: number;
  /** In few words. */
  text: string;
  /** In a sentence. */
  title: string;
}

export const tokensOf = (usage: Usage) => (usage.input_tokens ?? 0) + (usage.output_tokens ?? 0);

export function costOf(usage: Usage): Cost {
  const tokens = tokensOf(usage);
  const micros = usage.money_micros ?? 0;
  const unpriced = usage.unpriced_tokens ?? 0;
  if (tokens === 0 && micros === 0) return { known: "nothing", micros, text: "–", title: "No model was asked." };
  // A job of an earlier version has counted tokens alone.
  if (micros === 0) {
    const title = `The table of prices has none for the ${compact(unpriced || tokens)} tokens.`;
    return { known: "unknown", micros, text: "unknown", title };
  }
  const text = dollars(micros);
  if (unpriced === 0) return { known: "known", micros, text, title: `${text} by the table of prices.` };
  const title = `${text}, and what ${compact(unpriced)} tokens cost for which the table of prices has no price.`;
  return { known: "at least", micros, text: `≥ ${text}`, title };
}

/** The use of many together. */
export const sumOf = (usages: Usage[]): Usage =>
  usages.reduce((sum, usage) => ({
    input_tokens: (sum.input_tokens ?? 0) + (usage.input_tokens ?? 0),
    output_tokens: (sum.output_tokens ?? 0) + (usage.output_tokens ?? 0),
    money_micros: (sum.money_micros ?? 0) + (usage.money_micros ?? 0),
    unpriced_tokens: (sum.unpriced_tokens ?? 0) + (usage.unpriced_tokens ?? 0),
  }), {} as Usage);
