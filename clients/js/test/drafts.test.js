import assert from "node:assert/strict";
import { test } from "node:test";
import { Drafts } from "../src/index.js";
import { JOB, event } from "./server.js";

const piece = (offset, text, more = {}) => ({ job: JOB, epoch: 1, step: "3", name: "draft", attempt: 1, offset, text, ...more });

for (const [what, pieces, wanted, whole = true] of [
  ["pieces are joined", [piece(0, "and "), piece(4, "so")], "and so"],
  ["offsets count characters, not their halves", [piece(0, "漢😀"), piece(2, "!")], "漢😀!"],
  ["a lost piece is shown as one", [piece(0, "and"), piece(9, "on")], "and…on", false],
  ["who comes late sees where", [piece(7, "end")], "…end", false],
  ["an offset that begins anew voids what stands behind", [piece(0, "one two"), piece(4, "three")], "one three"],
  ["so does one at the beginning", [piece(0, "one"), piece(9, "x"), piece(0, "two")], "two"],
  ["another attempt begins anew", [piece(0, "one"), piece(0, "two", { attempt: 2 })], "two"],
  ["a piece of an attempt that is over is dropped", [piece(0, "two", { attempt: 2 }), piece(0, "one")], "two"],
  ["a piece of a worker that lost the job is dropped", [piece(0, "two", { epoch: 2 }), piece(3, "one", { attempt: 9 })], "two"],
]) {
  test(what, () => {
    const drafts = new Drafts();
    for (const one of pieces) drafts.take(one);
    const { text, whole: found } = drafts.all.get("3");
    assert.deepEqual([text, found], [wanted, whole]);
  });
}

test("a draft goes when its step is done, when another worker claims the job, and at the job's end", () => {
  for (const end of [
    { ...event(2), subject: "3" },
    { ...event(2, "AgentAttemptFailed"), subject: "3" },
    { ...event(2, "AgentJobClaimed"), data: { epoch: 2 } },
    event(2, "AgentJobCancelled"),
  ]) {
    const drafts = new Drafts();
    assert.equal(drafts.take(piece(0, "x")), true);
    assert.equal(drafts.settle({ ...event(1), subject: "4" }), false);
    assert.equal(drafts.settle(end), true, end.type);
    assert.equal(drafts.all.size, 0);
    assert.equal(drafts.settle(end), false);
  }
  const drafts = new Drafts();
  drafts.settle({ ...event(2, "AgentJobClaimed"), data: { epoch: 3 } });
  assert.equal(drafts.take(piece(0, "late", { epoch: 2 })), false);
});
