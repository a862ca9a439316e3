/**
 * Speaks with Backstop: JSON-RPC 2.0, one message a line.
 *
 * Standard output is the line to Backstop. `run` takes it away from `console` and `process.stdout`, so that what is printed goes to
 * standard error, and that to the log.
 */

import { writeSync } from "node:fs";
import process from "node:process";

import { registry } from "./registry.js";
import { registerVerdicts } from "./verdicts.js";

/** The version of the protocol, and of the JSON of events and outcomes. */
const PROTOCOL = 1;
const FAILED = -32000;
const NO_METHOD = -32601;
const LEVELS = ["debug", "info", "warn", "error"];
const MOST_DEPTH = 100;

let isServing = false;

/** Writes all of a message, also where the pipe is full for a while. */
function send(message) {
  let bytes = Buffer.from(`${JSON.stringify(message)}\n`);
  while (bytes.length > 0) {
    try {
      bytes = bytes.subarray(writeSync(1, bytes));
    } catch (error) {
      if (error.code !== "EAGAIN") {
        throw error;
      }
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 1);
    }
  }
}

export function log(message, level = "info") {
  if (!LEVELS.includes(level)) {
    throw new Error(`\`level\` is one of ${LEVELS.join(", ")}`);
  }
  if (isServing) {
    send({ jsonrpc: "2.0", method: "log", params: { level, message: String(message) } });
  } else {
    process.stderr.write(`${message}\n`);
  }
}

const answer = (id, result) => send({ jsonrpc: "2.0", id, result });
const fail = (id, message, code = FAILED) => send({ jsonrpc: "2.0", id, error: { code, message } });

/** Refuses what JSON would drop, or turn into something else without a word. */
function check(value, depth = 0) {
  if (depth > MOST_DEPTH) {
    throw new TypeError("an answer is nested too deep, or holds itself");
  }
  switch (typeof value) {
    case "string":
    case "boolean":
      return;
    case "number":
      if (!Number.isFinite(value)) {
        throw new TypeError(`JSON has no ${value}`);
      }
      return;
    case "object":
      for (const each of value === null ? [] : Object.values(value)) {
        if (each !== undefined || Array.isArray(value)) {
          check(each, depth + 1);
        }
      }
      return;
    default:
      throw new TypeError(`JSON has no ${typeof value}`);
  }
}

/** What cancels the requests under way, by their ids. */
const running = new Map();

/** One request, from the question to its answer. */
async function work(id, registered, given, point) {
  if (registered === undefined) {
    fail(id, "there is no such hook or tool here");
    return;
  }
  const controller = new AbortController();
  try {
    let result = registered.run(given, { signal: controller.signal });
    if (typeof result?.then === "function") {
      running.set(id, controller);
      const cancelled = new Promise((_, reject) => {
        controller.signal.addEventListener("abort", () => reject(new Error("cancelled")));
      });
      result = await Promise.race([result, cancelled]);
    }
    // The one gate that takes no silence for an answer.
    result ??= point === "before_agent_run" ? { outcome: "pass" } : null;
    check(result);
    answer(id, result);
  } catch (error) {
    fail(id, error instanceof Error ? `${error.name}: ${error.message}` : String(error));
  } finally {
    running.delete(id);
  }
}

function declaration(concurrency) {
  const declared = (map) => [...map.values()].map((each) => each.declaration);
  return { protocol: PROTOCOL, concurrency, hooks: declared(registry.hooks), tools: declared(registry.tools) };
}

/** Handles one message; whether it is the last. */
function handle(request, concurrency) {
  const { id, method, params = {} } = request;
  switch (method) {
    case "initialize":
      answer(id, declaration(concurrency));
      return false;
    case "event":
      void work(id, registry.hooks.get(params.hook), params.event, params.point);
      return false;
    case "tool":
      void work(id, registry.tools.get(params.name), params.arguments);
      return false;
    case "$/cancel":
      running.get(params.id)?.abort();
      return false;
    case "shutdown":
      answer(id, null);
      return true;
    default:
      if (id !== undefined) {
        fail(id, `there is no \`${method}\` here`, NO_METHOD);
      }
      return false;
  }
}

/** What is printed goes to standard error. */
function takeOutput() {
  process.stdout.write = process.stderr.write.bind(process.stderr);
  for (const name of ["log", "info", "debug", "dir", "table"]) {
    console[name] = console.error;
  }
}

export async function run({ concurrency = 1, hooks = [] } = {}) {
  if (!Number.isInteger(concurrency) || concurrency < 1 || concurrency > 256) {
    throw new RangeError("`concurrency` is a number between 1 and 256");
  }
  hooks.forEach(registerVerdicts);
  takeOutput();
  isServing = true;
  let rest = [];
  for await (const chunk of process.stdin) {
    let begin = 0;
    for (let end = chunk.indexOf(10); end !== -1; end = chunk.indexOf(10, begin)) {
      const line = Buffer.concat([...rest, chunk.subarray(begin, end)]);
      rest = [];
      begin = end + 1;
      if (handle(JSON.parse(line.toString("utf8")), concurrency)) {
        process.exit(0);
      }
    }
    rest.push(chunk.subarray(begin));
  }
  process.exit(0);
}
