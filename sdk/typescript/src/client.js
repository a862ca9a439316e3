/**
 * Decisions of Backstop for a program: a client of the decision API of `backstop serve`. The types are in `client.d.ts`.
 *
 * Failing is not passing: what can't be judged is `Refused`, unless the author says otherwise for a server that can't be reached
 * (`onFailure: "allow"`). A refusal of a request is never a pass, because who is judged could bring it about.
 */

/** The most seconds that one request waits for a human. */
const POLL = 30;
/** The most bytes of a request, as the API takes them, and of a response. */
const MOST_SENT = 4 << 20;
const MOST_READ = 16 << 20;
/** How often a request that is done once is sent, where its connection breaks. */
const ATTEMPTS = 3;
const PAUSE_MS = 100;
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
    const address = new URL(url ?? environment("BACKSTOP_URL") ?? "http://127.0.0.1:8787");
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
    const ruling = await this.submit(point, event, { context, key, signal });
    return ruling.isPending && ruling.id ? await this.wait(ruling, { patienceMs, signal }) : ruling;
  }

  async submit(point, event, { context, key = crypto.randomUUID(), signal } = {}) {
    const body = { event, context: this.#whose(context) };
    return new Ruling(await this.#send("POST", `hooks/${encodeURIComponent(point)}`, { body, key, signal }));
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

  async permit(tool, params, { callId = crypto.randomUUID(), context, patienceMs = this.#patienceMs, signal } = {}) {
    const whose = this.#whose(context);
    const event = { toolName: tool, params, toolCallId: callId, runId: whose.runId };
    let run = params;
    try {
      const ruling = await this.judge("before_tool_call", event, { context: whose, patienceMs, signal });
      if (!ruling.mayHappen || !isObject(ruling.params)) {
        throw ruling.refused();
      }
      run = ruling.params;
    } catch (error) {
      this.#unjudged(`the call of \`${tool}\``, error);
      // What is sent is a copy as JSON, and so is what runs.
      run = JSON.parse(JSON.stringify(params));
    }
    return { tool, params: run, id: callId, context: whose, started: performance.now() };
  }

  async result(call, value, { error } = {}) {
    const { parts, isPlain } = partsOf(value);
    const isError = error !== undefined;
    const result = { toolCallId: call.id, content: parts, isError };
    const event = { toolName: call.tool, toolCallId: call.id, params: call.params, isError, result };
    let [told, refused] = [result, undefined];
    try {
      const ruling = await this.judge("tool.after", event, { context: call.context });
      if (ruling.mayHappen) {
        told = ruling.outcome.result ?? result;
      } else {
        refused = ruling.refused();
        told = { ...result, content: partsOf(refused.reason).parts, isError: true };
      }
    } catch (failure) {
      this.#unjudged(`the result of \`${call.tool}\``, failure);
    }
    await this.#report(call, told, error);
    if (refused) {
      throw refused;
    }
    return isPlain && isSame(told.content, parts) ? value : textOf(told.content);
  }

  async run(tool, params, execute, options = {}) {
    const call = await this.permit(tool, params, options);
    let value;
    try {
      value = await execute(call.params);
    } catch (error) {
      if (error instanceof Refused) {
        throw error;
      }
      const said = `${error?.name ?? "Error"}: ${error?.message ?? error}`;
      throw new ToolFailed(String(await this.result(call, said, { error: "the tool failed" })), { cause: error });
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

  /** Returns if something happens although nobody could judge it. */
  #unjudged(what, error) {
    if (error instanceof Refused || !(error instanceof ApiError)) {
      throw error;
    }
    if (!(this.#allowsFailure && error instanceof Unavailable)) {
      throw new Refused(`it could not be judged, so it may not happen: ${error.message}`, { unavailable: true, cause: error });
    }
    console.warn(`backstop: ${what} was not judged, and is let through (onFailure): ${error.message}`);
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

  async #send(method, path, { body, key, waitMs = 0, signal } = {}) {
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
    for (let attempt = 1; ; ) {
      try {
        const left = Math.max(1, Math.ceil(end - performance.now()));
        const signals = [AbortSignal.timeout(left), ...(signal ? [signal] : [])];
        return await this.#once(path, { method, headers, body: text, redirect: "error", signal: AbortSignal.any(signals) });
      } catch (error) {
        signal?.throwIfAborted();
        const isBroken = error instanceof Unavailable && error.status === undefined && isOnce && attempt++ < ATTEMPTS;
        const isUnderWay = error instanceof Conflict && error.kind === "under-way";
        if (!isBroken && !isUnderWay) {
          throw error;
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
      throw new Unavailable(undefined, "unreachable", `Backstop can't be reached at ${this.#origin}`, { cause: error });
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

/** Whether a value is what JSON can say, and nothing else. */
function isData(value, depth) {
  if (value === null || ["string", "boolean"].includes(typeof value) || Number.isFinite(value)) {
    return true;
  }
  if (typeof value !== "object" || depth > 100 || typeof value.toJSON === "function") {
    return false;
  }
  const kind = Object.getPrototypeOf(value);
  const isKnown = Array.isArray(value) || kind === Object.prototype || kind === null;
  return isKnown && Object.values(value).every((item) => item === undefined || isData(item, depth + 1));
}

const textOf = (parts) =>
  (Array.isArray(parts) ? parts : []).map((part) => part?.text).filter((text) => typeof text === "string").join("\n");
