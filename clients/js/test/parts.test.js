import assert from "node:assert/strict";
import { afterEach, beforeEach, test } from "node:test";
import { Backoff } from "../src/backoff.js";
import { Longhaul, Order, Unreachable, claimsOf, expiryOf, isEnd } from "../src/index.js";
import { Tokens } from "../src/tokens.js";
import { JOB, Server, event, token } from "./server.js";

let server;
beforeEach(async () => (server = await Server.start()));
afterEach(() => server.stop());

const client = (options = {}) => new Longhaul({ url: `${server.url}/`, token: token("ada"), ...options });

test("waits double up to their bound, and are drawn", () => {
  for (const [random, wanted] of [[0, [10, 20, 40, 50, 50]], [0.5, [55, 110, 220, 275, 275]], [1, [100, 200, 400, 500, 500]]]) {
    const backoff = new Backoff(100, 500, () => random);
    assert.deepEqual(wanted.map(() => Math.round(backoff.next())), wanted);
    backoff.reset();
    assert.equal(Math.round(backoff.next()), wanted[0]);
  }
  const long = new Backoff(100, 500, () => 1);
  for (let i = 0; i < 5_000; i += 1) assert.ok(long.next() <= 500);
});

test("events are put in order from any position", () => {
  const order = new Order(2);
  assert.deepEqual(order.take(event(4)), []);
  assert.ok(order.hasGap);
  assert.deepEqual(order.take(event(2)), []);
  assert.deepEqual(order.take(event(3)).map((one) => Number(one.sequence)), [3, 4]);
  assert.ok(!order.hasGap);
  assert.equal(order.position, 4);
  assert.deepEqual(order.take({ ...event(5), sequence: "soon" }), []);
  assert.ok(isEnd(event(1, "AgentJobCancelled")) && !isEnd(event(1, "AgentJobReplayed")));
});

test("tokens say when they expire, and are renewed once for all before that", async () => {
  const old = token("ada", 10);
  assert.ok(Math.abs(expiryOf(old) - Date.now() - 10_000) < 1_500);
  assert.deepEqual([expiryOf("opaque"), claimsOf("a.b.c"), claimsOf("e30.bnVsbA.x")], [undefined, undefined, undefined]);
  assert.equal(claimsOf(token("Zoë 漢")).sub, "Zoë 漢");
  let asked = 0;
  const fresh = token("ada");
  const tokens = new Tokens(async (stale) => {
    asked += 1;
    return stale === undefined ? old : fresh;
  });
  assert.equal(await tokens.get(), old);
  assert.deepEqual(await Promise.all([tokens.get(), tokens.get(), tokens.renew(old)]), [fresh, fresh, fresh]);
  assert.equal(asked, 2);
});

test("a busy server is asked again under the same key", async () => {
  server.problems = [{ status: 503 }, { status: 429, headers: { "retry-after": "0" } }];
  assert.equal((await client().submit({ agent: "research" })).id, JOB);
  const keys = server.requests.map((request) => request.key);
  assert.equal(keys.length, 3);
  assert.equal(new Set(keys).size, 1);
  assert.match(keys[0], /^[0-9a-f-]{36}$/);
});

test("a refusal is thrown with its problem, and not repeated", async () => {
  server.problems = [{ status: 409 }];
  await assert.rejects(client().cancel(JOB, "why"), (error) => error.status === 409 && error.body.detail === "…");
  assert.equal(server.requests.length, 1);
});

test("a wait that the server asks for and nobody would want is left to the caller", async () => {
  server.problems = [{ status: 503, headers: { "retry-after": "3600" } }];
  await assert.rejects(client().job(JOB), { status: 503 });
});

test("a refused token is renewed once", async () => {
  const [old, fresh] = [token("old"), token("fresh")];
  server.refuseTokens.add(old);
  const made = client({ token: (stale) => (stale ? fresh : old) });
  assert.equal((await made.signal(JOB, "approval", { decision: "approved" })).id, JOB);
  assert.deepEqual(server.requests.map((request) => request.token), [old, fresh]);
  server.refuseTokens.add(fresh);
  await assert.rejects(made.replay(JOB), { status: 401 });
});

test("a server that is not there is said so", async () => {
  const failing = async () => {
    throw new TypeError("fetch failed");
  };
  await assert.rejects(client({ fetch: failing }).call("GET", "/v1/jobs", { tries: 1 }), Unreachable);
});

test("an answer of a gateway in between is a problem too", async () => {
  const odd = async () => new Response("<html>bad</html>", { status: 418, statusText: "Teapot" });
  await assert.rejects(client({ fetch: odd }).job(JOB), { status: 418, type: "about:blank" });
});
