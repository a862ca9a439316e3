// `plugin-sdk/retry-runtime`: asking again.

const DEFAULTS = { attempts: 3, minDelayMs: 300, maxDelayMs: 30_000, jitter: 0 };
const number = (value, otherwise) => (typeof value === "number" && Number.isFinite(value) ? value : otherwise);

/** The settings of a retry: `overrides` over `defaults`, within bounds. */
export const resolveRetryConfig = (defaults = DEFAULTS, overrides = undefined) => {
  const of = (name) => number(overrides?.[name], number(defaults?.[name], DEFAULTS[name]));
  const minDelayMs = Math.max(0, Math.round(of("minDelayMs")));
  return {
    attempts: Math.max(1, Math.round(of("attempts"))),
    minDelayMs,
    maxDelayMs: Math.max(minDelayMs, Math.round(of("maxDelayMs"))),
    jitter: Math.min(1, Math.max(0, of("jitter"))),
  };
};

/** Calls `work` until it does not fail, as often as the options say, with a wait that doubles. */
export const retryAsync = async (work, options = DEFAULTS.attempts, initialDelayMs = DEFAULTS.minDelayMs) => {
  const given = typeof options === "number" ? { attempts: options, minDelayMs: initialDelayMs } : options;
  const { attempts, minDelayMs, maxDelayMs, jitter } = resolveRetryConfig(DEFAULTS, given);
  for (let attempt = 1; ; attempt++) {
    try {
      return await work();
    } catch (error) {
      if (attempt >= attempts || given.shouldRetry?.(error, attempt) === false) throw error;
      const asked = given.retryAfterMs?.(error);
      const base = Math.max(number(asked, minDelayMs * 2 ** (attempt - 1)), minDelayMs);
      const delayMs = Math.max(0, Math.min(base * (1 + (Math.random() * 2 - 1) * jitter), maxDelayMs));
      given.onRetry?.({ attempt, maxAttempts: attempts, delayMs, err: error, label: given.label });
      await new Promise((done) => setTimeout(done, delayMs));
    }
  }
};
