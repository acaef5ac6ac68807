/**
 * A Longhaul whose faults are scripted: real HTTP and WebSocket servers on 127.0.0.1 over journals in memory.
 */
import { once } from "node:events";
import { createServer } from "node:http";
import { WebSocketServer } from "ws";

export const JOB = "0190b6a2-7d3c-7c4e-9b1f-0a2b3c4d5e6f";

/** The token of a caller, unsigned: the server here checks none. */
export function token(subject, expiresInSeconds = 3600) {
  const part = (value) => Buffer.from(JSON.stringify(value)).toString("base64url");
  return `${part({ alg: "none" })}.${part({ sub: subject, exp: Math.floor(Date.now() / 1000) + expiresInSeconds })}.x`;
}

export const event = (sequence, type = "AgentStepCompleted", job = JOB) => ({
  specversion: "1.0",
  id: `${job}/${sequence}`,
  source: `/v1/jobs/${job}`,
  type: `longhaul.${type}`,
  time: "2026-01-31T08:00:00.500Z",
  datacontenttype: "application/json",
  sequence: String(sequence).padStart(10, "0"),
  data: {},
});

export const END = "AgentJobCompleted";

export class Server {
  journals = new Map([[JOB, []]]);
  /** What clients have asked for. */
  subscriptions = [];
  requests = [];
  tokens = [];
  /** Faults. */
  refuseSockets = false;
  refuseTokens = new Set();
  answerPings = true;
  problems = [];
  /** What a subscription is sent; by default everything behind `after`. */
  catchUp = (send, job, after) => {
    const events = this.journals.get(job).slice(after);
    for (const one of events) send({ type: "event", event: one });
    send({ type: "subscribed", job, after: Math.max(after, this.journals.get(job).length) });
  };

  static async start() {
    const server = new Server();
    server.http = createServer((request, response) => server.#answer(request, response));
    server.sockets = new WebSocketServer({ noServer: true });
    server.http.on("upgrade", (request, socket, head) => {
      const token = new URL(request.url, "http://x").searchParams.get("token");
      server.tokens.push(token);
      if (server.refuseSockets || server.refuseTokens.has(token)) return void socket.destroy();
      server.sockets.handleUpgrade(request, socket, head, (client) => server.#client(client));
    });
    server.http.listen(0, "127.0.0.1");
    await once(server.http, "listening");
    const { port } = server.http.address();
    server.url = `http://127.0.0.1:${port}`;
    server.websocket = `ws://127.0.0.1:${port}/live`;
    return server;
  }

  get journal() {
    return this.journals.get(JOB);
  }

  /** Appends an event without a push. */
  write(type, job = JOB) {
    const journal = this.journals.get(job);
    const one = event(journal.length + 1, type, job);
    journal.push(one);
    return one;
  }

  /** Sends a message to all clients. */
  push(message) {
    for (const client of this.sockets.clients) client.send(JSON.stringify(message));
  }

  pushEvent(one) {
    this.push({ type: "event", event: one });
  }

  /** Appends and pushes. */
  append(type) {
    this.pushEvent(this.write(type));
  }

  cut() {
    for (const client of this.sockets.clients) client.terminate();
  }

  async stop() {
    this.cut();
    this.http.closeAllConnections();
    this.http.close();
    await once(this.http, "close");
  }

  #client(client) {
    const send = (message) => client.readyState === client.OPEN && client.send(JSON.stringify(message));
    client.on("message", (data) => {
      const message = JSON.parse(data);
      if (message.action === "ping" && this.answerPings) send({ type: "pong" });
      if (message.action !== "subscribe") return;
      this.subscriptions.push(message);
      if (this.journals.has(message.job)) this.catchUp(send, message.job, message.after);
      else send({ type: "problem", job: message.job, problem: problem(404) });
    });
  }

  #answer(request, response) {
    const url = new URL(request.url, "http://x");
    const bearer = request.headers.authorization?.replace("Bearer ", "");
    this.requests.push({ method: request.method, url, key: request.headers["idempotency-key"], token: bearer });
    const send = (status, body, headers = {}) => {
      response.writeHead(status, { "content-type": "application/json", ...headers });
      response.end(JSON.stringify(body));
    };
    if (this.refuseTokens.has(bearer)) return send(401, problem(401));
    const scripted = this.problems.shift();
    if (scripted) return send(scripted.status, problem(scripted.status), scripted.headers);
    const job = /^\/v1\/jobs\/([^/]+)\/events$/.exec(url.pathname)?.[1];
    if (!job) return send(202, { id: JOB });
    if (!this.journals.has(job)) return send(404, problem(404));
    const after = Number(url.searchParams.get("after") ?? 0);
    const until = Date.now() + Number(url.searchParams.get("wait") ?? 0) * 1000;
    const look = () => {
      const journal = this.journals.get(job);
      const events = journal.slice(after, after + 150);
      const last = journal[after + events.length - 1];
      const ended = [`longhaul.${END}`, "longhaul.AgentJobFailed"].includes(last?.type);
      if (events.length > 0 || ended || Date.now() >= until || !this.http.listening) {
        send(200, { events, next: after + events.length, ended });
      } else {
        setTimeout(look, 5);
      }
    };
    look();
  }
}

const problem = (status) => ({
  type: status === 404 ? "urn:longhaul:problem:no-such-job" : "urn:longhaul:problem:some",
  title: "A problem",
  status,
  detail: "…",
});
