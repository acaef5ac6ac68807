/** What people look into and mend: prompts, calls of tools, children, money, versions, dead letters by the dozen. */
import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer } from "node:http";
import { after, before, test } from "node:test";
import { close, launch, open, shows, showsSteps } from "./browser.js";
import { ScriptedModel } from "./model.js";
import { Stack } from "./stack.js";

/** A model that the table of prices knows. */
const PRICED = "claude-sonnet-5";

let model;
let stack;
let browser;

const systemOf = (request) => request.messages.find((message) => message.role === "system")?.content ?? "";
const toldOf = (request) => request.messages.filter((message) => message.role === "tool").map((message) => message.content);

/** The parent asks its helper once; the clerk refuses until its instructions are kind. */
function answer(request) {
  const system = systemOf(request);
  if (system.startsWith("Lead.")) {
    return toldOf(request).length === 0 ? { text: "I will ask.", calls: [["helper", { question: "how many?" }]] } : { text: `It says: ${toldOf(request)[0]}` };
  }
  if (system.startsWith("Buy.")) {
    return toldOf(request).length === 0 ? { text: "May I?", calls: [["helper", { question: "how many?" }]] } : { text: "Bought." };
  }
  if (system.startsWith("Help.")) return { text: "forty-two" };
  return system.includes("kind") ? { text: "Dear reader, all is well." } : { status: 400 };
}

const definition = (name, instructions, more = {}) => ({
  name, description: `The ${name} of a test.`, instructions, models: [{ provider: "script" }], ...more,
});

before(async () => {
  model = await ScriptedModel.start(answer);
  const providers = { script: { wire: "chat", base_url: model.address, model: PRICED, features: { streaming: false } } };
  stack = await Stack.start({ thinkMs: 0, env: { LONGHAUL_PROVIDERS: JSON.stringify(providers), LONGHAUL_RETRY_WAIT_FIRST_MS: "200" } });
  browser = await launch();
  const save = (one) => stack.client.call("PUT", `/v1/agents/${one.name}`, { body: one });
  await save(definition("helper", "Help."));
  const input_schema = { type: "object", properties: { question: { type: "string" } } };
  const tools = [{ kind: "run_agent", name: "helper", description: "Knows numbers.", input_schema, agent: "helper", version: 1 }];
  await save(definition("leader", "Lead. In a hurry.", { tools }));
  await save(definition("leader", "Lead.", { tools }));
  await save(definition("buyer", "Buy.", { tools, approval: ["helper"] }));
  await save(definition("clerk", "Write curtly."));
});
after(async () => {
  await browser?.close();
  await stack?.stop();
  model?.stop();
});

const at = (place) => `${stack.console.split("#")[0]}#/${place}`;

test("a prompt that a model refused is read, edited and replayed to success", async () => {
  const { id } = await stack.client.submit({ agent: "clerk", input: { to: "the reader" } });
  await stack.until(id, (job) => job.status === "FAILED", "failed");
  const page = await open(browser, stack);
  await page.goto(at(`jobs/${id}?replay`));
  const why = page.locator("section", { has: page.getByRole("heading", { name: "Why it failed" }) });
  await why.getByText("What was sent to the model").click();
  await why.getByText("Write curtly.").first().waitFor();
  await why.getByText(PRICED).waitFor();
  const instructions = page.getByRole("textbox", { name: /^Instructions/ });
  assert.equal(await instructions.inputValue(), "Write curtly.");
  await instructions.fill("Write and be kind.");
  await page.getByRole("textbox", { name: /^Model/ }).fill("claude-haiku-4-5");
  const diff = page.getByRole("region", { name: "Changes of the instructions" });
  await diff.locator(".removed", { hasText: "Write curtly." }).waitFor();
  await diff.locator(".added", { hasText: "Write and be kind." }).waitFor();
  await page.getByRole("button", { name: "Replay", exact: true }).click();
  await shows(page, "COMPLETED");
  await page.getByText("Dear reader, all is well.").first().waitFor();
  assert.deepEqual([systemOf(model.asked.at(-1)), model.asked.at(-1).model], ["Write and be kind.", "claude-haiku-4-5"]);
  await page.getByText("instructions, as edited").waitFor();
  const agent = await stack.client.call("GET", "/v1/agents/clerk");
  assert.equal(agent.definition.instructions, "Write curtly.", "the definition stays as it is");
  await close(page);
});

