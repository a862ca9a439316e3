// Responses over a WebSocket by the official SDK.

import OpenAI from "openai"
import { ResponsesWS } from "openai/resources/responses/ws"
import { BASE, KEY, MODEL, TOOLS, run, told } from "./common.mjs"

const client = new OpenAI({ baseURL: `${BASE}/v1`, apiKey: KEY, maxRetries: 0 })
const tools = TOOLS.map(({ name, description, schema }) => ({
  type: "function",
  name,
  description,
  parameters: schema,
  strict: true,
}))

async function socket(prompt) {
  const socket = new ResponsesWS(client)
  let text = ""
  try {
    return await new Promise((resolve, reject) => {
      socket.on("error", reject)
      socket.on("response.output_text.delta", (event) => (text += event.delta))
      socket.on("response.completed", ({ response }) => {
        const contents = response.output.filter((item) => item.type === "message").flatMap((item) => item.content)
        const whole = contents.map((part) => part.text).join("")
        const calls = response.output.filter((item) => item.type === "function_call").map((item) => [item.name, item.arguments])
        if (whole !== text) reject(new Error(`copies disagree: ${text} ${whole}`))
        resolve(told(whole, calls, response.status))
      })
      socket.send({ type: "response.create", model: MODEL, input: prompt, tools })
    })
  } finally {
    socket.close()
  }
}

await run({ socket })
