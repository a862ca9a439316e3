// Calls every method of the SDKs' clients once, and tells what each would send; `surface.py` says how this is read.

import Anthropic from "@anthropic-ai/sdk"
import { GoogleGenAI } from "@google/genai"
import OpenAI from "openai"

import { BASE, KEY } from "./common.mjs"

const PROBE = "zz-probe"
const WAITING = /poll|wait|until/i
const asked = new Set()
const silent = new Set()
let sent = 0

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

function* attempts() {
  yield [PROBE, any()]
  yield [any(), any()]
  yield [PROBE, PROBE, any()]
  yield [{ model: PROBE, contents: PROBE, prompt: PROBE, name: PROBE, src: PROBE, displayName: PROBE, config: {} }]
  yield [{ file: new File(["zz"], PROBE), image: new File(["zz"], PROBE), purpose: "batch", model: PROBE }]
  yield []
}

async function call(name, of, method) {
  if (WAITING.test(name.split(".").at(-1))) return
  for (const args of attempts()) {
    const before = sent
    try {
      const answer = method.apply(of, args)
      if (answer?.[Symbol.asyncIterator] && !answer.then) {
        for await (const _ of answer) break
      } else await answer
    } catch {
      // Whatever it says, the request was made or was not.
    }
    if (sent > before) return
  }
  silent.add(name)
}

async function walk(value, name, seen, isPart) {
  for (let from = value; from && from !== Object.prototype; from = Object.getPrototypeOf(from)) {
    for (const key of Object.getOwnPropertyNames(from)) {
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

const surfaces = {
  openai: () => {
    const client = new OpenAI({ baseURL: `${BASE}/v1`, apiKey: KEY, adminAPIKey: KEY, maxRetries: 0 })
    return walk(client, "openai", new Set(), (part) => part._client === client)
  },
  anthropic: () => {
    const client = new Anthropic({ baseURL: BASE, apiKey: KEY, maxRetries: 0 })
    return walk(client, "anthropic", new Set(), (part) => part._client === client)
  },
  google: () => {
    const client = new GoogleGenAI({ apiKey: KEY, httpOptions: { baseUrl: BASE } })
    const parts = new Set([client.models, client.files, client.caches, client.tunings, client.batches, client.operations, client.authTokens, client.fileSearchStores])
    return walk(client, "genai", new Set(), (part) => parts.has(part))
  },
}
process.on("unhandledRejection", () => {})
for (const wanted of process.argv.length > 2 ? process.argv.slice(2) : Object.keys(surfaces)) await surfaces[wanted]()
// Some leave timers behind.
process.stdout.write(JSON.stringify({ asked: [...asked].sort(), silent: [...silent].sort() }), () => process.exit(0))
