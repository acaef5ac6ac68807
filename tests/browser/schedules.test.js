/** Schedules in the console: made in the form, listed, changed, seen to fire, removed. */
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { close, isMarked, launch, mark, open, shows } from "./browser.js";
import { Stack } from "./stack.js";

/** The longest until a schedule of every minute has fired: its next minute, a sweep behind it, and a machine that is busy. */
const FIRING_MAX_MS = 180_000;

let stack;
let browser;
before(async () => {
  stack = await Stack.start({ thinkMs: 0 });
  browser = await launch();
  // First, so that its minute passes while the others are tested.
  await save("minutely", { cron: "* * * * *", job: { agent: "agent-10", input: { steps: 1 }, labels: { by: "clock" } } });
});
after(async () => {
  await browser?.close();
  await stack?.stop();
});

const at = (place) => `${stack.console.split("#")[0]}#/${place}`;
const save = (name, body) => stack.client.call("PUT", `/v1/schedules/${name}`, { body });
const stored = (name) => stack.client.call("GET", `/v1/schedules/${name}`);
const row = (page, name) => page.locator("table.schedules tbody tr", { has: page.getByRole("link", { name, exact: true }) });

test("a schedule is made in the form, and what is wrong stands at its field", async () => {
  const page = await open(browser, stack);
  await page.getByRole("link", { name: "Schedules", exact: true }).click();
  await mark(page);
  await page.getByRole("link", { name: "New schedule" }).click();
  await page.getByLabel("Agent", { exact: true }).selectOption("agent-10@1");
  await page.getByLabel("Name", { exact: true }).fill("minutely");
  await page.getByLabel("Times", { exact: true }).fill("every day");
  await page.getByLabel(/^Time zone/).fill("Europe/Berlin");
  await page.getByLabel(/^steps/).fill("3");
  const save = page.getByRole("button", { name: "Save" });
  await save.click();
  await page.locator("#schedule-name-fault", { hasText: "is the name of another schedule" }).waitFor();
  await page.getByLabel("Name", { exact: true }).fill("morning brief");
  await save.click();
  await page.locator("#schedule-name-fault", { hasText: "must be 1 to 64 letters" }).waitFor();
  await page.getByLabel("Name", { exact: true }).fill("morning");
  await save.click();
  // The server's own faults stand at their fields.
  await page.locator("#schedule-cron-fault", { hasText: /five fields/ }).waitFor();
  await page.getByLabel("Times", { exact: true }).fill("0 7 * * MON-FRI");
  await page.getByLabel(/^steps/).fill("5000");
  await save.click();
  await page.locator("#input-steps-fault", { hasText: /1000/ }).waitFor();
  await page.getByLabel(/^steps/).fill("3");
  await page.getByText("Labels, budget and thread").click();
  await page.getByLabel("Labels").fill("team=browser");
  await page.getByLabel(/^Thread/).fill("daily");
  await page.getByLabel(/^While another/).selectOption("reject");
  await save.focus();
  await page.keyboard.press("Enter");

  const made = row(page, "morning");
  await made.getByText("0 7 * * MON-FRI").waitFor();
  const { schedule, next_at } = await stored("morning");
  assert.deepEqual(schedule, {
    cron: "0 7 * * MON-FRI", time_zone: "Europe/Berlin",
    job: { agent: "agent-10@1", input: { steps: 3 }, labels: { team: "browser" }, thread: "daily", on_busy: "reject" },
  });
  assert.equal(await made.locator(".cell-next time").getAttribute("datetime"), next_at);
  await made.getByText(/^in \d/).waitFor();
  assert.equal(await made.locator(".cell-last").textContent(), "not yet");
  assert.ok(await isMarked(page), "the page was not loaded again");
  await close(page);
});

test("a schedule is changed, and keeps what the form does not show", async () => {
  const job = { agent: "agent-10", input: { steps: 2 }, webhook: "https://example.com/hook", priority: "interactive", budget: { steps: 40 } };
  await save("nightly", { cron: "0 2 * * *", time_zone: "Asia/Tokyo", job });
  const page = await open(browser, stack);
  await page.goto(at("schedules"));
  await page.getByRole("link", { name: "nightly", exact: true }).click();
  await page.getByRole("heading", { name: "nightly" }).waitFor();
  await page.getByText("https://example.com/hook").waitFor();
  assert.equal(await page.getByLabel("Times", { exact: true }).inputValue(), "0 2 * * *");
  assert.equal(await page.getByLabel(/^Time zone/).inputValue(), "Asia/Tokyo");
  assert.equal(await page.getByLabel(/^steps/).inputValue(), "2");
  await page.getByLabel("Times", { exact: true }).fill("@hourly");
  await page.getByLabel(/^steps/).fill("4");
  await page.getByLabel("Paused").check();
  await page.getByRole("button", { name: "Save" }).click();
  await row(page, "nightly").getByText("PAUSED").waitFor();
  const { schedule, next_at } = await stored("nightly");
  const { budget, ...kept } = { ...job, agent: "agent-10@1", input: { steps: 4 } };
  assert.deepEqual([schedule, next_at], [{ cron: "@hourly", time_zone: "Asia/Tokyo", paused: true, job: { ...kept, budget } }, undefined]);

  // Another agent takes another input.
  await save("nightly", { cron: "0 2 * * *", job: { agent: "research", input: { topic: "queues" } } });
  await page.getByRole("link", { name: "nightly", exact: true }).click();
  await page.getByLabel("Agent", { exact: true }).selectOption("agent-10@1");
  assert.equal(await page.getByLabel(/^steps/).inputValue(), "");
  await close(page);
});

test("a schedule is removed once it was asked twice", async () => {
  await save("short-lived", { cron: "@daily", job: { agent: "agent-10", input: { steps: 1 } } });
  const page = await open(browser, stack);
  await page.goto(at("schedules"));
  const remove = page.getByRole("button", { name: /^Remove short-lived/ });
  await remove.click();
  await page.getByRole("button", { name: "Keep it" }).click();
  assert.equal((await stored("short-lived")).name, "short-lived");
  await remove.focus();
  await page.keyboard.press("Enter");
  // The focus is where one goes on by the keyboard.
  await page.waitForFunction(() => document.activeElement?.textContent === "Remove it");
  await page.keyboard.press("Enter");
  await page.getByRole("status").filter({ hasText: "Removed short-lived." }).waitFor();
  await row(page, "short-lived").waitFor({ state: "detached" });
  await assert.rejects(stored("short-lived"), (error) => error.status === 404);
  await close(page);
});

test("a schedule fires, and the list shows its job without a reload", async () => {
  const page = await open(browser, stack);
  await page.goto(at("schedules"));
  await mark(page);
  const job = row(page, "minutely").locator(".cell-last a.id");
  await job.waitFor({ timeout: FIRING_MAX_MS });
  assert.ok(await isMarked(page));
  const id = await job.getAttribute("title");
  assert.ok(Date.parse((await stored("minutely")).next_at) > Date.now() - FIRING_MAX_MS, "and there is a next one");
  await job.click();
  await shows(page, "COMPLETED");
  assert.deepEqual((await stack.client.job(id)).submitted_by, "schedule:minutely");
  await close(page);
});
