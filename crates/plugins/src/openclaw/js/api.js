// What a plugin is given: `api`, a plain object whose methods are its own, enumerable, and work without `this`.
//
// Every method ends in the host, which decides; nothing here does. Handlers are kept and named, so that they are found
// again in a runtime that had to be made anew. Once `register` has returned, hooks and tools can't be added any more:
// what guards has to be known when the plugin is loaded. Interceptors can be taken away, and put back.
//
// What most plugins do not use is made when it is first used: `part` is the module of a name.
const { call, keep, log, part, request, show } = import.meta.host;
// Taken before the plugin's code runs, so that what that does to them is not done to these.
const { assign, defineProperty, freeze, fromEntries, getPrototypeOf, hasOwn, is, isFrozen, keys } = Object;
const { parse, stringify } = JSON;
const { ownKeys } = Reflect;
const { isArray } = Array;

const isFunction = (value) => typeof value === "function";
const fail = (message) => {
  throw new TypeError(message);
};
const synchronous = (answer, what) => (isFunction(answer?.then) ? fail(`${what} returned a promise`) : answer);
const text = (value, what) => (typeof value === "string" && value.trim() !== "" ? value : fail(`${what} needs to be a text`));

// Events of the older kind of hooks, whose names have a colon, and where they are told of here.
const OLDER_EVENTS = {
  __proto__: null,
  "message:received": "message_received",
  "message:sent": "message_sent",
  "gateway:startup": "gateway_start",
  "gateway:shutdown": "gateway_stop",
  "session:compact:before": "before_compaction",
  "session:compact:after": "after_compaction",
};
const OLDER_FAMILIES = ["agent", "command", "gateway", "message", "session"];

// Methods of that system for which nothing here has a use. They can be called, and it is said that nothing comes of it.
// Those that plugins look for before they decide what to register (`registerContextEngine`, `registerMemoryCapability`
// and their like) are absent instead, so that such a plugin falls back to its hooks.
const WITHOUT_USE = [
  "onConversationBindingResolved", "registerAgentHarness", "registerAutoEnableProbe", "registerBoardWidgetContentKind", "registerChannel",
  "registerCliBackend", "registerCodexAppServerExtensionFactory", "registerCompactionProvider", "registerConfigMigration",
  "registerControlUiDescriptor", "registerDecisionProvider", "registerDetachedTaskRuntime", "registerEmbeddingProvider",
  "registerGatewayAccessPolicy", "registerGatewayDiscoveryService", "registerHealthCheck", "registerHostedMediaResolver",
  "registerImageGenerationProvider", "registerInteractiveHandler", "registerMcpServerConnectionResolver",
  "registerMediaUnderstandingProvider", "registerMigrationProvider", "registerModelCatalogProvider", "registerMusicGenerationProvider",
  "registerNodeCliFeature", "registerNodeHostCommand", "registerNodeInvokePolicy", "registerProvider",
  "registerRealtimeTranscriptionProvider", "registerRealtimeVoiceProvider", "registerReload", "registerRpc",
  "registerSecurityAuditCollector", "registerSessionAction", "registerSessionCatalog", "registerSessionSchedulerJob",
  "registerSpeechProvider", "registerTextTransforms", "registerToolMetadata", "registerTranscriptSourceProvider",
  "registerVideoGenerationProvider", "registerWebFetchProvider", "registerWebSearchProvider", "registerWidgetPresenter",
  "registerWorkerProvider",
];
// Of those the ones that a plugin calls while it runs, and what they answer there when they have done nothing.
const NOT_DONE = {
  __proto__: null,
  emitAgentEvent: () => ({ emitted: false, reason: "no host here takes events of plugins" }),
  scheduleSessionTurn: async () => undefined,
  sendSessionAttachment: async () => ({ ok: false, error: "no host here sends attachments" }),
  unscheduleSessionTurnsByTag: async () => ({ removed: 0, failed: 0 }),
};

