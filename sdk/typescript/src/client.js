/**
 * Decisions of Backstop for a program: a client of the decision API of `backstop serve`. The types are in `client.d.ts`.
 *
 * Failing is not passing: what can't be judged is `Refused`, unless the author says otherwise for a server that is not there
 * (`onFailure: "allow"`): no connection came about, and nothing was sent. Any other failure is never a pass, because who is judged could
 * bring it about: a refusal of the request, a server that has too much to do, an answer that takes too long. Nor is a failure while a
 * human is asked.
 */

/** The most seconds that one request waits for a human. */
const POLL = 30;
/** The most bytes of a request, as the API takes them, and of a response. */
const MOST_SENT = 4 << 20;
const MOST_READ = 16 << 20;
/** How often a request that is done once is sent, where its connection breaks. */
const ATTEMPTS = 3;
const PAUSE_MS = 100;
/** What a runtime says where nobody is there. `ETIMEDOUT` of a connection that there is means something else. */
const NOBODY_THERE = ["ECONNREFUSED", "EHOSTDOWN", "EHOSTUNREACH", "ENETDOWN", "ENETUNREACH", "ETIMEDOUT"];
const NO_NAME = ["EAI_AGAIN", "ENOTFOUND"];
const NO_CONNECTION = ["UND_ERR_CONNECT_TIMEOUT", "ConnectionRefused"];
const PREFIX = "urn:backstop:problem:";

export class BackstopError extends Error {
  get name() {
    return this.constructor.name;
  }
}

export class Refused extends BackstopError {
  constructor(reason, { hook, rules = [], unavailable = false, cause } = {}) {
    super(reason, { cause });
    Object.assign(this, { reason, hook, rules, unavailable });
  }
}

export class Responded extends Refused {
  constructor(result) {
    super(result);
    this.result = result;
  }
}

export class ApiError extends BackstopError {
  constructor(status, kind, detail, options) {
    super(status === undefined ? detail : `${detail} (${status} ${kind})`, options);
    Object.assign(this, { status, kind, detail });
  }
}

export class InvalidRequest extends ApiError {}
export class NotAllowed extends ApiError {}
export class NotFound extends ApiError {}
export class Conflict extends ApiError {}
export class Unavailable extends ApiError {}
export class Unreachable extends Unavailable {}
export class ToolFailed extends Error {
  get name() {
    return "ToolFailed";
  }
}

const BY_STATUS = { 401: NotAllowed, 403: NotAllowed, 404: NotFound, 408: Unavailable, 409: Conflict, 429: Unavailable };

function problem(status, body) {
  const told = isObject(body) ? body : {};
  const kind = typeof told.type === "string" && told.type.startsWith(PREFIX) ? told.type.slice(PREFIX.length) : "unknown";
  const detail = typeof told.detail === "string" ? told.detail : "the response is no problem of Backstop's";
  // What is not known to be the request's own fault may be over a moment later.
  const Otherwise = status >= 400 && status < 500 ? InvalidRequest : Unavailable;
  return new (BY_STATUS[status] ?? Otherwise)(status, kind, detail);
}

const isObject = (value) => typeof value === "object" && value !== null && !Array.isArray(value);
/** Whether no connection came about. Of several addresses, that has to be so of each. */
function isNobodyThere(error) {
  if (Array.isArray(error?.errors) && error.errors.length > 0) {
    return error.errors.every(isNobodyThere);
  }
  const { code, syscall, cause } = error ?? {};
  if (code === undefined) {
    return cause !== undefined && isNobodyThere(cause);
  }
  const isConnecting = syscall === "connect" && NOBODY_THERE.includes(code);
  return isConnecting || (syscall === "getaddrinfo" && NO_NAME.includes(code)) || NO_CONNECTION.includes(code);
}

const isLocal = (host) => host === "localhost" || host === "[::1]" || /^127\.\d+\.\d+\.\d+$/.test(host);
const environment = (name) => globalThis.process?.env?.[name];
const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

