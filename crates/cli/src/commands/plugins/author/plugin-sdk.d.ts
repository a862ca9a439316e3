// Types of what plugins import, by `backstop plugins types`. A `tsconfig.json` that includes this file is all that an editor needs; nothing
// is installed. What is declared here works in every plugin for `backstop/plugin-sdk`; what is not declared is not provided.

declare module "backstop/plugin-sdk" {
  // The types of the points.

  // ---- Hooks --------------------------------------------------------------------------------------------------

  /** The name of a hook point, or an older name of one. */
  export type PointName = keyof Points;

  /** The points that are about one tool: a hook there can be limited to some tools. */
  export type ToolPoint = "trusted_tool_policy" | "tool.before" | "before_tool_call" | "tool.after" | "after_tool_call";

  /** This plugin's options as the operator's configuration has them; `null` if it has none. */
  export type PluginConfig = Readonly<Record<string, unknown>> | null;

  /** The context of a call. A handler gets it as its second argument; `event.context` is the same object. */
  export type HandlerContext<P extends PointName = PointName> = Omit<CallContext, "pluginConfig"> & {
    readonly pluginConfig: PluginConfig;
    /** Aborted when nobody waits for the answer any more. */
    readonly abortSignal: AbortSignal;
  } & Pick<Points[P]["event"], Extract<keyof Points[P]["event"], "toolName" | "toolCallId" | "toolKind" | "toolInputKind">>;

  /** The event of a point as a handler gets it. */
  export type HookEvent<P extends PointName> = Omit<Points[P]["event"], "context"> & { context: HandlerContext<P> };

  /** How a request for approval ended. */
  export type Resolution = Decision | "timeout" | "cancelled";

  /** A request for approval, with a function that learns how it ended. */
  export interface PluginApprovalRequest extends ApprovalRequest {
    /** Called when the request ends. `{ block: true }` blocks the call after all; a function that throws does so, too. */
    onResolution?(resolution: Resolution): AfterResolution | Promise<AfterResolution>;
  }

  /** What `onResolution` may return. */
  export type AfterResolution = { block?: boolean; blockReason?: string } | null | undefined | void;

  type WithResolution<O> = O extends unknown
    ? string extends keyof O
      ? O
      : "requireApproval" extends keyof O
        ? Omit<O, "requireApproval"> & { requireApproval?: PluginApprovalRequest }
        : O
    : never;

  /** The outcome that a handler may return at a point. `never` where hooks only watch. */
  export type HookOutcome<P extends PointName> = WithResolution<Points[P]["outcome"]>;

  /** The return value of a handler: an outcome, or nothing for no opinion. */
  export type HookAnswer<P extends PointName> = HookOutcome<P> | null | undefined | void;

  type FieldsOf<O> = O extends object ? keyof O : never;
  /** Refuses answers with fields that the outcome does not have: a misspelt one fails the hook when it is asked. */
  type NoOtherFields<A, O> = [Exclude<FieldsOf<A>, FieldsOf<O>>] extends [never]
    ? unknown
    : { "the outcome has no such field": Exclude<FieldsOf<A>, FieldsOf<O>> };

  /** A hook. */
  export type Handler<P extends PointName> = (event: HookEvent<P>, context: HandlerContext<P>) => HookAnswer<P> | Promise<HookAnswer<P>>;

  /** The options of a hook at a point. */
  export type HookOptions<P extends PointName = PointName> = {
    /** Hooks with a higher priority run first. A whole number; 0 by default. */
    priority?: number;
    /** The time budget in milliseconds, at most 600 000. */
    timeoutMs?: number;
    /** The name of this hook, unique at its point. */
    registrationId?: string;
  } & (P extends ToolPoint
    ? {
        /** Only calls of these tools. */
        matcher?: readonly string[];
      }
    : { matcher?: never }) &
    (P extends "before_agent_reply"
      ? {
          /** Only runs that were started by one of these. */
          eligibleTriggers?: readonly Trigger[];
        }
      : { eligibleTriggers?: never }) &
    (P extends "reply_dispatch"
      ? {
          /** Only dispatches of these kinds. */
          eligibleDispatchKinds?: readonly ("agent" | "acp")[];
        }
      : { eligibleDispatchKinds?: never });

