/** What people do with the console, done by a browser with a real stack behind it. */
import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer } from "node:http";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { close, isMarked, jobIdOf, launch, mark, open, shows, showsSteps, status, stepNames } from "./browser.js";
import { Network } from "./network.js";
import { root, Stack } from "./stack.js";

let stack;
let browser;
before(async () => {
  stack = await Stack.start({ env: { LONGHAUL_RETRY_WAIT_FIRST_MS: "400" } });
  browser = await launch();
});
after(async () => {
  await browser?.close();
  await stack?.stop();
});

const upTo = (n, text) => Array.from({ length: n }, (_, index) => `${text} ${index + 1}`);

test("a job is submitted from its form, and its steps appear without a reload", async () => {
  const page = await open(browser, stack);
  await page.getByRole("link", { name: "Submit", exact: true }).click();
  await page.getByLabel("Agent", { exact: true }).selectOption("agent-10@1");
  await mark(page);
  await page.getByLabel(/^steps/).fill("1.5");
  await page.getByRole("button", { name: "Submit" }).click();
  await page.getByText("must be a whole number").waitFor();
  await page.getByLabel(/^steps/).fill("5000");
  await page.getByRole("button", { name: "Submit" }).click();
  // The server's own fault stands at its field.
  await page.locator("#input-steps-fault", { hasText: /1000/ }).waitFor();
  await page.getByLabel(/^steps/).fill("8");
  await page.getByText("Labels and budget").click();
  await page.getByLabel("Labels").fill("team=browser");
  await page.getByRole("button", { name: "Submit" }).click();
  await page.locator(".job h1").waitFor();
  const counts = new Set();
  while ((await status(page).textContent()) && !(await status(page).textContent()).includes("COMPLETED")) {
    counts.add((await stepNames(page)).length);
    await page.waitForTimeout(60);
  }
  assert.ok(counts.size >= 4, `steps came one after the other: ${[...counts]}`);
  await showsSteps(page, upTo(8, "step"));
  assert.ok(await isMarked(page), "the page was not loaded again");
  const job = await stack.client.job(jobIdOf(page));
  assert.deepEqual([job.status, job.labels, job.input], ["COMPLETED", { team: "browser" }, { steps: 8 }]);
  // The list finds it by its label.
  await page.getByRole("link", { name: "team=browser" }).click();
  await page.locator("table.jobs tbody tr").first().waitFor();
  assert.equal(await page.locator("table.jobs tbody tr").count(), 1);
  await close(page);
});

test("what a step says is read while it says it", async (t) => {
  const slow = await Stack.start({ options: ["--tokens-per-second", "15"] });
  t.after(() => slow.stop());
  const page = await open(browser, slow);
  const { id } = await slow.client.submit({ agent: "agent-10", input: { steps: 4 } });
  await page.goto(`${slow.console.split("#")[0]}#/jobs/${id}`);
  const text = page.locator(".writing pre").first();
  await text.waitFor();
  const lengths = new Set();
  while (!(await status(page).textContent()).includes("COMPLETED")) {
    if ((await text.count()) > 0) lengths.add(await text.textContent({ timeout: 1_000 }).then((found) => found.length, () => 0));
    await page.waitForTimeout(25);
  }
  assert.ok(lengths.size >= 3, `it grew: ${[...lengths]}`);
  // What is done is no draft any more.
  await page.locator(".writing").waitFor({ state: "detached" });
  await close(page);
});

test("the list is live", async () => {
  const page = await open(browser, stack);
  await page.locator("table.jobs, .empty").first().waitFor();
  const { id } = await stack.client.submit({ agent: "agent-10", input: { steps: 6 } });
  const row = page.locator("table.jobs tbody tr", { has: page.locator(`a[title="${id}"]`) });
  await row.waitFor();
  await row.getByText("COMPLETED").waitFor();
  await page.getByLabel("Find by id").fill(id);
  await shows(page, "COMPLETED");
  assert.equal(jobIdOf(page), id);
  await close(page);
});

