// Messages by the official SDK: whole, streamed, and its accumulating stream helper.

import Anthropic from "@anthropic-ai/sdk"
import { BASE, KEY, MODEL, TOOLS, run, told } from "./common.mjs"

const client = new Anthropic({ baseURL: BASE, apiKey: KEY, maxRetries: 0 })
const tools = TOOLS.map(({ name, description, schema }) => ({ name, description, input_schema: schema }))
const question = (prompt) => ({
  model: MODEL,
  max_tokens: 1000,
  messages: [{ role: "user", content: prompt }],
  tools,
})

function message(answer) {
  const text = answer.content.filter((block) => block.type === "text").map((block) => block.text)
  const calls = answer.content.filter((block) => block.type === "tool_use")
  return told(text.join(""), calls.map((block) => [block.name, block.input]), answer.stop_reason)
}

await run({
  whole: async (prompt) => message(await client.messages.create(question(prompt))),
  streamed: async (prompt) => {
    let text = ""
    const calls = []
    let stop = null
    for await (const event of await client.messages.create({ ...question(prompt), stream: true })) {
      if (event.type === "content_block_start" && event.content_block.type === "tool_use") {
        calls.push([event.content_block.name, ""])
      } else if (event.type === "content_block_delta" && event.delta.type === "text_delta") {
        text += event.delta.text
      } else if (event.type === "content_block_delta" && event.delta.type === "input_json_delta") {
        calls.at(-1)[1] += event.delta.partial_json
      } else if (event.type === "message_delta") {
        stop = event.delta.stop_reason
      }
    }
    return told(text, calls.map(([name, args]) => [name, args || "{}"]), stop)
  },
  helper: async (prompt) => message(await client.messages.stream(question(prompt)).finalMessage()),
})
