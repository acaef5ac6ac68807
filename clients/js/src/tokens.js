/**
 * The token of every call, renewed before it expires or when the API does not take it any more.
 */

/**
 * Where tokens come from: one that never changes, or a function that gives a fresh one. `stale` is the token that is
 * not good any more, if there was one.
 * @typedef {string | ((stale: string | undefined) => string | Promise<string>)} TokenSource
 */

/** How long before its expiry a token is renewed: a request with it must arrive while it is good. */
const RENEW_BEFORE_MS = 30_000;

/**
 * When a token expires, in milliseconds since the Unix epoch; none for a token that does not say.
 * @param {string} token
 * @returns {number | undefined}
 */
export function expiryOf(token) {
  const claims = claimsOf(token);
  return typeof claims?.exp === "number" ? claims.exp * 1000 : undefined;
}

/**
 * What a token says, unchecked: to be shown, never to be trusted.
 * @param {string} token
 * @returns {Record<string, any> | undefined}
 */
export function claimsOf(token) {
  try {
    const part = (token.split(".")[1] ?? "").replaceAll("-", "+").replaceAll("_", "/");
    const bytes = Uint8Array.from(atob(part), (c) => c.charCodeAt(0));
    const claims = JSON.parse(new TextDecoder().decode(bytes));
    return typeof claims === "object" && claims !== null ? claims : undefined;
  } catch {
    return undefined;
  }
}

/**
 * How long a token may still be used before it is time for another, in milliseconds; none for a token that does not say
 * when it expires.
 * @param {string} token
 * @returns {number | undefined}
 */
export function freshFor(token) {
  const expiry = expiryOf(token);
  return expiry === undefined ? undefined : expiry - Date.now() - RENEW_BEFORE_MS;
}

/** Gives the token of the moment. */
export class Tokens {
  #source;
  /** @type {string | undefined} */
  #current;
  /** @type {Promise<string> | undefined} */
  #renewing;

  /** @param {TokenSource} source */
  constructor(source) {
    this.#source = source;
  }

  /** A token that is good for a while. */
  async get() {
    if (this.#current === undefined) return this.renew(undefined);
    const fresh = (freshFor(this.#current) ?? Infinity) > 0;
    return fresh || typeof this.#source === "string" ? this.#current : this.renew(this.#current);
  }

  /**
   * A token other than `stale`. Whoever asks at the same time gets the same.
   * @param {string | undefined} stale
   * @returns {Promise<string>}
   */
  renew(stale) {
    if (this.#current !== undefined && this.#current !== stale) return Promise.resolve(this.#current);
    const source = this.#source;
    this.#renewing ??= Promise.resolve(typeof source === "string" ? source : source(stale))
      .then((token) => (this.#current = token))
      .finally(() => (this.#renewing = undefined));
    return this.#renewing;
  }
}
