/** A real browser: Debian's Chromium, driven by Playwright, kept off every network but the test's own. */
import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { chromium } from "playwright-core";
import { root } from "./stack.js";

const CHROMIUM = process.env.LONGHAUL_CHROMIUM ?? "/usr/bin/chromium";

/** Where screenshots are kept. */
export const SHOTS = join(process.env.CARGO_TARGET_DIR ?? join(root, "target"), "browser");

export async function launch() {
  if (!existsSync(CHROMIUM)) {
    throw new Error(`${CHROMIUM} is not there: the browser tests need Chromium (apt-get install chromium, or LONGHAUL_CHROMIUM)`);
  }
  await mkdir(SHOTS, { recursive: true });
  return chromium.launch({
    executablePath: CHROMIUM,
    args: [
      "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
      "--disable-component-update", "--disable-sync", "--no-default-browser-check", "--disable-domain-reliability",
    ],
  });
}

/** A tab at the console, signed in, whose faults are kept. */
export async function open(browser, stack, { network, signedIn = true, ...options } = {}) {
  const context = await browser.newContext({
    viewport: { width: 1280, height: 900 },
    ...(network && { proxy: { server: network.address, bypass: "<-loopback>" } }),
    ...options,
  });
  context.setDefaultTimeout(30_000);
  const page = await context.newPage();
  page.faults = [];
  page.on("pageerror", (error) => page.faults.push(`an error in the page: ${error.stack}`));
  page.on("console", (message) => {
    // What a lost network does to requests is what the test is about; a policy that is offended never is.
    const text = message.text();
    const expected = /Failed to load resource|WebSocket connection to .* failed/.test(text) && !/Content Security/.test(text);
    if (message.type() === "error" && !expected) page.faults.push(`in the console: ${text}`);
  });
  await page.goto(signedIn ? stack.console : stack.console.split("#")[0]);
  return page;
}

/** The page did nothing that it should not have, and closes. */
export async function close(page) {
  assert.deepEqual(page.faults, []);
  await page.context().close();
}

/** Marks the page, so that a reload would show. */
export const mark = (page) => page.evaluate(() => (globalThis.notReloaded = true));
export const isMarked = (page) => page.evaluate(() => globalThis.notReloaded === true);

export const status = (page) => page.locator(".job h1 .status");
const STEP_NAMES = "ol.steps > li:not(.forgotten) .name";
export const stepNames = (page) => page.locator(STEP_NAMES).allTextContents();
export const jobIdOf = (page) => new URL(page.url()).hash.split("/")[2].split("?")[0];

/** Waits for a job's page to show a status. */
export const shows = (page, wanted, timeout = 60_000) =>
  status(page).filter({ hasText: wanted }).waitFor({ timeout });

/**
 * Waits for a job's page to show exactly these steps. The status comes with the job and the steps with its events, so a
 * page that says COMPLETED may show no step yet.
 */
export async function showsSteps(page, wanted) {
  const seen = ([steps, names]) =>
    JSON.stringify([...document.querySelectorAll(steps)].map((name) => name.textContent)) === JSON.stringify(names);
  await page.waitForFunction(seen, [STEP_NAMES, wanted]).catch(async (late) => {
    assert.deepEqual(await stepNames(page), wanted, late.message);
  });
}