  /** The older events, and the hook point of each. */
  export interface OlderEvents {
    "message:received": "message_received";
    "message:sent": "message_sent";
    "gateway:startup": "gateway_start";
    "gateway:shutdown": "gateway_stop";
    "session:compact:before": "before_compaction";
    "session:compact:after": "after_compaction";
  }

  /** An older event. */
  export interface OlderEvent<N extends keyof OlderEvents = keyof OlderEvents> {
    /** The word before the first colon. */
    type: string;
    /** The words after it. */
    action: string;
    /** The conversation; empty if there is none. */
    sessionKey: string;
    timestamp: Date;
    /** Always empty: what is put there reaches nobody. */
    messages: unknown[];
    /** The event of the hook point. */
    context: Omit<Points[OlderEvents[N]]["event"], "context"> & { readonly pluginConfig: PluginConfig };
  }

  /** The options of `registerHook`. */
  export interface OlderHookOptions {
    name?: string;
    description?: string;
    priority?: number;
    timeoutMs?: number;
  }

  // ---- Interceptors -------------------------------------------------------------------------------------------

  /** The points of interceptors. */
  export type InterceptorName = "message.before" | "params.before" | "tool.before" | "tool.after";

  type Shown = { "params.before": "provider" | "model"; "message.before": never; "tool.before": never; "tool.after": never };
  type Changed<N extends InterceptorName> = Extract<keyof Points[N]["event"], keyof Points[N]["outcome"]>;

  /** What an interceptor reads. */
  export type InterceptorInput<N extends InterceptorName> = Omit<Points[N]["event"], Changed<N> | Shown[N] | "context">;

  /** What an interceptor changes in place. */
  export type InterceptorOutput<N extends InterceptorName> = {
    [K in Changed<N>]: Points[N]["event"][K] | Exclude<Points[N]["outcome"][K & keyof Points[N]["outcome"]], undefined>;
  } & Omit<HookOutcome<N>, Changed<N>> &
    Readonly<Pick<Points[N]["event"], Shown[N] & keyof Points[N]["event"]>>;

  /** An interceptor. */
  export type Interceptor = { [N in InterceptorName]: InterceptorAt<N> }[InterceptorName];

  type InterceptorAt<N extends InterceptorName> = {
    /** Unique among the interceptors of this plugin. */
    id: string;
    name: N;
    handler(input: InterceptorInput<N>, output: InterceptorOutput<N>): void | Promise<void>;
    priority?: number;
    timeoutMs?: number;
  } & (N extends "tool.before" | "tool.after"
    ? {
        /** Only tools with a matching name; it has to match one that exists. */
        toolMatcher?: RegExp;
        agentMatcher?: never;
      }
    : {
        /** Only agents with a matching id. */
        agentMatcher?: RegExp;
        toolMatcher?: never;
      });

  /** The interceptors of this plugin. */
  export interface Interceptors {
    add(interceptor: Interceptor): void;
    /** Removes one, also after `register` has returned. Returns whether it was there. */
    remove(id: string): boolean;
    list(): { id: string; name: InterceptorName; priority: number }[];
  }

  // ---- Policies and middleware --------------------------------------------------------------------------------

  /** The context of a trusted tool policy. */
  export type PolicyContext = HandlerContext<"trusted_tool_policy"> & {
    /** The value of one of this plugin's session extensions; `undefined` if there is none. */
    getSessionExtension(namespace: string): unknown;
  };

  /** The return value of a policy. */
  export type PolicyAnswer = HookAnswer<"trusted_tool_policy">;

  /** A policy that is asked before all other hooks of a tool call. The operator has to allow it (`allowTrustedToolPolicy`). */
  export interface TrustedToolPolicy<A extends PolicyAnswer | Promise<PolicyAnswer> = PolicyAnswer | Promise<PolicyAnswer>> {
    id: string;
    description: string;
    evaluate: (event: HookEvent<"trusted_tool_policy">, context: PolicyContext) => A;
    /** Only calls of these tools. */
    matcher?: readonly string[];
    priority?: number;
    timeoutMs?: number;
  }

