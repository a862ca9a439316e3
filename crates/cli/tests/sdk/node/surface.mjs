// Calls every method of the SDKs' clients once, and tells what each would send; `surface.py` says how this is read.

import http from "node:http"

import { AnthropicBedrock, AnthropicBedrockMantle } from "@anthropic-ai/bedrock-sdk"
import Anthropic from "@anthropic-ai/sdk"
import { AnthropicVertex } from "@anthropic-ai/vertex-sdk"
import * as bedrock from "@aws-sdk/client-bedrock-runtime"
import { GoogleGenAI } from "@google/genai"
import OpenAI, { AzureOpenAI, BedrockOpenAI } from "openai"
import { ResponsesWS } from "openai/resources/responses/ws"

import { BASE, KEY } from "./common.mjs"

const PROBE = "zz-probe"
// Requests as `[method and path, status, beginning of the answer]`.
const asked = []
const silent = new Set()
let sent = 0
// The methods that are called once more, with another client.
let left = null

// As much of an answer as says who gave it.
const remember = (method, path, status, answer) => asked.push([`${method} ${path}`, status, answer.slice(0, 2000)])

const sending = globalThis.fetch
globalThis.fetch = async (input, init) => {
  const url = new URL(typeof input === "string" || input instanceof URL ? input : input.url)
  const method = (init?.method ?? input.method ?? "GET").toUpperCase()
  if (!url.protocol.startsWith("http")) return sending(input, init)
  sent += 1
  const answer = await sending(input, init)
  remember(method, `${url.pathname}${url.search}`, answer.status, await answer.clone().text())
  return answer
}

// Openings of WebSockets.
const requesting = http.request
http.request = (...args) => {
  const request = requesting(...args)
  if (!request.getHeader("sec-websocket-key")) return request
  sent += 1
  const on = request.on.bind(request)
  on("upgrade", () => remember("GET", request.path, 101, ""))
  // Whoever asked for a socket breaks the connection once there is none, so the answer is read first.
  request.on = (event, listener) => {
    if (event !== "response") return on(event, listener)
    return on(event, async (answer) => {
      let text = ""
      for await (const part of answer) text += part
      remember("GET", request.path, answer.statusCode, text)
      listener(answer)
    })
  }
  return request
}

// Whatever an SDK takes out of it is there, and nothing of it is written into a body.
const any = () =>
  new Proxy({}, { get: (of, key) => (typeof key === "symbol" || key === "then" || key === "toJSON" ? undefined : PROBE) })

const HERE = new URL(import.meta.url).pathname
const PICTURE = { imageBytes: "eno=", mimeType: "image/png" }
const BODY = { model: PROBE, messages: [{ role: "user", content: PROBE }] }
const MESSAGE = { ...BODY, max_tokens: 1 }
const VIDEO = { name: "models/zz-probe/operations/zz-probe", _fromAPIResponse: () => ({}) }
// What nobody guesses.
const NAMED = {
  "anthropic.beta.messages.batches.create": [{ requests: [{ custom_id: PROBE, params: MESSAGE }] }],
  "anthropic.beta.messages.countTokens": [MESSAGE],
  "anthropic.beta.messages.create": [MESSAGE],
  "anthropic.messages.batches.create": [{ requests: [{ custom_id: PROBE, params: MESSAGE }] }],
  "anthropic.messages.countTokens": [MESSAGE],
  "anthropic.messages.create": [MESSAGE],
  "genai.batches.cancel": [{ name: "batches/zz-probe" }],
  "genai.batches.delete": [{ name: "batches/zz-probe" }],
  "genai.batches.get": [{ name: "batches/zz-probe" }],
  "genai.environments.files.list": [{ environment: PROBE, path: PROBE }],
  "genai.environments.files.upload": [{ environment: PROBE, path: PROBE, file: new Uint8Array([1]), mime_type: "text/plain" }],
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
  "openai.audio.transcriptions.create": [{ model: PROBE, file: new File(["zz"], PROBE) }],
  "openai.audio.translations.create": [{ model: PROBE, file: new File(["zz"], PROBE) }],
  "openai.audio.speech.create": [{ model: PROBE, input: PROBE, voice: PROBE }],
  "openai.chat.completions.create": [BODY],
  "openai.completions.create": [{ model: PROBE, prompt: PROBE }],
  "openai.conversations.create": [{ items: [] }],
  "openai.embeddings.create": [{ model: PROBE, input: PROBE }],
  "openai.images.createVariation": [{ model: PROBE, image: new File(["zz"], PROBE) }],
  "openai.images.edit": [{ model: PROBE, prompt: PROBE, image: new File(["zz"], PROBE) }],
  "openai.images.generate": [{ model: PROBE, prompt: PROBE }],
  "openai.moderations.create": [{ model: PROBE, input: PROBE }],
  "openai.responses.create": [{ model: PROBE, input: PROBE }],
  "openai.responses.inputTokens.count": [{ model: PROBE, input: PROBE }],
  "openai.beta.threads.runs.submitToolOutputsStream": [PROBE, { thread_id: PROBE, tool_outputs: [] }],
  "openai.chat.completions.runTools": [{ ...BODY, tools: [{ type: "function", function: { name: PROBE, function: () => PROBE, parameters: {} } }] }],
  "openai.chat.completions.stream": [BODY],
}

