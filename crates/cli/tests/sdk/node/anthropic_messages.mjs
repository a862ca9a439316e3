// Messages by the official SDK: whole, streamed, and its accumulating stream helper; of the maker, or in a cloud.

import { AnthropicBedrock } from "@anthropic-ai/bedrock-sdk"
import Anthropic from "@anthropic-ai/sdk"
import { AnthropicVertex } from "@anthropic-ai/vertex-sdk"
import { BASE, CLOUD, GOOGLES, KEY, MODEL, TOOLS, run, told } from "./common.mjs"

const clients = {
  bedrock: () => {
    // Whoever speaks to the proxy needs no key of Amazon's; the SDK wants one to sign with all the same.
    const keys = { awsAccessKey: "nobody", awsSecretKey: "nothing", awsRegion: "us-east-1" }
    return new AnthropicBedrock({ baseURL: BASE, maxRetries: 0, ...keys })
  },
  vertex: () => {
    const cloud = { projectId: "p", region: "us-east5", authClient: GOOGLES }
    return new AnthropicVertex({ baseURL: `${BASE}/v1`, maxRetries: 0, ...cloud })
  },
  maker: () => new Anthropic({ baseURL: BASE, apiKey: KEY, maxRetries: 0 }),
}
const client = clients[CLOUD ?? "maker"]()
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
