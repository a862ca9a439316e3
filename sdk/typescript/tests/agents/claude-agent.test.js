/** The adapter for the Claude Agent SDK, with the real package and the real Claude Code, and a scripted model. */

import assert from "node:assert/strict";
import { existsSync, mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { fileURLToPath } from "node:url";

import { createSdkMcpServer, query, tool } from "@anthropic-ai/claude-agent-sdk";
import { z } from "zod";

import { hooks } from "../../src/adapters/claude-agent.js";
import { Client } from "../../src/client.js";
import { ASKED, House, TOKEN, recorder, until } from "../served/house.js";

const PACKAGE = `target/clients/claude/node_modules/@anthropic-ai/claude-code-${process.platform}-${process.arch}/claude`;
const CLAUDE = process.env.BACKSTOP_TEST_CLAUDE ?? fileURLToPath(new URL(`../../../../${PACKAGE}`, import.meta.url));

// Claude Code puts words of its own beside the prompt, so that those of the script are rare.
const turn = (when, name, args) => ({
  repeat: true,
  when: { user_contains: when },
  tool_calls: [{ name: `mcp__ours__${name}`, arguments: args }],
});
const SCRIPT = {
  turns: [
    { repeat: true, when: { tool_result: true }, text: "That is all." },
    turn("fjord one", "web_search", { query: "weather" }),
    turn("fjord two", "exec", { command: ASKED }),
    turn("fjord three", "read_notes", { path: "notes.txt" }),
    turn("fjord four", "break_down", {}),
    { repeat: true, text: "Nothing." },
  ],
};

let house, model;

before(async () => {
  assert.ok(existsSync(CLAUDE), "`cargo xtask test` installs Claude Code");
  house = await House.open();
  const script = join(house.home, "script.json");
  writeFileSync(script, JSON.stringify(SCRIPT));
  model = await house.start("model", "serve", "--script", script);
});
after(() => house.close());

/** Hooks, and others after them. */
const withOthers = (ours, others) =>
  Object.fromEntries(Object.entries(ours).map(([event, matchers]) => [event, [...matchers, ...(others[event] ?? [])]]));

/** What came of a prompt: which tools ran, and what the model was sent. */
async function scene(prompt, url = house.url, others = {}) {
  const ran = [];
  const text = (said) => ({ content: [{ type: "text", text: said }] });
  const noted = (name, said) => async (args) => (ran.push([name, args]), text(said));
  const tools = [
    tool("web_search", "Searches.", { query: z.string() }, noted("web_search", "found")),
    tool("exec", "Runs.", { command: z.string() }, noted("exec", "it ran")),
    tool("read_notes", "Reads.", { path: z.string() }, noted("read_notes", `the key is ${TOKEN}`)),
    tool("break_down", "Fails.", {}, async () => ({ ...text(`no entry for ${TOKEN}`), isError: true })),
  ];
  const recorded = await recorder(model);
  const home = join(house.home, "claude");
  mkdirSync(home, { recursive: true });
  const asking = query({
    prompt,
    options: {
      pathToClaudeCodeExecutable: CLAUDE,
      model: "claude-sonnet-4-5",
      cwd: home,
      settingSources: [],
      mcpServers: { ours: createSdkMcpServer({ name: "ours", version: "1.0.0", tools }) },
      allowedTools: tools.map(({ name }) => `mcp__ours__${name}`),
      hooks: withOthers(hooks(new Client({ url, token: house.judge })), others),
      env: {
        PATH: process.env.PATH,
        HOME: home,
        ANTHROPIC_BASE_URL: recorded.url,
        ANTHROPIC_API_KEY: "client-key",
        CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: "1",
        DISABLE_AUTOUPDATER: "1",
      },
    },
  });
  for await (const message of asking) {
    if (message.type === "result") {
      break;
    }
  }
  recorded.close();
  return { ran, received: recorded.received.join("\n") };
}

test("a denied tool does not run and the model reads why", async () => {
  const { ran, received } = await scene("fjord one");
  assert.deepEqual(ran, []);
  assert.ok(received.includes("mcp__*__web_*"), received);
});

test("an asked tool waits, and runs where the answer allows it", async () => {
  for (const [decision, expected] of [["allow-once", [["exec", { command: ASKED }]]], ["deny", []]]) {
    const running = scene("fjord two");
    await until(async () => (await house.questions()).length > 0);
    await house.answer(decision);
    const { ran, received } = await running;
    assert.deepEqual(ran, expected);
    assert.equal(received.includes("it ran"), decision === "allow-once");
  }
});

test("a result is redacted before the model reads it", async () => {
  const { ran, received } = await scene("fjord three");
  assert.deepEqual(ran, [["read_notes", { path: "notes.txt" }]]);
  assert.ok(received.includes("[redacted:github_token]") && !received.includes(TOKEN));
});

test("what a tool failed with is not read by the model unless it is judged", async () => {
  const { received } = await scene("fjord four");
  assert.ok(received.includes("fjord four") && !received.includes(TOKEN));
});

test("the result of what ran with other arguments than were judged is not read", async () => {
  const rewrites = async () => ({ hookSpecificOutput: { hookEventName: "PreToolUse", updatedInput: { path: "other.txt" } } });
  const { ran, received } = await scene("fjord three", house.url, { PreToolUse: [{ hooks: [rewrites] }] });
  assert.deepEqual(ran, [["read_notes", { path: "other.txt" }]]);
  assert.ok(received.includes("fjord three") && !received.includes("the key is"), received);
});

test("without Backstop no tool runs", async () => {
  // Nobody listens on the port of nothing.
  const { ran, received } = await scene("fjord three", "http://127.0.0.1:9");
  assert.deepEqual(ran, []);
  assert.ok(received.includes("could not be judged"));
});
