import type { Points } from "./points.js";

/** Whose an event is: `sessionId`, `runId` and what else hooks are told. The agent is the token's. */
export interface Context {
  sessionId?: string | undefined;
  runId?: string | undefined;
  [name: string]: unknown;
}

export interface ClientOptions {
  /** The address of `backstop serve`; `BACKSTOP_URL` of the environment where it is absent, or `http://127.0.0.1:8484`. */
  url?: string | undefined;
  /** An access token with the scope `judge`; `BACKSTOP_TOKEN` of the environment where it is absent. */
  token?: string | undefined;
  /** Whose the events are. */
  context?: Context;
  /** The longest that a request takes, besides the time that a human takes. */
  timeoutMs?: number;
  /** How long a human may take; as long as the question is open, if it is absent. */
  patienceMs?: number;
  /**
   * What happens where nobody is there: no connection to Backstop comes about, and nothing is sent. What can't be judged for any other
   * reason never happens, since who is judged could bring it about.
   */
  onFailure?: "refuse" | "allow";
}

export interface Question {
  approval: string;
  title: string;
  severity: string;
  /** The last moment at which an answer counts, in Unix milliseconds. */
  expiresAt: number;
}

/** What the hooks made of an event, or the question that it waits for. */
export class Ruling {
  constructor(raw: unknown);
  /** All of it, as the API told it. */
  readonly raw: Record<string, unknown>;
  /** By which it is waited for; absent where it was made at once. */
  readonly id: string | undefined;
  /** Whether a human is asked. */
  readonly isPending: boolean;
  readonly question: Question | undefined;
  readonly verdict: "allow" | "modify" | "block" | "handled" | "observed" | "respond" | undefined;
  readonly mayHappen: boolean;
  /** The arguments with which the tool is to run, and no others; for tool calls that may run. */
  readonly params: Record<string, unknown> | undefined;
  /** The result that a person gave in the place of a tool call. The tool does not run, and the result is judged as every one. */
  readonly result: string | undefined;
  /** The merged answer of the hooks, which is to be obeyed. */
  readonly outcome: Record<string, unknown>;
  /** Why it may not happen. */
  refused(): Refused;
}

/** A tool call that may run. */
export interface PermittedCall {
  readonly tool: string;
  /** The arguments to run it with, and no others. */
  readonly params: Record<string, unknown>;
  readonly id: string;
  readonly context: Context;
  readonly started: number;
}

interface Waiting {
  context?: Context | undefined;
  /** How long a human may take. */
  patienceMs?: number | undefined;
  /** Whoever aborts cancels the question. */
  signal?: AbortSignal | undefined;
}

/** A client of the decision API. */
export class Client {
  constructor(options?: ClientOptions);
  /**
   * Has an event judged, and waits for the human who is asked. A ruling that blocks is returned, not thrown. `key` is an idempotency key: that
   * a tool call may run is told to it once (`Conflict`). Without it each call has one of its own, so that a connection that breaks asks nobody twice.
   * @throws {ApiError} where it could not be judged
   */
  judge<P extends keyof Points>(point: P, event: EventOf<P>, options?: Waiting & { key?: string }): Promise<Ruling>;
  /** Has an event judged, and returns without waiting for a human: the ruling may be pending. */
  submit<P extends keyof Points>(point: P, event: EventOf<P>, options?: Omit<Waiting, "patienceMs"> & { key?: string }): Promise<Ruling>;
  /** Waits until a pending ruling is decided. That something may run is told once. */
  wait(ruling: Ruling, options?: Omit<Waiting, "context">): Promise<Ruling>;
  /** Gives a pending ruling up; its question is cancelled. */
  cancel(ruling: Ruling): Promise<void>;
  /**
   * Has a tool call judged. Arguments are plain data: of what else there is (a `Map`, a `Blob`), hooks would see nothing.
   * With `takesResult` a person may give the result in its place, which is thrown as `Responded`.
   * @throws {Refused} unless it may run
   */
  permit(
    tool: string,
    params: Record<string, unknown>,
    options?: Waiting & { callId?: string | undefined; takesResult?: boolean | undefined },
  ): Promise<PermittedCall>;
  /**
   * Has the result of a tool judged, and reports that it ran. Returns what the model may read: `value` itself, or a text in its place.
   * `error` says why the tool failed, if it did.
   * @throws {Refused} where the model may read nothing of it
   */
  result<T>(call: PermittedCall, value: T, options?: { error?: string }): Promise<T | string>;
  /**
   * Runs a tool if it may run, and returns what the model may read of its result. Where a person gave the result, it does not run, and
   * that is what the model may read.
   * @throws {Refused} where it may not, {ToolFailed} where the tool threw
   */
  run<T>(
    tool: string,
    params: Record<string, unknown>,
    execute: (params: Record<string, unknown>) => T | Promise<T>,
    options?: Waiting & { callId?: string | undefined },
  ): Promise<T | string>;
  /** Says that a run is over. Questions that it waits for are cancelled. */
  end(runId?: string, options?: { success?: boolean; error?: string; context?: Context }): Promise<void>;
}

/** An event as it is sent: its context is given beside it. */
export type EventOf<P extends keyof Points> = Omit<Points[P]["event"], "context">;

/** Something may not happen, or could not be judged. */
export class BackstopError extends Error {}

/** Something may not happen. */
export class Refused extends BackstopError {
  /** Why, in words that the model may read. */
  readonly reason: string;
  readonly hook: string | undefined;
  readonly rules: readonly string[];
  /** Whether nobody could judge. It is no decision, and may be tried again. */
  readonly unavailable: boolean;
}

/**
 * A tool may not run, because a person gave its result. It is thrown only to whoever says that they take it; whoever knows of no such
 * thing runs nothing, as with every `Refused`.
 */
export class Responded extends Refused {
  /** The result, as far as the model may read it. */
  readonly result: string;
}

/** Backstop refused the request itself, with problem details (RFC 9457), or could not be reached. */
export class ApiError extends BackstopError {
  /** The status of the response; absent where there was none. */
  readonly status: number | undefined;
  /** Which problem, such as `scope`. */
  readonly kind: string;
  /** What is wrong, and what to do about it. */
  readonly detail: string;
}

/** The request is malformed or too large. */
export class InvalidRequest extends ApiError {}
/** The token does not count, or lacks the scope. */
export class NotAllowed extends ApiError {}
/** There is no such thing for this token. */
export class NotFound extends ApiError {}
/** It contradicts what is so already. */
export class Conflict extends ApiError {}
/** Backstop could not be reached, or could not judge now. */
export class Unavailable extends ApiError {}
/** No connection to Backstop came about, so that nothing was sent: nobody judges, and nobody is asked. */
export class Unreachable extends Unavailable {}
/** A tool threw. The message is what the model may read of it; what it threw is not the cause, because nobody has judged that. */
export class ToolFailed extends Error {}
