import { Http } from "./http.js";
import { Live, TIMING } from "./live.js";
import { Tokens } from "./tokens.js";

/**
 * @typedef {object} LonghaulOptions
 * @property {string} url the address of the API
 * @property {string} [websocket] the address of the WebSocket; without it events are asked for over HTTP
 * @property {string} [events] the address where events come as a stream (server-sent events); without it, and while there
 *   is no WebSocket, they are asked for by long poll. The address of the API itself will do: where that gives whole answers
 *   only, it says which address streams
 * @property {import("./tokens.js").TokenSource} token
 * @property {typeof globalThis.fetch} [fetch]
 * @property {any} [WebSocket] for runtimes without one of their own (Node.js before 22: the package `ws`)
 * @property {Partial<import("./live.js").Timing>} [timing]
 * @property {() => number} [random] what waits are drawn from; for tests
 */

/** @typedef {import("./http.js").CallOptions} CallOptions */

/** A deployment of Longhaul, seen by one caller. */
export class Longhaul {
  #http;
  #live;

  /** @param {LonghaulOptions} options */
  constructor({ url, websocket, events, token, fetch, WebSocket, timing, random }) {
    const tokens = new Tokens(token);
    const ask = fetch ?? globalThis.fetch.bind(globalThis);
    this.#http = new Http(url, tokens, ask);
    this.#live = new Live({
      http: this.#http,
      tokens,
      address: websocket,
      WebSocket: WebSocket ?? globalThis.WebSocket,
      timing: { ...TIMING, ...timing },
      random: random ?? Math.random,
      streams: events === undefined ? undefined : new Http(events, tokens, ask),
    });
  }

  /**
   * Any call of the API: see openapi.json.
   * @param {"GET" | "POST" | "PUT" | "PATCH" | "DELETE"} method
   * @param {string} path
   * @param {CallOptions} [options]
   */
  call(method, path, options) {
    return this.#http.call(method, path, options);
  }

  /**
   * Submits a job.
   * @param {{ agent: string, input?: unknown, budget?: object, webhook?: string, webhook_events?: string[], labels?: Record<string, string> }} request
   * @param {CallOptions} [options]
   */
  submit(request, options) {
    return this.call("POST", "/v1/jobs", { ...options, body: request });
  }

  /**
   * Shows a job.
   * @param {string} id
   * @param {CallOptions} [options]
   */
  job(id, options) {
    return this.call("GET", `/v1/jobs/${encodeURIComponent(id)}`, options);
  }

  /**
   * Sends a signal, such as an approval.
   * @param {string} id
   * @param {string} name
   * @param {unknown} payload
   * @param {CallOptions} [options]
   */
  signal(id, name, payload, options) {
    const path = `/v1/jobs/${encodeURIComponent(id)}/signals/${encodeURIComponent(name)}`;
    return this.call("POST", path, { ...options, body: { payload } });
  }

  /**
   * Asks a job to end.
   * @param {string} id
   * @param {string} [reason]
   * @param {CallOptions} [options]
   */
  cancel(id, reason, options) {
    const body = reason ? { reason } : {};
    return this.call("POST", `/v1/jobs/${encodeURIComponent(id)}/cancel`, { ...options, body });
  }

  /**
   * Opens an ended job again.
   * @param {string} id
   * @param {{ from?: number, edit?: { input?: unknown, budget?: object } }} [request]
   * @param {CallOptions} [options]
   */
  replay(id, request = {}, options) {
    return this.call("POST", `/v1/jobs/${encodeURIComponent(id)}/replay`, { ...options, body: request });
  }

  /**
   * Watches a job: `for await (const event of longhaul.watch(id)) …`
   * @param {string} id
   * @param {import("./watch.js").WatchOptions} [options]
   */
  watch(id, options = {}) {
    return this.#live.watch(id, options);
  }

  /** Ends all watches and the connection. */
  close() {
    this.#live.close();
  }
}
