import assert from "node:assert/strict";
import { afterEach, beforeEach, test } from "node:test";
import { WebSocket } from "ws";
import { Longhaul, LonghaulProblem } from "../src/index.js";
import { END, JOB, Server, event, token } from "./server.js";

/** Quick, so that a test takes no longer than what it shows; asking begins late, so that it hides no fault of pushing. */
const TIMING = {
  retryFirstMs: 20, retryMaxMs: 60, openMs: 5_000, pingMs: 150, pongMs: 400, gapMs: 15, pollAfterMs: 20_000,
  pollWaitSeconds: 1, endedMs: 20, lingerMs: 20,
};
/** Where asking is what is tested. */
const ASKING = { ...TIMING, pollAfterMs: 30 };

let server;
let clients;

beforeEach(async () => {
  server = await Server.start();
  clients = [];
});

afterEach(async () => {
  for (const client of clients) client.close();
  await server.stop();
});

function client(options = {}) {
  const made = new Longhaul({
    url: server.url, websocket: server.websocket, token: token("ada"), WebSocket, timing: TIMING, ...options,
  });
  clients.push(made);
  return made;
}

/** Reads a watch to its end, or as many events. */
async function read(watch, count = Infinity) {
  const seen = [];
  for await (const one of watch) {
    seen.push(Number(one.sequence));
    if (seen.length === count) break;
  }
  return seen;
}

/** 1 to n. */
const upTo = (n) => Array.from({ length: n }, (_, index) => index + 1);

