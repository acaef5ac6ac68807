import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { rolldown } from "rolldown";

/** The console's own code, out of TypeScript by the tool that bundles it. */
async function load(path) {
  const bundle = await rolldown({ input: new URL(`../src/${path}`, import.meta.url).pathname });
  const { output } = await bundle.generate({ format: "esm" });
  await bundle.close();
  return import(`data:text/javascript,${encodeURIComponent(output[0].code)}`);
}

const { emptyStory, fold, childrenOf, endOf } = await load("story/fold.ts");
const { scaleOf, union } = await load("story/scale.ts");
const { fieldsOf, isCovered, labelsOf, labelsText, read, shown, faultsByField } = await load("story/form.ts");
const { nameFault, scheduleOf, scheduleText } = await load("story/schedule.ts");
const { statistics, quantile } = await load("story/statistics.ts");
const { answerOf, callsOf, sentOf } = await load("story/exchange.ts");
const { costOf, sumOf } = await load("story/cost.ts");
const { matches, canOpen, classesOf } = await load("story/letters.ts");
const { duration, age, ahead, compact, dollars } = await load("format.ts");

const root = new URL("../../../", import.meta.url);
const kept = JSON.parse(readFileSync(new URL("shared/wire/tests/snapshots/shapes__events.snap", root), "utf8").split("\n---\n")[1]);

const job = "0190b6a2-7d3c-7c4e-9b1f-0a2b3c4d5e6f";
let position = 0;
const event = (type, subject, data = {}, seconds = position) => ({
  specversion: "1.0", id: `${job}/${++position}`, source: `/v1/jobs/${job}`, type: `longhaul.Agent${type}`,
  time: new Date(1_700_000_000_000 + seconds * 1_000).toISOString(), subject, datacontenttype: "application/json",
  sequence: String(position).padStart(10, "0"), data,
});
const story = (events) => events.reduce(fold, emptyStory());

test("the server's own events make a story", () => {
  const found = story(kept);
  assert.equal(found.position, kept.length);
  const byKey = Object.fromEntries([...found.forgotten, ...found.steps].map((step) => [step.key, step]));
  assert.equal(byKey["0"].state, "completed");
  assert.deepEqual(byKey["3[1].0"].branch, { index: 1, of: 4 });
  assert.equal(byKey["1"].attempts.length, 2);
  assert.deepEqual(byKey["1"].attempts.map((one) => one.end), ["retrying", "failed"]);
  assert.equal(byKey["4"].waits[0].by, "signal");
  assert.ok(found.notes.some((note) => note.kind === "replayed"));
  assert.ok(found.ended);
});

test("a replay forgets what failed, or what stands behind its position", () => {
  position = 0;
  const begin = [
    event("JobClaimed", undefined, { epoch: 1, session: "s", takeover: false }),
    event("StepCompleted", "0", { name: "a", kind: "step", attempt: 1 }),
    event("StepCompleted", "1", { name: "b", kind: "step", attempt: 1 }),
    event("StepFailed", "2", { name: "c", kind: "step", attempt: 1, failure: { class: "invalid", message: "no" } }),
    event("JobFailed", "2", { failure: { class: "invalid", message: "no" } }),
  ];
  const keys = (steps) => steps.map((step) => step.key);
  const failed = story([...begin, event("JobReplayed", undefined, { by: "ada" })]);
  assert.deepEqual([keys(failed.steps), keys(failed.forgotten), failed.ended], [["0", "1"], ["2"], false]);
  position = 5;
  const from = story([...begin, event("JobReplayed", undefined, { by: "ada", from: 3 })]);
  assert.deepEqual([keys(from.steps), keys(from.forgotten)], [["0"], ["1", "2"]]);
});

test("children are those that were waited for, and an open step has no end", () => {
  position = 0;
  const found = story([
    event("Waiting", "0", { name: "ask another", kind: "child", on: { for: "child", child: "c-1" }, until: null }),
    event("AttemptFailed", "1", { name: "x", kind: "step", attempt: 1, failure: {}, retry_at: "2026-01-31T08:00:10Z" }),
    event("SomethingNew", "9", {}),
  ]);
  assert.deepEqual(childrenOf(found).map(({ child }) => child), ["c-1"]);
  assert.deepEqual(found.steps.map(endOf), [undefined, undefined]);
  assert.equal(found.position, 3, "an event of a kind that is not known moves the cursor all the same");
});

