/**
 * A client of Longhaul without dependencies, for browsers and Node.js.
 *
 * Its heart is `watch`: the events of a job, every one once and in order. They are pushed over a WebSocket; where there
 * is none, or while it is lost, they are asked for by long poll; both go on from the same cursor, so nothing is missing
 * and nothing comes twice.
 * @module
 */
export { Longhaul } from "./longhaul.js";
export { Watch } from "./watch.js";
export { LonghaulProblem, Unreachable } from "./problem.js";
export { Drafts } from "./drafts.js";
export { Order, isEnd, positionOf } from "./order.js";
export { claimsOf, expiryOf } from "./tokens.js";
