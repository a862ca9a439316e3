// Hooks that the compiler takes, in strict mode.
import { HookVerdict, POINTS, ToolCallHook, ToolExecutor, createHooks, hook, hookTypes, log, run, tool, type Arguments, type Handler } from "backstop";
import { Client, Conflict, Refused, type PermittedCall } from "backstop/client";
import type { Points, ToolCallOutcome } from "backstop/points";

hook("before_tool_call", { priority: 50, matcher: ["exec"] }, (event) => {
  if (String(event.params.command ?? "").includes("sudo")) {
    return { block: true, blockReason: "sudo is not allowed" };
  }
});

hook("before_tool_call", { id: "asks", matcher: "^exec$" }, async (event, { signal }): Promise<ToolCallOutcome | null> => {
  const word = event.context.pluginConfig?.["word"];
  if (signal.aborted || typeof word !== "string") return null;
  return { requireApproval: { title: word, description: event.toolCallId ?? "", allowedDecisions: ["deny"] } };
});

hook("after_tool_call", async (event) => {
  log(`${event.toolName} took ${event.durationMs} ms`, "debug");
});

hook("before_agent_run", { triggers: ["user"] }, (event) => (event.prompt === "" ? { outcome: "block", reason: "no" } : { outcome: "pass" }));
hook("deactivate", () => {});

const trims: Handler<"message.before"> = (event) => ({ message: event.message.trim() });
hook("message.before", trims);

tool({ name: "echo", inputSchema: { type: "object" } }, (args) => ({ echo: args }));

class MyHook extends ToolCallHook {
  override async preCall(toolName: string, args: Arguments): Promise<HookVerdict> {
    if (toolName !== "run_command") return HookVerdict.approve();
    return args["command"] === "ls" ? HookVerdict.modify({ command: "ls -l" }) : HookVerdict.deny("not allowed");
  }
}
hookTypes.set("my_hook", MyHook);

const executor = new ToolExecutor(new Map([["ls", (args: Arguments) => args]]), createHooks([{ type: "my_hook" }]));
const points: readonly (keyof Points)[] = POINTS;

export const result = executor.execute("ls", {}).then(({ success, error }) => [success, error ?? points[0]]);
void run({ concurrency: 2, hooks: [new MyHook()] });

const client = new Client({ token: "bst_0_0", context: { sessionId: "s" }, patienceMs: 1000, onFailure: "refuse" });
const text: string = await client.run("read", { path: "notes.txt" }, (params) => `read ${params["path"]}`);
const call: PermittedCall = await client.permit("exec", { command: "ls" }, { signal: AbortSignal.timeout(1000) });
const people: number[] | string = await client.result(call, [1, 2]);
try {
  const ruling = await client.judge("before_tool_call", { toolName: "exec", params: {} });
  log([text, people, ruling.mayHappen, ruling.params?.["command"], ruling.question?.title]);
} catch (error) {
  log(error instanceof Refused ? error.reason : error instanceof Conflict && error.kind);
}