test("a child is seen below its parent, its call with what went in and came out, and what it all cost", async () => {
  const { id } = await stack.client.submit({ agent: "leader", input: {} });
  const page = await open(browser, stack);
  await page.goto(at(`jobs/${id}`));
  await shows(page, "COMPLETED");
  await showsSteps(page, ["model", "helper", "model"]);
  const children = page.locator("section", { has: page.getByRole("heading", { name: "1 child" }) });
  await children.getByText("COMPLETED").waitFor();
  await children.getByText("helper@1").waitFor();
  const steps = page.locator("ol.steps > li");
  await steps.nth(0).getByRole("button").first().click();
  await steps.nth(0).getByText("What the model answered").waitFor();
  await steps.nth(0).getByText("I will ask.").waitFor();
  await steps.nth(1).getByRole("button").first().click();
  await steps.nth(1).getByText("Called with").click();
  await steps.nth(1).getByText("how many?").waitFor();
  // Three answers of 1,000 tokens at $2 and 200 at $10 a million.
  const job = await stack.client.job(id);
  assert.equal(job.usage.money_micros, 3 * (2_000 + 2_000), JSON.stringify(job.usage));
  await page.locator(".facts-row").getByText("$0.012").waitFor();
  await page.getByRole("heading", { name: /^Invocations/ }).click();
  await page.getByRole("region", { name: "Invocations" }).getByText("first").waitFor();
  await page.goto(at("jobs"));
  await page.locator("tr", { has: page.locator(`a[title="${id}"]`) }).getByText("$0.012").waitFor();
  await close(page);
});

test("agents show their versions and how each is defined", async () => {
  const page = await open(browser, stack);
  await page.goto(at("agents"));
  await page.getByRole("link", { name: "leader", exact: true }).click();
  await page.getByRole("heading", { name: /leader version 2/ }).waitFor();
  await page.locator("section", { hasText: "Definition" }).getByText("script", { exact: true }).waitFor();
  await page.getByRole("button", { name: "Compare with version 1" }).click();
  const diff = page.getByRole("region", { name: "Changes of the definition" });
  await diff.locator(".removed", { hasText: "In a hurry" }).waitFor();
  await page.getByLabel("Version").selectOption("1");
  await page.getByRole("heading", { name: /leader version 1/ }).waitFor();
  await page.locator("pre").getByText("Lead. In a hurry.", { exact: true }).waitFor();
  await close(page);
});

test("dead letters are replayed by the dozen, by a filter", async () => {
  const ids = [];
  for (let count = 0; count < 3; count += 1) {
    ids.push((await stack.client.submit({ agent: "agent-10", input: { steps: 2, fail_at: 1 }, labels: { batch: "nightly" } })).id);
  }
  const { id: other } = await stack.client.submit({ agent: "agent-10", input: { steps: 2, fail_at: 2 } });
  for (const id of [...ids, other]) await stack.until(id, (job) => job.status === "FAILED", "failed");
  const page = await open(browser, stack);
  await page.goto(at("dead-letters"));
  await page.locator("li.letter").nth(3).waitFor();
  await page.getByLabel("Text").fill("batch=nightly");
  await page.locator("li.letter").nth(3).waitFor({ state: "detached" });
  await page.getByRole("button", { name: /^Replay all that match/ }).click();
  // It is said although the list may be empty by then, or full again.
  await page.getByText("3 jobs opened again.").waitFor();
  const replayed = async (id) => (await stack.events(id)).some((event) => event.type === "longhaul.AgentJobReplayed");
  for (const id of ids) assert.ok(await replayed(id), id);
  assert.ok(!(await replayed(other)), "what the filter does not mean stays");
  await close(page);
});

