/** Hooks that judge AI agents. The types are in `index.d.ts`; `points.js` and `points.d.ts` are generated. */

export { ALIASES, POINTS } from "./points.js";
export { hook, tool } from "./registry.js";
export { log, run } from "./serve.js";
export { HookVerdict, PassthroughHook, ToolCallHook, ToolExecutor, createHooks, hookTypes } from "./verdicts.js";