test("a story does not change what it has shown before", () => {
  position = 0;
  const found = story([event("Waiting", "0", { name: "approval", kind: "signal", on: { for: "signal", signal: "approval" } })]);
  const before = found.steps[0];
  fold(found, event("WaitEnded", "0", { name: "approval", kind: "signal", end: { by: "signal", signal_seq: 2 } }));
  assert.notEqual(found.steps[0], before);
  assert.deepEqual([before.state, before.waits[0].to, found.steps[0].state], ["waiting", undefined, "completed"]);
});

test("the scale draws idle time short, and nothing else", () => {
  assert.deepEqual(union([[5, 6], [1, 3], [2, 4]]), [[1, 4], [5, 6]]);
  const hour = 3_600_000;
  for (const shorten of [false, true]) {
    const scale = scaleOf(0, hour + 20_000, [[0, 10_000], [hour + 10_000, hour + 20_000]], shorten);
    const share = scale.stretches.reduce((sum, stretch) => sum + stretch.share, 0);
    assert.ok(Math.abs(share - 1) < 1e-9);
    assert.equal(scale.at(0), 0);
    assert.equal(scale.at(hour + 20_000), 1);
    assert.equal(scale.stretches.some((stretch) => stretch.short), shorten);
    const work = scale.at(10_000);
    assert.ok(shorten ? work > 0.4 : work < 0.01, String(work));
    let last = -1;
    for (let at = 0; at <= hour + 20_000; at += 50_000) {
      assert.ok(scale.at(at) >= last);
      last = scale.at(at);
    }
  }
  for (const busy of [[], [[0, 0]], [[-5, 50]]]) assert.equal(scaleOf(0, 10, busy, true).at(10), 1);
  const many = scaleOf(0, 1e9, Array.from({ length: 50 }, (_, i) => [i * 2e7, i * 2e7 + 100]), true);
  assert.ok(Math.abs(many.stretches.reduce((sum, stretch) => sum + stretch.share, 0) - 1) < 1e-9);
});

test("the agents' schemas make forms, and what stands in them is read back", () => {
  const agents = JSON.parse(readFileSync(new URL("shared/wire/agents.json", root), "utf8"));
  for (const agent of agents) {
    const fields = fieldsOf(agent.input_schema);
    assert.equal(fields.length, Object.keys(agent.input_schema.properties).length, agent.name);
    const needed = fields.filter((field) => field.required).map((field) => field.name);
    assert.deepEqual(needed.sort(), [...(agent.input_schema.required ?? [])].sort());
    assert.deepEqual(fields.slice(0, needed.length).every((field) => field.required), true, "needed ones come first");
  }
});

test("fields are read as their kind says", () => {
  const schema = {
    type: "object",
    required: ["b"],
    properties: {
      a: { type: "string" }, b: { type: "integer", minimum: 1 }, c: { type: "boolean" }, d: { enum: ["x", 2] },
      e: { type: "array", items: { type: "string" } }, f: { type: "object" }, g: { type: ["number", "null"] },
      h: { anyOf: [{ type: "string" }, { type: "array" }] },
    },
  };
  const field = (name) => fieldsOf(schema).find((one) => one.name === name);
  for (const [name, text, value] of [
    ["a", "plain", "plain"], ["a", "  ", undefined], ["b", "7", 7], ["c", "true", true], ["c", "false", false], ["d", "2", 2],
    ["d", "x", "x"], ["e", "one\n\n two ", ["one", "two"]], ["f", '{"k": [1]}', { k: [1] }], ["g", "1.5", 1.5],
    ["h", "/a/path.json", "/a/path.json"], ["h", '["r"]', ["r"]],
  ]) {
    assert.deepEqual(read(field(name), text), { value }, `${name} ${text}`);
    if (value !== undefined) assert.deepEqual(read(field(name), shown(field(name).kind, value)), { value }, `${name} again`);
  }
  for (const [name, text] of [["b", "1.5"], ["b", "x"], ["f", "{"], ["f", "text"], ["h", "[1"]]) {
    assert.ok("fault" in read(field(name), text), `${name} ${text}`);
  }
  assert.equal(fieldsOf({ type: "string" }), undefined);
  assert.equal(fieldsOf({ type: "object", oneOf: [{}], properties: {} }), undefined);
  assert.deepEqual(faultsByField([{ field: "/input/a~1b/0", detail: "x" }, { field: "/input/a~1b", detail: "y" }, { field: "/input", detail: "z" }]), { "a/b": "x; y", "": "z" });
  assert.deepEqual(faultsByField([{ field: "/job/input/topic", detail: "x" }]), { topic: "x" });
  assert.deepEqual(labelsOf("a=1\n\n b = x=y \nc"), { a: "1", b: "x=y", c: "" });
  assert.deepEqual(labelsOf(labelsText({ a: "1", b: "x=y" })), { a: "1", b: "x=y" });
  assert.equal(labelsText(), "");
});

