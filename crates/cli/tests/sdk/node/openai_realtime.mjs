// Realtime by the official SDK, which speaks it over TLS alone: in text and aloud.

import OpenAI from "openai"
import { OpenAIRealtimeWS } from "openai/realtime/ws"
import { BASE, KEY, MODEL, TOOLS, run, told } from "./common.mjs"

const client = new OpenAI({ baseURL: `${BASE}/v1`, apiKey: KEY, maxRetries: 0 })
const tools = TOOLS.map(({ name, description, schema }) => ({ type: "function", name, description, parameters: schema }))

function same(what, ...copies) {
  const [first, ...others] = copies.map((copy) => JSON.stringify(copy))
  if (others.some((other) => other !== first)) throw new Error(`${what} disagree: ${JSON.stringify(copies)}`)
}

// Reads deltas, `done` copies and the final object, which must all say the same.
function answer(socket) {
  let text = ""
  let copies = ""
  const called = []
  return new Promise((resolve, reject) => {
    socket.on("error", reject)
    socket.socket.on("close", (_, why) => reject(new Error(`closed: ${why}`)))
    for (const name of ["output_text", "output_audio_transcript"]) {
      socket.on(`response.${name}.delta`, (event) => (text += event.delta))
      socket.on(`response.${name}.done`, (event) => (copies += event.text ?? event.transcript))
    }
    socket.on("response.output_item.done", ({ item }) => {
      if (item.type === "function_call") called.push([item.name, item.arguments])
    })
    socket.on("response.done", ({ response }) => {
      try {
        const contents = response.output.filter((item) => item.type === "message").flatMap((item) => item.content)
        const final = contents.map((part) => part.text ?? part.transcript ?? "").join("")
        const calls = response.output.filter((item) => item.type === "function_call").map((item) => [item.name, item.arguments])
        same("copies", text, copies, final)
        same("copies of the calls", called, calls)
        resolve(told(final, calls, response.status))
      } catch (error) {
        reject(error)
      }
    })
  })
}

const mode = (modality) => async (prompt) => {
  const socket = await OpenAIRealtimeWS.create(client, { model: MODEL })
  const answered = answer(socket)
  socket.socket.once("open", () => {
    socket.send({ type: "session.update", session: { type: "realtime", output_modalities: [modality], tools } })
    const content = [{ type: "input_text", text: prompt }]
    socket.send({ type: "conversation.item.create", item: { type: "message", role: "user", content } })
    socket.send({ type: "response.create" })
  })
  try {
    return await answered
  } finally {
    socket.close()
  }
}

await run({ text: mode("text"), aloud: mode("audio") })
