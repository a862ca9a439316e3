/** The Vercel AI SDK: tools whose calls are judged. The types are in `ai.d.ts`. */

import { Refused } from "../client.js";

export function guarded(tools, client, { context } = {}) {
  return Object.fromEntries(Object.entries(tools).map(([name, tool]) => [name, guardedTool(name, tool, client, context)]));
}

function guardedTool(name, tool, client, context) {
  if (typeof tool.execute !== "function") {
    throw new TypeError(`the tool \`${name}\` runs elsewhere, so that its calls can't be judged here`);
  }
  const execute = (input, options) => {
    const run = async (params) => last(await tool.execute(await inputOf(tool, input, params), options));
    return client.run(name, input, run, { callId: options?.toolCallId, context, signal: options?.abortSignal });
  };
  return Object.assign(Object.create(Object.getPrototypeOf(tool)), tool, { execute });
}

/** What the tool is given: its own input, or what its schema makes of arguments that a hook rewrote. */
async function inputOf(tool, input, params) {
  if (sorted(input) === sorted(params)) {
    return input;
  }
  const schema = typeof tool.inputSchema === "function" ? tool.inputSchema() : tool.inputSchema;
  const read = await (schema?.["~standard"]?.validate(params) ?? schema?.validate?.(params));
  if (read && (read.issues || read.success === false)) {
    throw new Refused("a hook rewrote the arguments to such that the tool does not take");
  }
  return read ? read.value : params;
}

/** The form of a value that does not depend on the order of its keys. */
function sorted(value) {
  const order = (_, item) =>
    typeof item === "object" && item !== null && !Array.isArray(item)
      ? Object.fromEntries(Object.entries(item).sort(([a], [b]) => (a < b ? -1 : 1)))
      : item;
  return JSON.stringify(value, order);
}

/** The result of a tool that tells how far it is: nobody has judged what it says before. */
async function last(value) {
  if (typeof value?.[Symbol.asyncIterator] !== "function") {
    return value;
  }
  let result;
  for await (const next of value) {
    result = next;
  }
  return result;
}