function* attempts(name) {
  if (name in NAMED) yield NAMED[name]
  if (ofMaker(name) !== name && ofMaker(name) in NAMED) yield NAMED[ofMaker(name)]
  yield [PROBE, any()]
  yield [any(), any()]
  yield [PROBE, PROBE, any()]
  yield [{ model: PROBE, contents: PROBE, prompt: PROBE, name: PROBE, src: PROBE, displayName: PROBE, config: {} }]
  yield [{ file: new File(["zz"], PROBE), image: new File(["zz"], PROBE), purpose: "batch", model: PROBE }]
  yield []
}

// Clients of clouds, and whose methods they have. What a cloud does not have, its client refuses by itself.
const MAKERS = {
  anthropic_bedrock: "anthropic",
  anthropic_mantle: "anthropic",
  anthropic_vertex: "anthropic",
  azure: "openai",
  bedrock_openai: "openai",
  vertex: "genai",
}
const ofMaker = (name) => name.replace(/^\w+/, (client) => MAKERS[client] ?? client)
// The methods that were called.
const called = new Set()
const hasMakers = (name) => ofMaker(name) !== name && called.has(ofMaker(name))

// Some answers never come.
const LONGEST = 10_000
const inTime = (answer) => Promise.race([answer, new Promise((_, fails) => setTimeout(fails, LONGEST, new Error("no answer")).unref())])

async function call(name, of, method) {
  if (left && !left.has(name)) return
  called.add(name)
  const before = sent
  // Also as long as the gateway can make nothing of what it was sent.
  for (const args of attempts(name)) {
    try {
      const answer = method.apply(of, args)
      const said = await inTime(/stream|runTools/i.test(name) ? (answer.done?.() ?? answer) : answer)
      if (said?.[Symbol.asyncIterator]) {
        for await (const _ of said) break
      }
    } catch {
      // Whatever it says, the request was made or was not.
    }
    if (sent > before && asked.at(-1)?.[1] !== 400) return
  }
  if (sent === before) silent.add(name)
}

function read(value, key) {
  try {
    return value[key]
  } catch {
    // A cloud's client says so of what its cloud does not have.
    return undefined
  }
}

async function walk(value, name, seen, isPart) {
  const own = new Set()
  for (let from = value; from && from !== Object.prototype; from = Object.getPrototypeOf(from)) {
    for (const key of Object.getOwnPropertyNames(from)) {
      // What a class below has in its own way is called in that way.
      if (own.has(key)) continue
      own.add(key)
      if (key.startsWith("_") || key === "constructor" || key === "withOptions") continue
      const part = Object.getOwnPropertyDescriptor(from, key)?.value ?? read(value, key)
      if (typeof part === "function" && !/^class\b/.test(Function.prototype.toString.call(part))) {
        if (name.includes(".")) await call(`${name}.${key}`, value, part)
      } else if (part && typeof part === "object" && isPart(part, key) && !seen.has(part.constructor)) {
        await walk(part, `${name}.${key}`, new Set([...seen, part.constructor]), isPart)
      }
    }
  }
}