test("statistics of jobs", () => {
  const at = (seconds) => new Date(1_700_000_000_000 + seconds * 1_000).toISOString();
  const made = (status, from, to, tokens) => ({ status, submitted_at: at(from), updated_at: at(to), usage: { input_tokens: tokens, output_tokens: 1, money_micros: tokens } });
  const jobs = [made("COMPLETED", 0, 10, 9), made("COMPLETED", 1, 3, 9), made("FAILED", 2, 6, 0), made("PENDING", 10, 20, 0)];
  const found = statistics(jobs, 1_700_000_000_000 + 60_000);
  assert.deepEqual(found.latencies, [2_000, 4_000, 10_000]);
  assert.ok(Math.abs(found.success - 2 / 3) < 1e-9);
  assert.deepEqual([found.queueAge, found.usage.input_tokens, found.usage.money_micros, found.jobs], [40_000, 18, 18, 4]);
  const sum = (name) => found.buckets.reduce((total, bucket) => total + bucket[name], 0);
  assert.deepEqual([sum("submitted"), sum("completed"), sum("failed"), sum("tokens"), sum("moneyMicros")], [4, 2, 1, 21, 18]);
  assert.equal(quantile([], 0.5), undefined);
  assert.equal(quantile([1, 2, 3], 1), 3);
  assert.equal(statistics([], Date.now()).buckets.length, 0);
});

test("numbers as people read them", () => {
  for (const [ms, text] of [[0, "0 ms"], [999, "999 ms"], [4_250, "4.3 s"], [9_970, "10 s"], [59_700, "1 min"], [185_000, "3 min 5 s"], [2 * 86_400_000 + 4 * 3_600_000, "2 d 4 h"], [-5, "0 ms"], [NaN, "–"]]) {
    assert.equal(duration(ms), text);
  }
  assert.equal(age(new Date(0).toISOString(), 1_000), "now");
  assert.equal(age(new Date(0).toISOString(), 3_700_000), "1 h");
  const until = [61_000, 900, 0, -5].map((ms) => ahead(new Date(1_000_000 + ms).toISOString(), 1_000_000));
  assert.deepEqual(until, ["in 1 min 1 s", "in 1.0 s", "now", "now"]);
  assert.deepEqual([compact(950), compact(12_345)], ["950", "12.3K"]);
});

test("what went to models and tools is found in what steps recorded", () => {
  const call = (name, args) => ({ id: name, name, arguments: { kind: "object", object: args } });
  const reply = { reply: { message: { role: "assistant", content: [{ type: "text", text: "Let me " }, { type: "image" }, { type: "text", text: "look." }], tool_calls: [call("look", { at: 1 }), call("gone", {}), call("look", { at: 2 })] }, model: "m-1" }, usage: {} };
  assert.deepEqual(answerOf(reply), { text: "Let me look.", model: "m-1", calls: [{ name: "look", arguments: { at: 1 } }, { name: "gone", arguments: {} }, { name: "look", arguments: { at: 2 } }] });
  for (const other of [null, "text", [], { reply: 1 }, { reply: {} }, { value: 1 }]) assert.equal(answerOf(other), undefined);
  position = 0;
  // The call of what is not there was answered and has no branch; the second branch asks a person first.
  const found = story([
    event("StepCompleted", "0", { name: "model", kind: "effect", attempt: 1, output: reply }),
    event("Progress", "1[1].0", { name: "approval needed", kind: "emit", value: {} }),
    event("Waiting", "1[1].1", { name: "approval:look:1", kind: "signal", on: { for: "signal", signal: "approval:look:1" } }),
    event("StepCompleted", "1[0].0", { name: "look", kind: "step", attempt: 1, output: "one" }),
    event("StepCompleted", "1[1].2", { name: "look", kind: "step", attempt: 1, output: "two" }),
    event("StepCompleted", "2", { name: "model", kind: "effect", attempt: 1, output: { reply: { message: { content: [] } } } }),
  ]);
  assert.deepEqual([...callsOf(found.steps)], [["1[0].0", { name: "look", arguments: { at: 1 } }], ["1[1].2", { name: "look", arguments: { at: 2 } }]]);
  const sent = sentOf({ model: "m", messages: [{ role: "system", text: "Be kind." }, { left_out: 3 }, { role: "user", text: "x", tool_calls: [{ name: "t", arguments: { kind: "malformed", text: "{" } }] }], tools: ["t"] });
  assert.deepEqual(sent.messages, [{ role: "system", text: "Be kind.", calls: [] }, { leftOut: 3 }, { role: "user", text: "x", calls: [{ name: "t", arguments: "{" }] }]);
  assert.equal(sentOf("x"), undefined);
});

