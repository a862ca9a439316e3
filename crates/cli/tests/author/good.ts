// Uses whatever the types declare. `MEMBERS` has to name every member of `api`, or this does not compile; a member that is not there when
// the plugin runs stops it.
import {
  definePluginEntry,
  emptyPluginConfigSchema,
  formatErrorMessage,
  jsonResult,
  textResult,
  type CliContext,
  type Handler,
  type HookOutcome,
  type PluginApi,
  type Resolution,
  type Tool,
} from "backstop/plugin-sdk";
import * as accounts from "backstop/plugin-sdk/account-id";
import * as core from "backstop/plugin-sdk/core";
import * as errors from "backstop/plugin-sdk/error-runtime";
import * as queues from "backstop/plugin-sdk/keyed-async-queue";
import * as numbers from "backstop/plugin-sdk/number-runtime";
import * as entries from "backstop/plugin-sdk/plugin-entry";
import * as retries from "backstop/plugin-sdk/retry-runtime";
import * as texts from "backstop/plugin-sdk/string-coerce-runtime";
import * as chunks from "backstop/plugin-sdk/text-chunking";

type Members<T> = Required<Record<keyof T, true>>;

const MEMBERS: Members<PluginApi> = {
  id: true, name: true, version: true, description: true, source: true, rootDir: true, registrationMode: true, pluginConfig: true,
  config: true, logger: true, runtime: true, interceptors: true, session: true, runContext: true, lifecycle: true, resolvePath: true,
  on: true, registerHook: true, registerTrustedToolPolicy: true, registerAgentToolResultMiddleware: true, registerTool: true,
  registerCommand: true, registerService: true, registerCli: true, registerRuntimeLifecycle: true, registerSessionExtension: true,
  enqueueNextTurnInjection: true, setRunContext: true, getRunContext: true, clearRunContext: true,
};
const LOGGER: Members<PluginApi["logger"]> = { debug: true, info: true, warn: true, error: true };
const INTERCEPTORS: Members<PluginApi["interceptors"]> = { add: true, remove: true, list: true };
const RUNTIME: Members<PluginApi["runtime"]> = { version: true, config: true, state: true, logging: true, system: true };
const RUN_CONTEXT: Members<PluginApi["runContext"]> = { setRunContext: true, getRunContext: true, clearRunContext: true };
const SESSION: Members<PluginApi["session"]> = { state: true, workflow: true };
const SESSION_STATE: Members<PluginApi["session"]["state"]> = { registerSessionExtension: true, patchSessionExtension: true };
const SESSION_WORKFLOW: Members<PluginApi["session"]["workflow"]> = { enqueueNextTurnInjection: true };
const LIFECYCLE: Members<PluginApi["lifecycle"]> = { registerRuntimeLifecycle: true };
const SYSTEM: Members<PluginApi["runtime"]["system"]> = { enqueueSystemEvent: true, runCommandWithTimeout: true };
const CLI: Members<CliContext["program"]> = {
  commands: true, args: true, parent: true, name: true, description: true, alias: true, aliases: true, command: true, addCommand: true,
  createCommand: true, argument: true, arguments: true, option: true, requiredOption: true, hook: true, action: true, opts: true,
  optsWithGlobals: true, getOptionValue: true, setOptionValue: true, helpInformation: true, outputHelp: true, help: true, error: true,
};
const CORE: Members<typeof core> = {
  definePluginEntry: true, jsonResult: true, textResult: true, emptyPluginConfigSchema: true, formatErrorMessage: true,
};
const ERRORS: Members<typeof errors> = CORE;
const ENTRIES: Members<typeof entries> = CORE;
const ACCOUNTS: Members<typeof accounts> = { DEFAULT_ACCOUNT_ID: true, normalizeAccountId: true, normalizeOptionalAccountId: true };
const QUEUES: Members<typeof queues> = { enqueueKeyedTask: true, KeyedAsyncQueue: true };
const NUMBERS: Members<typeof numbers> = {
  asFiniteNumber: true, asPositiveSafeInteger: true, parseFiniteNumber: true, parseStrictInteger: true,
  parseStrictNonNegativeInteger: true, parseStrictPositiveInteger: true,
};
const RETRIES: Members<typeof retries> = { resolveRetryConfig: true, retryAsync: true };
const TEXTS: Members<typeof texts> = {
  readStringValue: true, normalizeNullableString: true, normalizeOptionalString: true, normalizeStringifiedOptionalString: true,
  normalizeOptionalStringifiedId: true, normalizeOptionalLowercaseString: true, normalizeLowercaseStringOrEmpty: true,
  hasNonEmptyString: true, lowercasePreservingWhitespace: true, localeLowercasePreservingWhitespace: true, normalizeStringEntries: true,
  isRecord: true,
};
const CHUNKS: Members<typeof chunks> = { chunkTextForOutbound: true, chunkItems: true };

const has = (what: string, object: object, members: Record<string, true>) => {
  for (const member of Object.keys(members)) {
    if (!(member in object)) throw new Error(`the types declare ${what}.${member}, which is not there`);
  }
};

const observed: Handler<"after_tool_call"> = async (event, context) => {
  const took: number = event.durationMs;
  const tool: string = context.toolName;
  console.log(tool, took, event.result?.content.length);
};

const echo: Tool = {
  name: "good_echo",
  description: "Answers its arguments.",
  parameters: { type: "object", properties: { word: { type: "string" } } },
  execute(_id, params, signal) {
    return signal.aborted ? textResult("stopped") : jsonResult(params);
  },
};

