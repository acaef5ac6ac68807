/** How the console looks, how fast it is there, and whether everybody can use it. */
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { close, launch, open, SHOTS } from "./browser.js";
import { root, Stack } from "./stack.js";

const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

/** Milliseconds to the first paint on loopback, at most, and bytes of the whole bundle as it is sent. */
const FIRST_PAINT_MAX_MS = 1_000;
const BUNDLE_MAX_BYTES = 200_000;

let stack;
let browser;
let pages;

before(async () => {
  stack = await Stack.start({ thinkMs: 60, env: { LONGHAUL_RETRY_WAIT_FIRST_MS: "300" } });
  browser = await launch();
  const { client } = stack;
  const samples = join(root, "infra/local/samples");
  await stack.faults([{ status: 503, nth: 3 }]);
  const submit = (agent, input, labels = {}, budget) => client.submit({ agent, input, labels, budget });
  const research = await submit("research", { topic: "how queues make agents reliable" }, { team: "docs", release: "7" }, { tokens: 60_000, wall_seconds: 3_600 });
  const compliance = await submit("compliance", {
    document: join(samples, "supplier-agreement.pdf"), rules: join(samples, "compliance-rules.json"), approve: true,
    tickets_url: "http://127.0.0.1:9/tickets",
  });
  const broken = await submit("agent-10", { steps: 9, fail_at: 6 }, { team: "ops" });
  for (let at = 1; at <= 6; at += 1) await submit("agent-10", { steps: at }, { batch: "nightly" });
  const cancelled = await submit("agent-10", { steps: 900 });
  const sorter = (instructions) => ({
    name: "sorter", description: "Sorts letters by what they ask for.", instructions, models: [{ provider: "default" }],
    tools: [{ kind: "ask_person", name: "decision", description: "Asks a person where none of the drawers fits." }],
  });
  for (const text of ["Sort.", "Sort into drawers, and ask where none fits."]) await client.call("PUT", "/v1/agents/sorter", { body: sorter(text) });
  const schedule = (name, body) => client.call("PUT", `/v1/schedules/${name}`, { body });
  const brief = { agent: "research", input: { topic: "how queues make agents reliable" }, labels: { team: "docs" }, thread: "briefing", on_busy: "reject" };
  await schedule("briefing", { cron: "0 7 * * MON-FRI", time_zone: "Europe/Berlin", job: brief });
  await schedule("every-minute", { cron: "* * * * *", job: { agent: "agent-10", input: { steps: 2 }, labels: { by: "clock" } } });
  await schedule("month-end", { cron: "30 23 L * *", time_zone: "America/New_York", paused: true, job: { agent: "agent-10", input: { steps: 5 } } });
  const over = (job) => ["COMPLETED", "FAILED"].includes(job.status);
  await stack.until(research.id, over, "ended");
  await stack.until(broken.id, over, "ended");
  await stack.until(compliance.id, (job) => job.status === "WAITING", "waited");
  await client.cancel(cancelled.id, "too many steps");
  await submit("agent-10", { steps: 900, bytes: 64 }, { team: "ops" }, { steps: 1_000 });
  pages = {
    jobs: "#/jobs", submit: "#/submit/compliance@1", research: `#/jobs/${research.id}`, waiting: `#/jobs/${compliance.id}`,
    failed: `#/jobs/${broken.id}?replay`, "dead-letters": "#/dead-letters", agents: "#/agents", agent: "#/agents/sorter@2", dashboard: "#/dashboard",
    schedules: "#/schedules", schedule: "#/schedules/briefing", "new-schedule": "#/schedules?new",
  };
});
after(async () => {
  await browser?.close();
  await stack?.stop();
});

/** What each page shows when it is complete. */
const COMPLETE = {
  jobs: "table.jobs tbody tr", submit: ".form .field", research: ".markdown p", waiting: ".approval", failed: "#replay-input",
  "dead-letters": "li.letter", agents: ".cards .card", agent: "#definition", dashboard: ".chart canvas",
  schedules: "table.schedules tbody tr", schedule: "#schedule-cron", "new-schedule": "#schedule-cron",
};