export class Ruling {
  constructor(raw) {
    this.raw = isObject(raw) ? raw : {};
  }

  get id() {
    return this.raw.id;
  }

  get isPending() {
    return this.raw.status !== "decided";
  }

  get question() {
    return this.raw.question;
  }

  get verdict() {
    return this.raw.verdict;
  }

  /** What is not known to mean so may not happen. */
  get mayHappen() {
    return !this.isPending && ["allow", "modify", "handled", "observed"].includes(this.verdict);
  }

  get params() {
    return this.raw.params;
  }

  /** What a person gave in the place of a tool call. */
  get result() {
    return !this.isPending && this.verdict === "respond" ? this.raw.result : undefined;
  }

  get outcome() {
    return isObject(this.raw.outcome) ? this.raw.outcome : {};
  }

  refused() {
    const { reason, hook, rules, unavailable } = this.raw.blocked ?? {};
    return new Refused(String(reason || "Backstop does not allow this"), { hook, rules: rules ?? [], unavailable: unavailable === true });
  }
}

export class Client {
  #origin;
  #token;
  #context;
  #timeoutMs;
  #patienceMs;
  #allowsFailure;

  constructor({ url, token, context = {}, timeoutMs = 30_000, patienceMs, onFailure = "refuse" } = {}) {
    const address = new URL(url ?? environment("BACKSTOP_URL") ?? "http://127.0.0.1:8484");
    if (!["http:", "https:"].includes(address.protocol)) {
      throw new TypeError("the address of Backstop is http://HOST:PORT or https://HOST");
    }
    // An address with a path is one that `serve` prints for models: it holds a token of its own.
    if (address.pathname !== "/" || address.search || address.hash || address.username || address.password) {
      throw new TypeError("the address of Backstop has no path, and its token is given as `token`");
    }
    if (address.protocol === "http:" && !isLocal(address.hostname)) {
      throw new TypeError("a token is sent to other machines by https:// only");
    }
    const given = token ?? environment("BACKSTOP_TOKEN") ?? "";
    if (!/^[\x21-\x7e]+$/.test(given)) {
      throw new TypeError("`token` is an access token with the scope `judge`: `backstop token create`");
    }
    if (onFailure !== "refuse" && onFailure !== "allow") {
      throw new TypeError('`onFailure` is "refuse" or "allow"');
    }
    if (!(timeoutMs > 0)) {
      throw new TypeError("`timeoutMs` is a number of milliseconds above 0");
    }
    this.#origin = address.origin;
    this.#token = given;
    this.#context = { ...context };
    this.#timeoutMs = timeoutMs;
    this.#patienceMs = patienceMs;
    this.#allowsFailure = onFailure === "allow";
  }

