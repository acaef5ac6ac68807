/**
 * Waits between tries, each drawn from a range that doubles ("full jitter"): a thousand clients that lost the same
 * server do not come back in the same moment.
 */
export class Backoff {
  #firstMs;
  #maxMs;
  #random;
  #failures = 0;

  /**
   * @param {number} firstMs upper end of the first wait, in milliseconds
   * @param {number} maxMs upper end of every later one
   * @param {() => number} random a number from 0 up to 1
   */
  constructor(firstMs, maxMs, random = Math.random) {
    this.#firstMs = firstMs;
    this.#maxMs = maxMs;
    this.#random = random;
  }

  /** How many waits there have been since the last success. */
  get failures() {
    return this.#failures;
  }

  /** The next wait, in milliseconds. At least a tenth of its range: a wait of nothing would be none. */
  next() {
    const range = Math.min(this.#maxMs, this.#firstMs * 2 ** Math.min(this.#failures, 30));
    this.#failures += 1;
    return range * (0.1 + 0.9 * this.#random());
  }

  /** It worked: begin anew. */
  reset() {
    this.#failures = 0;
  }
}

/**
 * Waits, or throws the signal's reason when it is aborted before.
 * @param {number} ms
 * @param {AbortSignal} [signal]
 * @returns {Promise<void>}
 */
export function pause(ms, signal) {
  return new Promise((resolve, reject) => {
    if (signal?.aborted) return reject(signal.reason);
    const aborted = () => {
      clearTimeout(timer);
      reject(signal?.reason);
    };
    const timer = setTimeout(() => {
      signal?.removeEventListener("abort", aborted);
      resolve();
    }, ms);
    signal?.addEventListener("abort", aborted, { once: true });
  });
}
