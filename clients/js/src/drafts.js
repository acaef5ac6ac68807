/**
 * What running steps say before they are done, such as an answer that streams in. Pieces may be lost, and a step that is
 * tried again or taken over by another worker begins anew.
 */
import { isEnd } from "./order.js";

/**
 * A piece of what a running step says.
 * @typedef {object} Delta
 * @property {string} job
 * @property {number} epoch the claim under which the step runs
 * @property {string} step the step's key, the `subject` of its events
 * @property {string} name
 * @property {number} attempt
 * @property {number} offset where in the attempt's text the piece stands, in characters (code points)
 * @property {string} text
 */

/**
 * What a running step has said so far.
 * @typedef {object} Draft
 * @property {string} step
 * @property {string} name
 * @property {number} epoch
 * @property {number} attempt
 * @property {string} text
 * @property {boolean} whole whether no piece of it was lost
 */

/** Stands for pieces that were lost. */
const LOST = "…";

export class Drafts {
  /** @type {Map<string, Draft & { length: number }>} */
  #drafts = new Map();
  #epoch = 0;

  /** @returns {ReadonlyMap<string, Draft>} */
  get all() {
    return this.#drafts;
  }

  /**
   * Takes a piece in.
   * @param {Delta} delta
   * @returns {boolean} whether anything has changed
   */
  take({ epoch, step, name, attempt, offset, text }) {
    if (epoch < this.#epoch) return false;
    this.#epoch = epoch;
    const known = this.#drafts.get(step);
    if (known && (epoch < known.epoch || (epoch === known.epoch && attempt < known.attempt))) return false;
    const before = known && epoch === known.epoch && attempt === known.attempt ? known : undefined;
    const { text: kept, whole } = cut(before, offset);
    const length = offset + [...text].length;
    this.#drafts.set(step, { step, name, epoch, attempt, text: kept + text, whole, length });
    return true;
  }

  /**
   * An event tells how a step has come out, or that another worker has the job.
   * @param {import("./order.js").JobEvent} event
   * @returns {boolean} whether anything has changed
   */
  settle(event) {
    const { type, subject, data } = event;
    if (type === "longhaul.AgentJobClaimed" && typeof data.epoch === "number") {
      this.#epoch = Math.max(this.#epoch, data.epoch);
      const old = [...this.#drafts.values()].filter((draft) => draft.epoch < this.#epoch);
      for (const draft of old) this.#drafts.delete(draft.step);
      return old.length > 0;
    }
    if (isEnd(event)) {
      const any = this.#drafts.size > 0;
      this.#drafts.clear();
      return any;
    }
    return subject !== undefined && this.#drafts.delete(subject);
  }
}

/**
 * What stands before an offset.
 * @param {(Draft & { length: number }) | undefined} draft
 * @param {number} offset
 */
function cut(draft, offset) {
  if (offset === 0) return { text: "", whole: true };
  if (!draft) return { text: LOST, whole: false };
  if (offset === draft.length) return { text: draft.text, whole: draft.whole };
  if (offset > draft.length) return { text: draft.text + LOST, whole: false };
  // It begins anew somewhere inside. Where pieces were lost, offsets and text do not agree any more.
  return draft.whole ? { text: [...draft.text].slice(0, offset).join(""), whole: true } : { text: LOST, whole: false };
}
