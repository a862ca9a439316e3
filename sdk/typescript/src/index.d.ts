import type { Points } from "./points.js";

export * from "./points.js";

/** Where a hook stands, and how. */
export interface HookOptions {
  /** Its own name, unique in the program; that of its function if it is absent. */
  id?: string;
  /** Higher runs first. */
  priority?: number;
  /** Its time budget, in milliseconds. */
  timeoutMs?: number;
  /** Only these tools: a regular expression, or names. */
  matcher?: string | readonly string[];
  /** Only runs that one of these started. */
  triggers?: readonly ("user" | "cron" | "heartbeat" | "agent")[];
  /** Only dispatches of these kinds. */
  dispatchKinds?: readonly string[];
}

/** What a hook is given besides its event. */
export interface HookScope {
  /** Aborted when nobody waits for the answer any more. */
  signal: AbortSignal;
}

type Answer<P extends keyof Points> = Points[P]["outcome"] | null | undefined | void;

/** A hook: it answers an outcome, or nothing for no opinion. */
export type Handler<P extends keyof Points> = (
  event: Points[P]["event"],
  scope: HookScope,
) => Answer<P> | Promise<Answer<P>>;

type FieldsOf<O> = O extends object ? keyof O : never;
/** Refuses answers with fields that the outcome does not have: a misspelt one fails the hook when it is asked. */
type NoOtherFields<A, O> = [Exclude<FieldsOf<A>, FieldsOf<O>>] extends [never]
  ? unknown
  : { "the outcome has no such field": Exclude<FieldsOf<A>, FieldsOf<O>> };
type Exact<P extends keyof Points, A> = ((event: Points[P]["event"], scope: HookScope) => A) &
  NoOtherFields<Awaited<A>, Points[P]["outcome"]>;

/** Registers a hook at a point. */
export function hook<P extends keyof Points, A extends Answer<P> | Promise<Answer<P>>>(point: P, handler: Exact<P, A>): Handler<P>;
export function hook<P extends keyof Points, A extends Answer<P> | Promise<Answer<P>>>(
  point: P,
  options: HookOptions,
  handler: Exact<P, A>,
): Handler<P>;

/** Registers a tool of the agent. */
export function tool(
  declaration: { name: string; description?: string; inputSchema?: unknown },
  run: (args: Arguments, scope: HookScope) => unknown,
): void;

/** Sends a line to Backstop's log. */
export function log(message: unknown, level?: "debug" | "info" | "warn" | "error"): void;

/** Serves the registered hooks until Backstop ends the program. */
export function run(options?: { concurrency?: number; hooks?: readonly ToolCallHook[] }): Promise<void>;

export type Arguments = Record<string, unknown>;

/** How a tool call went. */
export interface CallResult {
  success: boolean;
  output: unknown;
  error?: string;
}

/** What a hook says before a tool call. */
export class HookVerdict {
  private constructor();
  readonly verdict: "approve" | "deny" | "modify" | "ask";
  readonly reasoning: string;
  readonly modifiedArguments: Arguments | undefined;
  static approve(): HookVerdict;
  static deny(reasoning?: string): HookVerdict;
  static modify(args: Arguments, reasoning?: string): HookVerdict;
  static ask(reasoning?: string): HookVerdict;
}

/** A hook around tool calls. */
export class ToolCallHook {
  preCall(toolName: string, args: Arguments, sessionId: string): HookVerdict | Promise<HookVerdict>;
  postCall(toolName: string, args: Arguments, result: CallResult, sessionId: string): void | Promise<void>;
}

/** Approves everything. */
export class PassthroughHook extends ToolCallHook {}

/** The types of hooks, by the names that a configuration gives them. */
export const hookTypes: Map<string, new (config?: any) => ToolCallHook>;

/** The hooks of a list of `{ type, config }`. */
export function createHooks(entries: Iterable<{ type: string; config?: Arguments }>): ToolCallHook[];

/** A tool: a function, or an object that executes. */
export type Skill =
  | ((args: Arguments) => unknown)
  | { execute(toolName: string, args: Arguments): unknown };

/** Runs tools, if all hooks approve. A hook that throws or gives no verdict denies. */
export class ToolExecutor {
  constructor(skills: { get(toolName: string): Skill | undefined }, hooks?: readonly ToolCallHook[]);
  execute(toolName: string, args?: Arguments, sessionId?: string): Promise<CallResult>;
}
