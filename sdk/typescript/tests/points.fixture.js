/**
 * The program that the cases of every point are sent to.
 *
 * At each point stand a hook for each answer of its case (`before_tool_call/0`), one that checks its event and has no opinion
 * (`before_tool_call/silent`), and one that throws (`before_tool_call/fails`). With an argument, only those whose id ends with it.
 */

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";

import { hook, run } from "../src/index.js";

const { points } = JSON.parse(readFileSync(new URL("../../conformance/points.json", import.meta.url), "utf8"));
const wanted = process.argv[2];

const silent = (expected) => async (event) => {
  const { context: _, ...given } = event;
  assert.deepEqual(given, expected);
};
const fails = () => {
  throw new Error("out of order");
};

for (const { point, event, answers } of points) {
  const hooks = Object.entries({ ...answers.map((answer) => () => answer), silent: silent(event), fails });
  for (const [name, handler] of hooks) {
    if (wanted === undefined || wanted === name) {
      hook(point, { id: `${point}/${name}`, timeoutMs: 60_000 }, handler);
    }
  }
}

await run();
