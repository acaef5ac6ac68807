/**
 * One reader of one job: an async iterator of its events, each position once and in order, however they arrive.
 */
import { Drafts } from "./drafts.js";
import { isEnd, Order } from "./order.js";

/** @typedef {import("./order.js").JobEvent} JobEvent */

/**
 * How a watch gets its events: `connecting` (none yet, or none any more), `live` (pushed), `polling` (asked for),
 * `ended` (nothing follows).
 * @typedef {"connecting" | "live" | "polling" | "ended"} WatchState
 */

/**
 * @typedef {object} WatchOptions
 * @property {number} [after] the last position that has been seen: resume from there; 0, the default, is the beginning
 * @property {boolean} [follow] go on behind the job's end, for a replay may open it again; by default the end ends the
 *   watch
 * @property {(state: WatchState) => void} [onState] told of each change of state
 * @property {() => void} [onDraft] told when what running steps say has changed: see `drafts`
 * @property {AbortSignal} [signal] closes the watch
 */

/** @implements {AsyncIterable<JobEvent>} */
export class Watch {
  #order;
  #follow;
  #onState;
  #onDraft;
  #drafts = new Drafts();
  #release;
  /** @type {JobEvent[]} */
  #ready = [];
  /** @type {WatchState} */
  #state = "connecting";
  /** @type {Error | undefined} */
  #error;
  /** @type {(() => void) | undefined} */
  #wake;

  /**
   * @param {string} job
   * @param {WatchOptions} options
   * @param {(watch: Watch) => void} release called once, when the watch needs no more events
   */
  constructor(job, { after = 0, follow = false, onState, onDraft, signal }, release) {
    this.job = job;
    this.#order = new Order(after);
    this.#follow = follow;
    this.#onState = onState;
    this.#onDraft = onDraft;
    this.#release = release;
    signal?.addEventListener("abort", () => this.close(), { once: true });
    if (signal?.aborted) queueMicrotask(() => this.close());
  }

  /** The last position up to which nothing is missing: resume with `after` = this. */
  get position() {
    return this.#order.position;
  }

  get hasGap() {
    return this.#order.hasGap;
  }

  get state() {
    return this.#state;
  }

  /** What running steps have said so far, by the step's key. It is shown while it lasts; the outcome has the whole. */
  get drafts() {
    return this.#drafts.all;
  }

  /** Ends the watch; what has arrived can still be read. */
  close() {
    this.#end(undefined);
  }

  async *[Symbol.asyncIterator]() {
    try {
      for (;;) {
        for (let event = this.#ready.shift(); event; event = this.#ready.shift()) yield event;
        if (this.#state === "ended") {
          if (this.#error) throw this.#error;
          return;
        }
        await new Promise((resolve) => (this.#wake = () => resolve(undefined)));
      }
    } finally {
      this.close();
    }
  }

  /**
   * An event has arrived. @internal
   * @param {JobEvent} event
   */
  take(event) {
    if (this.#state === "ended") return;
    const ready = this.#order.take(event);
    this.#ready.push(...ready);
    let settled = false;
    for (const one of ready) settled = this.#drafts.settle(one) || settled;
    if (settled) this.#onDraft?.();
    const last = ready.at(-1);
    if (last && !this.#follow && isEnd(last)) this.#end(undefined);
    else if (last) this.#wake?.();
  }

  /**
   * A running step says something. @internal
   * @param {import("./drafts.js").Delta} delta
   */
  hear(delta) {
    if (this.#state !== "ended" && this.#drafts.take(delta)) this.#onDraft?.();
  }

  /**
   * The job has ended and everything up to here has been handed on. @internal
   * @param {number} position
   */
  jobEnded(position) {
    if (!this.#follow && this.position >= position) this.#end(undefined);
  }

  /**
   * There is no more to come. @internal
   * @param {Error} error
   */
  fail(error) {
    this.#end(error);
  }

  /**
   * @internal
   * @param {WatchState} state
   */
  become(state) {
    if (state === this.#state || this.#state === "ended") return;
    this.#state = state;
    this.#onState?.(state);
  }

  /** @param {Error | undefined} error */
  #end(error) {
    if (this.#state === "ended") return;
    this.#error = error;
    this.become("ended");
    this.#wake?.();
    this.#release(this);
  }
}
