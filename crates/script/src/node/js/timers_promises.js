// `node:timers/promises`.
const start = globalThis.setTimeout, stop = globalThis.clearTimeout;
const stopped = (signal) => {
  const error = new Error("The operation was aborted", { cause: signal.reason });
  error.name = "AbortError";
  error.code = "ABORT_ERR";
  return error;
};
const setTimeout = (delay, value, { signal } = {}) =>
  new Promise((ok, no) => {
    if (signal?.aborted) return no(stopped(signal));
    const timer = start(() => ok(value), delay);
    signal?.addEventListener("abort", () => {
      stop(timer);
      no(stopped(signal));
    }, { once: true });
  });
const setImmediate = (value, options) => setTimeout(0, value, options);
async function* setInterval(delay, value, options) {
  for (;;) {
    await setTimeout(delay, undefined, options);
    yield value;
  }
}
return { setTimeout, setImmediate, setInterval, scheduler: { wait: (delay, options) => setTimeout(delay, undefined, options), yield: () => setImmediate() } };