test("the network is lost and comes back, with nothing missing", async (t) => {
  const network = await Network.start();
  t.after(() => network.stop());
  const page = await open(browser, stack, { network });
  const { id } = await stack.client.submit({ agent: "agent-10", input: { steps: 24 } });
  await page.goto(`${stack.console.split("#")[0]}#/jobs/${id}`);
  await page.locator("ol.steps > li").nth(3).waitFor();
  await page.locator(".link.live").waitFor();
  await mark(page);
  network.lose();
  await page.locator(".link.connecting").waitFor();
  const seen = (await stepNames(page)).length;
  await stack.until(id, (job) => job.steps >= seen + 8, "went on");
  assert.equal((await stepNames(page)).length, seen, "nothing came through while the network was lost");
  network.restore();
  await shows(page, "COMPLETED");
  await page.locator(".link.live").waitFor();
  await showsSteps(page, upTo(24, "step"));
  assert.ok(await isMarked(page));
  const events = await stack.events(id);
  await page.getByText(`${events.length} events`).click();
  const shown = (await page.locator(".activity .seq").allTextContents()).map(Number);
  assert.deepEqual(shown, events.map((event) => Number(event.sequence)), "each event once, in order");
  await close(page);
});

test("where WebSockets do not get through, events come as a stream", async (t) => {
  const network = await Network.start();
  t.after(() => network.stop());
  network.withoutSockets = true;
  const page = await open(browser, stack, { network });
  const { id } = await stack.client.submit({ agent: "agent-10", input: { steps: 16 } });
  await page.goto(`${stack.console.split("#")[0]}#/jobs/${id}`);
  await page.locator(".link.live").waitFor();
  const before = (await stepNames(page)).length;
  await page.locator("ol.steps > li").nth(before + 2).waitFor();
  network.withoutSockets = false;
  await shows(page, "COMPLETED");
  await showsSteps(page, upTo(16, "step"));
  await close(page);
});

test("a person approves", async (t) => {
  const tickets = [];
  const desk = createServer((request, response) => {
    tickets.push(request.headers["idempotency-key"]);
    request.resume();
    request.on("end", () => response.writeHead(201, { "content-type": "application/json" }).end('{"id":"T-1"}'));
  });
  t.after(() => desk.close());
  desk.listen(0, "127.0.0.1");
  await once(desk, "listening");
  const page = await open(browser, stack);
  await page.goto(`${stack.console.split("#")[0]}#/submit/compliance@1`);
  const samples = join(root, "infra/local/samples");
  await page.getByLabel(/^document/).fill(join(samples, "supplier-agreement.pdf"));
  await page.getByLabel(/^rules/).fill(join(samples, "compliance-rules.json"));
  await page.getByLabel(/^tickets url/).fill(`http://127.0.0.1:${desk.address().port}/tickets`);
  await page.getByLabel(/^approve/).check();
  await page.getByRole("button", { name: "Submit" }).click();
  await page.getByText("It waits for you").waitFor({ timeout: 60_000 });
  await shows(page, "WAITING");
  assert.equal(tickets.length, 0, "nothing is opened before somebody says so");
  await page.getByRole("button", { name: "Approve" }).click();
  await shows(page, "COMPLETED");
  assert.ok(tickets.length > 0 && new Set(tickets).size === tickets.length, `${tickets.length} tickets, each once`);
  await page.getByRole("button", { name: /^approval came/ }).click();
  await page.getByText(/Waited for the signal/).waitFor();
  await close(page);
});

test("a job is cancelled, with a reason", async () => {
  const page = await open(browser, stack);
  const { id } = await stack.client.submit({ agent: "agent-10", input: { steps: 200 } });
  await page.goto(`${stack.console.split("#")[0]}#/jobs/${id}`);
  await page.locator("ol.steps > li").nth(1).waitFor();
  await page.getByRole("button", { name: "Cancel this job…" }).click();
  await page.getByLabel(/^Why/).fill("the wrong topic");
  await page.getByRole("button", { name: "End the job" }).click();
  await shows(page, "CANCELLED");
  await page.locator("section", { hasText: "Cancelled by developer" }).getByText("the wrong topic").waitFor();
  assert.equal((await stack.client.job(id)).cancelled.reason, "the wrong topic");
  await close(page);
});

