// `api.runtime`: what of the other system's insides is here, and functions that say by name that they are not.
//
// What plugins look for before they use it (`runtime.events`, `runtime.subagent`) is absent, so that they go on without it.

const missing = (name, why) => () => {
  throw Object.assign(new Error(`\`api.runtime.${name}\` is not provided here: ${why}`), { code: "ERR_METHOD_NOT_IMPLEMENTED" });
};
const NO_MODEL = "a plugin asks no model by the host\nhint: ask the provider by `fetch`, with a host that is granted";
const NO_WRITING = "plugins do not change the configuration\nhint: `backstop.yaml` is the operator's";

// Runs a program that was granted. It is one word for each argument, and no shell reads them.
const runCommandWithTimeout = async (argv, options) => {
  const { timeoutMs, cwd, input, env } = typeof options === "number" ? { timeoutMs: options } : (options ?? {});
  if (!Array.isArray(argv) || argv.length === 0 || !argv.every((word) => typeof word === "string")) {
    throw new TypeError("`runCommandWithTimeout` needs a list of words: the program and its arguments");
  }
  const { spawn } = await import("node:child_process");
  return new Promise((done, fail) => {
    const child = spawn(argv[0], argv.slice(1), { cwd, env: env === undefined ? undefined : { ...process.env, ...env } });
    let isLate = false;
    const timer = timeoutMs > 0 ? setTimeout(() => ((isLate = true), child.kill()), timeoutMs) : undefined;
    const written = { stdout: "", stderr: "" };
    for (const name of ["stdout", "stderr"]) {
      child[name].setEncoding?.("utf8");
      child[name].on("data", (chunk) => (written[name] += chunk));
    }
    child.on("error", (error) => (clearTimeout(timer), fail(error)));
    child.on("close", (code, signal) => {
      clearTimeout(timer);
      const termination = isLate ? "timeout" : signal === null ? "exit" : "signal";
      done({ ...written, code, signal, killed: isLate || child.killed, termination });
    });
    child.stdin.end(input ?? "");
  });
};

export const makeRuntime = ({ about, leftOut, logger, inject }) => ({
  version: about.hostVersion,
  config: {
    current: () => about.config,
    loadConfig: () => about.config,
    writeConfigFile: missing("config.writeConfigFile", NO_WRITING),
    mutateConfigFile: missing("config.mutateConfigFile", NO_WRITING),
    replaceConfigFile: missing("config.replaceConfigFile", NO_WRITING),
  },
  llm: { complete: missing("llm.complete", NO_MODEL) },
  agent: {
    runEmbeddedAgent: missing("agent.runEmbeddedAgent", NO_MODEL),
    runEmbeddedPiAgent: missing("agent.runEmbeddedPiAgent", NO_MODEL),
  },
  tools: {
    registerMemoryCli: () => leftOut("runtime.tools.registerMemoryCli", "nothing here has memory of its own to show"),
  },
  state: { resolveStateDir: () => about.stateDir },
  logging: { getChildLogger: () => logger, shouldLogVerbose: () => false },
  system: {
    enqueueSystemEvent: (event, options) =>
      inject({ sessionKey: options?.sessionKey, text: event, idempotencyKey: options?.contextKey }),
    runCommandWithTimeout,
  },
});
