// Hooks that the compiler takes, in strict mode.
import { HookVerdict, POINTS, ToolCallHook, ToolExecutor, createHooks, hook, hookTypes, log, run, tool, type Arguments, type Handler } from "backstop";
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
