/**
 * One job's events for all its watches: pushed while the socket brings them, asked for while it does not, and asked for
 * where the pushed ones leave a hole.
 */
import { Backoff, pause } from "./backoff.js";
import { LonghaulProblem } from "./problem.js";
import { serverSentEvents } from "./sse.js";

/** @typedef {import("./order.js").JobEvent} JobEvent */
/** @typedef {import("./watch.js").Watch} Watch */
/** @typedef {import("./live.js").Timing} Timing */

/** Refusals that another try does not change. */
const FINAL = new Set([400, 401, 403, 404, 405]);

export class Channel {
  #http;
  /** Where events come as a stream; undefined where they do not. @type {import("./http.js").Http | undefined} */
  #streams;
  /** Whether that address was named by another and has brought no stream yet. */
  #followed = false;
  #timing;
  #backoff;
  /** @type {AbortController | undefined} */
  #poll;
  /** Runs out when a hole is not filled by what comes. @type {ReturnType<typeof setTimeout> | undefined} */
  #hole;
  /** Runs out when nothing is pushed for a while. @type {ReturnType<typeof setTimeout> | undefined} */
  #quiet;
  /** @type {Promise<void> | undefined} */
  #filling;
  #live = false;
  #closed = new AbortController();
  /** Whether anything has arrived since the last look. */
  #heard = false;

  /**
   * @param {string} job
   * @param {import("./http.js").Http} http
   * @param {Timing} timing
   * @param {() => number} random
   * @param {import("./http.js").Http} [streams]
   */
  constructor(job, http, timing, random, streams) {
    this.job = job;
    this.#http = http;
    this.#streams = streams;
    this.#timing = timing;
    this.#backoff = new Backoff(timing.retryFirstMs, timing.retryMaxMs, random);
    /** @type {Set<Watch>} */
    this.watches = new Set();
    this.lost();
  }

  /** The last position that every watch has. */
  get position() {
    return Math.min(...[...this.watches].map((watch) => watch.position));
  }

  get isLive() {
    return this.#live;
  }