  /** The result of a tool, before the model reads it. */
  export interface ToolResultMiddlewareEvent {
    toolCallId: ToolCallId;
    toolName: string;
    cwd?: string;
    isError: boolean;
    result: ToolResult;
    /** The arguments as they ran. Reading it throws where the host knows the result only, as of a tool that a provider ran. */
    readonly args: Points["after_tool_call"]["event"]["params"];
  }

  /** The context of a middleware. */
  export interface ToolResultMiddlewareContext {
    runtime: string;
    harness: string;
    agentId?: AgentId;
    sessionId?: SessionId;
    sessionKey?: SessionKey;
    runId?: RunId;
  }

  type MiddlewareAnswer = { result?: ToolResult } | null | undefined | void;

  // ---- What else a plugin brings ------------------------------------------------------------------------------

  /** Writes to Backstop's log. */
  export interface Logger {
    debug(...parts: unknown[]): void;
    info(...parts: unknown[]): void;
    warn(...parts: unknown[]): void;
    error(...parts: unknown[]): void;
  }

  /** What a plugin sees of the configuration: its own entry. */
  export interface PluginHostConfig {
    readonly plugins: { readonly entries: Readonly<Record<string, { readonly config: PluginConfig }>> };
  }

  /** A piece of a tool's result. */
  export type ToolContent = { type: "text"; text: string } | { type: "image"; mimeType: string; data: string };

  /** The result of a tool with its parts. */
  export interface ToolReply {
    content?: ToolContent[];
    /** Facts for programs; no model reads them. */
    details?: unknown;
    isError?: boolean;
  }

  /** What a tool may return: a text, a result with its parts, or any other object, which the model reads as JSON. */
  export type ToolAnswer = string | ToolReply | { [field: string]: unknown; content?: never };

  /** A tool for the agent. */
  export interface Tool {
    /** 1 to 64 letters, digits, `_` and `-`. */
    name: string;
    label?: string;
    description?: string;
    /** The JSON Schema of its arguments, which are an object. */
    parameters?: object;
    /** An older name of `parameters`. */
    inputSchema?: object;
    /** Runs it. `params` is what the hooks of the call have let pass. Progress that is given to `onUpdate` is not shown. */
    execute(toolCallId: string, params: unknown, signal: AbortSignal, onUpdate: (partial: unknown) => void): ToolAnswer | Promise<ToolAnswer>;
  }

  /** The context of a factory of tools. While the plugin is loaded there is no session. */
  export interface ToolFactoryContext {
    config: PluginHostConfig;
    runtimeConfig: PluginHostConfig;
    workspaceDir?: string | null;
    agentId?: string | null;
    sessionKey?: string | null;
    sessionId?: string | null;
    runId?: string | null;
    messageChannel?: string | null;
  }

  /** Makes tools, once for each session. */
  export type ToolFactory = (context: ToolFactoryContext) => Tool | (Tool | null | undefined)[] | null | undefined;

  /** The options of `registerTool`. */
  export interface ToolOptions {
    /** The name of a tool that has none of its own. */
    name?: string;
    names?: string[];
    /** Offered only if the operator lists it (`optionalTools`). */
    optional?: boolean;
  }

  /** The context of a command. */
  export interface CommandContext {
    /** The whole message. */
    commandBody: string;
    /** The words after the command. */
    args?: string;
    isAuthorizedSender: boolean;
    senderId: string | null;
    channel: string | null;
    sessionKey: string | null;
    sessionId: string | null;
    agentId: string | null;
    config: PluginHostConfig;
  }

  type CommandAnswer = string | { text?: string } | null | undefined | void;

  /** A command: a message that begins with `/` and its name. */
  export interface Command {
    /** With or without the `/`. */
    name: string;
    description?: string;
    /** Whether words may follow; such a message goes to the model otherwise. */
    acceptsArgs?: boolean;
    /** Whether only the owner may use it; `true` by default. */
    requireAuth?: boolean;
    handler(context: CommandContext): CommandAnswer | Promise<CommandAnswer>;
  }

  /** What a service is given. */
  export interface ServiceContext {
    config: PluginHostConfig;
    workspaceDir?: string | null;
    /** A folder of this plugin's own. */
    stateDir: string;
    logger: Logger;
  }

  /** A service: started and stopped with its host. */
  export interface Service {
    id: string;
    description?: string;
    start?(context: ServiceContext): unknown;
    stop?(context: ServiceContext): unknown;
  }

