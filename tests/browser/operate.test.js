/** What people look into and mend: prompts, calls of tools, children, money, versions, dead letters by the dozen. */
import assert from "node:assert/strict";
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
  await close(page);
});