  async judge(point, event, { context, patienceMs = this.#patienceMs, key, signal } = {}) {
    const ruling = await this.#submit(point, event, { context, key, signal });
    return ruling.isPending && ruling.id ? await this.wait(ruling, { patienceMs, signal }) : ruling;
  }

  async submit(point, event, { context, key, signal } = {}) {
    return await this.#submit(point, event, { context, key, signal });
  }

  async #submit(point, event, { context, key, signal, substitutes } = {}) {
    signal?.throwIfAborted();
    const body = { event, context: this.#whose(context), substitutes };
    const sent = { body, key: key ?? crypto.randomUUID(), renews: key === undefined };
    const asking = this.#send("POST", `hooks/${encodeURIComponent(point)}`, sent);
    return new Ruling(await (signal ? this.#orGivenUp(asking, signal) : asking));
  }

  /** What is answered, or that nobody waits for it: then a question is given up as soon as it is known by which id. */
  #orGivenUp(asking, signal) {
    return new Promise((resolve, reject) => {
      const giveUp = () => {
        reject(signal.reason);
        const cancel = (raw) => {
          const ruling = new Ruling(raw);
          return ruling.isPending && ruling.id ? this.cancel(ruling) : undefined;
        };
        asking.then(cancel).catch(() => {});
      };
      signal.addEventListener("abort", giveUp, { once: true });
      asking.then(resolve, reject).finally(() => signal.removeEventListener("abort", giveUp));
    });
  }

  async wait(ruling, { patienceMs = this.#patienceMs, signal } = {}) {
    const end = patienceMs === undefined ? Infinity : performance.now() + patienceMs;
    const path = `decisions/${encodeURIComponent(ruling.id ?? "")}`;
    try {
      while (ruling.isPending) {
        const left = (end - performance.now()) / 1000;
        if (left <= 0) {
          throw new Refused("nobody answered in time, so it may not happen", { unavailable: true });
        }
        const wait = Math.floor(Math.min(POLL, Math.max(1, left)));
        ruling = new Ruling(await this.#send("GET", `${path}?wait=${wait}`, { waitMs: wait * 1000, signal }));
      }
      return ruling;
    } catch (error) {
      // Who stops waiting has no use for an answer, so the question goes, too.
      await this.#send("DELETE", path).catch(() => {});
      throw error;
    }
  }

  async cancel(ruling) {
    await this.#send("DELETE", `decisions/${encodeURIComponent(ruling.id ?? "")}`);
  }

  async permit(tool, params, options = {}) {
    const { callId = crypto.randomUUID(), context, patienceMs = this.#patienceMs, signal, takesResult = false } = options;
    const whose = this.#whose(context);
    if (!isObject(params) || !isData(params, 0, true)) {
      throw new Refused("its arguments are more than plain data, so it could not be judged, and may not happen", { unavailable: true });
    }
    // What is sent is a copy as JSON, and so is what runs.
    const sent = JSON.parse(JSON.stringify(params));
    const event = { toolName: tool, params: sent, toolCallId: callId, runId: whose.runId };
    // Whoever runs the call runs it with the arguments of the ruling, so a person may change them.
    const substitutes = takesResult ? ["edit", "respond"] : ["edit"];
    const asking = { context: whose, patienceMs, signal, substitutes };
    const ruling = await this.#decided(`the call of \`${tool}\``, "before_tool_call", event, asking);
    if (takesResult && typeof ruling?.result === "string") {
      // Nothing runs. What a person gave is judged as every result is.
      const made = { tool, params: sent, id: callId, context: whose, started: performance.now() };
      throw new Responded(String(await this.#judged(made, ruling.result, { ran: false })));
    }
    if (ruling && (!ruling.mayHappen || !isObject(ruling.params))) {
      throw ruling.refused();
    }
    return { tool, params: ruling ? ruling.params : sent, id: callId, context: whose, started: performance.now() };
  }

  async result(call, value, { error } = {}) {
    return await this.#judged(call, value, { error, ran: true });
  }

  /** What the model may read of a result. That a call ran is reported, if it did. */
  async #judged(call, value, { error, ran }) {
    const { parts, isPlain } = partsOf(value);
    const isError = error !== undefined;
    const result = { toolCallId: call.id, content: parts, isError };
    const event = { toolName: call.tool, toolCallId: call.id, params: call.params, isError, result };
    let [told, refused] = [result, undefined];
    const ruling = await this.#decided(`the result of \`${call.tool}\``, "tool.after", event, { context: call.context });
    if (ruling?.mayHappen) {
      told = ruling.outcome.result ?? result;
    } else if (ruling) {
      refused = ruling.refused();
      told = { ...result, content: partsOf(refused.reason).parts, isError: true };
    }
    if (ran) {
      await this.#report(call, told, error);
    }
    if (refused) {
      throw refused;
    }
    return isPlain && isSame(told.content, parts) ? value : textOf(told.content);
  }

  async run(tool, params, execute, options = {}) {
    let call, value;
    try {
      call = await this.permit(tool, params, { ...options, takesResult: true });
    } catch (error) {
      if (error instanceof Responded) {
        return error.result;
      }
      throw error;
    }
    try {
      value = await execute(call.params);
    } catch (error) {
      if (error instanceof Refused) {
        throw error;
      }
      const said = `${error?.name ?? "Error"}: ${error?.message ?? error}`;
      // Without its cause: whoever prints that prints what was said before it was judged.
      throw new ToolFailed(String(await this.result(call, said, { error: "the tool failed" })));
    }
    return await this.result(call, value);
  }

  async end(runId, { success = true, error, context } = {}) {
    const whose = this.#whose(context);
    whose.runId = runId ?? whose.runId;
    await this.submit("agent_end", { runId: whose.runId, messages: [], success, error, durationMs: 0 }, { context: whose });
  }

  #whose(context) {
    return { ...this.#context, ...context };
  }

  /** A ruling that is made; `undefined` if something happens although nobody could judge it. */
  async #decided(what, point, event, { context, patienceMs = this.#patienceMs, signal, substitutes }) {
    let isKnown = false;
    try {
      const ruling = await this.#submit(point, event, { context, signal, substitutes });
      // From here on somebody judges, or a human is asked: no failure is a pass.
      isKnown = true;
      return ruling.isPending && ruling.id ? await this.wait(ruling, { patienceMs, signal }) : ruling;
    } catch (error) {
      if (error instanceof Refused || !(error instanceof ApiError)) {
        throw error;
      }
      if (!(this.#allowsFailure && !isKnown && error instanceof Unreachable)) {
        throw new Refused(`it could not be judged, so it may not happen: ${error.message}`, { unavailable: true, cause: error });
      }
      console.warn(`backstop: ${what} was not judged, and is let through (onFailure): ${error.message}`);
      return undefined;
    }
  }

  /** Tells those who watch. Nothing depends on it, so its failure is said and no more. */
  async #report(call, result, error) {
    const event = {
      toolName: call.tool,
      params: call.params,
      toolCallId: call.id,
      runId: call.context.runId,
      result,
      error: error === undefined ? undefined : textOf(result.content),
      durationMs: Math.max(0, Math.round(performance.now() - call.started)),
    };
    try {
      await this.submit("after_tool_call", event, { context: call.context });
    } catch (failure) {
      if (!(failure instanceof ApiError)) {
        throw failure;
      }
      console.warn(`backstop: that \`${call.tool}\` ran could not be reported: ${failure.message}`);
    }
  }

  /** `renews`: nobody but this request knows its key, so that it may be sent by another one, too. */
  async #send(method, path, { body, key, renews = false, waitMs = 0, signal } = {}) {
    const headers = { authorization: `Bearer ${this.#token}`, accept: "application/json" };
    const text = body === undefined ? undefined : written(body);
    if (text !== undefined) {
      headers["content-type"] = "application/json";
    }
    if (key !== undefined) {
      headers["idempotency-key"] = key;
    }
    const end = performance.now() + this.#timeoutMs + waitMs;
    const isOnce = method !== "POST" || key !== undefined;
    let wasSent = false;
    for (let attempt = 1; ; ) {
      try {
        const left = Math.max(1, Math.ceil(end - performance.now()));
        const signals = [AbortSignal.timeout(left), ...(signal ? [signal] : [])];
        return await this.#once(path, { method, headers, body: text, redirect: "error", signal: AbortSignal.any(signals) });
      } catch (error) {
        signal?.throwIfAborted();
        wasSent ||= !(error instanceof Unreachable);
        const isBroken = error instanceof Unavailable && error.status === undefined && isOnce && attempt++ < ATTEMPTS;
        const isUnderWay = error instanceof Conflict && error.kind === "under-way";
        const wasTold = error instanceof Conflict && error.kind === "conflict" && attempt > 1 && renews;
        if (wasTold) {
          // The answer that was lost said that the call may run, which is said once. Nothing ran by it: it is judged once more.
          headers["idempotency-key"] = crypto.randomUUID();
          renews = false;
        }
        if (!isBroken && !isUnderWay && !wasTold) {
          // INVARIANT (failing is not passing): what was sent before may have been judged, or a human may be asked.
          const isUnclear = wasSent && error instanceof Unreachable;
          throw isUnclear ? new Unavailable(undefined, "unreachable", error.detail, { cause: error.cause }) : error;
        }
      }
      if (performance.now() + PAUSE_MS >= end) {
        throw new Unavailable(undefined, "timeout", "Backstop did not answer in time");
      }
      await sleep(PAUSE_MS);
    }
  }

  async #once(path, request) {
    let status, text;
    try {
      const response = await fetch(`${this.#origin}/-/v1/${path}`, request);
      status = response.status;
      text = await read(response);
    } catch (error) {
      if (error instanceof ApiError) {
        throw error;
      }
      const Kind = isNobodyThere(error) ? Unreachable : Unavailable;
      throw new Kind(undefined, "unreachable", `Backstop can't be reached at ${this.#origin}`, { cause: error });
    }
    const isGood = status >= 200 && status < 300;
    let body;
    try {
      body = text === "" ? undefined : JSON.parse(text);
    } catch {
      if (isGood) {
        throw new Unavailable(status, "malformed", "the response is no JSON");
      }
    }
    if (!isGood) {
      throw problem(status, body);
    }
    return body;
  }
}

function written(body) {
  let text;
  try {
    text = JSON.stringify(body);
  } catch (error) {
    throw new InvalidRequest(undefined, "body", `this has no JSON form: ${error.message}`);
  }
  // INVARIANT (failing is not passing): the server would break the connection off, and that looks as if it could not be reached.
  if (new TextEncoder().encode(text).length > MOST_SENT) {
    throw new InvalidRequest(undefined, "too-large", `a body has at most ${MOST_SENT} bytes`);
  }
  return text;
}

async function read(response) {
  const decoder = new TextDecoder();
  let [text, size] = ["", 0];
  for await (const piece of response.body ?? []) {
    size += piece.length;
    if (size > MOST_READ) {
      throw new Unavailable(undefined, "too-large", `a response has more than ${MOST_READ} bytes`);
    }
    text += decoder.decode(piece, { stream: true });
  }
  return text + decoder.decode();
}

/** Whether two values have the same JSON form, which is all that hooks see. */
const isSame = (a, b) => JSON.stringify(a) === JSON.stringify(b);

/**
 * A result as the parts that hooks judge, and whether they are all of it. What is no text is judged as its JSON; where it is more than
 * plain data, the text that was judged takes its place.
 */
function partsOf(value) {
  const part = (text) => [{ type: "text", text }];
  if (value === undefined) {
    return { parts: part(""), isPlain: true };
  }
  if (typeof value === "string") {
    return { parts: part(value), isPlain: true };
  }
  const isPart = (item) => isObject(item) && Object.keys(item).length === 2 && item.type === "text" && typeof item.text === "string";
  if (Array.isArray(value) && value.length > 0 && value.every(isPart)) {
    return { parts: value.map(({ text }) => ({ type: "text", text })), isPlain: true };
  }
  try {
    const text = JSON.stringify(value);
    if (text !== undefined) {
      return { parts: part(text), isPlain: isData(value, 0) };
    }
  } catch {
    // It has no JSON form.
  }
  return { parts: part(String(value)), isPlain: false };
}

/** Whether a value is what JSON can say, and nothing else but, where those are taken, dates, of which it says all. */
function isData(value, depth, hasDates = false) {
  if (value === null || ["string", "boolean"].includes(typeof value) || Number.isFinite(value)) {
    return true;
  }
  if (hasDates && value instanceof Date && Object.getPrototypeOf(value) === Date.prototype) {
    return Number.isFinite(value.getTime()) && Reflect.ownKeys(value).length === 0;
  }
  if (typeof value !== "object" || depth > 100 || typeof value.toJSON === "function") {
    return false;
  }
  const kind = Object.getPrototypeOf(value);
  const isKnown = Array.isArray(value) || kind === Object.prototype || kind === null;
  return isKnown && Object.values(value).every((item) => item === undefined || isData(item, depth + 1, hasDates));
}

const textOf = (parts) =>
  (Array.isArray(parts) ? parts : []).map((part) => part?.text).filter((text) => typeof text === "string").join("\n");
