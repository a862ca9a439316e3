// Written by `backstop install opencode`; `backstop uninstall opencode` removes it.
// Every hook starts the program named here. Anything but a clear answer throws, and a tool whose hook throws does not run.
import { spawn } from "node:child_process"

// command: @COMMAND@
const program = "@PROGRAM@"
const words = "@ARGUMENTS@"
const timeout = "@TIMEOUT@"
const mostBytes = 16 * 1024 * 1024

const parents = new Map()
let servers = []

function judge(directory, event, input, output) {
  const session = input?.sessionID ?? input?.properties?.sessionID
  const payload = { event, directory, input, output: output ?? null, mcpServers: servers, parentSessionID: parents.get(session) }
  return new Promise((resolve, reject) => {
    const refuse = (why) => reject(new Error(`backstop could not judge this: ${why}`))
    const child = spawn(program, words, { cwd: directory, stdio: ["pipe", "pipe", "pipe"] })
    const clock = setTimeout(() => { child.kill("SIGKILL"); refuse("no answer in time") }, timeout)
    const said = { stdout: [], stderr: [] }
    let bytes = 0
    for (const stream of ["stdout", "stderr"]) {
      child[stream].on("data", (data) => {
        bytes += data.length
        if (bytes > mostBytes) { child.kill("SIGKILL"); refuse("too long an answer") } else said[stream].push(data)
      })
    }
    child.on("error", (error) => { clearTimeout(clock); refuse(error.message) })
    child.on("close", (code) => {
      clearTimeout(clock)
      const text = (stream) => Buffer.concat(said[stream]).toString("utf8")
      if (code === 2) return reject(new Error(text("stderr").trim() || "blocked by policy"))
      if (code !== 0) return refuse(`it ended with ${code}`)
      try { resolve(JSON.parse(text("stdout"))) } catch { refuse("its answer is not JSON") }
    })
    child.stdin.on("error", () => {})
    child.stdin.end(JSON.stringify(payload))
  })
}

function unknown(answer) {
  throw new Error(`backstop could not judge this: it answered ${JSON.stringify(answer?.decision)}`)
}

async function watch(directory, event, input) {
  try { await judge(directory, event, input, null) } catch {}
}

export const Backstop = async ({ directory }) => ({
  config: async (config) => { servers = Object.keys(config?.mcp ?? {}) },
  "tool.execute.before": async (input, output) => {
    const answer = await judge(directory, "tool.execute.before", input, { args: output.args })
    if (answer?.decision === "pass") return
    if (answer?.decision !== "rewrite" || typeof answer.args !== "object" || answer.args === null) unknown(answer)
    // The client keeps the object it handed out, so it is changed in place.
    for (const key of Object.keys(output.args)) if (!(key in answer.args)) delete output.args[key]
    Object.assign(output.args, answer.args)
  },
  "tool.execute.after": async (input, output) => {
    const field = output.content === undefined ? "output" : "content"
    const answer = await judge(directory, "tool.execute.after", input, { [field]: output[field] })
    if (answer?.decision === "pass") return
    if (answer?.decision !== "replace" || answer.result === undefined) unknown(answer)
    output[field] = answer.result
    // The metadata repeats the text for the screen.
    if (typeof output.metadata?.output === "string") output.metadata.output = String(answer.result)
  },
  "chat.message": async (input, output) => {
    const parts = output.parts.filter((part) => part.type === "text").map(({ type, text }) => ({ type, text }))
    const answer = await judge(directory, "chat.message", input, { parts })
    if (answer?.decision !== "pass") unknown(answer)
  },
  "experimental.session.compacting": async (input) => watch(directory, "experimental.session.compacting", input),
  event: async ({ event }) => {
    if (event.type === "session.created") {
      const { id, parentID } = event.properties?.info ?? {}
      if (id && parentID) parents.set(id, parentID)
      if (id && parentID && parents.size > 4096) parents.delete(parents.keys().next().value)
    }
    const childIsDone = event.type === "session.idle" && parents.has(event.properties?.sessionID)
    if (childIsDone || event.type === "session.created" || event.type === "session.compacted") {
      await watch(directory, `event.${event.type}`, event)
    }
  },
})
