// The Vercel AI SDK over Chat Completions, Responses and Messages: generated, streamed, and as an object.

import { createAnthropic } from "@ai-sdk/anthropic"
import { createOpenAI } from "@ai-sdk/openai"
import { Output, generateText, jsonSchema, streamText, tool } from "ai"
import { ANSWER_SCHEMA, BASE, KEY, MODEL, TOOLS, run, told } from "./common.mjs"

// It would write its warnings into the result.
globalThis.AI_SDK_LOG_WARNINGS = false

const openai = createOpenAI({ baseURL: `${BASE}/v1`, apiKey: KEY })
const anthropic = createAnthropic({ baseURL: `${BASE}/v1`, apiKey: KEY })
const tools = Object.fromEntries(
  TOOLS.map(({ name, description, schema }) => [name, tool({ description, inputSchema: jsonSchema(schema) })]),
)
const models = {
  chat: openai.chat(MODEL),
  responses: openai.responses(MODEL),
  messages: anthropic(MODEL),
}

const answer = (text, calls, stop) => told(text, calls.map((call) => [call.toolName, call.input]), stop)

const modes = {}
for (const [name, model] of Object.entries(models)) {
  modes[name] = async (prompt) => {
    const { text, toolCalls, finishReason } = await generateText({ model, prompt, tools, maxRetries: 0 })
    return answer(text, toolCalls, finishReason)
  }
  modes[`${name}_streamed`] = async (prompt) => {
    let failure = null
    const result = streamText({ model, prompt, tools, maxRetries: 0, onError: ({ error }) => (failure = error) })
    const answered = answer(await result.text, await result.toolCalls, await result.finishReason)
    if (failure) throw failure
    return answered
  }
}

const structured = {}
for (const [name, model] of Object.entries(models)) {
  structured[`${name}_parsed`] = async (prompt) => {
    const output = Output.object({ schema: jsonSchema(ANSWER_SCHEMA) })
    return (await generateText({ model, prompt, output, maxRetries: 0 })).output
  }
}

await run(modes, structured)