// Parts of Google's client that are not walked, and why.
const NOT_WALKED = {
  apiClient: "is what all parts ask by",
  auth: "has the credentials",
  chats: "keep a conversation here, and ask by `models.generateContent`",
  clientOptions: "are settings",
  live: "is opened by itself, once it is known how it ends",
  modelsModule: "is `models`",
  parentClient: "is what all parts ask by",
  webSocketFactory: "makes the connections of `live.connect`, which is called",
}

async function google(client, name = "genai") {
  // The parts are those of the SDK's own classes; whatever else an object holds is a value.
  await walk(client, name, new Set(), (part, key) => !(key in NOT_WALKED) && part.constructor !== Object && !Array.isArray(part))
}

// Waits until the opening of a socket was answered.
async function opened(name, open) {
  const before = asked.length
  called.add(name)
  try {
    const socket = await open()
    socket?.on?.("error", () => {})
    for (let waited = 0; asked.length === before && waited < 5000; waited += 20) await new Promise((then) => setTimeout(then, 20))
    socket?.close?.()
  } catch {
    // See `call`.
  }
  if (asked.length === before) silent.add(name)
}

async function live(client, name) {
  const callbacks = { onmessage: () => {}, onerror: () => {}, onclose: () => {} }
  const soon = (connected) => Promise.race([connected.catch(() => {}), new Promise((then) => setTimeout(then, 1000))])
  await opened(`${name}.live.connect`, () => soon(client.live.connect({ model: PROBE, callbacks })))
  await opened(`${name}.live.music.connect`, () => soon(client.live.music.connect({ model: PROBE, callbacks })))
}

// Every operation that Amazon's SDK has a command for.
const CONVERSED = { modelId: PROBE, messages: [{ role: "user", content: [{ text: PROBE }] }] }
const INVOKED = { modelId: PROBE, body: JSON.stringify({ max_tokens: 1, messages: BODY.messages }) }
const COMMANDS = {
  ApplyGuardrail: { guardrailIdentifier: PROBE, guardrailVersion: "1", source: "INPUT", content: [{ text: { text: PROBE } }] },
  Converse: CONVERSED,
  ConverseStream: CONVERSED,
  CountTokens: { modelId: PROBE, input: { converse: { messages: CONVERSED.messages } } },
  GetAsyncInvoke: { invocationArn: PROBE },
  InvokeModel: INVOKED,
  InvokeModelWithBidirectionalStream: { modelId: PROBE, body: (async function* () {})() },
  InvokeModelWithResponseStream: INVOKED,
  StartAsyncInvoke: { modelId: PROBE, modelInput: {}, outputDataConfig: { s3OutputDataConfig: { s3Uri: "s3://zz/zz" } } },
}

async function commands(url) {
  const credentials = { accessKeyId: "nobody", secretAccessKey: "nothing" }
  const client = new bedrock.BedrockRuntimeClient({ endpoint: url, region: "us-east-1", maxAttempts: 1, credentials })
  const { handle } = client.config.requestHandler
  client.config.requestHandler.handle = async function (request, options) {
    sent += 1
    const answered = await handle.call(this, request, options)
    const parts = []
    for await (const part of answered.response.body) parts.push(part)
    const body = Buffer.concat(parts)
    remember(request.method, request.path, answered.response.statusCode, body.toString())
    answered.response.body = (await import("node:stream")).Readable.from([body])
    return answered
  }
  for (const [command, Command] of Object.entries(bedrock)) {
    const operation = /^(\w+)Command$/.exec(command)?.[1]
    if (!operation || operation.startsWith("$")) continue
    const before = sent
    try {
      await inTime(client.send(new Command(COMMANDS[operation] ?? {})))
    } catch {
      // See `call`.
    }
    if (sent === before) silent.add(`bedrock_runtime.${operation}`)
  }
}