test("a broken job is edited and replayed to success", async () => {
  const page = await open(browser, stack);
  const { id } = await stack.client.submit({ agent: "agent-10", input: { steps: 6, fail_at: 4 } });
  await stack.until(id, (job) => job.status === "FAILED", "failed");
  await page.getByRole("link", { name: "Dead letters" }).click();
  const letter = page.locator("li.letter", { has: page.locator(`a[title="${id}"]`) });
  await letter.getByText(/step 4 was told to fail/).waitFor();
  await letter.getByRole("link", { name: "Edit and replay" }).click();
  const editor = page.getByRole("textbox", { name: "Input" });
  await page.getByText("Nothing is changed yet.").waitFor();
  await editor.fill('{ "steps": 6, "fail_at": 4');
  await page.getByText(/This is no JSON yet/).waitFor();
  assert.ok(await page.getByRole("button", { name: "Replay", exact: true }).isDisabled());
  await editor.fill(JSON.stringify({ steps: 6, fail_at: 4, mended: true }, null, 2));
  const diff = page.getByRole("region", { name: "Changes of the input" });
  await diff.locator(".added", { hasText: '"mended": true' }).waitFor();
  await mark(page);
  await page.getByRole("button", { name: "Replay", exact: true }).click();
  await shows(page, "COMPLETED");
  await showsSteps(page, upTo(6, "step"));
  assert.equal(await page.locator("li.step.forgotten").count(), 1, "the failed try stays to be seen");
  assert.ok(await isMarked(page));
  const events = await stack.events(id);
  const done = events.filter((event) => event.type === "longhaul.AgentStepCompleted").map((event) => event.data.name);
  assert.deepEqual(done, upTo(6, "step"), "no step was done twice");
  await close(page);
});

test("attempts that failed are seen, with what went wrong", async () => {
  const page = await open(browser, stack);
  await stack.faults([{ status: 503 }]);
  const { id } = await stack.client.submit({ agent: "agent-10", input: { steps: 2 } });
  await page.goto(`${stack.console.split("#")[0]}#/jobs/${id}`);
  await shows(page, "COMPLETED");
  await page.getByRole("button", { name: /^step 1 done, 2 attempts/ }).click();
  const attempts = page.locator(".attempts > li");
  await attempts.nth(1).waitFor();
  assert.equal(await attempts.count(), 2);
  assert.match(await attempts.first().textContent(), /again at .* the rehearsal was told to fail/);
  assert.equal(await page.locator("li.step").first().locator(".bar.retrying").count(), 1);
  await close(page);
});

test("dead letters that need no edit are replayed together, and from any step", async () => {
  const page = await open(browser, stack);
  const ids = [];
  for (const steps of [3, 4]) ids.push((await stack.client.submit({ agent: "agent-10", input: { steps, fail_at: 2 } })).id);
  for (const id of ids) await stack.until(id, (job) => job.status === "FAILED", "failed");
  await page.getByRole("link", { name: "Dead letters" }).click();
  for (const id of ids) await page.getByLabel(new RegExp(`Choose agent-10@1, ${id}`)).check();
  await page.getByRole("button", { name: "Replay 2 as they are" }).click();
  await page.getByText("2 jobs opened again.").waitFor();
  for (const id of ids) {
    const events = await stack.events(id);
    assert.ok(events.some((event) => event.type === "longhaul.AgentJobReplayed"), id);
  }
  const [id] = ids;
  await stack.until(id, (job) => job.status === "FAILED", "failed again");
  await page.goto(`${stack.console.split("#")[0]}#/jobs/${id}`);
  await page.getByRole("button", { name: /^step 1 done/ }).click();
  await page.getByRole("button", { name: "Replay from here" }).click();
  await page.getByRole("textbox", { name: "Input" }).fill('{ "steps": 3, "fail_at": 2, "mended": true }');
  await page.getByRole("button", { name: "Replay", exact: true }).click();
  await shows(page, "COMPLETED");
  const events = await stack.events(id);
  const again = events.filter((event) => event.type === "longhaul.AgentStepCompleted" && event.data.name === "step 1");
  assert.equal(again.length, 2, "the step was done anew, as asked");
  await close(page);
});