  /** @param {Watch} watch */
  add(watch) {
    this.watches.add(watch);
    if (!this.#live && this.#poll) watch.become("polling");
  }

  /** @param {JobEvent} event */
  take(event) {
    this.#heard = true;
    for (const watch of [...this.watches]) watch.take(event);
    // What is missing may be on its way from another sender: a moment's grace.
    if (this.#live && this.#hasGap()) this.#fillIn(this.#timing.gapMs);
  }

  /** @param {import("./drafts.js").Delta} delta */
  hear(delta) {
    for (const watch of [...this.watches]) watch.hear(delta);
  }

  /**
   * The server has sent everything up to a position and will push what follows.
   * @param {number} position
   */
  subscribed(position) {
    this.#live = true;
    this.#poll?.abort();
    this.#poll = undefined;
    clearTimeout(this.#quiet);
    this.#quiet = undefined;
    this.#become("live");
    if (this.watches.size > 0 && (this.position < position || this.#hasGap())) void this.fill();
  }

  /** Nothing is pushed any more, for now. Asking begins when that does not pass in a moment. */
  lost() {
    this.#live = false;
    this.#heard = false;
    if (this.#poll || this.#closed.signal.aborted) return;
    this.#become("connecting");
    this.#quiet ??= setTimeout(() => {
      this.#quiet = undefined;
      void this.#polling();
    }, this.#timing.pollAfterMs);
  }

  /** Called now and then: pushes alone cannot be trusted with the last event. */
  check() {
    if (this.#live && !this.#heard) void this.fill();
    this.#heard = false;
  }

  /** Until nothing is being asked for. */
  get filling() {
    return this.#filling ?? Promise.resolve();
  }

  /** Asks for everything that is missing, once. */
  fill() {
    this.#filling ??= this.#fill().finally(() => (this.#filling = undefined));
    return this.#filling;
  }

  /** @param {Error} error */
  fail(error) {
    for (const watch of [...this.watches]) watch.fail(error);
  }

  close() {
    this.#closed.abort();
    this.#poll?.abort();
    clearTimeout(this.#hole);
    clearTimeout(this.#quiet);
  }

  async #fill() {
    try {
      for (;;) {
        const page = await this.#page(0, this.#closed.signal);
        if (!page || page.ended || page.events.length === 0) return;
      }
    } catch (error) {
      if (this.#closed.signal.aborted) return;
      if (error instanceof LonghaulProblem && FINAL.has(error.status)) return this.fail(error);
      if (this.#live) this.#fillIn(this.#backoff.next());
    }
  }

  async #polling() {
    const poll = new AbortController();
    this.#poll = poll;
    while (!poll.signal.aborted) {
      if (this.#streams) {
        if (await this.#streaming(this.#streams, poll.signal)) continue;
        if (poll.signal.aborted || this.watches.size === 0) return;
      }
      try {
        const page = await this.#page(this.#timing.pollWaitSeconds, poll.signal);
        if (!page) return;
        this.#backoff.reset();
        this.#become("polling");
        // An ended job is not waited for by the server, and may be opened again.
        if (page.ended) await pause(this.#timing.endedMs, poll.signal);
      } catch (error) {
        if (poll.signal.aborted) return;
        if (error instanceof LonghaulProblem && FINAL.has(error.status)) return this.fail(error);
        this.#become("connecting");
        await pause(this.#backoff.next(), poll.signal).catch(() => {});
      }
    }
  }

  /**
   * Reads one stream to its end; false when there was none, so that the events are to be asked for this once.
   * @param {import("./http.js").Http} streams
   * @param {AbortSignal} signal
   */
  async #streaming(streams, signal) {
    if (this.watches.size === 0) return false;
    // Behind what every watch has: what another has already it passes over.
    const after = this.position;
    try {
      /** @type {Record<string, string>} */
      const headers = after > 0 ? { "last-event-id": String(after) } : {};
      const body = await streams.open(`/v1/jobs/${this.job}/events`, { headers, signal });
      this.#followed = false;
      if (!body) {
        for (const watch of [...this.watches]) watch.jobEnded(after);
        await pause(this.#timing.endedMs, signal);
        return true;
      }
      this.#become("live");
      for await (const { data } of serverSentEvents(body)) {
        this.#backoff.reset();
        const event = JSON.parse(data);
        for (const watch of [...this.watches]) watch.take(event);
        // A new watch may want what came before.
        if (this.watches.size === 0 || this.position < after) return true;
      }
      // It has ended, with its job or after a while. One that ended without a word is not opened again at once.
      if (this.position === after) await pause(this.#backoff.next(), signal);
      return true;
    } catch (error) {
      if (signal.aborted) return false;
      if (error instanceof LonghaulProblem && FINAL.has(error.status)) {
        this.fail(error);
        return false;
      }
      if (error instanceof LonghaulProblem && error.status === 406) {
        // The address that was named gives whole answers, and says where the stream is, if there is any.
        const { streams: elsewhere } = error.body;
        const there = elsewhere === undefined ? undefined : streams.at(elsewhere);
        // What names itself, or what was named and names another, would be asked in a circle without a pause.
        const follow = there !== undefined && !this.#followed && there.url !== streams.url;
        if (follow || there === undefined) {
          this.#followed = follow;
          this.#streams = there;
          return follow;
        }
      }
      this.#become("connecting");
      // One that has brought something is worth another.
      return this.position > after;
    }
  }

  /**
   * A page of events behind what is there; none when nobody watches any more.
   * @param {number} wait seconds
   * @param {AbortSignal} signal
   * @returns {Promise<{ events: JobEvent[], next: number, ended: boolean } | undefined>}
   */
  async #page(wait, signal) {
    if (this.watches.size === 0) return undefined;
    const query = { after: this.position, wait: wait || undefined };
    const page = await this.#http.call("GET", `/v1/jobs/${this.job}/events`, { query, signal, tries: 1 });
    for (const event of page.events) for (const watch of [...this.watches]) watch.take(event);
    if (page.ended) for (const watch of [...this.watches]) watch.jobEnded(page.next);
    return page;
  }

  #hasGap() {
    return [...this.watches].some((watch) => watch.hasGap);
  }

  /** @param {import("./watch.js").WatchState} state */
  #become(state) {
    for (const watch of [...this.watches]) watch.become(state);
  }

  /** @param {number} ms */
  #fillIn(ms) {
    this.#hole ??= setTimeout(() => {
      this.#hole = undefined;
      // Asking over and over has what is missing too.
      if (this.#live) void this.fill();
    }, ms);
  }
}
