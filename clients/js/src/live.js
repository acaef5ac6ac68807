/**
 * The WebSocket of all watches: opened when there is one, opened again whenever it is lost, closed when there is none.
 */
import { Backoff, pause } from "./backoff.js";
import { Channel } from "./channel.js";
import { LonghaulProblem } from "./problem.js";
import { freshFor } from "./tokens.js";
import { Watch } from "./watch.js";

/**
 * Times, in milliseconds unless the name says seconds.
 * @typedef {object} Timing
 * @property {number} retryFirstMs the upper end of the first wait before a try to connect again
 * @property {number} retryMaxMs of any
 * @property {number} openMs how long a handshake may take
 * @property {number} pingMs between two signs of life; API Gateway closes what was silent for 10 min, and a job's last
 *   event must be found within 60 s even if its push was lost
 * @property {number} pongMs how long an answer to a ping may take
 * @property {number} gapMs how long a missing event may be late before it is asked for
 * @property {number} pollAfterMs how long nothing is pushed before the events are asked for
 * @property {number} pollWaitSeconds how long a question waits for its answer
 * @property {number} endedMs between two questions about a job that has ended
 * @property {number} lingerMs how long the connection outlives its last watch
 */

/** @type {Timing} */
export const TIMING = {
  retryFirstMs: 500,
  retryMaxMs: 20_000,
  openMs: 10_000,
  pingMs: 25_000,
  pongMs: 8_000,
  gapMs: 400,
  pollAfterMs: 2_000,
  pollWaitSeconds: 20,
  endedMs: 5_000,
  lingerMs: 5_000,
};

const OPEN = 1;
/** The longest that a timer can be set for. */
const TIMER_MAX_MS = 2 ** 31 - 1;

export class Live {
  #http;
  #streams;
  #tokens;
  #address;
  #WebSocket;
  #timing;
  #random;
  #backoff;
  /** @type {Map<string, Channel>} */
  #channels = new Map();
  /** @type {WebSocket | undefined} */
  #socket;
  /** The token of the connection, to ask for another when it is refused. @type {string | undefined} */
  #token;
  #connecting = false;
  #closed = false;
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  #retry;
  /** @type {ReturnType<typeof setInterval> | undefined} */
  #beat;
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  #silence;
  /** Runs out when the connection's token is about to expire. @type {ReturnType<typeof setTimeout> | undefined} */
  #renewal;
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  #linger;
  #online = () => this.#now();