// The options that each method reads. What else a plugin gives is no option of anything: the host says so, or refuses.
const HOOK_OPTIONS = ["priority", "timeoutMs", "matcher", "eligibleTriggers", "eligibleDispatchKinds", "registrationId"];
const OPTIONS = {
  __proto__: null,
  on: HOOK_OPTIONS,
  registerHook: ["name", "description", "entry", "register", ...HOOK_OPTIONS],
  registerAgentToolResultMiddleware: ["priority", "timeoutMs", "matcher", "runtimes", "harnesses"],
  "interceptors.add": ["id", "name", "handler", "priority", "toolMatcher", "agentMatcher", "timeoutMs"],
  registerTrustedToolPolicy: ["id", "description", "matcher", "evaluate", "priority", "timeoutMs"],
  registerTool: ["name", "names", "optional"],
  "a tool": ["name", "label", "description", "parameters", "inputSchema", "execute"],
  registerCommand: ["name", "description", "acceptsArgs", "requireAuth", "handler"],
  registerService: ["id", "description", "start", "stop"],
  registerCli: ["commands", "descriptors"],
  registerRuntimeLifecycle: ["id", "description", "cleanup", "dispose"],
  registerSessionExtension: ["namespace", "description", "project", "cleanup", "sessionEntrySlotKey"],
  enqueueNextTurnInjection: ["sessionKey", "text", "idempotencyKey", "placement", "ttlMs", "metadata"],
};
const checked = (of, given, name) => {
  if (typeof given !== "object" || given === null) return given;
  for (const option of keys(given)) {
    if (given[option] !== undefined && !OPTIONS[of].includes(option)) call("option", { of, name: `${name ?? ""}`, option, known: OPTIONS[of] });
  }
  return given;
};
// Orders there are numbers; JSON has no endless ones.
const order = (priority) => (priority === Infinity ? 1e300 : priority === -Infinity ? -1e300 : Number.isNaN(priority) ? "NaN" : priority);

// Whether data is still what it was. What is no data is something else.
const isSame = (now, was) => {
  if (is(now, was)) return true;
  if (typeof now !== "object" || typeof was !== "object" || now === null || was === null) return false;
  if (isArray(now) !== isArray(was) || getPrototypeOf(now) !== getPrototypeOf(was)) return false;
  const names = ownKeys(now);
  if (names.length !== ownKeys(was).length) return false;
  for (let at = 0; at < names.length; at += 1) {
    if (!hasOwn(was, names[at]) || !isSame(now[names[at]], was[names[at]])) return false;
  }
  return true;
};

// What a handler is told beside the event, which has it as `context` too.
const beside = (event, context, signal, pluginConfig) => {
  context.pluginConfig = pluginConfig;
  if (signal !== undefined) defineProperty(context, "abortSignal", { __proto__: null, value: signal, enumerable: false });
  event.context = context;
  return context;
};

// Who watches may return what it likes: nobody reads it.
const unread = (answer) => (isFunction(answer?.then) ? answer.then(() => undefined) : undefined);

const frozen = (value) => {
  if (typeof value === "object" && value !== null && !isFrozen(value)) {
    freeze(value);
    for (const key of keys(value)) frozen(value[key]);
  }
  return value;
};

