/**
 * Who looks, and at which deployment. The token lives in this tab's storage and nowhere else; in the address it stands
 * only until the page has read it.
 */
import { signal } from "@preact/signals";
import { Longhaul, claimsOf, expiryOf } from "longhaul-client";

const KEY = "longhaul.token";

export interface Settings {
  /** The address of the API, relative to the page's. */
  api: string;
  websocket?: string;
  /** Where events come as a stream, for networks in which no WebSocket gets through. */
  events?: string;
  version: string;
}

/** The token of this tab; none: somebody must give one. */
export const token = signal<string | undefined>(undefined);
/** Why a token is asked for, when the one before is not good any more. */
export const expired = signal(false);
export const settings = signal<Settings | undefined>(undefined);

/** What the token says of its holder. */
export function caller(): { subject: string; tenant: string } | undefined {
  const claims = token.value === undefined ? undefined : claimsOf(token.value);
  return claims && { subject: String(claims.sub ?? "?"), tenant: String(claims.tenant ?? "") };
}

/** Takes a token out of the address, so that neither the history nor a copied link has it. */
export function takeTokenFromAddress(): void {
  const given = /^#token=([^&]+)(?:&to=([^&]*))?$/.exec(location.hash);
  if (given?.[1]) {
    sessionStorage.setItem(KEY, decodeURIComponent(given[1]));
    const to = given[2] ? `#${decodeURIComponent(given[2])}` : "#/jobs";
    history.replaceState(null, "", `${location.pathname}${location.search}${to}`);
  }
  token.value = sessionStorage.getItem(KEY) ?? undefined;
}

/** Waiting for a token that the API takes: the page stays as it is while somebody pastes one. */
let waiting: ((token: string) => void)[] = [];

export function signIn(given: string): void {
  sessionStorage.setItem(KEY, given);
  token.value = given;
  expired.value = false;
  for (const go of waiting) go(given);
  waiting = [];
}

export function signOut(): void {
  sessionStorage.removeItem(KEY);
  location.reload();
}

function another(stale: string | undefined): string | Promise<string> {
  const current = token.peek();
  if (current !== undefined && current !== stale && (expiryOf(current) ?? Infinity) > Date.now()) return current;
  if (current !== undefined) expired.value = true;
  return new Promise((resolve) => waiting.push(resolve));
}

let client: Longhaul | undefined;

/** The client of this page. */
export function api(): Longhaul {
  if (!client) throw new Error("the settings are not there yet");
  return client;
}

export async function connect(): Promise<void> {
  const response = await fetch("./settings.json", { cache: "no-store" });
  if (!response.ok) throw new Error(`settings.json was answered with ${response.status}`);
  const found = (await response.json()) as Settings;
  const url = new URL(found.api, location.href).href;
  client = new Longhaul({
    url,
    websocket: found.websocket,
    // Where no address is named, the API itself may stream, and says so if it does not.
    events: found.events ?? url,
    token: another,
  });
  settings.value = found;
}
