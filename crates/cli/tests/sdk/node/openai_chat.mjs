// Chat Completions by the official SDK: whole, streamed, and its accumulating stream helper; of the maker, or at Azure.

import OpenAI, { AzureOpenAI } from "openai"
import { BASE, CLOUD, KEY, MODEL, TOOLS, run, told } from "./common.mjs"

const settings = { apiKey: KEY, maxRetries: 0 }
const client =
  CLOUD === "azure"
    ? new AzureOpenAI({ ...settings, endpoint: BASE, apiVersion: "2025-04-01-preview" })
    : new OpenAI({ ...settings, baseURL: `${BASE}/v1` })
const tools = TOOLS.map(({ name, description, schema }) => ({
  type: "function",
  function: { name, description, parameters: schema, strict: true },
}))
const question = (prompt) => ({ model: MODEL, messages: [{ role: "user", content: prompt }], tools })

function message({ choices: [choice] }) {
  const calls = (choice.message.tool_calls ?? []).map((call) => [call.function.name, call.function.arguments])
  return told(choice.message.content, calls, choice.finish_reason)
}

await run({
  whole: async (prompt) => message(await client.chat.completions.create(question(prompt))),
  streamed: async (prompt) => {
    const calls = []
    let text = ""
    let stop = null
    const chunks = await client.chat.completions.create({ ...question(prompt), stream: true })
    for await (const chunk of chunks) {
      for (const choice of chunk.choices) {
        text += choice.delta.content ?? ""
        for (const call of choice.delta.tool_calls ?? []) {
          calls[call.index] ??= ["", ""]
          calls[call.index][0] += call.function?.name ?? ""
          calls[call.index][1] += call.function?.arguments ?? ""
        }
        stop = choice.finish_reason ?? stop
      }
    }
    return told(text, calls, stop)
  },
  helper: async (prompt) => {
    const stream = client.chat.completions.stream(question(prompt))
    return message(await stream.finalChatCompletion())
  },
})
