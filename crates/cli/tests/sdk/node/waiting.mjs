// Answers that wait for a person, behind keep-alives, as the official SDKs read them: whole, streamed, and by their helpers.
// The person is this script, which answers the question once a stream was kept waiting.

import { execFile } from "node:child_process"
import { promisify } from "node:util"

import Anthropic from "@anthropic-ai/sdk"
import OpenAI from "openai"

import { BASE, KEY, MODEL, TOOLS, told } from "./common.mjs"

const running = promisify(execFile)
const backstop = async (...args) => (await running(process.env.BACKSTOP_TEST_PROGRAM, args)).stdout
// How often a client has to be told to be patient before anybody answers.
const ENOUGH = 2
const KEEP_ALIVE = /^(: keep-alive|event: ping)$/gm

/** Bytes of the answer under way, and what hears of them. */
let heard = ""
let listener = () => {}

/** Reads along, below the SDK. */
async function listening(url, init) {
  const answer = await fetch(url, init)
  const [own, theirs] = answer.body.tee()
  heard = ""
  ;(async () => {
    for await (const piece of own.pipeThrough(new TextDecoderStream())) {
      heard += piece
      listener()
    }
  })().catch(() => {})
  return new Response(theirs, { status: answer.status, headers: answer.headers })
}

const kept = () => heard.match(KEEP_ALIVE)?.length ?? 0

/** Whether somebody is about to answer. */
let answering = false

/** Answers the one question that there is. */
async function answer(streams) {
  let questions = []
  while (questions.length === 0) questions = JSON.parse(await backstop("approvals", "list", "--json"))
  if (streams) {
    await new Promise((done) => {
      listener = () => kept() >= ENOUGH && done()
      listener()
    })
  }
  answering = true
  await backstop("approvals", process.env.BACKSTOP_TEST_ANSWER, questions[0].code)
  return kept()
}

const options = { apiKey: KEY, maxRetries: 0, fetch: listening }
const anthropic = new Anthropic({ baseURL: BASE, ...options })
const openai = new OpenAI({ baseURL: `${BASE}/v1`, ...options })
const messages = [{ role: "user", content: "ask a person" }]
const functions = TOOLS.map(({ name, description, schema }) => ({ name, description, parameters: schema, strict: true }))
const asked = {
  anthropic: { model: MODEL, max_tokens: 1000, messages, tools: TOOLS.map(({ name, description, schema }) => ({ name, description, input_schema: schema })) },
  chat: { model: MODEL, messages, tools: functions.map((tool) => ({ type: "function", function: tool })) },
  responses: { model: MODEL, input: "ask a person", tools: functions.map((tool) => ({ type: "function", ...tool })) },
}

function message(said) {
  const of = (type) => said.content.filter((block) => block.type === type)
  return told(of("text").map((block) => block.text).join(""), of("tool_use").map((block) => [block.name, block.input]), said.stop_reason)
}

function choice({ choices: [{ message, finish_reason }] }) {
  return told(message.content, (message.tool_calls ?? []).map((call) => [call.function.name, call.function.arguments]), finish_reason)
}

function response(said) {
  const calls = said.output.filter((item) => item.type === "function_call")
  return told(said.output_text, calls.map((call) => [call.name, call.arguments]), said.status)
}

/** What the events of a stream say, put together by hand. */
async function events(stream, kinds) {
  const said = []
  for await (const event of await stream) said.push(event)
  return kinds(said)
}

const modes = {
  "anthropic whole": async () => message(await anthropic.messages.create(asked.anthropic)),
  "anthropic streamed": () =>
    events(anthropic.messages.create({ ...asked.anthropic, stream: true }), (said) => {
      const text = said.filter((event) => event.delta?.type === "text_delta").map((event) => event.delta.text)
      const json = said.filter((event) => event.delta?.type === "input_json_delta").map((event) => event.delta.partial_json)
      const begun = said.filter((event) => event.content_block?.type === "tool_use").map((event) => event.content_block.name)
      const stop = said.find((event) => event.type === "message_delta").delta.stop_reason
      return told(text.join(""), begun.map((name) => [name, json.join("") || "{}"]), stop)
    }),
  "anthropic helper": async () => message(await anthropic.messages.stream(asked.anthropic).finalMessage()),
  "chat whole": async () => choice(await openai.chat.completions.create(asked.chat)),
  "chat streamed": () =>
    events(openai.chat.completions.create({ ...asked.chat, stream: true }), (said) => {
      const choices = said.flatMap((chunk) => chunk.choices)
      const calls = choices.flatMap((choice) => choice.delta.tool_calls ?? [])
      const name = calls.map((call) => call.function?.name ?? "").join("")
      const written = calls.map((call) => call.function?.arguments ?? "").join("")
      const stop = choices.map((choice) => choice.finish_reason).findLast((reason) => reason)
      return told(choices.map((choice) => choice.delta.content ?? "").join(""), name ? [[name, written]] : [], stop)
    }),
  "chat helper": async () => choice(await openai.chat.completions.stream(asked.chat).finalChatCompletion()),
  "responses whole": async () => response(await openai.responses.create(asked.responses)),
  "responses streamed": () =>
    events(openai.responses.create({ ...asked.responses, stream: true }), (said) => {
      const of = (type) => said.filter((event) => event.type === type)
      const calls = of("response.output_item.done").map((event) => event.item).filter((item) => item.type === "function_call")
      const text = of("response.output_text.delta").map((event) => event.delta).join("")
      return told(text, calls.map((call) => [call.name, call.arguments]), of("response.completed")[0].response.status)
    }),
  "responses helper": async () => {
    const stream = openai.responses.stream(asked.responses)
    for await (const _ of stream);
    return response(await stream.finalResponse())
  },
}

const result = {}
for (const [mode, ask] of Object.entries(modes)) {
  heard = ""
  listener = () => {}
  answering = false
  const said = ask()
  said.catch(() => {})
  const answered = answer(!mode.endsWith("whole"))
  // What was said may be here before the program that answered has ended; without an answer, nobody waited.
  const patience = await Promise.race([answered, said.then(() => (answering ? answered : -1))])
  result[mode] = { kept: patience, ...(await said) }
}
process.stdout.write(JSON.stringify(result))