  /**
   * @param {object} parts
   * @param {import("./http.js").Http} parts.http
   * @param {import("./tokens.js").Tokens} parts.tokens
   * @param {string | undefined} parts.address `ws(s)://…`; without it everything is asked for over HTTP
   * @param {typeof globalThis.WebSocket | undefined} parts.WebSocket
   * @param {Timing} parts.timing
   * @param {() => number} parts.random
   * @param {import("./http.js").Http} [parts.streams] where events come as a stream
   */
  constructor({ http, tokens, address, WebSocket, timing, random, streams }) {
    this.#http = http;
    this.#streams = streams;
    this.#tokens = tokens;
    this.#address = WebSocket && address;
    this.#WebSocket = WebSocket;
    this.#timing = timing;
    this.#random = random;
    this.#backoff = new Backoff(timing.retryFirstMs, timing.retryMaxMs, random);
    // A browser that has its network back need not wait for the next try.
    globalThis.addEventListener?.("online", this.#online);
  }

  /**
   * @param {string} job
   * @param {import("./watch.js").WatchOptions} options
   */
  watch(job, options) {
    let channel = this.#channels.get(job);
    if (!channel) {
      // Where nothing will be pushed, there is nothing to wait for.
      const timing = this.#address ? this.#timing : { ...this.#timing, pollAfterMs: 0 };
      channel = new Channel(job, this.#http, timing, this.#random, this.#streams);
      this.#channels.set(job, channel);
    }
    const watch = new Watch(job, options, (ended) => this.#release(ended));
    channel.add(watch);
    // What has happened already comes sooner, and all at once, over HTTP; the subscription begins behind it.
    const begun = this.#address ? channel.fill() : Promise.resolve();
    clearTimeout(this.#linger);
    this.#linger = undefined;
    if (this.#socket?.readyState === OPEN) this.#subscribe(channel, begun);
    else this.#now();
    return watch;
  }

  close() {
    this.#closed = true;
    globalThis.removeEventListener?.("online", this.#online);
    for (const channel of this.#channels.values()) for (const watch of [...channel.watches]) watch.close();
    clearTimeout(this.#retry);
    clearTimeout(this.#linger);
    this.#drop();
  }

  /** @param {Watch} watch */
  #release(watch) {
    const channel = this.#channels.get(watch.job);
    if (!channel?.watches.delete(watch) || channel.watches.size > 0) return;
    channel.close();
    this.#channels.delete(watch.job);
    this.#send({ action: "unsubscribe", job: watch.job });
    if (this.#channels.size === 0) {
      this.#linger = setTimeout(() => this.#drop(), this.#timing.lingerMs);
      /** @type {any} */ (this.#linger).unref?.();
    }
  }

  /** Connects without waiting for the next try. */
  #now() {
    clearTimeout(this.#retry);
    this.#retry = undefined;
    void this.#connect();
  }

  async #connect() {
    const wanted = this.#address && !this.#closed && this.#channels.size > 0;
    if (!wanted || !this.#address || !this.#WebSocket || this.#socket || this.#connecting) return;
    this.#connecting = true;
    /** @type {WebSocket} */
    let socket;
    try {
      this.#token = await this.#tokens.get();
      const separator = this.#address.includes("?") ? "&" : "?";
      socket = new this.#WebSocket(`${this.#address}${separator}token=${encodeURIComponent(this.#token)}`);
    } catch {
      // No token, or no address that a socket could have. Asking over HTTP tells the watches which.
      return this.#again();
    } finally {
      this.#connecting = false;
    }
    this.#socket = socket;
    const slow = setTimeout(() => this.#lost(socket), this.#timing.openMs);
    socket.addEventListener("open", () => {
      clearTimeout(slow);
      if (socket === this.#socket) this.#opened();
    });
    socket.addEventListener("message", ({ data }) => socket === this.#socket && this.#message(String(data)));
    // An error is always followed by a close.
    socket.addEventListener("error", () => {});
    socket.addEventListener("close", ({ code }) => {
      clearTimeout(slow);
      if (code === 1008 || code === 4401) void this.#tokens.renew(this.#token).catch(() => {});
      this.#lost(socket);
    });
  }

  #opened() {
    this.#renewInTime();
    for (const channel of this.#channels.values()) this.#subscribe(channel);
    this.#beat = setInterval(() => {
      for (const channel of this.#channels.values()) channel.check();
      if (!this.#send({ action: "ping" })) return;
      const socket = this.#socket;
      this.#silence ??= setTimeout(() => socket && this.#lost(socket), this.#timing.pongMs);
    }, this.#timing.pingMs);
    /** @type {any} */ (this.#beat).unref?.();
  }

  /**
   * A connection lives as long as its token: before the server ends it, it is opened anew with another. The cursors go on.
   */
  #renewInTime() {
    clearTimeout(this.#renewal);
    const socket = this.#socket;
    const wait = this.#token === undefined ? undefined : freshFor(this.#token);
    if (wait === undefined || wait > TIMER_MAX_MS) return;
    const renew = async () => {
      const fresh = await this.#tokens.get().catch(() => undefined);
      if (socket !== this.#socket || fresh === undefined || fresh === this.#token) return;
      this.#drop();
      for (const channel of this.#channels.values()) channel.lost();
      this.#now();
    };
    this.#renewal = setTimeout(renew, Math.max(wait, 0));
    /** @type {any} */ (this.#renewal).unref?.();
  }

  /**
   * @param {Channel} channel
   * @param {Promise<void>} begun what to wait for, though not for long
   */
  #subscribe(channel, begun = channel.filling) {
    const socket = this.#socket;
    const enough = new AbortController();
    void Promise.race([begun, pause(this.#timing.pollAfterMs, enough.signal).catch(() => {})]).then(() => {
      enough.abort();
      const wanted = this.#channels.get(channel.job) === channel && this.#socket === socket;
      if (wanted) this.#send({ action: "subscribe", job: channel.job, after: channel.position });
    });
  }

  /** @param {string} text */
  #message(text) {
    clearTimeout(this.#silence);
    this.#silence = undefined;
    let message;
    try {
      message = JSON.parse(text);
    } catch {
      return;
    }
    // A kind of message that this version does not know is passed over.
    if (message?.type === "event" && typeof message.event?.id === "string") {
      this.#channels.get(jobOf(message.event))?.take(message.event);
    } else if (message?.type === "delta" && typeof message.delta?.text === "string") {
      this.#channels.get(message.delta.job)?.hear(message.delta);
    } else if (message?.type === "subscribed" && typeof message.after === "number") {
      this.#backoff.reset();
      this.#channels.get(message.job)?.subscribed(message.after);
    } else if (message?.type === "problem" && message.problem) {
      this.#problem(message.job, new LonghaulProblem(message.problem));
    }
  }

  /**
   * @param {string | undefined} job
   * @param {LonghaulProblem} problem
   */
  #problem(job, problem) {
    if (problem.status === 401) {
      // The token has expired; the server closes the connection. With another one the cursors go on.
      void this.#tokens.renew(this.#token).catch(() => {});
      if (this.#socket) this.#lost(this.#socket);
      return;
    }
    const channel = job === undefined ? undefined : this.#channels.get(job);
    if (!channel) return;
    if (problem.status === 403 || problem.status === 404) {
      channel.fail(problem);
    } else {
      channel.lost();
      setTimeout(() => this.#channels.get(channel.job) === channel && this.#subscribe(channel), this.#backoff.next());
    }
  }

  /**
   * @param {object} message
   * @returns {boolean} whether it could be sent
   */
  #send(message) {
    if (this.#socket?.readyState !== OPEN) return false;
    this.#socket.send(JSON.stringify(message));
    return true;
  }

  /** @param {WebSocket} socket */
  #lost(socket) {
    if (socket !== this.#socket) return;
    this.#drop();
    for (const channel of this.#channels.values()) channel.lost();
    this.#again();
  }

  #again() {
    if (this.#closed || this.#channels.size === 0 || this.#retry !== undefined) return;
    this.#retry = setTimeout(() => this.#now(), this.#backoff.next());
  }

  #drop() {
    clearInterval(this.#beat);
    clearTimeout(this.#renewal);
    clearTimeout(this.#silence);
    this.#silence = undefined;
    const socket = this.#socket;
    this.#socket = undefined;
    socket?.close();
  }
}

/** @param {import("./order.js").JobEvent} event */
const jobOf = (event) => event.id.slice(0, event.id.lastIndexOf("/"));