  /** A command of the command line, of the shape that commander's have. */
  export interface CliCommand {
    readonly commands: CliCommand[];
    readonly args: string[];
    readonly parent: CliCommand | null;
    name(): string;
    name(name: string): this;
    description(): string;
    description(description: string): this;
    alias(name: string): this;
    aliases(names: readonly string[]): this;
    /** A command below this one; arguments may follow its name: `"add <word> [more...]"`. */
    command(words: string, description?: string): CliCommand;
    addCommand(command: CliCommand): this;
    createCommand(name?: string): CliCommand;
    argument(word: string, description?: string, preset?: unknown): this;
    arguments(words: string): this;
    option(flags: string, description?: string, preset?: unknown): this;
    option<T>(flags: string, description: string, parse: (value: string, before: T | undefined) => T, preset?: T): this;
    requiredOption(flags: string, description?: string, preset?: unknown): this;
    requiredOption<T>(flags: string, description: string, parse: (value: string, before: T | undefined) => T, preset?: T): this;
    hook(when: "preAction" | "postAction", listener: (command: CliCommand, action: CliCommand) => void | Promise<void>): this;
    /** Called with the arguments, the options and the command. */
    action(handler: (...given: any[]) => unknown): this;
    opts(): Record<string, unknown>;
    optsWithGlobals(): Record<string, unknown>;
    getOptionValue(key: string): unknown;
    setOptionValue(key: string, value: unknown): this;
    helpInformation(): string;
    outputHelp(): void;
    help(): void;
    error(message: string): never;
  }

  /** What the function of `registerCli` is given. */
  export interface CliContext {
    program: CliCommand;
    config: PluginHostConfig;
    workspaceDir?: string | null;
    logger: Logger;
  }

  /** Why something is cleaned up. */
  export interface Cleanup {
    reason: "reset" | "delete" | "disable" | "restart";
    /** The conversation; `null` if it is about all of them. */
    sessionKey: string | null;
  }

  /** What is called when the plugin, or what it stores with a conversation, ends. */
  export interface RuntimeLifecycle {
    id: string;
    description?: string;
    cleanup?(why: Cleanup): unknown;
    dispose?(): unknown;
  }

  /** Values that the plugin stores with conversations. */
  export interface SessionExtension {
    namespace: string;
    description?: string;
    /** What is shown of a value where sessions are listed. Returns at once. */
    project?(stored: { sessionKey: string; sessionId?: string; state: unknown }): unknown;
    cleanup?(why: Cleanup): unknown;
    sessionEntrySlotKey?: string;
  }

  /** A change of a session extension: another value, or none. */
  export type SessionExtensionPatch = { sessionKey: string; namespace: string } & ({ value: unknown; unset?: false } | { unset: true; value?: never });

  /** A text for the next turn of a conversation. */
  export interface NextTurnInjection {
    sessionKey: string;
    text: string;
    /** A text with the same key is queued once. */
    idempotencyKey?: string;
    placement?: Placement;
    ttlMs?: number;
  }

  /** What became of it. */
  export interface Enqueued {
    /** `false` if one with its key was queued already. */
    enqueued: boolean;
    id: string;
    sessionKey: string;
  }

  /** Which note about a run. */
  export interface RunContextKey {
    runId: string;
    namespace: string;
  }

  /** Notes about runs, in the memory of the plugin. */
  export interface RunContext {
    /** Returns whether it was noted: values are data of at most 64 KiB. */
    setRunContext(note: RunContextKey & ({ value: unknown; unset?: false } | { unset: true; value?: never })): boolean;
    getRunContext(which: RunContextKey): unknown;
    clearRunContext(which: { runId: string; namespace?: string }): void;
  }

  /** How a program ended. */
  export interface ProgramEnd {
    stdout: string;
    stderr: string;
    code: number | null;
    signal: string | null;
    killed: boolean;
    termination: "exit" | "signal" | "timeout";
  }

