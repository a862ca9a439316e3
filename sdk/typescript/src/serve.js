/**
 * Speaks with Backstop: JSON-RPC 2.0, one message a line.
 *
 * Standard output is the line to Backstop. `run` takes it away from `console` and `process.stdout`, so that what is printed goes to
 * standard error, and that to the log.
 */

import { writeSync } from "node:fs";
import process from "node:process";
import { types } from "node:util";

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
function sendText(message) {
  let bytes = Buffer.from(`${message}\n`);
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

const send = (message) => sendText(JSON.stringify(message));

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

/** Writes an answer, of which nothing may be lost on the way: what is not plain data is refused, and runs no code. */
function written(value, path = "answer", above = []) {
  const no = (why) => new TypeError(`${path} ${why}; answer with plain data`);
  if (value === null || typeof value === "boolean") {
    return String(value);
  }
  if (typeof value === "string") {
    if (/\p{Surrogate}/u.test(value)) {
      throw no("is no text that Unicode knows (a lone surrogate)");
    }
    return JSON.stringify(value);
  }
  if (typeof value === "number") {
    if (!Number.isFinite(value)) {
      throw no(`is ${value}, which JSON does not have`);
    }
    return JSON.stringify(value);
  }
  if (typeof value !== "object") {
    throw no(`is a ${typeof value}`);
  }
  if (types.isProxy(value)) {
    throw no("is a proxy");
  }
  if (above.length >= MOST_DEPTH || above.includes(value)) {
    throw no("is nested too deep, or holds itself");
  }
  const inside = [...above, value];
  const own = (key) => {
    const at = Array.isArray(value) ? `${path}[${key}]` : `${path}.${String(key)}`;
    const described = Object.getOwnPropertyDescriptor(value, key);
    if (typeof key === "symbol" || (described !== undefined && !(described.enumerable && Object.hasOwn(described, "value")))) {
      throw new TypeError(`${at} is computed or hidden; answer with plain data`);
    }
    return [described?.value, at];
  };
  if (Array.isArray(value)) {
    if (Object.getPrototypeOf(value) !== Array.prototype) {
      throw no("is a list of a class of its own");
    }
    const items = Array.from({ length: value.length }, (_, index) => written(...own(index), inside));
    return `[${items.join(",")}]`;
  }
  const prototype = Object.getPrototypeOf(value);
  if (prototype !== null && prototype !== Object.prototype) {
    throw no("is an object of a class, such as a Map or one of your own");
  }
  const fields = [];
  for (const key of Reflect.ownKeys(value)) {
    const [field, at] = own(key);
    if (field !== undefined) {
      fields.push(`${JSON.stringify(key)}:${written(field, at, inside)}`);
    }
  }
  return `{${fields.join(",")}}`;
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
    // The whole line is there before a byte of it is sent.
    sendText(`{"jsonrpc":"2.0","id":${JSON.stringify(id)},"result":${written(result)}}`);
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
