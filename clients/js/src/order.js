/**
 * Puts a job's events in order. They may come twice, late, and in any order from several senders; each carries its
 * position, and what is handed on is every position once, one after the other.
 */

/**
 * A CloudEvents 1.0 event of a job.
 * @typedef {object} JobEvent
 * @property {"1.0"} specversion
 * @property {string} id `<job>/<position>`
 * @property {string} source the job's path
 * @property {string} type such as `longhaul.AgentStepCompleted`; pass over those that you do not know
 * @property {string} time
 * @property {string} [subject] the step's key
 * @property {string} datacontenttype
 * @property {string} sequence the position, ten digits
 * @property {Record<string, any>} data
 */

/**
 * The position of an event.
 * @param {JobEvent} event
 */
export const positionOf = (event) => Number(event.sequence);

const ENDS = new Set(["longhaul.AgentJobCompleted", "longhaul.AgentJobFailed", "longhaul.AgentJobCancelled"]);

/**
 * Whether the job has ended with this event. Only a replay may follow.
 * @param {JobEvent} event
 */
export const isEnd = (event) => ENDS.has(event.type);

/** The events of one job, from a position on. */
export class Order {
  #position;
  /** @type {Map<number, JobEvent>} */
  #ahead = new Map();

  /** @param {number} after the last position that has been seen; 0 for none */
  constructor(after = 0) {
    this.#position = after;
  }

  /** The last position up to which nothing is missing. */
  get position() {
    return this.#position;
  }

  /** Whether events are there that cannot be handed on because one before them is missing. */
  get hasGap() {
    return this.#ahead.size > 0;
  }

  /**
   * Takes an event in and gives what can be handed on now, in order: nothing when it was known or comes too early.
   * @param {JobEvent} event
   * @returns {JobEvent[]}
   */
  take(event) {
    const at = positionOf(event);
    if (!Number.isSafeInteger(at) || at <= this.#position) return [];
    this.#ahead.set(at, event);
    /** @type {JobEvent[]} */
    const ready = [];
    for (let next = this.#ahead.get(this.#position + 1); next; next = this.#ahead.get(this.#position + 1)) {
      this.#position += 1;
      this.#ahead.delete(this.#position);
      ready.push(next);
    }
    return ready;
  }
}