const authClient = { getRequestHeaders: async () => new Headers({ authorization: "Bearer token" }) }
const surfaces = {
  openai: async () => {
    const client = new OpenAI({ baseURL: `${BASE}/v1`, apiKey: KEY, adminAPIKey: KEY, maxRetries: 0 })
    await walk(client, "openai", new Set(), (part) => part._client === client)
    // The SDK opens Realtime's by TLS alone, which the tests of sessions have.
    await opened("openai.responses.ws", () => new ResponsesWS(client))
  },
  azure: () => {
    const at = { endpoint: `${BASE}/p/azure`, apiKey: KEY, apiVersion: "2025-04-01-preview" }
    const client = new AzureOpenAI({ ...at, maxRetries: 0 })
    return walk(client, "azure", new Set(), (part) => part._client === client)
  },
  bedrock_openai: () => {
    const client = new BedrockOpenAI({ baseURL: `${BASE}/v1`, apiKey: KEY, awsRegion: "us-east-1", maxRetries: 0 })
    return walk(client, "bedrock_openai", new Set(), (part) => part._client === client)
  },
  anthropic: () => {
    const client = new Anthropic({ baseURL: BASE, apiKey: KEY, maxRetries: 0 })
    return walk(client, "anthropic", new Set(), (part) => part._client === client)
  },
  anthropic_bedrock: () => {
    const keys = { awsAccessKey: "nobody", awsSecretKey: "nothing", awsRegion: "us-east-1" }
    const client = new AnthropicBedrock({ baseURL: `${BASE}/p/bedrock`, maxRetries: 0, ...keys })
    return walk(client, "anthropic_bedrock", new Set(), (part) => part._client === client)
  },
  anthropic_vertex: () => {
    const cloud = { projectId: PROBE, region: PROBE, authClient: { ...authClient, projectId: PROBE } }
    const client = new AnthropicVertex({ baseURL: `${BASE}/p/claude-vertex/v1`, maxRetries: 0, ...cloud })
    return walk(client, "anthropic_vertex", new Set(), (part) => part._client === client)
  },
  anthropic_mantle: () => {
    const client = new AnthropicBedrockMantle({ baseURL: BASE, apiKey: KEY, awsRegion: "us-east-1", maxRetries: 0 })
    return walk(client, "anthropic_mantle", new Set(), (part) => part._client === client)
  },
  bedrock_runtime: () => commands(`${BASE}/p/bedrock`),
  google: async () => {
    const ofMaker = new GoogleGenAI({ apiKey: KEY, httpOptions: { baseUrl: BASE } })
    await google(ofMaker)
    await live(ofMaker, "genai")
    // What only Vertex AI has, as a client of that asks for it.
    left = new Set([...silent].filter((name) => name.startsWith("genai.")))
    for (const name of left) silent.delete(name)
    const clouds = { vertexai: true, project: PROBE, location: PROBE, googleAuthOptions: { authClient } }
    await google(new GoogleGenAI({ ...clouds, httpOptions: { baseUrl: BASE } }))
    left = null
    // And what Vertex AI answers itself, at a provider there.
    const inCloud = new GoogleGenAI({ ...clouds, httpOptions: { baseUrl: `${BASE}/p/vertex` } })
    await google(inCloud, "vertex")
    await live(inCloud, "vertex")
  },
}
// Whatever never comes is waited for no longer than `LONGEST`, and not given up before.
setInterval(() => {}, LONGEST)
process.on("unhandledRejection", () => {})
for (const wanted of process.argv.length > 2 ? process.argv.slice(2) : Object.keys(surfaces)) await surfaces[wanted]()
// Some leave timers behind.
process.stdout.write(JSON.stringify({ asked, silent: [...silent].filter((name) => !hasMakers(name)).sort() }), () => process.exit(0))