const LOOKS = {
  light: { colorScheme: "light" },
  dark: { colorScheme: "dark" },
  phone: { colorScheme: "light", viewport: { width: 390, height: 844 }, deviceScaleFactor: 2, isMobile: true, hasTouch: true },
};

for (const [look, options] of Object.entries(LOOKS)) {
  test(`${look}: no page has a serious fault for anybody, and none is wider than the screen`, async () => {
    const page = await open(browser, stack, { ...options, reducedMotion: "reduce" });
    const serious = [];
    for (const [name, address] of Object.entries(pages)) {
      await page.goto(`${stack.console.split("#")[0]}${address}`);
      await page.locator(COMPLETE[name]).first().waitFor();
      if (name === "agent") await page.getByRole("button", { name: /^Compare/ }).click();
      if (name === "schedules") await page.getByRole("button", { name: /^Remove month-end/ }).click();
      if (name === "schedule") await page.getByText("Labels, budget and thread").click();
      if (name === "failed") {
        await page.locator("#replay-input").fill(JSON.stringify({ steps: 9, fail_at: 6, mended: true }, null, 2));
        await page.getByLabel(/^Model/).fill("another-model");
        await page.getByRole("button", { name: /^step 6 failed/ }).click();
        await page.getByRole("heading", { name: /^Invocations/ }).click();
        await page.locator(".diff .added").first().waitFor();
      }
      await page.evaluate(() => scrollTo(0, 0));
      await page.waitForTimeout(250);
      await page.screenshot({ path: join(SHOTS, `${name}-${look}.png`), fullPage: name !== "research" });
      const width = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
      assert.ok(width <= 0, `${name} is ${width} pixels wider than the screen`);
      await page.evaluate(axe);
      const { violations } = await page.evaluate(() => globalThis.axe.run(document, { resultTypes: ["violations"] }));
      for (const { id, impact, nodes } of violations) {
        if (["serious", "critical"].includes(impact)) serious.push(`${name}: ${id}: ${nodes[0].html.slice(0, 160)} (${nodes[0].failureSummary})`);
      }
    }
    assert.deepEqual(serious, []);
    console.log(JSON.stringify({ look, pages: Object.keys(pages).length, screenshots: SHOTS }));
    await close(page);
  });
}

test("the first paint is there at once, and little is sent for it", async () => {
  const paints = [];
  let sent;
  for (let round = 0; round < 3; round += 1) {
    const page = await open(browser, stack);
    await page.locator("table.jobs tbody tr").first().waitFor();
    const figures = await page.evaluate(() => ({
      paint: performance.getEntriesByName("first-contentful-paint")[0]?.startTime,
      files: performance.getEntriesByType("resource").concat(performance.getEntriesByType("navigation"))
        .filter((entry) => entry.name.includes("/console"))
        .map((entry) => ({ name: entry.name.split("/").at(-1).split("#")[0] || "index.html", bytes: entry.encodedBodySize })),
    }));
    paints.push(Math.round(figures.paint));
    sent = figures.files;
    await close(page);
  }
  const whole = await bundle();
  const first = sent.reduce((sum, file) => sum + file.bytes, 0);
  console.log(JSON.stringify({ firstPaintMs: paints, sentForTheListBytes: first, bundleBytes: whole }));
  assert.ok(Math.min(...paints) < FIRST_PAINT_MAX_MS, `first paints after ${paints} ms`);
  assert.ok(whole < BUNDLE_MAX_BYTES, `the bundle has ${whole} bytes`);
});

/** Bytes of every file of the console, as the function sends them. */
async function bundle() {
  const base = stack.console.split("#")[0];
  const seen = new Set(["index.html"]);
  let bytes = 0;
  for (const name of seen) {
    const answer = await fetch(base + name, { headers: { "accept-encoding": "gzip" } });
    assert.equal(answer.status, 200, name);
    bytes += Number(answer.headers.get("content-length"));
    const text = await answer.text();
    // Pages and scripts name what else there is.
    for (const [, other] of text.matchAll(/["'`](?:\.\/)([\w-]+\.(?:js|css|svg|txt))["'`]/g)) seen.add(other);
  }
  return bytes;
}