export const makeApi = (about) => {
  frozen(about);
  let open = true;
  const counts = { __proto__: null };
  const nameOf = (kind, wanted) => {
    const number = (counts[kind] = (counts[kind] ?? 0) + 1);
    return typeof wanted === "string" && wanted !== "" ? wanted : `${kind}-${number}`;
  };
  const opened = (what) => {
    if (!open) throw new Error(`\`${what}\` was called after \`register\` had returned\nhint: register while \`register\` runs`);
  };
  // What is about a conversation is asked for while the plugin is asked about it, and done later.
  const inSession = async (name, what) => request(name, { asked: call("session", { sessionKey: what?.sessionKey ?? what?.key }), what });
  const leftOut = (what, why) => void call("leftOut", { what, why });
  const offer = (kind, name, description, more, functions) => {
    opened(`register ${kind}`);
    const kept = {};
    for (const at of keys(functions)) {
      if (isFunction(functions[at])) kept[at] = keep(functions[at], `${kind}:${name}:${at}`);
    }
    call("offer", { kind, name, description: typeof description === "string" ? description : "", ...more, functions: kept });
  };

  // ---- Hooks ------------------------------------------------------------------------------------------------
  const place = (style, point, handler, options = {}) => {
    if (!isFunction(handler)) fail(`the handler at \`${point}\` is no function`);
    const registration = nameOf(point, options.registrationId);
    call("hook", {
      style,
      point,
      registration,
      priority: order(options.priority),
      timeoutMs: options.timeoutMs,
      matcher: options.matcher,
      eligibleTriggers: options.eligibleTriggers,
      eligibleDispatchKinds: options.eligibleDispatchKinds,
      function: keep(handler, `${style}:${point}:${registration}`),
    });
    return registration;
  };
  const on = (point, handler, options) => {
    opened("on");
    if (!isFunction(handler)) fail(`the handler at \`${point}\` is no function`);
    const watches = about.watched.includes(point);
    const typed = (event, context, signal) => {
      const answer = handler(event, beside(event, context, signal, about.pluginConfig));
      return watches ? unread(answer) : answer;
    };
    place("typed", text(point, "the name of a hook point"), typed, checked("on", options ?? {}, options?.registrationId ?? point));
  };
  const older = (name, handler, options) => {
    const point = OLDER_EVENTS[name];
    const [type, ...action] = String(name).split(":");
    if (point === undefined) {
      const known = OLDER_FAMILIES.includes(type);
      const why = known
        ? "no host fires this event of the older hooks"
        : "`registerHook` takes events such as `message:received`; hook points are for `api.on`, so this would never be called";
      return leftOut(`registerHook("${name}")`, why);
    }
    place("internal", point, (event, context) => {
      const told = assign({}, event, { pluginConfig: about.pluginConfig });
      return unread(handler({
        type,
        action: action.join(":"),
        sessionKey: context.sessionKey ?? "",
        timestamp: new Date(),
        messages: [],
        context: told,
      }));
    }, { ...options, registrationId: options?.name ?? nameOf(name) });
  };
  const registerHook = (events, handler, options) => {
    opened("registerHook");
    if (!isFunction(handler)) fail("the handler of `registerHook` is no function");
    checked("registerHook", options, options?.name ?? events);
    for (const name of isArray(events) ? events : [events]) older(name, handler, options);
  };

  // ---- Interceptors ------------------------------------------------------------------------------------------
  const interceptors = new Map();
  const OUTPUTS = {
    __proto__: null,
    "message.before": ["message", "metadata"],
    "params.before": ["thinkLevel", "reasoningLevel", "temperature"],
    "tool.before": ["args", "block", "blockReason"],
    "tool.after": ["result"],
  };
  // What an output shows and nobody may change.
  const SHOWN = { __proto__: null, "params.before": ["provider", "model"] };
  const matching = (matcher, what) => {
    if (matcher === undefined) return () => true;
    if (!(matcher instanceof RegExp)) fail(`\`${what}\` is no regular expression`);
    const { source, flags } = matcher;
    const test = new RegExp(source, flags.replace(/[gy]/g, ""));
    return (value) => typeof value === "string" && test.test(value);
  };
  const intercept = (registration) => {
    const { id, name, handler, priority, toolMatcher, agentMatcher, timeoutMs } = registration ?? {};
    text(id, "the `id` of an interceptor");
    checked("interceptors.add", registration, id);
    const fields = OUTPUTS[name];
    if (fields === undefined) fail(`there is no interceptor \`${name}\`\nhint: ${keys(OUTPUTS).join(", ")}`);
    if (!isFunction(handler)) fail(`the handler of interceptor \`${id}\` is no function`);
    if (interceptors.get(id)?.stands) fail(`there is already an interceptor \`${id}\``);
    const unused = name.startsWith("tool.") ? "agentMatcher" : "toolMatcher";
    if (registration[unused] !== undefined) {
      fail(`interceptor \`${id}\` has a \`${unused}\`, which nothing is compared with at \`${name}\`\nhint: leave it out`);
    }
    const isTool = matching(toolMatcher, "toolMatcher");
    const isAgent = matching(agentMatcher, "agentMatcher");
    if (toolMatcher !== undefined && !about.tools.some(isTool)) {
      fail(`\`toolMatcher\` of interceptor \`${id}\` matches no tool\nhint: the tools are ${about.tools.join(", ")}`);
    }
    const again = interceptors.get(id);
    const entry = { id, name, priority: priority ?? 0, timeoutMs, isTool, isAgent, handler, stands: true };
    if (again !== undefined) {
      // It stands where it stood: only what it does can be another.
      const isThere = again.name === name && again.priority === entry.priority && again.timeoutMs === timeoutMs;
      if (!isThere) fail(`interceptor \`${id}\` can only come back to where it stood\nhint: the same \`name\`, \`priority\` and \`timeoutMs\``);
      interceptors.set(id, entry);
      return void call("interceptor", { id, stands: true });
    }
    opened("interceptors.add");
    interceptors.set(id, entry);
    place("interceptor", name, async (event, context) => {
      const now = interceptors.get(id);
      // A tool has two names, and a matcher that knows one of them is about it.
      const isAbout = !hasOwn(event, "toolName") || now.isTool(event.toolName) || now.isTool(event.calledAs);
      if (!now?.stands || !isAbout) return undefined;
      if (!hasOwn(event, "toolName") && !now.isAgent(event.agentId ?? context.agentId)) return undefined;
      const shown = SHOWN[name] ?? [];
      const input = {}, output = {};
      for (const key of keys(event)) {
        if (fields.includes(key) || shown.includes(key)) output[key] = event[key];
        else input[key] = event[key];
      }
      const before = parse(stringify(output));
      await now.handler(input, output);
      // What changed is the answer, whatever it is called: the host knows what may.
      const changed = {};
      for (const key of new Set([...ownKeys(before), ...ownKeys(output)])) {
        if (isSame(output[key], before[key])) continue;
        if (shown.includes(key)) fail(`\`output.${key}\` is read-only at \`${name}\`\nhint: \`before_model_resolve\` chooses the model`);
        changed[key] = output[key] === undefined ? null : output[key];
      }
      return keys(changed).length === 0 ? undefined : changed;
    }, { priority, timeoutMs, registrationId: id });
  };
  // While a command of the command line runs, the console is the terminal that it was typed into.
  const printing = async (work) => {
    const { log: logged, info } = console;
    const said = (...parts) => void call("print", { text: parts.map((part) => (typeof part === "string" ? part : show(part))).join(" ") });
    assign(console, { log: said, info: said });
    try {
      return await work();
    } finally {
      assign(console, { log: logged, info });
    }
  };
  // The tools that a factory makes: once for each session, of which the latest are remembered.
  const MOST_SESSIONS = 32;
  const toolsOf = (factory) => {
    const bySession = new Map();
    return (context) => {
      const key = context.sessionKey ?? "";
      const kept = bySession.get(key);
      if (kept !== undefined) return kept;
      const made = factory({ config: about.config, runtimeConfig: about.config, workspaceDir: about.workspaceDir, ...context });
      if (isFunction(made?.then)) fail("a factory of tools returned a promise");
      const tools = (isArray(made) ? made : [made]).filter((one) => one !== null && one !== undefined);
      if (bySession.size >= MOST_SESSIONS) bySession.delete(bySession.keys().next().value);
      bySession.set(key, tools);
      return tools;
    };
  };
  let runs;
  const runContext = () => (runs ??= part("backstop:run-context").makeRunContext((line) => log(2, line)));
  const api = {
    id: about.id,
    name: about.name,
    version: about.version,
    description: about.description,
    source: about.source,
    rootDir: about.rootDir,
    registrationMode: "full",
    config: about.config,
    pluginConfig: about.pluginConfig,
    logger: fromEntries(
      ["debug", "info", "warn", "error"].map((name, level) => [name, (...parts) => log(level, parts.map((part) => show(part)).join(" "))]),
    ),
    resolvePath: (path) => call("resolvePath", { path: String(path) }),
    on,
    registerHook,
    interceptors: {
      add: intercept,
      remove(id) {
        const entry = interceptors.get(id);
        if (!entry?.stands) return false;
        entry.stands = false;
        call("interceptor", { id, stands: false });
        return true;
      },
      list: () =>
        [...interceptors.values()].filter((entry) => entry.stands).map(({ id, name, priority }) => ({ id, name, priority })),
    },
    // What a middleware there may replace, hooks at `tool.after` may: the result before the model reads it. One that fails blocks.
    registerAgentToolResultMiddleware(handler, options = {}) {
      opened("registerAgentToolResultMiddleware");
      if (!isFunction(handler)) fail("the handler of `registerAgentToolResultMiddleware` is no function");
      checked("registerAgentToolResultMiddleware", options, options?.name);
      const { priority, timeoutMs, matcher } = options ?? {};
      place("middleware", "tool.after", async (event, context) => {
        const { agentId, sessionId, sessionKey, runId, workspaceDir } = context;
        const { toolCallId, toolName, isError, result, params } = event;
        const given = { toolCallId, toolName, cwd: workspaceDir, isError, result, args: params };
        // Of what a provider's tool brought the host has the result only. Who judges by the arguments must not take them for empty.
        const unknown = () => fail("`event.args` is not known to this host\nhint: it has the result only; `before_tool_call` has the arguments of calls");
        if (params === undefined) defineProperty(given, "args", { __proto__: null, enumerable: true, configurable: true, get: unknown });
        const before = parse(stringify(result));
        const answer = await handler(given, { runtime: "openclaw", harness: "openclaw", agentId, sessionId, sessionKey, runId });
        const isAbsent = answer === undefined || answer === null;
        // What it changed in place is its answer as well, unless it answers another result. A result that it took away is `null`, which is
        // malformed: a field that is undefined would be dropped, and the model would read the result as it was.
        const mayCarry = isAbsent || (typeof answer === "object" && !isArray(answer) && !(hasOwn(answer, "result") && answer.result !== undefined));
        if (!mayCarry || isSame(given.result, before)) return isAbsent ? undefined : answer;
        return { ...answer, result: given.result ?? null };
      }, { priority, timeoutMs, matcher, registrationId: nameOf("tool-result-middleware") });
    },
    registerTrustedToolPolicy(policy) {
      opened("registerTrustedToolPolicy");
      const { id, description, matcher, evaluate, priority, timeoutMs } = policy ?? {};
      text(id, "the `id` of a trusted tool policy");
      text(description, `the \`description\` of trusted tool policy \`${id}\``);
      checked("registerTrustedToolPolicy", policy, id);
      if (!isFunction(evaluate)) fail(`trusted tool policy \`${id}\` has no \`evaluate\``);
      const judge = (event, context, signal, question) => {
        const own = beside(event, context, signal, about.pluginConfig);
        const getSessionExtension = (namespace) => call("extension", { question, namespace: String(namespace) }).value;
        defineProperty(own, "getSessionExtension", { __proto__: null, value: getSessionExtension, enumerable: false });
        return evaluate(event, own);
      };
      place("trusted", "trusted_tool_policy", judge, { registrationId: id, matcher, priority, timeoutMs });
    },

    // ---- What else a plugin brings ---------------------------------------------------------------------------
    registerTool(tool, options) {
      opened("registerTool");
      const { name: wanted, names, optional } = checked("registerTool", options ?? {}, options?.name ?? tool?.name);
      const made = isFunction(tool) ? toolsOf(tool) : undefined;
      const known = made === undefined ? [tool] : made({});
      for (const one of known) {
        const name = text(one?.name ?? wanted, "the `name` of a tool");
        checked("a tool", one, name);
        if (!isFunction(one.execute)) fail(`tool \`${name}\` has no \`execute\``);
        const schema = one.parameters ?? one.inputSchema ?? { type: "object" };
        const execute = (id, params, signal, context) => {
          const now = made === undefined ? one : made(context).find((other) => (other.name ?? wanted) === name);
          if (!isFunction(now?.execute)) throw new Error(`the plugin has no tool \`${name}\` for this session`);
          return now.execute(id, params, signal, () => {});
        };
        offer("tool", name, one.description ?? one.label, { schema, optional: optional === true }, { execute });
      }
      if (known.length === 0) {
        const told = [wanted, ...(isArray(names) ? names : [])].filter((name) => typeof name === "string").join(", ");
        leftOut(`registerTool(${told})`, "its factory made no tool while the plugin was loaded");
      }
    },
    registerCommand(command) {
      const name = text(command?.name, "the `name` of a command").replace(/^\//, "");
      checked("registerCommand", command, name);
      offer("command", name, command.description, { acceptsArgs: command.acceptsArgs === true, requireAuth: command.requireAuth !== false }, {
        handler: isFunction(command.handler)
          ? (context) => command.handler({ ...context, args: context.args ?? undefined, config: about.config })
          : fail(`command \`${name}\` has no \`handler\``),
      });
    },
    registerService(service) {
      const id = text(service?.id, "the `id` of a service");
      checked("registerService", service, id);
      const scope = { config: about.config, workspaceDir: about.workspaceDir, stateDir: about.stateDir, logger: api.logger };
      offer("service", id, service.description, {}, {
        start: isFunction(service.start) ? () => service.start(scope) : undefined,
        stop: isFunction(service.stop) ? () => service.stop(scope) : undefined,
      });
    },
    registerCli(register, options = {}) {
      opened("registerCli");
      if (!isFunction(register)) fail("`registerCli` needs a function");
      checked("registerCli", options, options?.commands);
      const program = new (part("backstop:commander").Program)();
      const answer = register({ program, config: about.config, workspaceDir: about.workspaceDir, logger: api.logger });
      if (isFunction(answer?.then)) fail("the function of `registerCli` returned a promise");
      for (const command of program.commands) {
        offer("cli", command.name(), command.description(), { usage: command.describe() }, { run: (words) => printing(() => command.parseAsync(words)) });
      }
      const missing = (options.commands ?? []).filter((name) => !program.commands.some((command) => command.name() === name));
      if (missing.length > 0) leftOut(`registerCli(${missing.join(", ")})`, "the function made no such command");
    },
    registerHttpRoute(route) {
      const path = text(route?.path, "the `path` of a route");
      offer("route", path, "", { auth: route.auth, match: route.match }, { handler: route.handler });
    },
    registerGatewayMethod(name, handler) {
      offer("method", text(name, "the name of a method"), "", {}, { handler });
    },
    registerRuntimeLifecycle(lifecycle) {
      const id = text(lifecycle?.id, "the `id` of a lifecycle");
      checked("registerRuntimeLifecycle", lifecycle, id);
      offer("lifecycle", id, lifecycle.description, {}, {
        cleanup: lifecycle.cleanup && ((why) => lifecycle.cleanup(why)),
        dispose: lifecycle.dispose && (() => lifecycle.dispose()),
      });
    },
    registerSessionExtension(extension) {
      const namespace = text(extension?.namespace, "the `namespace` of a session extension");
      checked("registerSessionExtension", extension, namespace);
      offer("session-extension", namespace, extension.description, { slot: extension.sessionEntrySlotKey }, {
        project: extension.project && ((context) => ({ value: synchronous(extension.project(context), "`project`") })),
        cleanup: extension.cleanup && ((why) => extension.cleanup(why)),
      });
    },
    enqueueNextTurnInjection: async (injection) => inSession("inject", checked("enqueueNextTurnInjection", injection)),
    registerAgentEventSubscription: (subscription) =>
      leftOut(`registerAgentEventSubscription(${subscription?.id ?? ""})`, "no host sends its own events; hooks see what they are about"),
    setRunContext: (patch) => runContext().setRunContext(patch),
    getRunContext: (which) => runContext().getRunContext(which),
    clearRunContext: (which) => runContext().clearRunContext(which),
  };
  for (const name of WITHOUT_USE) {
    api[name] = (what) => leftOut(`${name}(${what?.id ?? what?.name ?? ""})`, "nothing of Backstop has a use for it");
  }
  for (const name of keys(NOT_DONE)) {
    api[name] = () => {
      leftOut(name, "nothing of Backstop has a use for it; it answers that it was not done");
      return NOT_DONE[name]();
    };
  }
  let runtime;
  const make = () => part("backstop:runtime").makeRuntime({ about, leftOut, logger: api.logger, inject: (what) => inSession("inject", what) });
  defineProperty(api, "runtime", { enumerable: true, configurable: true, get: () => (runtime ??= make()) });
  // The same methods by the names of their groups.
  api.session = {
    state: { registerSessionExtension: api.registerSessionExtension, patchSessionExtension: (patch) => inSession("patch", patch) },
    workflow: {
      enqueueNextTurnInjection: api.enqueueNextTurnInjection,
      registerSessionSchedulerJob: api.registerSessionSchedulerJob,
      sendSessionAttachment: api.sendSessionAttachment,
      scheduleSessionTurn: api.scheduleSessionTurn,
      unscheduleSessionTurnsByTag: api.unscheduleSessionTurnsByTag,
    },
    controls: {
      registerSessionAction: api.registerSessionAction,
      registerControlUiDescriptor: api.registerControlUiDescriptor,
    },
  };
  api.agent = {
    events: { registerAgentEventSubscription: api.registerAgentEventSubscription, emitAgentEvent: api.emitAgentEvent },
  };
  const { setRunContext, getRunContext, clearRunContext } = api;
  api.runContext = { setRunContext, getRunContext, clearRunContext };
  api.lifecycle = { registerRuntimeLifecycle: api.registerRuntimeLifecycle };
  return { api, close: () => (open = false) };
};
