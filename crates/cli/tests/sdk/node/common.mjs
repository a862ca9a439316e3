// What every SDK is asked, and the form in which it tells what it understood. The Python folder has the same;
// its `common.py` says how the test reads this.

export const BASE = process.env.BACKSTOP_TEST_URL
export const KEY = process.env.BACKSTOP_TEST_KEY
export const MODEL = "scripted-model"
// In which cloud the SDK takes itself to be, where that is one.
export const CLOUD = process.env.BACKSTOP_TEST_CLOUD
// Credentials of Google's, without asking for any.
export const GOOGLES = {
  projectId: "p",
  getRequestHeaders: async () => new Headers({ authorization: `Bearer ${KEY}` }),
}

const CASES = {
  text: "say hello",
  secret: "say the token",
  call: "read the notes",
  withheld: "run the command",
  both: "read the notes and run the command",
  structured: "answer as an object",
}

const object = (property) => ({
  type: "object",
  properties: { [property]: { type: "string" } },
  required: [property],
  additionalProperties: false,
})

export const TOOLS = [
  { name: "read", description: "Reads a file.", schema: object("path") },
  { name: "exec", description: "Runs a command.", schema: object("command") },
]

export function told(text, calls, stop) {
  const named = calls.map(([name, args]) => ({
    name,
    arguments: typeof args === "string" ? JSON.parse(args) : { ...args },
  }))
  return { text: text ?? "", calls: named, stop }
}

export const ANSWER_SCHEMA = {
  type: "object",
  properties: { city: { type: "string" }, people: { type: "integer" } },
  required: ["city", "people"],
  additionalProperties: false,
}

// Modes of `structured` answer an object, read by the SDK's own reader.
export async function run(modes, structured = {}) {
  const only = process.argv.slice(2)
  const result = {}
  for (const [name, prompt] of Object.entries(CASES)) {
    if (only.length > 0 && !only.includes(name)) continue
    result[name] = {}
    const parsers = Object.entries(structured).map(([mode, ask]) => [
      mode,
      async (prompt) => told(JSON.stringify(await ask(prompt)), [], null),
    ])
    const all = name === "structured" ? [...Object.entries(modes), ...parsers] : Object.entries(modes)
    for (const [mode, ask] of all) {
      try {
        result[name][mode] = await ask(prompt)
      } catch (error) {
        console.error(error)
        result[name][mode] = { error: `${error.name}: ${error.message}` }
      }
    }
  }
  process.stdout.write(JSON.stringify(result))
}
