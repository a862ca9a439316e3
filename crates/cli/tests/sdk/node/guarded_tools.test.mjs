// The adapter for the Vercel AI SDK, with the real package: an agent whose tools are judged by `backstop serve`, and a scripted model.

import assert from "node:assert/strict"
import { writeFileSync } from "node:fs"
import { join } from "node:path"
import { after, before, test } from "node:test"
import { createOpenAI } from "@ai-sdk/openai"
import { generateText, jsonSchema, stepCountIs, streamText, tool } from "ai"
import { guarded } from "../../../../../sdk/typescript/src/adapters/ai.js"
import { Client } from "../../../../../sdk/typescript/src/client.js"
import { ASKED, DENIED, House, TOKEN, recorder, until } from "../../../../../sdk/typescript/tests/served/house.js"

// It would write its warnings between the results.
globalThis.AI_SDK_LOG_WARNINGS = false

const turn = (when, name, args) => ({
  repeat: true,
  when: { user_contains: when },
  tool_calls: [{ name, arguments: args }],
})
const SCRIPT = {
  turns: [
    { repeat: true, when: { tool_result: true }, text: "That is all." },
    turn("search", DENIED, { query: "weather" }),
    turn("run", "exec", { command: ASKED }),
    turn("read", "read_notes", { path: "notes.txt" }),
    turn("watch", "watch_notes", { path: "notes.txt" }),
  ],
}

let house, model

before(async () => {
  house = await House.open()
  const script = join(house.home, "script.json")
  writeFileSync(script, JSON.stringify(SCRIPT))
  model = await house.start("model", "serve", "--script", script)
})
after(() => house.close())

const object = (name) => jsonSchema({ type: "object", properties: { [name]: { type: "string" } }, required: [name] })

// What came of a prompt: which tools ran, and what the model was sent after the call.
async function scene(ask, prompt, url = house.url) {
  const ran = []
  const noted = (name, result) => (input) => (ran.push([name, input]), result)
  const tools = {
    [DENIED]: tool({ inputSchema: object("query"), execute: noted(DENIED, "found") }),
    exec: tool({ inputSchema: object("command"), execute: noted("exec", "it ran") }),
    read_notes: tool({ inputSchema: object("path"), execute: noted("read_notes", { notes: `the key is ${TOKEN}` }) }),
    watch_notes: tool({
      inputSchema: object("path"),
      execute: async function* () {
        yield `it begins with ${TOKEN}`
        yield "the whole"
      },
    }),
  }
  const recorded = await recorder(model)
  const openai = createOpenAI({ baseURL: `${recorded.url}/v1`, apiKey: "client-key" })
  const client = new Client({ url, token: house.judge })
  const asked = { model: openai.chat("scripted-model"), prompt, maxRetries: 0, stopWhen: stepCountIs(3) }
  const told = await ask({ ...asked, tools: guarded(tools, client) })
  recorded.close()
  assert.equal(told, "That is all.")
  assert.equal(recorded.received.length, 2)
  return { ran, received: recorded.received[1] }
}

const WAYS = {
  generated: async (asked) => (await generateText(asked)).text,
  streamed: async (asked) => {
    const seen = []
    const result = streamText(asked)
    for await (const part of result.fullStream) seen.push(part)
    assert.ok(!JSON.stringify(seen).includes(TOKEN))
    return await result.text
  },
}

for (const [name, ask] of Object.entries(WAYS)) {
  test(`${name}: a denied tool does not run and the model reads why`, async () => {
    const { ran, received } = await scene(ask, "search the web")
    assert.deepEqual(ran, [])
    assert.ok(received.includes("web_*"), received)
  })

  test(`${name}: an asked tool waits, and runs where the answer allows it`, async () => {
    for (const [decision, expected] of [
      ["allow-once", [["exec", { command: ASKED }]]],
      ["deny", []],
    ]) {
      const running = scene(ask, "run it")
      await until(async () => (await house.questions()).length > 0)
      await house.answer(decision)
      const { ran, received } = await running
      assert.deepEqual(ran, expected)
      assert.equal(received.includes("it ran"), decision === "allow-once")
    }
  })

  test(`${name}: a result is redacted before the model reads it`, async () => {
    const { ran, received } = await scene(ask, "read the notes")
    assert.deepEqual(ran, [["read_notes", { path: "notes.txt" }]])
    assert.ok(received.includes("[redacted:github_token]") && !received.includes(TOKEN), received)
  })

  test(`${name}: nobody reads what a tool tells before its result`, async () => {
    const { received } = await scene(ask, "watch the notes")
    assert.ok(received.includes("the whole") && !received.includes(TOKEN), received)
  })

  test(`${name}: without Backstop no tool runs`, async () => {
    // Nobody listens on the port of nothing.
    const { ran, received } = await scene(ask, "read the notes", "http://127.0.0.1:9")
    assert.deepEqual(ran, [])
    assert.ok(received.includes("could not be judged"), received)
  })
}

test("what runs elsewhere is not taken", () => {
  const elsewhere = { search: tool({ inputSchema: object("query") }) }
  assert.throws(() => guarded(elsewhere, new Client({ url: house.url, token: house.judge })), TypeError)
})