test("a token is asked for, kept out of the address, and asked for anew when it is refused", async () => {
  const page = await open(browser, stack, { signedIn: false });
  await page.getByRole("textbox", { name: "Token" }).fill("no token");
  await page.getByRole("button", { name: "Go on" }).click();
  await page.getByText(/This is no token/).waitFor();
  const [head, claims, sign] = stack.token.split(".");
  await page.getByRole("textbox", { name: "Token" }).fill([head, claims, [...sign].reverse().join("")].join("."));
  await page.getByRole("button", { name: "Go on" }).click();
  const question = page.getByRole("dialog");
  await question.getByText("Your token is not good any more").waitFor();
  await question.getByRole("textbox", { name: "Token" }).fill(stack.token);
  await question.getByRole("button", { name: "Go on" }).click();
  await page.locator("table.jobs").waitFor();
  await question.waitFor({ state: "detached" });
  await close(page);
  const direct = await open(browser, stack);
  await direct.locator("table.jobs").waitFor();
  assert.ok(!direct.url().includes("token"), "the token does not stay in the address");
  await direct.getByRole("button", { name: "Sign out" }).click();
  await direct.getByRole("textbox", { name: "Token" }).waitFor();
  await close(direct);
});

test("what models and callers write stays text", async () => {
  const topic = '<img src=x onerror="globalThis.pwned=1"><script>globalThis.pwned=1</script> [press](javascript:globalThis.pwned=1)';
  const { id } = await stack.client.submit({ agent: "research", input: { topic, sources_max: 2 }, labels: { "<b>": "<i>x" } });
  const page = await open(browser, stack);
  await page.goto(`${stack.console.split("#")[0]}#/jobs/${id}`);
  await shows(page, "COMPLETED");
  await page.locator(".markdown h1, .markdown p").first().waitFor();
  for (const folded of await page.locator("button.step-row").all()) await folded.click();
  await page.getByText("Raw journal").click();
  await page.locator(".entries summary").first().click();
  const found = await page.evaluate(() => ({
    pwned: globalThis.pwned,
    images: document.querySelectorAll("main img").length,
    scripts: document.querySelectorAll("main script").length,
    links: [...document.querySelectorAll("a")].map((a) => a.getAttribute("href")).filter((href) => /^javascript:/i.test(href ?? "")),
  }));
  assert.deepEqual(found, { pwned: undefined, images: 0, scripts: 0, links: [] });
  await close(page);
});

test("everything can be reached by the keyboard", async () => {
  const { id } = await stack.client.submit({ agent: "agent-10", input: { steps: 2 } });
  await stack.until(id, (job) => job.status === "COMPLETED", "completed");
  const page = await open(browser, stack);
  await page.locator(`a[title="${id}"]`).waitFor();
  const focused = () => page.evaluate(() => document.activeElement?.textContent?.trim() ?? "");
  await page.keyboard.press("Tab");
  assert.equal(await focused(), "To the content");
  await page.keyboard.press("Enter");
  assert.equal(await page.evaluate(() => document.activeElement?.id), "main");
  for (let at = 0; at < 60 && !(await focused()).endsWith(id.slice(-8)); at += 1) await page.keyboard.press("Tab");
  await page.keyboard.press("Enter");
  await shows(page, "COMPLETED");
  await showsSteps(page, upTo(2, "step"));
  for (let at = 0; at < 60 && !(await focused()).startsWith("step 1"); at += 1) await page.keyboard.press("Tab");
  await page.keyboard.press("Enter");
  await page.locator(".step-details").waitFor();
  await close(page);
});