test("another job is made of one that has ended, from any step", async () => {
  const { id } = await stack.client.submit({ agent: "agent-10", input: { steps: 3 } });
  await stack.until(id, (job) => job.status === "COMPLETED", "completed");
  const page = await open(browser, stack);
  await page.goto(at(`jobs/${id}`));
  await page.locator("ol.steps > li").nth(1).getByRole("button").first().click();
  await page.getByRole("button", { name: "Fork from here" }).click();
  await page.getByRole("textbox", { name: "Input" }).fill('{ "steps": 4 }');
  await page.getByRole("button", { name: "Fork", exact: true }).click();
  await page.getByText(/fork of/).waitFor();
  await shows(page, "COMPLETED");
  await showsSteps(page, ["step 1", "step 2", "step 3", "step 4"]);
  const made = await stack.client.job(page.url().split("/jobs/")[1]);
  assert.deepEqual([made.forked_from.job, made.input], [id, { steps: 4 }]);
  assert.equal((await stack.client.job(id)).steps, 3, "the job itself stays as it was");
  await page.getByRole("heading", { name: /^Activity/ }).click();
  const forked = page.locator(".activity li", { has: page.locator(".what", { hasText: /^forked$/ }) });
  await forked.getByText(`of job ${id}, 1 outcomes before position`).waitFor();
  await close(page);
});

test("a call is approved with other arguments", async () => {
  const { id } = await stack.client.submit({ agent: "buyer", input: {} });
  const page = await open(browser, stack);
  await page.goto(at(`jobs/${id}`));
  await page.getByRole("heading", { name: "It waits for you" }).waitFor();
  await page.getByRole("button", { name: "Approve with other arguments…" }).click();
  const editor = page.getByRole("textbox", { name: "Arguments" });
  const approve = page.getByRole("button", { name: "Approve with these arguments" });
  assert.deepEqual(JSON.parse(await editor.inputValue()), { question: "how many?" });
  await editor.fill('{ "question": ');
  await page.getByText(/This is no JSON yet/).waitFor();
  assert.ok(await approve.isDisabled());
  await editor.fill('["how much?"]');
  await page.getByText("Arguments are an object, by name.").waitFor();
  assert.ok(await approve.isDisabled());
  // What does not fit the tool is said, and the job waits on.
  await editor.fill('{ "question": 7 }');
  await approve.click();
  await page.getByText(/What was sent was not taken: the changed arguments do not fit/).waitFor();
  if (!(await editor.isVisible())) await page.getByRole("button", { name: "Approve with other arguments…" }).click();
  await editor.fill('{ "question": "how much?" }');
  const diff = page.getByRole("region", { name: "Changes of the arguments" });
  await diff.locator(".added", { hasText: "how much?" }).waitFor();
  await approve.click();
  await shows(page, "COMPLETED");
  const helped = model.asked.filter((request) => systemOf(request).startsWith("Help.")).at(-1);
  assert.ok(JSON.stringify(helped).includes("how much?") && !JSON.stringify(helped).includes("how many?"));
  await close(page);
});

test("what a webhook was sent is read, and sent again", async (t) => {
  const bodies = [];
  const receiver = createServer(async (request, response) => {
    let text = "";
    for await (const piece of request) text += piece;
    bodies.push(JSON.parse(text));
    response.writeHead(bodies.length === 1 ? 200 : 202).end();
  });
  receiver.listen(0, "127.0.0.1");
  await once(receiver, "listening");
  t.after(() => receiver.close());
  const webhook = `http://127.0.0.1:${receiver.address().port}/hook`;
  const { id } = await stack.client.submit({ agent: "agent-10", input: { steps: 1 }, webhook });
  const page = await open(browser, stack);
  await page.goto(at(`jobs/${id}`));
  await shows(page, "COMPLETED");
  await page.getByRole("heading", { name: "Webhook deliveries" }).click();
  const row = page.locator(".deliveries > li");
  await row.getByText("DELIVERED").waitFor();
  await row.getByText("JobCompleted", { exact: true }).waitFor();
  await row.getByText("answered 200").waitFor();
  await row.getByRole("button", { name: "Send again" }).click();
  await row.getByText("answered 202").waitFor();
  await row.getByText("DELIVERED").waitFor();
  assert.equal(bodies.length, 2);
  assert.deepEqual(bodies[1], bodies[0], "the same event again");
  await close(page);
});
