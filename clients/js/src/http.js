/**
 * Calls of the API over HTTP. Each is safe to repeat (a change carries an `Idempotency-Key`), so a lost answer or a busy
 * server is tried again, with growing waits.
 */
import { Backoff, pause } from "./backoff.js";
import { problemOf, Unreachable } from "./problem.js";

/** Tries of a call. */
const TRIES = 4;
/** The first wait between two tries, at most, and any. */
const WAIT_FIRST_MS = 300;
const WAIT_MAX_MS = 5_000;
/** The longest `Retry-After` that is waited out; a longer one is the caller's to decide. */
const RETRY_AFTER_MAX_MS = 20_000;

/** Answers that may be others at the next try. */
const PASSING = new Set([429, 500, 502, 503, 504]);

/**
 * @typedef {object} CallOptions
 * @property {Record<string, string | number | undefined>} [query]
 * @property {unknown} [body] sent as JSON
 * @property {string} [key] the idempotency key; without one a change gets a fresh one
 * @property {Record<string, string>} [headers]
 * @property {AbortSignal} [signal]
 * @property {number} [tries] at most; 1 tries once
 */

/** The API at one address. */
export class Http {
  #url;
  #tokens;
  #fetch;

  /**
   * @param {string} url the address of the API, with or without a slash at its end
   * @param {import("./tokens.js").Tokens} tokens
   * @param {typeof globalThis.fetch} fetch
   */
  constructor(url, tokens, fetch) {
    this.#url = url.replace(/\/+$/, "");
    this.#tokens = tokens;
    this.#fetch = fetch;
  }

  /** The address, without a slash at its end. */
  get url() {
    return this.#url;
  }

  /**
   * Calls and reads the answer's JSON.
   * @param {"GET" | "POST" | "PUT" | "PATCH" | "DELETE"} method
   * @param {string} path such as `/v1/jobs`
   * @param {CallOptions} [options]
   * @returns {Promise<any>}
   * @throws {import("./problem.js").LonghaulProblem} the API refuses
   * @throws {Unreachable} it does not answer
   */
  async call(method, path, options = {}) {
    const { signal, tries = TRIES } = options;
    const request = this.#request(method, path, options);
    const backoff = new Backoff(WAIT_FIRST_MS, WAIT_MAX_MS);
    let renewed = false;
    for (;;) {
      const token = await this.#tokens.get();
      const { response, error } = await this.#send(request, token);
      signal?.throwIfAborted();
      const last = backoff.failures + 1 >= tries;
      if (response === undefined) {
        if (last) throw new Unreachable(`${method} ${request.url} was not answered`, error);
        await pause(backoff.next(), signal);
      } else if (response.ok) {
        return response.status === 204 ? undefined : await response.json();
      } else if (response.status === 401 && !renewed) {
        renewed = true;
        if ((await this.#tokens.renew(token)) === token) throw await problemOf(response);
      } else if (PASSING.has(response.status) && !last) {
        const asked = Number(response.headers.get("retry-after")) * 1000;
        if (asked > RETRY_AFTER_MAX_MS) throw await problemOf(response);
        await pause(Math.max(backoff.next(), asked || 0), signal);
      } else {
        throw await problemOf(response);
      }
    }
  }

  /**
   * Opens a stream of server-sent events, once; none when there is nothing more to come (204).
   * @param {string} path
   * @param {Pick<CallOptions, "headers" | "signal">} options
   * @returns {Promise<ReadableStream<Uint8Array> | undefined>}
   * @throws {import("./problem.js").LonghaulProblem} the API refuses
   * @throws {Unreachable} it does not answer
   */
  async open(path, options) {
    const request = this.#request("GET", path, {
      ...options, headers: { ...options.headers, accept: "text/event-stream" },
    });
    let token = await this.#tokens.get();
    for (let renewed = false; ; renewed = true) {
      const { response, error } = await this.#send(request, token);
      options.signal?.throwIfAborted();
      if (response === undefined) throw new Unreachable(`GET ${request.url} was not answered`, error);
      if (response.status === 204) return undefined;
      const type = response.headers.get("content-type") ?? "";
      if (response.ok && response.body && type.startsWith("text/event-stream")) return response.body;
      if (response.ok) throw new Unreachable(`GET ${request.url} was answered with ${type} and not with a stream`);
      if (response.status !== 401 || renewed) throw await problemOf(response);
      const fresh = await this.#tokens.renew(token);
      if (fresh === token) throw await problemOf(response);
      token = fresh;
    }
  }

  /**
   * The same API at another address.
   * @param {string} url
   */
  at(url) {
    return new Http(url, this.#tokens, this.#fetch);
  }

  /**
   * @param {string} method
   * @param {string} path
   * @param {CallOptions} options
   */
  #request(method, path, { query = {}, body, key, headers = {}, signal }) {
    const given = Object.entries(query).filter(([, value]) => value !== undefined && value !== "");
    const search = new URLSearchParams(given.map(([name, value]) => [name, String(value)])).toString();
    /** @type {Record<string, string>} */
    const all = { accept: "application/json", ...headers };
    if (body !== undefined) all["content-type"] = "application/json";
    if (method !== "GET") all["idempotency-key"] = key ?? globalThis.crypto.randomUUID();
    return {
      url: `${this.#url}${path}${search && `?${search}`}`,
      init: { method, headers: all, body: body === undefined ? undefined : JSON.stringify(body), signal },
    };
  }

  /**
   * @param {{ url: string, init: RequestInit & { headers: Record<string, string> } }} request
   * @param {string} token
   * @returns {Promise<{ response?: Response, error?: unknown }>}
   */
  async #send({ url, init }, token) {
    try {
      const headers = { ...init.headers, authorization: `Bearer ${token}` };
      return { response: await this.#fetch(url, { ...init, headers, cache: "no-store" }) };
    } catch (error) {
      return { error };
    }
  }
}
