// Responses by the official SDK: whole, streamed, and its accumulating stream helper; of the maker, or at Azure.

import OpenAI, { AzureOpenAI } from "openai"
import { BASE, CLOUD, KEY, MODEL, TOOLS, run, told } from "./common.mjs"

const settings = { apiKey: KEY, maxRetries: 0 }
const client =
  CLOUD === "azure"
    ? new AzureOpenAI({ ...settings, endpoint: BASE, apiVersion: "2025-04-01-preview" })
    : new OpenAI({ ...settings, baseURL: `${BASE}/v1` })
const tools = TOOLS.map(({ name, description, schema }) => ({
  type: "function",
  name,
  description,
  parameters: schema,
  strict: true,
}))
const question = (prompt) => ({ model: MODEL, input: prompt, tools })

function answer(response) {
  const calls = response.output.filter((item) => item.type === "function_call")
  return told(response.output_text, calls.map((call) => [call.name, call.arguments]), response.status)
}

await run({
  whole: async (prompt) => answer(await client.responses.create(question(prompt))),
  streamed: async (prompt) => {
    let text = ""
    const calls = []
    let status = null
    for await (const event of await client.responses.create({ ...question(prompt), stream: true })) {
      if (event.type === "response.output_text.delta") text += event.delta
      if (event.type === "response.output_item.done" && event.item.type === "function_call") {
        calls.push([event.item.name, event.item.arguments])
      }
      if (event.type === "response.completed") status = event.response.status
    }
    return told(text, calls, status)
  },
  helper: async (prompt) => {
    const stream = client.responses.stream(question(prompt))
    for await (const _ of stream);
    return answer(await stream.finalResponse())
  },
})