  /** What there is of the host's insides. */
  export interface PluginRuntime {
    readonly version: string;
    readonly config: { current(): PluginHostConfig; loadConfig(): PluginHostConfig };
    readonly state: { resolveStateDir(): string };
    readonly logging: { getChildLogger(): Logger; shouldLogVerbose(): boolean };
    readonly system: {
      enqueueSystemEvent(text: string, options: { sessionKey: string; contextKey?: string }): Promise<Enqueued>;
      /** Runs a program that the operator has granted; no shell reads its arguments. */
      runCommandWithTimeout(
        argv: readonly string[],
        options?: number | { timeoutMs?: number; cwd?: string; input?: string; env?: Record<string, string> },
      ): Promise<ProgramEnd>;
    };
  }

  // ---- The plugin ---------------------------------------------------------------------------------------------

  /** What `register` is given. Everything is registered while `register` runs. */
  export interface PluginApi extends RunContext {
    readonly id: string;
    readonly name: string;
    readonly version?: string | null;
    readonly description?: string | null;
    /** The file of the entry. */
    readonly source: string;
    readonly rootDir: string;
    readonly registrationMode: "full";
    readonly pluginConfig: PluginConfig;
    readonly config: PluginHostConfig;
    readonly logger: Logger;
    readonly runtime: PluginRuntime;
    readonly interceptors: Interceptors;
    /** The same methods by groups. */
    readonly session: {
      readonly state: Pick<PluginApi, "registerSessionExtension"> & {
        /** Changes a value of a conversation that the plugin is being asked about. */
        patchSessionExtension(patch: SessionExtensionPatch): Promise<{ ok: true }>;
      };
      readonly workflow: Pick<PluginApi, "enqueueNextTurnInjection">;
    };
    readonly runContext: RunContext;
    readonly lifecycle: Pick<PluginApi, "registerRuntimeLifecycle">;
    /** A path, relative to the plugin's folder. */
    resolvePath(path: string): string;
    /** Registers a hook. */
    on<P extends Exclude<PointName, "trusted_tool_policy">, A extends HookAnswer<P> | Promise<HookAnswer<P>>>(
      point: P,
      handler: ((event: HookEvent<P>, context: HandlerContext<P>) => A) & NoOtherFields<Awaited<A>, HookOutcome<P>>,
      options?: HookOptions<P>,
    ): void;
    /** Registers a hook for older events. */
    registerHook<N extends keyof OlderEvents>(events: N | readonly N[], handler: (event: OlderEvent<N>) => unknown, options?: OlderHookOptions): void;
    registerTrustedToolPolicy<A extends PolicyAnswer | Promise<PolicyAnswer>>(
      policy: TrustedToolPolicy<A> & { evaluate: NoOtherFields<Awaited<A>, HookOutcome<"trusted_tool_policy">> },
    ): void;
    /** Registers what may replace results of tools before the model reads them, or change them in place. */
    registerAgentToolResultMiddleware<A extends MiddlewareAnswer | Promise<MiddlewareAnswer>>(
      handler: ((event: ToolResultMiddlewareEvent, context: ToolResultMiddlewareContext) => A) & NoOtherFields<Awaited<A>, { result?: ToolResult }>,
      options?: { priority?: number; timeoutMs?: number; matcher?: readonly string[]; runtimes?: readonly string[]; harnesses?: readonly string[] },
    ): void;
    registerTool(tool: Tool | ToolFactory, options?: ToolOptions): void;
    registerCommand(command: Command): void;
    registerService(service: Service): void;
    registerCli(register: (context: CliContext) => void | undefined, options?: { commands?: string[]; descriptors?: unknown[] }): void;
    registerRuntimeLifecycle(lifecycle: RuntimeLifecycle): void;
    registerSessionExtension(extension: SessionExtension): void;
    /** Queues a text for the next turn of a conversation that the plugin is being asked about. */
    enqueueNextTurnInjection(injection: NextTurnInjection): Promise<Enqueued>;
  }

  /** What a plugin's entry exports by default. */
  export interface PluginEntry {
    id: string;
    name?: string;
    description?: string;
    configSchema?: object;
    /** Registers everything while it is called: a promise is an error. */
    register(api: PluginApi): void | undefined;
  }

  /** Returns the entry as it is. */
  export function definePluginEntry(entry: PluginEntry): PluginEntry;
  /** A tool's result that is one piece of JSON. */
  export function jsonResult(value: unknown): ToolReply;
  /** A tool's result that is a text. */
  export function textResult(text: unknown, details?: unknown): ToolReply;
  /** The schema of a plugin without options. */
  export function emptyPluginConfigSchema(): object;
  /** The message of an error. */
  export function formatErrorMessage(error: unknown): string;
}

