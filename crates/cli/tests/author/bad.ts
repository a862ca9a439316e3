// Mistakes that the types refuse. The compiler reports each `@ts-expect-error` below which there is none.
import { definePluginEntry, type Handler, type HookOutcome, type PluginApi } from "backstop/plugin-sdk";
// @ts-expect-error it is no export of the SDK when the plugin runs
import { POINTS } from "backstop/plugin-sdk";
// @ts-expect-error there is no such part
import { channels } from "backstop/plugin-sdk/channels";

const outcome: HookOutcome<"before_tool_call"> = {
  block: true,
  // @ts-expect-error a typo in an outcome
  blockReasn: "no",
};

// @ts-expect-error outcomes are data of the right type
const wrong: HookOutcome<"before_tool_call"> = { block: "true" };

// @ts-expect-error there is nothing to say where hooks only watch
const watches: Handler<"after_tool_call"> = () => ({ block: true });

export const register = (api: PluginApi) => {
  // @ts-expect-error a typo in a method
  api.registerTol({});
  // @ts-expect-error a method that is not provided
  api.registerHttpRoute({ path: "/x", handler: () => {} });
  // @ts-expect-error a typo in a point
  api.on("before_tool_cal", () => {});
  // @ts-expect-error a typo in a field of the event
  api.on("before_tool_call", (event) => void event.tolName);
  // @ts-expect-error arguments are what a model wrote
  api.on("before_tool_call", (event) => void event.params["command"].length);
  // @ts-expect-error a typo in an outcome
  api.on("before_tool_call", () => ({ blok: true }));
  // @ts-expect-error also beside fields that are right
  api.on("before_tool_call", () => ({ block: true, blockReasn: "no" }));
  // @ts-expect-error also later, and in one answer of several
  api.on("before_tool_call", async (event) => (event.toolName === "x" ? { block: true, blockReasn: "no" } : undefined));
  // @ts-expect-error `yes` is no outcome
  api.on("before_tool_call", () => "yes");
  // @ts-expect-error nor is it later
  api.on("before_tool_call", async () => "yes");
  // @ts-expect-error a typo in an option
  api.on("before_tool_call", () => {}, { prioriy: 1 });
  // @ts-expect-error names of tools are a list
  api.on("before_tool_call", () => {}, { matcher: "exec" });
  // @ts-expect-error and no pattern
  api.on("before_tool_call", () => {}, { matcher: /exec/ });
  // @ts-expect-error the point is about no tool
  api.on("session_start", () => {}, { matcher: ["exec"] });
  // @ts-expect-error triggers mean something at `before_agent_reply` only
  api.on("before_tool_call", () => {}, { eligibleTriggers: ["user"] });
  // @ts-expect-error there is no such trigger
  api.on("before_agent_reply", () => {}, { eligibleTriggers: ["nobody"] });
  // @ts-expect-error policies have a method of their own
  api.on("trusted_tool_policy", () => {});
  // @ts-expect-error the context is about no tool
  api.on("session_start", (_event, context) => void context.toolName);
  // @ts-expect-error a plugin may have no options
  api.on("session_start", (_event, context) => void context.pluginConfig["word"]);
  // @ts-expect-error nobody decides `maybe`
  api.on("before_tool_call", () => ({ requireApproval: { title: "x", description: "y", allowedDecisions: ["maybe"] } }));
  api.on("before_tool_call", () => ({
    // @ts-expect-error it is told the decision alone
    requireApproval: { title: "x", description: "y", onResolution: (resolution: { decision: string }) => void resolution },
  }));
  // @ts-expect-error no host fires it
  api.registerHook("agent:bootstrap", () => {});
  // @ts-expect-error there is no such interceptor
  api.interceptors.add({ id: "x", name: "tool.befor", handler() {} });
  // @ts-expect-error an interceptor has an id
  api.interceptors.add({ name: "tool.before", handler() {} });
  // @ts-expect-error it is about no tool
  api.interceptors.add({ id: "x", name: "message.before", toolMatcher: /x/, handler() {} });
  // @ts-expect-error a matcher is a pattern
  api.interceptors.add({ id: "x", name: "tool.before", toolMatcher: "x", handler() {} });
  // @ts-expect-error the model is read-only here
  api.interceptors.add({ id: "x", name: "params.before", handler: (_input, output) => void (output.model = "x") });
  // @ts-expect-error arguments are an object
  api.interceptors.add({ id: "x", name: "tool.before", handler: (_input, output) => void (output.args = "x") });
  // @ts-expect-error a policy says what it is for
  api.registerTrustedToolPolicy({ id: "x", evaluate: () => {} });
  // @ts-expect-error a typo in an outcome of a policy
  api.registerTrustedToolPolicy({ id: "x", description: "y", evaluate: () => ({ blok: true }) });
  // @ts-expect-error also beside fields that are right, later, and in one answer of several
  api.registerTrustedToolPolicy({ id: "x", description: "y", evaluate: async (event) => (event.toolName === "x" ? { block: true, blockReasn: "no" } : undefined) });
  // @ts-expect-error a typo in what a middleware answers
  api.registerAgentToolResultMiddleware((event) => ({ reslt: event.result }));
  // @ts-expect-error a tool has a name
  api.registerTool({ execute: () => "x" });
  // @ts-expect-error and something to run
  api.registerTool({ name: "x" });
  // @ts-expect-error nothing is no result of a tool
  api.registerTool({ name: "x", execute: () => {} });
  // @ts-expect-error content is a list of pieces
  api.registerTool({ name: "x", execute: () => ({ content: "x" }) });
  // @ts-expect-error a typo in a command
  api.registerCommand({ name: "x", acceptArgs: true, handler: () => "x" });
  // @ts-expect-error a command answers words
  api.registerCommand({ name: "x", handler: () => 3 });
  // @ts-expect-error commands are made at once
  api.registerCli(async () => {});
  // @ts-expect-error a patch has a value, or unsets it
  void api.session.state.patchSessionExtension({ sessionKey: "x", namespace: "n" });
  // @ts-expect-error a text has a place
  void api.enqueueNextTurnInjection({ sessionKey: "x", text: "t", placement: "somewhere" });
  // @ts-expect-error a note has a value
  api.setRunContext({ runId: "r", namespace: "n" });
  // @ts-expect-error the api is read-only
  api.id = "other";
  void [outcome, wrong, watches, POINTS, channels];
};

definePluginEntry({
  id: "bad",
  // @ts-expect-error what registers later guards nobody knows when
  async register() {},
});
// @ts-expect-error a plugin has an id
definePluginEntry({ register() {} });