export default definePluginEntry({
  id: "good",
  name: "Good",
  configSchema: emptyPluginConfigSchema(),
  register(api) {
    has("api", api, MEMBERS);
    has("api.logger", api.logger, LOGGER);
    has("api.interceptors", api.interceptors, INTERCEPTORS);
    has("api.runtime", api.runtime, RUNTIME);
    has("api.runtime.system", api.runtime.system, SYSTEM);
    has("api.runContext", api.runContext, RUN_CONTEXT);
    has("api.session", api.session, SESSION);
    has("api.session.state", api.session.state, SESSION_STATE);
    has("api.session.workflow", api.session.workflow, SESSION_WORKFLOW);
    has("api.lifecycle", api.lifecycle, LIFECYCLE);
    for (const [part, module, members] of [
      ["core", core, CORE], ["plugin-entry", entries, ENTRIES], ["error-runtime", errors, ERRORS], ["account-id", accounts, ACCOUNTS], ["keyed-async-queue", queues, QUEUES],
      ["number-runtime", numbers, NUMBERS], ["retry-runtime", retries, RETRIES], ["string-coerce-runtime", texts, TEXTS],
      ["text-chunking", chunks, CHUNKS],
    ] as const) {
      has(`backstop/plugin-sdk/${part}: `, module, members);
    }

    const word = api.pluginConfig?.["word"];
    api.logger.info(typeof word === "string" ? word : "no word", api.resolvePath("."), api.config.plugins.entries[api.id]?.config);

    api.on("before_tool_call", (event, context): HookOutcome<"before_tool_call"> | undefined => {
      if (!(context.abortSignal instanceof AbortSignal)) throw new Error("the types declare context.abortSignal, which is not there");
      if (context.toolName !== event.toolName || event.context !== context) throw new Error("context.toolName is another");
      if (event.params["command"] === "stop") return { block: true, blockReason: "stopped" };
      if (event.params["command"] === "change") return { params: { ...event.params, command: "ls" } };
      if (event.params["command"] !== "ask") return undefined;
      return {
        requireApproval: {
          title: "Sure?",
          description: context.sessionKey ?? "",
          allowedDecisions: ["allow-once", "deny"],
          onResolution: async (resolution: Resolution) => (resolution === "allow-always" ? { block: true } : undefined),
        },
      };
    }, { priority: 50, matcher: ["exec"], registrationId: "judges", timeoutMs: 500 });
    api.on("after_tool_call", observed);
    api.on("gateway_stop", () => {});
    api.on("session_start", (event) => void event.sessionId);
    api.registerHook(["message:received", "gateway:startup"], (event) => api.logger.debug(event.type, event.action), { name: "older" });

    api.interceptors.add({
      id: "tags",
      name: "message.before",
      agentMatcher: /^main$/,
      handler(input, output) {
        output.message = output.message.trim();
        output.metadata["agent"] = input.agentId;
      },
    });
    api.interceptors.add({
      id: "cool",
      name: "params.before",
      async handler(input, output) {
        if (input.metadata["calm"] === true && output.provider !== "") output.temperature = null;
      },
    });
    api.interceptors.add({
      id: "arguments",
      name: "tool.before",
      toolMatcher: /^exec$/,
      priority: 3,
      handler(input, output) {
        if (input.toolName === "exec" && output.args["command"] === "stop") output.block = true;
      },
    });
    api.interceptors.add({ id: "results", name: "tool.after", handler: (_input, output) => void (output.result.details = {}) });
    if (api.interceptors.list().length !== 4 || !api.interceptors.remove("results")) throw new Error("interceptors are not there");

    api.registerTrustedToolPolicy({
      id: "policy",
      description: "Blocks what was noted.",
      matcher: ["exec"],
      evaluate: (event, context) =>
        context.getSessionExtension("notes") === "closed" ? { block: true, blockReason: event.toolName } : undefined,
    });
    api.registerAgentToolResultMiddleware((event, context) =>
      context.runtime === "" && event.args["command"] === "ls" ? { result: { ...event.result, content: [] } } : undefined,
    );

    api.registerTool(echo);
    api.registerTool((context) => ({ ...echo, name: "good_made", description: context.sessionKey ?? "none" }), { optional: true });
    api.registerCommand({ name: "good", acceptsArgs: true, handler: ({ args, senderId }) => ({ text: `${args ?? ""}${senderId ?? ""}` }) });
    api.registerService({ id: "idle", start: ({ stateDir, logger }) => logger.debug(stateDir), stop: async () => {} });
    api.registerCli(({ program, logger }) => {
      has("program", program, CLI);
      program
        .command("good <word>")
        .description("Repeats a word.")
        .option("-n, --times <n>", "how often", (value) => Number(value), 1)
        .action((word: string, options: { times: number }) => logger.info(word.repeat(options.times)));
    }, { commands: ["good"] });
    api.registerRuntimeLifecycle({ id: "ends", cleanup: ({ reason, sessionKey }) => api.logger.debug(reason, sessionKey), dispose() {} });
    api.registerSessionExtension({ namespace: "notes", project: ({ state }) => state });
    api.on("message_received", async (_event, context) => {
      if (context.sessionKey === undefined) return;
      try {
        await api.session.state.patchSessionExtension({ sessionKey: context.sessionKey, namespace: "notes", value: { open: true } });
        const { enqueued } = await api.enqueueNextTurnInjection({ sessionKey: context.sessionKey, text: "hi", placement: "append_context" });
        api.setRunContext({ runId: context.runId ?? "r", namespace: "n", value: enqueued });
      } catch (error) {
        api.logger.warn(formatErrorMessage(error));
      }
    });
  },
});