declare module "backstop/plugin-sdk/core" {
  export * from "backstop/plugin-sdk";
}

declare module "backstop/plugin-sdk/plugin-entry" {
  export * from "backstop/plugin-sdk";
}

declare module "backstop/plugin-sdk/error-runtime" {
  export * from "backstop/plugin-sdk";
}

declare module "backstop/plugin-sdk/account-id" {
  /** The account of a channel that has one. */
  export const DEFAULT_ACCOUNT_ID: string;
  export function normalizeAccountId(value: unknown): string;
  export function normalizeOptionalAccountId(value: unknown): string | undefined;
}

declare module "backstop/plugin-sdk/keyed-async-queue" {
  interface QueueHooks {
    onEnqueue?(): void;
    onSettle?(): void;
  }
  /** Runs a task after those before it that have its key in `tails`. */
  export function enqueueKeyedTask<T>(queued: {
    tails: Map<string, Promise<void>>;
    key: string;
    task: () => Promise<T>;
    hooks?: QueueHooks;
  }): Promise<T>;
  /** Runs tasks of one key one after another. */
  export class KeyedAsyncQueue {
    enqueue<T>(key: string, task: () => Promise<T>, hooks?: QueueHooks): Promise<T>;
    getTailMapForTesting(): Map<string, Promise<void>>;
    waitForIdle(): Promise<void>;
  }
}

declare module "backstop/plugin-sdk/number-runtime" {
  export function asFiniteNumber(value: unknown): number | undefined;
  export function asPositiveSafeInteger(value: unknown): number | undefined;
  export function parseFiniteNumber(value: unknown): number | undefined;
  export function parseStrictInteger(value: unknown): number | undefined;
  export function parseStrictNonNegativeInteger(value: unknown): number | undefined;
  export function parseStrictPositiveInteger(value: unknown): number | undefined;
}

declare module "backstop/plugin-sdk/retry-runtime" {
  export interface RetryConfig {
    attempts: number;
    minDelayMs: number;
    maxDelayMs: number;
    jitter: number;
  }
  export interface RetryOptions extends Partial<RetryConfig> {
    label?: string;
    shouldRetry?(error: unknown, attempt: number): boolean;
    retryAfterMs?(error: unknown): number | undefined;
    onRetry?(retry: { attempt: number; maxAttempts: number; delayMs: number; err: unknown; label?: string }): void;
  }
  /** `overrides` over `defaults`, within bounds. */
  export function resolveRetryConfig(defaults?: Partial<RetryConfig>, overrides?: Partial<RetryConfig>): RetryConfig;
  /** Calls `work` until it does not fail, at most as often as the options say. */
  export function retryAsync<T>(work: () => Promise<T>, options?: RetryOptions | number, initialDelayMs?: number): Promise<T>;
}

declare module "backstop/plugin-sdk/string-coerce-runtime" {
  export function readStringValue(value: unknown): string | undefined;
  export function normalizeNullableString(value: unknown): string | null;
  export function normalizeOptionalString(value: unknown): string | undefined;
  export function normalizeStringifiedOptionalString(value: unknown): string | undefined;
  export function normalizeOptionalStringifiedId(value: unknown): string | undefined;
  export function normalizeOptionalLowercaseString(value: unknown): string | undefined;
  export function normalizeLowercaseStringOrEmpty(value: unknown): string;
  export function hasNonEmptyString(value: unknown): value is string;
  export function lowercasePreservingWhitespace(value: string): string;
  export function localeLowercasePreservingWhitespace(value: string): string;
  export function normalizeStringEntries(list?: readonly unknown[]): string[];
  export function isRecord(value: unknown): value is Record<string, unknown>;
}

declare module "backstop/plugin-sdk/text-chunking" {
  /** Pieces of at most `limit` units. */
  export function chunkTextForOutbound(text: string, limit: number, options?: { preserveWhitespace?: boolean }): string[];
  /** Lists of at most `size` items. */
  export function chunkItems<T>(items: readonly T[], size: number): T[][];
}
