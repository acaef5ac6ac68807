/** The embedded stack as a person starts it: the real program, its real functions as processes, a folder of its own. */
import { spawn } from "node:child_process";
import { existsSync } from "node:fs";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { Longhaul } from "longhaul-client";

export const root = new URL("../../", import.meta.url).pathname;

/** The program. `cargo build` has made it: a test of the browser does not build what it runs. */
function program() {
  const target = process.env.CARGO_TARGET_DIR ?? join(root, "target");
  const found = join(target, "debug", "longhaul");
  if (!existsSync(found)) throw new Error(`${found} is not there; build it first: cargo build`);
  return found;
}

export class Stack {
  /** @param {{ thinkMs?: number, env?: Record<string, string>, options?: string[] }} how */
  static async start({ thinkMs = 250, env = {}, options = [] } = {}) {
    const stack = new Stack();
    stack.data = await mkdtemp(join(tmpdir(), "longhaul-browser-"));
    const args = ["up", "--port", "0", "--websocket-port", "0", "--data", stack.data, "--think-ms", String(thinkMs), ...options];
    stack.process = spawn(program(), args, { env: { ...process.env, ...env }, stdio: ["ignore", "pipe", "pipe"] });
    stack.ended = new Promise((resolve) => stack.process.once("exit", resolve));
    // Whatever becomes of the test, its stack goes with it.
    process.once("exit", () => stack.process.kill("SIGKILL"));
    stack.said = "";
    stack.process.stderr.on("data", (text) => (stack.said += text));
    const found = {};
    const lines = createInterface({ input: stack.process.stdout });
    const gone = stack.ended.then((code) => {
      throw new Error(`the stack ended with ${code} before it was up: ${stack.said}`);
    });
    const up = (async () => {
      for await (const line of lines) {
        const [, name, value] = /^(\w+)\s+(\S.*)$/.exec(line) ?? [];
        if (name) found[name] = value;
        if (found.token && found.console && found.API) return;
      }
      await gone;
    })();
    await Promise.race([up, gone]);
    gone.catch(() => {});
    lines.on("line", () => {});
    stack.token = found.token;
    stack.console = found.console;
    stack.client = new Longhaul({ url: found.API, token: found.token });
    return stack;
  }

  /** Waits until a job is so, and gives it. */
  async until(id, condition, what) {
    const giveUp = Date.now() + 60_000;
    for (;;) {
      const job = await this.client.job(id);
      if (condition(job)) return job;
      if (Date.now() > giveUp) throw new Error(`job ${id} never ${what}: ${JSON.stringify(job).slice(0, 500)}`);
      await new Promise((resolve) => setTimeout(resolve, 100));
    }
  }

  /** All events of a job, as the API has them. */
  async events(id) {
    const all = [];
    for (;;) {
      const page = await this.client.call("GET", `/v1/jobs/${id}/events`, { query: { after: all.length } });
      all.push(...page.events);
      if (page.events.length === 0 || page.ended) return all;
    }
  }

  /** Makes the stand-in model go wrong, each fault once. */
  async faults(faults) {
    const { rehearsal } = JSON.parse(await readFile(join(this.data, "stack.json"), "utf8"));
    const address = new URL("/rehearsal/faults", rehearsal);
    const answer = await fetch(address, { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(faults) });
    if (!answer.ok) throw new Error(`${address} answered ${answer.status}: ${await answer.text()}`);
  }

  async stop() {
    this.client?.close();
    this.process.kill("SIGINT");
    await this.ended;
    await rm(this.data, { recursive: true, force: true });
  }
}
