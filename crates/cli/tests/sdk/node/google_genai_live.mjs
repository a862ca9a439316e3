// Gemini Live by the official SDK: what is said in turns, and as it is made.

import { GoogleGenAI, Modality } from "@google/genai"
import { BASE, KEY, MODEL, TOOLS, run, told } from "./common.mjs"

const client = new GoogleGenAI({ apiKey: KEY, httpOptions: { baseUrl: BASE } })
const functionDeclarations = TOOLS.map(({ name, description, schema }) => ({
  name,
  description,
  parametersJsonSchema: schema,
}))
const config = { responseModalities: [Modality.TEXT], tools: [{ functionDeclarations }] }

async function answer(ask) {
  let text = ""
  const calls = []
  let session
  await new Promise((resolve, reject) => {
    const onmessage = (message) => {
      for (const part of message.serverContent?.modelTurn?.parts ?? []) text += part.text ?? ""
      for (const call of message.toolCall?.functionCalls ?? []) calls.push([call.name, call.args])
      if (message.toolCall || message.serverContent?.turnComplete) resolve()
    }
    const onclose = (event) => reject(new Error(`closed: ${event.reason}`))
    const connected = client.live.connect({ model: MODEL, config, callbacks: { onmessage, onclose, onerror: reject } })
    connected.then((opened) => ask((session = opened))).catch(reject)
  })
  session.close()
  return told(text, calls, null)
}

await run({
  turns: (prompt) => answer((session) => session.sendClientContent({ turns: prompt })),
  realtime: (prompt) => answer((session) => session.sendRealtimeInput({ text: prompt })),
})