test("what it cost is said as far as it is known", () => {
  for (const [usage, known, text] of [
    [{}, "nothing", "–"], [{ input_tokens: 5, money_micros: 1_500 }, "known", "$0.0015"],
    [{ input_tokens: 5, unpriced_tokens: 5 }, "unknown", "unknown"], [{ output_tokens: 5 }, "unknown", "unknown"],
    [{ input_tokens: 5, money_micros: 12_345_678, unpriced_tokens: 2 }, "at least", "≥ $12.35"],
  ]) assert.deepEqual([costOf(usage).known, costOf(usage).text], [known, text], JSON.stringify(usage));
  assert.deepEqual(sumOf([{ money_micros: 1 }, { money_micros: 2, input_tokens: 3 }]), { input_tokens: 3, output_tokens: 0, money_micros: 3, unpriced_tokens: 0 });
  assert.deepEqual([0, 1, 20, 1_230, 500_000, 1_000_000].map(dollars), ["$0", "$0.000001", "$0.000020", "$0.0012", "$0.50", "$1.00"]);
});

test("dead letters are told apart by agent, failure and text", () => {
  const letter = { id: "a-1", agent: "x@1", submitted_by: "ada", labels: { team: "ops" }, failure: { class: "timeout", message: "No Answer", causes: ["connection reset"] } };
  for (const [filter, wanted] of [
    [{}, true], [{ agent: "x@1" }, true], [{ agent: "x@2" }, false], [{ failure: "timeout" }, true], [{ failure: "refused" }, false],
    [{ text: "no answer" }, true], [{ text: "RESET" }, true], [{ text: "team=ops" }, true], [{ text: "a-1" }, true], [{ text: "b" }, false],
  ]) assert.equal(matches(letter, { agent: "", failure: "", text: "", ...filter }), wanted, JSON.stringify(filter));
  assert.deepEqual(classesOf([letter, letter, { id: "b" }]), ["timeout"]);
  assert.deepEqual([letter, { ...letter, imported_at: "2026-01-31T08:00:00.000Z" }].map(canOpen), [true, false]);
});

test("an input that fields do not show whole is left to JSON", () => {
  const fields = fieldsOf({ type: "object", properties: { steps: { type: "integer" } } });
  const covered = [undefined, {}, { steps: 3 }].map((input) => isCovered(fields, input));
  const others = [{ steps: 3, more: 1 }, [], null, "text", 7].map((input) => isCovered(fields, input));
  assert.deepEqual([covered, others], [[true, true, true], [false, false, false, false, false]]);
});

test("a schedule's fields change what they show and nothing else", () => {
  assert.deepEqual(scheduleText(undefined, "Europe/Berlin"), { cron: "", time_zone: "Europe/Berlin", paused: false, thread: "", on_busy: "enqueue" });
  const job = { agent: "research@1", input: { topic: "leases" }, labels: {}, budget: undefined };
  const before = {
    cron: "0 7 * * *", time_zone: "UTC", paused: true, holidays: "DE-BE",
    job: { agent: "research@1", input: {}, budget: { steps: 3 }, labels: { by: "clock" }, webhook: "https://example.com/", priority: "interactive", thread: "daily", on_busy: "reject" },
  };
  const text = scheduleText(before, "Europe/Berlin");
  assert.deepEqual(text, { cron: "0 7 * * *", time_zone: "UTC", paused: true, thread: "daily", on_busy: "reject" });
  const kept = { webhook: "https://example.com/", priority: "interactive" };
  const whole = (request) => JSON.parse(JSON.stringify(request));
  assert.deepEqual(whole(scheduleOf(text, job, before)), {
    ...before, job: { ...kept, agent: "research@1", input: { topic: "leases" }, labels: {}, thread: "daily", on_busy: "reject" },
  });
  const bare = scheduleOf({ ...text, cron: " @daily ", time_zone: " ", paused: false, thread: " " }, job, before);
  assert.deepEqual(whole(bare), {
    cron: "@daily", time_zone: "UTC", paused: false, holidays: "DE-BE", job: { ...kept, agent: "research@1", input: { topic: "leases" }, labels: {} },
  });
  assert.deepEqual(whole(scheduleOf(text, job)).job.webhook, undefined);
  const names = ["a", "daily-7_x.y:z", "x".repeat(64), "", "a b", "a/b", "é", "x".repeat(65)];
  assert.deepEqual(names.map((name) => nameFault(name) === undefined), [true, true, true, false, false, false, false, false]);
});
