/** The cases that every SDK has to pass. */

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { createInterface } from "node:readline";
import { test } from "node:test";
import { fileURLToPath } from "node:url";

import { POINTS } from "../src/index.js";

const read = (name) => JSON.parse(readFileSync(new URL(`../../conformance/${name}`, import.meta.url), "utf8"));
const CASES = read("cases.json");
const { points } = read("points.json");
/** What runs the programs: Node, or what is to be tried in its place. */
const RUNTIME = process.env.BACKSTOP_TEST_RUNTIME ?? process.execPath;

/** Sends messages and takes as many answers. */
async function converse(messages, answers, fixture = "fixture.js") {
  const file = fileURLToPath(new URL(fixture, import.meta.url));
  const program = spawn(RUNTIME, [file], { stdio: ["pipe", "pipe", "ignore"] });
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

test("every point", async () => {
  const messages = [];
  const expected = new Map();
  const ask = ({ point, event }, hook, wanted) => {
    const id = messages.length + 2;
    const params = { hook: `${point}/${hook}`, point, event: { ...event, context: { sessionId: "s1", pluginConfig: null } } };
    messages.push({ jsonrpc: "2.0", id, method: "event", params });
    expected.set(id, wanted);
  };
  for (const each of points) {
    each.answers.forEach((answer, number) => ask(each, number, { result: answer }));
    ask(each, "silent", { result: each.silence });
    ask(each, "fails", { error: "out of order" });
  }
  const { declared, taken } = await converse(messages, messages.length, "points.fixture.js");
  const declares = declared.result.hooks.map(({ id, point }) => `${id} at ${point}`);
  assert.deepEqual(declares.sort(), messages.map(({ params }) => `${params.hook} at ${params.point}`).sort());
  for (const { id, params } of messages) {
    const { error, result } = taken.get(id);
    const wanted = expected.get(id);
    if ("error" in wanted) {
      assert(error?.message.includes(wanted.error), `${params.hook}: ${JSON.stringify(error ?? result)}`);
    } else {
      assert.deepEqual(result, wanted.result, `${params.hook}: ${error?.message}`);
    }
  }
  assert.deepEqual(points.map(({ point }) => point), [...POINTS]);
});
