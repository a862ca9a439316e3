/** The cases that every SDK has to pass. */

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { createInterface } from "node:readline";
import { test } from "node:test";
import { fileURLToPath } from "node:url";

const FIXTURE = fileURLToPath(new URL("fixture.js", import.meta.url));
const CASES = JSON.parse(readFileSync(new URL("../../conformance/cases.json", import.meta.url), "utf8"));

/** Sends messages and takes as many answers. */
async function converse(messages, answers) {
  const program = spawn(process.execPath, [FIXTURE], { stdio: ["pipe", "pipe", "ignore"] });
  const ended = once(program, "exit");
  const lines = createInterface({ input: program.stdout })[Symbol.asyncIterator]();
  const send = (message) => program.stdin.write(`${JSON.stringify(message)}\n`);
  const take = async () => {
    for (;;) {
      const { value, done } = await lines.next();
      assert(!done, "the program has ended");
      const message = JSON.parse(value);
      if ("id" in message) {
        return message;
      }
      assert.equal(message.method, "log");
    }
  };
  send({ jsonrpc: "2.0", id: 1, method: "initialize", params: { protocol: 1 } });
  const declared = await take();
  messages.forEach(send);
  const taken = new Map();
  for (let number = 0; number < answers; number++) {
    const message = await take();
    taken.set(message.id, message);
  }
  send({ jsonrpc: "2.0", id: 99, method: "shutdown" });
  assert.deepEqual(await take(), { jsonrpc: "2.0", id: 99, result: null });
  assert((await lines.next()).done, "it goes on");
  assert.deepEqual(await ended, [0, null]);
  return { declared, taken };
}

test("declares", async () => {
  const { declared } = await converse([], 0);
  assert.deepEqual(declared.result, CASES.declares);
});

for (const { name, messages, answers } of CASES.cases) {
  test(name, async () => {
    const { taken } = await converse(messages, answers.length);
    for (const answer of answers) {
      const message = taken.get(answer.id);
      assert.equal(message.jsonrpc, "2.0");
      if ("error" in answer) {
        assert(message.error.message.includes(answer.error), message.error.message);
        assert(!("result" in message));
      } else {
        assert.deepEqual(message.result, answer.result);
        assert(!("error" in message));
      }
    }
  });
}

test("what is no data fails, whatever the language calls it", async () => {
  const kinds = ["set", "inherited", "toJSON", "ownToJSON", "getter", "hidden", "proxy", "list", "hole", "date", "surrogate"];
  const asked = kinds.map((kind, id) => ({
    jsonrpc: "2.0", id: id + 2, method: "event",
    params: { hook: "no_data", point: "before_tool_call", event: { toolName: "exec", params: { kind }, context: {} } },
  }));
  const { taken } = await converse(asked, kinds.length);
  for (const [id, kind] of kinds.entries()) {
    const { error, result } = taken.get(id + 2);
    assert(error?.message.includes("plain data"), `${kind}: ${JSON.stringify(error ?? result)}`);
  }
});
