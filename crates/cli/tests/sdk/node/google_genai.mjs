// Gemini by the official SDK: whole, streamed, and chats that gather history; of the maker, or in Vertex AI.

import { GoogleGenAI } from "@google/genai"
import { BASE, CLOUD, GOOGLES, KEY, MODEL, TOOLS, run, told } from "./common.mjs"

const httpOptions = { baseUrl: BASE }
const cloud = { vertexai: true, project: "p", location: "us-east5", googleAuthOptions: { authClient: GOOGLES } }
const client = new GoogleGenAI(CLOUD === "vertex" ? { ...cloud, httpOptions } : { apiKey: KEY, httpOptions })
const functionDeclarations = TOOLS.map(({ name, description, schema }) => ({
  name,
  description,
  parametersJsonSchema: schema,
}))
const config = { tools: [{ functionDeclarations }] }
const question = (prompt) => ({ model: MODEL, contents: prompt, config })

function gather(responses) {
  let text = ""
  const calls = []
  let stop = null
  for (const response of responses) {
    for (const candidate of response.candidates ?? []) {
      for (const part of candidate.content?.parts ?? []) {
        if (part.text && !part.thought) text += part.text
        if (part.functionCall) calls.push([part.functionCall.name, part.functionCall.args])
      }
      stop = candidate.finishReason ?? stop
    }
  }
  return told(text, calls, stop)
}

async function all(stream) {
  const responses = []
  for await (const response of await stream) responses.push(response)
  return gather(responses)
}

await run({
  whole: async (prompt) => gather([await client.models.generateContent(question(prompt))]),
  streamed: async (prompt) => all(client.models.generateContentStream(question(prompt))),
  chat: async (prompt) => all(client.chats.create({ model: MODEL, config }).sendMessageStream({ message: prompt })),
})