/** Waits until it is so. */
async function until(condition, what) {
  const give_up = Date.now() + 20_000;
  while (!condition()) {
    assert.ok(Date.now() < give_up, `never: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 2));
  }
}

test("what had happened and what happens then", async () => {
  server.write();
  server.write();
  const reading = read(client().watch(JOB));
  await until(() => server.subscriptions.length === 1, "subscribed");
  server.append();
  server.append(END);
  assert.deepEqual(await reading, upTo(4));
});

test("what had happened comes before the connection is there, and the subscription begins behind it", async () => {
  for (let i = 0; i < 3; i += 1) server.write();
  const watch = client().watch(JOB);
  const reading = read(watch);
  await until(() => server.subscriptions.length === 1, "subscribed");
  assert.equal(server.subscriptions[0].after, 3);
  assert.equal(watch.position, 3);
  server.append(END);
  assert.deepEqual(await reading, upTo(4));
});

test("a cursor resumes behind what was seen", async () => {
  for (let i = 0; i < 4; i += 1) server.write();
  server.write(END);
  assert.deepEqual(await read(client().watch(JOB, { after: 3 })), [4, 5]);
});

for (const [what, order] of [
  ["doubles", [1, 1, 2, 2, 3, 1, 3, 4]],
  ["the wrong order", [4, 2, 3, 1]],
  ["both, the end first", [4, 4, 1, 3, 1, 2, 2]],
]) {
  test(`pushes with ${what} are put in order`, async () => {
    server.catchUp = (send, job) => {
      server.journal.push(event(1), event(2), event(3), event(4, END));
      for (const at of order) send({ type: "event", event: server.journal[at - 1] });
      send({ type: "subscribed", job, after: 4 });
    };
    assert.deepEqual(await read(client().watch(JOB)), upTo(4));
    assert.equal(server.requests.length, 1, "nothing was missing, so nothing is asked for behind the beginning");
  });
}

test("a hole is filled by asking", async () => {
  const reading = read(client().watch(JOB));
  await until(() => server.subscriptions.length === 1, "subscribed");
  server.append();
  server.write();
  server.append(END);
  assert.deepEqual(await reading, upTo(3));
  assert.ok(server.requests.length >= 2, "it was asked for");
});

test("a subscription that says it sent more than came is filled", async () => {
  server.write();
  server.write(END);
  server.catchUp = (send, job) => send({ type: "subscribed", job, after: 2 });
  assert.deepEqual(await read(client().watch(JOB)), upTo(2));
});

test("D10: a last burst that nobody pushes is found at the next sign of life", async () => {
  const reading = read(client().watch(JOB));
  await until(() => server.subscriptions.length === 1, "subscribed");
  server.append();
  server.write();
  server.write(END);
  assert.deepEqual(await reading, upTo(3));
});

test("a lost connection is opened again and goes on from the cursor", async () => {
  const watch = client().watch(JOB);
  const reading = read(watch);
  await until(() => watch.state === "live", "live");
  server.append();
  server.append();
  await until(() => watch.position === 2, "both have come");
  server.cut();
  server.write();
  await until(() => server.subscriptions.length === 2, "subscribed again");
  assert.ok(server.subscriptions[1].after >= 2, "what was seen is not sent again");
  server.append(END);
  assert.deepEqual(await reading, upTo(4));
});

test("a connection that has gone silent is given up", async () => {
  const reading = read(client().watch(JOB));
  await until(() => server.subscriptions.length === 1, "subscribed");
  server.answerPings = false;
  await until(() => server.subscriptions.length === 2, "subscribed again");
  server.answerPings = true;
  server.append(END);
  assert.deepEqual(await reading, [1]);
});

test("without a WebSocket events are asked for, and pushed as soon as there is one", async () => {
  server.refuseSockets = true;
  const states = [];
  const watch = client({ timing: ASKING }).watch(JOB, { onState: (state) => states.push(state) });
  const reading = read(watch);
  server.write();
  await until(() => watch.position === 1 && watch.state === "polling", "the first event");
  server.refuseSockets = false;
  await until(() => watch.state === "live", "live");
  assert.equal(server.subscriptions.at(-1).after, 1);
  server.append(END);
  assert.deepEqual(await reading, upTo(2));
  assert.deepEqual([states[0], states.at(-2), states.at(-1)], ["polling", "live", "ended"]);
});

test("an API without a WebSocket is asked at once", async () => {
  server.write(END);
  const begun = Date.now();
  const made = client({ websocket: undefined, timing: { ...TIMING, pollAfterMs: 60_000 } });
  assert.deepEqual(await read(made.watch(JOB)), [1]);
  assert.ok(Date.now() - begun < 2_000);
});

test("D07: a token that expires is renewed, and nothing is lost", async () => {
  const [old, fresh] = [token("ada"), token("ada", 7200)];
  const reading = read(client({ token: (stale) => (stale === old ? fresh : old) }).watch(JOB));
  await until(() => server.subscriptions.length === 1, "subscribed");
  server.append();
  await new Promise((resolve) => setTimeout(resolve, 10));
  server.refuseTokens.add(old);
  server.write();
  server.push({ type: "problem", problem: { type: "urn:longhaul:problem:not-authenticated", title: "", status: 401, detail: "" } });
  server.cut();
  await until(() => server.subscriptions.length === 2, "subscribed again");
  assert.equal(server.tokens.at(-1), fresh);
  server.append(END);
  assert.deepEqual(await reading, upTo(3));
});

test("a connection gets another token before its own expires, and nothing is lost", async () => {
  // A token is renewed 30 s before its end. A slow machine must have connected by then, or there is but one connection.
  const [old, fresh] = [token("ada", 33 + ((Date.now() / 1_000) % 1)), token("ada", 7200)];
  const watch = client({ token: (stale) => (stale === undefined ? old : fresh) }).watch(JOB);
  const reading = read(watch);
  await until(() => server.subscriptions.length === 1, "subscribed");
  server.append();
  await until(() => server.tokens.length === 2, "connected anew");
  server.append();
  await until(() => server.subscriptions.length === 2, "subscribed again");
  assert.deepEqual(server.tokens, [old, fresh]);
  assert.ok(server.subscriptions[1].after >= 1, "what was seen is not sent again");
  server.append(END);
  assert.deepEqual(await reading, upTo(3));
});

test("the code by which a connection is closed for its token asks for another", async () => {
  for (const code of [4401, 1008]) {
    server.journals.set(JOB, []);
    const [old, other] = [token("ada", 3600 + code), token("ada", 7200 + code)];
    const made = client({ token: (stale) => (stale === old ? other : old) });
    const reading = read(made.watch(JOB));
    const before = server.subscriptions.length;
    await until(() => server.tokens.at(-1) === old && server.subscriptions.length > before, "subscribed");
    server.append();
    for (const socket of server.sockets.clients) socket.close(code);
    await until(() => server.tokens.at(-1) === other, "connected with another token");
    server.append(END);
    assert.deepEqual(await reading, upTo(2));
    made.close();
  }
});

test("a token that is refused for good ends the watch", async () => {
  const dead = token("ada");
  server.refuseTokens.add(dead);
  await assert.rejects(read(client({ token: dead, timing: ASKING }).watch(JOB)), { name: "LonghaulProblem", status: 401 });
});

test("D04: a job that is not there is said at once", async () => {
  const begun = Date.now();
  await assert.rejects(read(client().watch("0190b6a2-7d3c-7c4e-9b1f-000000000000")), LonghaulProblem);
  assert.ok(Date.now() - begun < 1_000);
});

test("a watch that has seen the end ends", async () => {
  server.write();
  server.write(END);
  assert.deepEqual(await read(client().watch(JOB, { after: 2 })), []);
});

test("a watch that follows goes on behind the end", async () => {
  server.write("AgentJobFailed");
  const reading = read(client().watch(JOB, { follow: true }), 3);
  await until(() => server.subscriptions.length === 1, "subscribed");
  server.append("AgentJobReplayed");
  server.append(END);
  assert.deepEqual(await reading, upTo(3));
});

test("a replay is seen without a WebSocket too", async () => {
  server.refuseSockets = true;
  server.write("AgentJobFailed");
  const watch = client({ timing: ASKING }).watch(JOB, { follow: true });
  const reading = read(watch, 2);
  await until(() => watch.position === 1, "the end");
  server.write("AgentJobReplayed");
  assert.deepEqual(await reading, upTo(2));
});

test("two watches of one job, each from its own place", async () => {
  for (let i = 0; i < 3; i += 1) server.write();
  const one = client();
  const all = read(one.watch(JOB));
  await until(() => server.subscriptions.length === 1, "subscribed");
  const rest = read(one.watch(JOB, { after: 2 }));
  await until(() => server.subscriptions.length === 2, "subscribed twice");
  server.append(END);
  assert.deepEqual(await all, upTo(4));
  assert.deepEqual(await rest, [3, 4]);
  assert.equal(server.tokens.length, 1, "one connection");
});

test("what a running step says is heard until the step is done", async () => {
  const heard = [];
  const watch = client().watch(JOB, { onDraft: () => heard.push([...watch.drafts.values()].map((draft) => draft.text).join()) });
  const reading = read(watch);
  await until(() => watch.state === "live", "live");
  const piece = { job: JOB, epoch: 1, step: "0", name: "draft", attempt: 1 };
  server.push({ type: "delta", delta: { ...piece, offset: 0, text: "and " } });
  server.push({ type: "delta", delta: { ...piece, offset: 4, text: "so" } });
  const one = server.write();
  one.subject = "0";
  server.pushEvent(one);
  server.append(END);
  assert.deepEqual(await reading, upTo(2));
  assert.deepEqual(heard, ["and ", "and so", ""]);
});

test("a message of a kind that is not known is passed over", async () => {
  const reading = read(client().watch(JOB));
  await until(() => server.subscriptions.length === 1, "subscribed");
  server.push({ type: "weather", job: JOB, text: "…" });
  server.push({ type: "delta" });
  for (const raw of ["{", "null", '{"type":"event"}']) for (const socket of server.sockets.clients) socket.send(raw);
  server.append(END);
  assert.deepEqual(await reading, [1]);
});

test("the connection goes when nobody watches any more", async () => {
  const watch = client().watch(JOB);
  const reading = read(watch);
  await until(() => watch.state === "live", "live");
  watch.close();
  assert.deepEqual(await reading, []);
  await until(() => server.sockets.clients.size === 0, "closed");
});

test("an aborted signal closes the watch", async () => {
  const abort = new AbortController();
  const reading = read(client().watch(JOB, { signal: abort.signal }));
  await until(() => server.subscriptions.length === 1, "subscribed");
  abort.abort();
  assert.deepEqual(await reading, []);
});

/** Numbers of a seed (mulberry32), so that a run can be had again. */
function seeded(seed) {
  return () => {
    seed = (seed + 0x6d2b79f5) | 0;
    let t = Math.imul(seed ^ (seed >>> 15), 1 | seed);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
  };
}

test("D08, D09: whatever the network does, every event once and in order", async () => {
  for (const seed of process.env.LONGHAUL_SEED ? [Number(process.env.LONGHAUL_SEED)] : upTo(12)) {
    const random = seeded(seed);
    server.journals.set(JOB, []);
    const watch = client({ random, timing: ASKING }).watch(JOB);
    const reading = read(watch);
    for (let i = 1; i <= 60; i += 1) {
      const one = server.write(i === 60 ? END : undefined);
      const chance = random();
      if (chance < 0.6) server.pushEvent(one);
      else if (chance < 0.75) for (const again of [one, one, server.journal[Math.floor(random() * i)]]) server.pushEvent(again);
      else if (chance < 0.9) setTimeout(() => server.pushEvent(one), random() * 20);
      if (random() < 0.06) server.cut();
      server.refuseSockets = random() < 0.1;
      if (random() < 0.3) await new Promise((resolve) => setTimeout(resolve, random() * 12));
    }
    server.refuseSockets = false;
    assert.deepEqual(await reading, upTo(60), `LONGHAUL_SEED=${seed}`);
  }
});
