// Converse by Amazon's SDK: whole and streamed, with a signature of its own that the proxy is not to pass on.

import { BedrockRuntimeClient, ConverseCommand, ConverseStreamCommand } from "@aws-sdk/client-bedrock-runtime"
import { BASE, MODEL, TOOLS, run, told } from "./common.mjs"

// Whoever speaks to the proxy needs no key of Amazon's; the SDK wants one to sign with all the same.
const credentials = { accessKeyId: "nobody", secretAccessKey: "nothing" }
const client = new BedrockRuntimeClient({ endpoint: BASE, region: "us-east-1", maxAttempts: 1, credentials })
const tools = TOOLS.map(({ name, description, schema }) => ({
  toolSpec: { name, description, inputSchema: { json: schema } },
}))
const question = (prompt) => ({
  modelId: MODEL,
  messages: [{ role: "user", content: [{ text: prompt }] }],
  inferenceConfig: { maxTokens: 1000 },
  toolConfig: { tools },
})

await run({
  whole: async (prompt) => {
    const { output, stopReason } = await client.send(new ConverseCommand(question(prompt)))
    const text = output.message.content.map((block) => block.text ?? "").join("")
    const calls = output.message.content.filter((block) => block.toolUse)
    return told(text, calls.map(({ toolUse }) => [toolUse.name, toolUse.input]), stopReason)
  },
  streamed: async (prompt) => {
    let text = ""
    let stop = null
    let counts = null
    const calls = []
    const { stream } = await client.send(new ConverseStreamCommand(question(prompt)))
    for await (const event of stream) {
      const { contentBlockStart: start, contentBlockDelta: delta } = event
      if (start?.start?.toolUse) calls.push([start.start.toolUse.name, ""])
      text += delta?.delta?.text ?? ""
      if (delta?.delta?.toolUse) calls.at(-1)[1] += delta.delta.toolUse.input
      stop = event.messageStop?.stopReason ?? stop
      counts = event.metadata?.usage ?? counts
    }
    if (!(counts?.totalTokens > 0)) throw new Error("nothing was counted")
    return told(text, calls.map(([name, args]) => [name, args || "{}"]), stop)
  },
})
