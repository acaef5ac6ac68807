/** The bundle that the api function carries is what the sources give, and is built from nothing that a host must give. */
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { mkdtemp, readdir, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { promisify } from "node:util";
import { root } from "./stack.js";

const run = promisify(execFile);

test("building the console again gives the same bytes", async () => {
  const out = await mkdtemp(join(tmpdir(), "longhaul-console-"));
  try {
    await run("npx", ["--no-install", "vite", "build", "--outDir", out, "--logLevel", "error"], { cwd: join(root, "infra/console") });
    const kept = join(root, "functions/api/console");
    const names = (await readdir(out)).sort();
    const advice = "build it and commit it: npm run build -w infra/console";
    assert.deepEqual((await readdir(kept)).sort(), names, advice);
    for (const name of names) {
      const [built, committed] = await Promise.all([readFile(join(out, name)), readFile(join(kept, name))]);
      assert.ok(built.equals(committed), `functions/api/console/${name} is not what infra/console gives; ${advice}`);
    }
  } finally {
    await rm(out, { recursive: true, force: true });
  }
});

test("the lock file names no registry", async () => {
  const lock = JSON.parse(await readFile(join(root, "package-lock.json"), "utf8"));
  for (const [name, { resolved, link }] of Object.entries(lock.packages)) {
    assert.ok(resolved === undefined || link === true, `${name} would be fetched from ${resolved}`);
  }
});

// Python-2.0 is the licence of one tool of tools (argparse), which is permissive and in nothing that we ship.
test("what is installed may be used", async () => {
  const allowed = /^(MIT|Apache-2\.0|BSD-2-Clause|BSD-3-Clause|0BSD|ISC|MPL-2\.0|Python-2\.0|\(MPL-2\.0 OR Apache-2\.0\)|\(MIT OR CC0-1\.0\))$/;
  const lock = JSON.parse(await readFile(join(root, "package-lock.json"), "utf8"));
  const others = Object.entries(lock.packages)
    .filter(([name, { link }]) => name !== "" && !link)
    .filter(([, { license }]) => !allowed.test(license ?? ""))
    .map(([name, { license }]) => `${name}: ${license}`);
  assert.deepEqual(others, []);
});
