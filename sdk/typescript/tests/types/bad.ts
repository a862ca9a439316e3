// Mistakes that the types refuse. The compiler reports each `@ts-expect-error` below which there is none.
import { HookVerdict, ToolCallHook, ToolExecutor, hook, run, tool } from "backstop";
import { Client } from "backstop/client";

// @ts-expect-error a typo in a point
hook("before_tool_cal", () => {});
// @ts-expect-error a typo in an option
hook("before_tool_call", { prioriy: 1 }, () => {});
// @ts-expect-error a pattern is a text
hook("before_tool_call", { matcher: /exec/ }, () => {});
// @ts-expect-error a typo in a field of the event
hook("before_tool_call", (event) => void event.tolName);
// @ts-expect-error arguments are what a model wrote
hook("before_tool_call", (event) => void event.params["command"].length);
// @ts-expect-error the program may have no options
hook("before_tool_call", (event) => void event.context.pluginConfig["word"]);
// @ts-expect-error a typo in an outcome
hook("before_tool_call", () => ({ blok: true }));
// @ts-expect-error also beside fields that are right
hook("before_tool_call", async () => ({ block: true, blockReasn: "no" }));
// @ts-expect-error outcomes are data of the right type
hook("before_tool_call", async () => ({ block: "true" }));
// @ts-expect-error there is nothing to say where hooks only watch
hook("after_tool_call", () => ({ block: true }));
// @ts-expect-error it is one of two forms
hook("before_agent_run", () => ({ outcome: "maybe" }));
// @ts-expect-error a tool has a name
tool({}, () => null);
// @ts-expect-error a verdict is made by its words
new HookVerdict();
// @ts-expect-error arguments are an object
HookVerdict.modify("ls");

class Wrong extends ToolCallHook {
  // @ts-expect-error a word is no verdict
  override preCall() {
    return "approve";
  }
}
// @ts-expect-error hooks are a list
new ToolExecutor(new Map(), new Wrong());
// @ts-expect-error a typo in an option
void run({ concurency: 2 });

const client = new Client({ token: "bst_0_0" });
// @ts-expect-error there is no such point
void client.judge("before_tool_cal", { toolName: "exec", params: {} });
// @ts-expect-error an event has its fields
void client.judge("before_tool_call", { toolName: "exec" });
// @ts-expect-error a failure is refused or let through
new Client({ onFailure: "ignore" });
// @ts-expect-error a result may be a text in its place
const result: number = await client.run("count", {}, () => 1);
