// Calls every method of the SDKs' clients once, and tells what each would send; `surface.py` says how this is read.

import Anthropic from "@anthropic-ai/sdk"
import { GoogleGenAI } from "@google/genai"
import OpenAI from "openai"

import { BASE, KEY } from "./common.mjs"

const PROBE = "zz-probe"
const asked = new Set()
const silent = new Set()
let sent = 0
// The methods that are called once more, with another client.
let left = null

const sending = globalThis.fetch
globalThis.fetch = (input, init) => {
  const url = new URL(typeof input === "string" || input instanceof URL ? input : input.url)
  const method = (init?.method ?? input.method ?? "GET").toUpperCase()
  sent += 1
  asked.add(`${method} ${url.pathname}${url.search}`)
  return sending(input, init)
}

// Whatever an SDK takes out of it is there, and nothing of it is written into a body.
const any = () =>
  new Proxy({}, { get: (of, key) => (typeof key === "symbol" || key === "then" || key === "toJSON" ? undefined : PROBE) })

const HERE = new URL(import.meta.url).pathname
const PICTURE = { imageBytes: "eno=", mimeType: "image/png" }
const BODY = { model: PROBE, messages: [{ role: "user", content: PROBE }] }
const VIDEO = { name: "models/zz-probe/operations/zz-probe", _fromAPIResponse: () => ({}) }
// What nobody guesses.
const NAMED = {
  "genai.batches.cancel": [{ name: "batches/zz-probe" }],
  "genai.batches.delete": [{ name: "batches/zz-probe" }],
  "genai.batches.get": [{ name: "batches/zz-probe" }],
  "genai.fileSearchStores.downloadMedia": ["fileSearchStores/zz-probe/media/zz-probe"],
  "genai.fileSearchStores.uploadToFileSearchStore": [{ fileSearchStoreName: PROBE, file: HERE, config: { mimeType: "text/plain" } }],
  "genai.files.registerFiles": [{ auth: { getRequestHeaders: async () => ({}) }, uris: ["gs://zz/zz"] }],
  "genai.files.upload": [{ file: HERE, config: { mimeType: "text/plain" } }],
  "genai.models.editImage": [{ model: PROBE, prompt: PROBE, referenceImages: [{ toReferenceImageAPI: () => ({ referenceId: 1, referenceImage: PICTURE }) }] }],
  "genai.models.editImageInternal": [{ model: PROBE, prompt: PROBE, referenceImages: [] }],
  "genai.models.recontextImage": [{ model: PROBE, source: { prompt: PROBE } }],
  "genai.models.segmentImage": [{ model: PROBE, source: { prompt: PROBE, image: PICTURE } }],
  "genai.models.upscaleImage": [{ model: PROBE, image: PICTURE, upscaleFactor: "x2" }],
  "genai.models.upscaleImageInternal": [{ model: PROBE, image: PICTURE, upscaleFactor: "x2" }],
  "genai.models.processAfcStream": [{ model: PROBE, contents: PROBE }],
  "genai.operations.get": [{ operation: VIDEO }],
  "genai.operations.getVideosOperation": [{ operation: VIDEO }],
  "genai.operations.fetchPredictVideosOperationInternal": [{ operationName: PROBE, resourceName: "models/zz-probe" }],
  "genai.tunings.validateReward": [{ parent: PROBE, sampleResponse: { parts: [{ text: PROBE }] }, example: {}, singleRewardConfig: {} }],
  "openai.beta.threads.runs.submitToolOutputsStream": [PROBE, { thread_id: PROBE, tool_outputs: [] }],
  "openai.chat.completions.runTools": [{ ...BODY, tools: [{ type: "function", function: { name: PROBE, function: () => PROBE, parameters: {} } }] }],
  "openai.chat.completions.stream": [BODY],
}

function* attempts(name) {
  if (name in NAMED) yield NAMED[name]
  yield [PROBE, any()]
  yield [any(), any()]
  yield [PROBE, PROBE, any()]
  yield [{ model: PROBE, contents: PROBE, prompt: PROBE, name: PROBE, src: PROBE, displayName: PROBE, config: {} }]
  yield [{ file: new File(["zz"], PROBE), image: new File(["zz"], PROBE), purpose: "batch", model: PROBE }]
  yield []
}

async function call(name, of, method) {
  if (left && !left.has(name)) return
  for (const args of attempts(name)) {
    const before = sent
    try {
      const answer = method.apply(of, args)
      const said = /stream|runTools/i.test(name) ? await (answer.done?.() ?? answer) : answer?.then ? await answer : answer
      if (said?.[Symbol.asyncIterator]) {
        for await (const _ of said) break
      }
    } catch {
      // Whatever it says, the request was made or was not.
    }
    if (sent > before) return
  }
  silent.add(name)
}

async function walk(value, name, seen, isPart) {
  const own = new Set()
  for (let from = value; from && from !== Object.prototype; from = Object.getPrototypeOf(from)) {
    for (const key of Object.getOwnPropertyNames(from)) {
      // What a class below has in its own way is called in that way.
      if (own.has(key)) continue
      own.add(key)
      if (key.startsWith("_") || key === "constructor" || key === "withOptions") continue
      const part = Object.getOwnPropertyDescriptor(from, key)?.value ?? (key in value ? value[key] : undefined)
      if (typeof part === "function" && !/^class\b/.test(Function.prototype.toString.call(part))) {
        if (name.includes(".")) await call(`${name}.${key}`, value, part)
      } else if (part && typeof part === "object" && isPart(part) && !seen.has(part.constructor)) {
        await walk(part, `${name}.${key}`, new Set([...seen, part.constructor]), isPart)
      }
    }
  }
}

function google(client) {
  const parts = new Set([client.models, client.files, client.caches, client.tunings, client.batches, client.operations, client.authTokens, client.fileSearchStores])
  return walk(client, "genai", new Set(), (part) => parts.has(part))
}

const surfaces = {
  openai: () => {
    const client = new OpenAI({ baseURL: `${BASE}/v1`, apiKey: KEY, adminAPIKey: KEY, maxRetries: 0 })
    return walk(client, "openai", new Set(), (part) => part._client === client)
  },
  anthropic: () => {
    const client = new Anthropic({ baseURL: BASE, apiKey: KEY, maxRetries: 0 })
    return walk(client, "anthropic", new Set(), (part) => part._client === client)
  },
  google: async () => {
    await google(new GoogleGenAI({ apiKey: KEY, httpOptions: { baseUrl: BASE } }))
    // What only Vertex AI has, as a client of that asks for it.
    left = new Set([...silent].filter((name) => name.startsWith("genai.")))
    for (const name of left) silent.delete(name)
    const authClient = { getRequestHeaders: async () => new Headers({ authorization: "Bearer token" }) }
    const clouds = { vertexai: true, project: PROBE, location: PROBE, googleAuthOptions: { authClient } }
    await google(new GoogleGenAI({ ...clouds, httpOptions: { baseUrl: BASE } }))
    left = null
  },
}
process.on("unhandledRejection", () => {})
for (const wanted of process.argv.length > 2 ? process.argv.slice(2) : Object.keys(surfaces)) await surfaces[wanted]()
// Some leave timers behind.
process.stdout.write(JSON.stringify({ asked: [...asked].sort(), silent: [...silent].sort() }), () => process.exit(0))
