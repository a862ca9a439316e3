// Types of what plugins import, by `backstop plugins types`. A reference to this file, or a `tsconfig.json` that includes it, is all that
// an editor needs; nothing is to be installed.

declare module "backstop/plugin-sdk" {
  // The types of the points.

  /** What a handler is told beside its event, which has it as `context`, too. */
  export type HandlerContext = CallContext & { pluginConfig: any };

  /** A hook: it answers an outcome, or nothing for no opinion. */
  export type Handler<P extends keyof Points> = (
    event: Points[P]["event"],
    context: HandlerContext,
  ) => Points[P]["outcome"] | null | undefined | void | Promise<Points[P]["outcome"] | null | undefined | void>;

  /** Where a hook stands, and how. */
  export interface HookOptions {
    /** Higher runs first. */
    priority?: number;
    /** Its time budget, in milliseconds. */
    timeoutMs?: number;
    /** Its own name at this point. */
    registrationId?: string;
    /** Only these tools: a regular expression, or names. */
    matcher?: string | RegExp | readonly string[];
    /** Only runs that one of these started. */
    eligibleTriggers?: readonly ("user" | "cron" | "heartbeat" | "agent")[];
    /** Only dispatches of these kinds. */
    eligibleDispatchKinds?: readonly string[];
  }

  /** Lines for Backstop's log. */
  export interface Logger {
    debug(...parts: unknown[]): void;
    info(...parts: unknown[]): void;
    warn(...parts: unknown[]): void;
    error(...parts: unknown[]): void;
  }

  /** A tool for the agent. */
  export interface Tool {
    name: string;
    description?: string;
    parameters?: unknown;
    execute(toolCallId: string, params: any, signal?: AbortSignal): unknown;
  }

  /** What `register` is given. */
  export interface PluginApi {
    readonly id: string;
    readonly name: string;
    readonly version?: string;
    readonly rootDir: string;
    readonly pluginConfig: any;
    readonly config: any;
    readonly logger: Logger;
    on<P extends keyof Points>(point: P, handler: Handler<P>, options?: HookOptions): void;
    registerTool(tool: Tool | ((context: any) => Tool | Tool[] | null | undefined), options?: { name?: string; names?: string[]; optional?: boolean }): void;
    registerCommand(command: { name: string; description?: string; acceptsArgs?: boolean; requireAuth?: boolean; handler(context: any): unknown }): void;
    registerService(service: { id: string; start(context: any): unknown; stop?(context: any): unknown }): void;
    /** What else there is, and is said in the guide of plugins. */
    [method: string]: any;
  }

  /** What a plugin's entry exports by default. */
  export interface PluginEntry {
    id: string;
    name?: string;
    description?: string;
    configSchema?: unknown;
    register(api: PluginApi): void;
  }

  export function definePluginEntry(entry: PluginEntry): PluginEntry;
  export function jsonResult(value: unknown): unknown;
  export function textResult(text: unknown, details?: unknown): unknown;
  export function emptyPluginConfigSchema(): unknown;
  export function formatErrorMessage(error: unknown): string;
}
