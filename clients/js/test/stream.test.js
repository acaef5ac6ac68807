import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer } from "node:http";
import { afterEach, beforeEach, test } from "node:test";
import { Longhaul, LonghaulProblem } from "../src/index.js";
import { serverSentEvents } from "../src/sse.js";
import { END, JOB, event, token } from "./server.js";

const TIMING = {
  retryFirstMs: 5, retryMaxMs: 20, openMs: 5_000, pingMs: 150, pongMs: 400, gapMs: 15, pollAfterMs: 5, pollWaitSeconds: 1,
  endedMs: 20, lingerMs: 20,
};

/** A server whose answers are scripted, one after the other. */
let server;
let script;
let requests;
let made;

beforeEach(async () => {
  script = [];
  requests = [];
  server = createServer(async (request, response) => {
    const stream = request.headers.accept === "text/event-stream";
    requests.push({ stream, last: request.headers["last-event-id"], token: request.headers.authorization, url: request.url });
    const answer = script.shift() ?? ((_, response) => response.writeHead(500).end());
    await answer(request, response);
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
});

afterEach(async () => {
  made?.close();
  server.closeAllConnections();
  server.close();
  await once(server, "close");
});

function client(options = {}) {
  const url = `http://127.0.0.1:${server.address().port}`;
  made = new Longhaul({ url, events: url, token: token("ada"), WebSocket: undefined, timing: TIMING, ...options });
  return made;
}

const written = (one) => `id: ${Number(one.sequence)}\ndata: ${JSON.stringify(one)}\n\n`;

/** A stream of these texts. It ends, unless it is to break off. */
const streamOf = (texts, breaks = false) => async (_, response) => {
  response.writeHead(200, { "content-type": "text/event-stream" });
  for (const text of texts) {
    response.write(text);
    await new Promise((resolve) => setTimeout(resolve, 2));
  }
  if (breaks) response.destroy();
  else response.end();
};

const problem = (status) => (_, response) =>
  response.writeHead(status, { "content-type": "application/problem+json" }).end(JSON.stringify({ status, type: "urn:x", title: "x", detail: "x" }));

async function read(watch) {
  const seen = [];
  for await (const one of watch) seen.push(Number(one.sequence));
  return seen;
}

test("a stream is read to the job's end, with the token in a header", async () => {
  script = [streamOf([": events follow\nretry: 1000\n\n", written(event(1)), ": still here\n\n", written(event(2, END))])];
  assert.deepEqual(await read(client().watch(JOB)), [1, 2]);
  assert.equal(requests.length, 1);
  assert.match(requests[0].token, /^Bearer ./);
  assert.equal(requests[0].url, `/v1/jobs/${JOB}/events`);
});

const elsewhere = (streams) => (_, response) => {
  const body = { type: "urn:longhaul:problem:no-stream-here", title: "no", status: 406, detail: "", streams };
  response.writeHead(406, { "content-type": "application/problem+json" }).end(JSON.stringify(body));
};

const page = (_, response) =>
  response.writeHead(200, { "content-type": "application/json" }).end(JSON.stringify({ events: [event(1, END)], next: 1, ended: true }));

test("an address that gives whole answers says where the stream is", async () => {
  const there = `http://127.0.0.1:${server.address().port}/there`;
  script = [elsewhere(there), streamOf([written(event(1, END))])];
  assert.deepEqual(await read(client().watch(JOB)), [1]);
  assert.deepEqual(requests.map(({ url }) => url), [`/v1/jobs/${JOB}/events`, `/there/v1/jobs/${JOB}/events`]);
  requests.length = 0;
  script = [elsewhere(undefined), page];
  assert.deepEqual(await read(client().watch(JOB)), [1]);
  assert.deepEqual(requests.map(({ stream }) => stream), [true, false], "where none streams, events are asked for");
});

test("addresses that name themselves or each other are not asked in a circle", async () => {
  const here = `http://127.0.0.1:${server.address().port}`;
  script = [elsewhere(`${here}/`), page];
  assert.deepEqual(await read(client().watch(JOB)), [1]);
  assert.deepEqual(requests.map(({ stream }) => stream), [true, false]);
  requests.length = 0;
  script = [elsewhere(`${here}/there`), elsewhere(here), page];
  assert.deepEqual(await read(client().watch(JOB)), [1]);
  assert.deepEqual(requests.map(({ stream }) => stream), [true, true, false]);
});

test("a stream that breaks off is resumed by its last event, and doubles are dropped", async () => {
  script = [
    streamOf([written(event(1)), written(event(2)), "id: 3\ndata: {\"half"], true),
    problem(503),
    (_, response) => response.writeHead(200, { "content-type": "application/json" }).end(JSON.stringify({ events: [event(3)], next: 3, ended: false })),
    streamOf([written(event(3)), written(event(4, END))]),
  ];
  assert.deepEqual(await read(client().watch(JOB)), [1, 2, 3, 4]);
  assert.deepEqual(requests.map(({ stream, last }) => [stream, last]), [[true, undefined], [true, "2"], [false, undefined], [true, "3"]]);
});

test("an end that came before is no reason to wait", async () => {
  script = [(_, response) => response.writeHead(204).end()];
  assert.deepEqual(await read(client().watch(JOB, { after: 7 })), []);
  assert.equal(requests[0].last, "7");
});

test("a token that is refused is renewed once", async () => {
  script = [problem(401), streamOf([written(event(1, END))])];
  const tokens = [token("ada"), token("eve")];
  const asked = client({ token: async () => tokens.shift() });
  assert.deepEqual(await read(asked.watch(JOB)), [1]);
  assert.notEqual(requests[0].token, requests[1].token);
});

test("a job that is not there ends the watch", async () => {
  script = [problem(404)];
  await assert.rejects(read(client().watch(JOB)), LonghaulProblem);
});

test("the wire is read as it may be written, wherever it is cut", async () => {
  const text = ":comment\r\nid: 1\r\ndata: a\r\ndata:  b ü天🙂\r\n\r\nid:2\ndata:c\nevent: x\n\nid\ndata\n\n\rdata: d\r\rdata: half";
  const bytes = new TextEncoder().encode(text);
  for (let cut = 0; cut <= bytes.length; cut += 1) {
    const body = new ReadableStream({
      start(controller) {
        controller.enqueue(bytes.slice(0, cut));
        controller.enqueue(bytes.slice(cut));
        controller.close();
      },
    });
    const seen = [];
    for await (const one of serverSentEvents(body)) seen.push([one.id, one.data]);
    assert.deepEqual(seen, [["1", "a\n b ü天🙂"], ["2", "c"], ["", ""], ["", "d"]], `cut at ${cut}`);
  }
});
