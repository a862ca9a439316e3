/** What the package does without Backstop. */

import assert from "node:assert/strict";
import { test } from "node:test";

import { HookVerdict, ToolCallHook, ToolExecutor, createHooks, hook, hookTypes } from "../src/index.js";

class Says extends ToolCallHook {
  asked = [];
  told = [];

  constructor(verdict, error) {
    super();
    Object.assign(this, { verdict, error });
  }

  preCall(_toolName, args) {
    this.asked.push({ ...args });
    args.command = "tampered";
    if (this.error) {
      throw this.error;
    }
    return this.verdict;
  }

  postCall(_toolName, _args, result) {
    this.told.push(result);
    if (this.error) {
      throw this.error;
    }
  }
}

async function execute(hooks, command = "ls", tool = "run_command") {
  const ran = [];
  const skill = { execute: (name, args) => (ran.push([name, args]), "done") };
  const result = await new ToolExecutor(new Map([["run_command", skill]]), hooks).execute(tool, { command });
  return { result, ran };
}

test("hooks chain, and what a hook does to its copy changes nothing", async () => {
  const after = new Says(HookVerdict.approve());
  const { result, ran } = await execute([new Says(HookVerdict.modify({ command: "b" })), after]);
  assert(result.success);
  assert.deepEqual([after.asked, ran], [[{ command: "b" }], [["run_command", { command: "b" }]]]);
  const later = new Says(HookVerdict.approve());
  const denied = await execute([new Says(HookVerdict.deny("no")), later]);
  assert.deepEqual([denied.result.error, denied.ran, later.asked, later.told.length], ["no", [], [], 1]);
});

test("failing is not passing", async () => {
  const failing = [new Says(undefined, new Error("x")), new Says(null), new Says("approve"), new Says({ verdict: "approve" })];
  for (const bad of failing) {
    const { result, ran } = await execute([bad]);
    assert.deepEqual([result.success, ran], [false, []]);
  }
  const { result, ran } = await execute([new Says(HookVerdict.ask("why"))]);
  assert(result.error.includes("human"));
  assert.deepEqual(ran, []);
});

test("no hooks is passthrough, and no tool is an error", async () => {
  assert.deepEqual((await execute(undefined)).result, { success: true, output: "done" });
  assert((await execute(undefined, "ls", "other")).result.error.includes("no tool"));
});

test("verdicts are made by their words", () => {
  assert.throws(() => new HookVerdict("approve"), TypeError);
  assert.throws(() => HookVerdict.modify([]), TypeError);
});

test("types and points are found by name, and near ones are named", () => {
  hookTypes.set("my_hook", Says);
  assert(createHooks([{ type: "my_hook" }])[0] instanceof Says);
  for (const [type, said] of [["my_hok", "my_hook"], ["policy", "backstop.yaml"]]) {
    assert.throws(() => createHooks([{ type }]), new RegExp(said));
  }
  assert.throws(() => createHooks([{ type: "my_hook", confg: {} }]), /confg/);
  assert.throws(() => hook("before_tool_cal", () => null), /did you mean `before_tool_call`/);
  assert.throws(() => hook("toString", () => null), /unknown hook point/);
  assert.throws(() => hook("before_tool_call", { prioriy: 1 }, () => null), /did you mean `priority`/);
  assert.throws(() => hook("before_tool_call", {}), TypeError);
});
