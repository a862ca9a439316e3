/** The Claude Agent SDK: hooks by which its tool calls are judged. The types are in `claude-agent.d.ts`. */

import { Refused } from "../client.js";

/** How many calls are known that have not come back. Those that its user denies never do. */
const MOST_CALLS = 1_000;
/** How long Claude Code waits for a hook, in seconds. A hook that is later is as good as none there. */
const TIMEOUT = 24 * 60 * 60;

export function hooks(client, { context = {}, patienceMs = (TIMEOUT - 60) * 1000 } = {}) {
  // What is permitted and has not come back, by the id of the call.
  const calls = new Map();
  // Why the model is to read nothing more of a session, by its id.
  const ended = new Map();
  const whose = (input) => ({ ...context, sessionId: context.sessionId ?? input.session_id });

  const before = async (input, _, { signal }) => {
    try {
      const options = { callId: input.tool_use_id, context: whose(input), patienceMs, signal };
      const call = await client.permit(input.tool_name, input.tool_input ?? {}, options);
      calls.set(call.id, call);
      if (calls.size > MOST_CALLS) {
        calls.delete(calls.keys().next().value);
      }
      // No decision: what Claude Code asks its user about is still asked.
      const output = { hookEventName: "PreToolUse" };
      return { hookSpecificOutput: isSame(call.params, input.tool_input) ? output : { ...output, updatedInput: call.params } };
    } catch (error) {
      const permissionDecisionReason = error instanceof Refused ? error.reason : "it could not be judged, so it may not happen";
      return { hookSpecificOutput: { hookEventName: "PreToolUse", permissionDecision: "deny", permissionDecisionReason } };
    }
  };

  const after = async (input, value, error) => {
    const ran = {
      tool: input.tool_name,
      params: input.tool_input ?? {},
      id: input.tool_use_id,
      context: whose(input),
      started: performance.now(),
    };
    // What fails before it is permitted, such as by its form, is known by its failure alone.
    const call = calls.get(input.tool_use_id) ?? (error === undefined ? undefined : ran);
    calls.delete(input.tool_use_id);
    if (call === undefined || !isSame(call.params, ran.params)) {
      // Another hook can change what was judged, and nothing here keeps the tool from running with that.
      throw new Refused("the tool did not run with the arguments that were judged, so its result is withheld");
    }
    return await client.result(call, value, error === undefined ? {} : { error });
  };

  // Claude Code takes no result of another form, nor another text of a failure, and would show what it has. So the turn ends, once all
  // calls that began with this one are over: then the model would read their results.
  const withhold = (input, error) => {
    const stopReason = error instanceof Refused ? error.reason : "a result could not be judged, so the model does not read it";
    ended.set(input.session_id, stopReason);
    return { continue: false, stopReason };
  };

  const afterAll = async (input) => {
    const stopReason = ended.get(input.session_id);
    ended.delete(input.session_id);
    return stopReason === undefined ? {} : { continue: false, stopReason };
  };

  const afterResult = async (input) => {
    try {
      const response = input.tool_response ?? null;
      const isText = typeof response === "string";
      // As one text: what hooks take out of JSON leaves JSON, and so a result of the form that the tool has.
      const value = isText ? response : JSON.stringify(response);
      const told = await after(input, value);
      if (told === value) {
        return {};
      }
      const output = isText ? told : JSON.parse(told);
      return { hookSpecificOutput: { hookEventName: "PostToolUse", updatedToolOutput: output } };
    } catch (error) {
      return withhold(input, error);
    }
  };

  const afterFailure = async (input) => {
    try {
      const text = String(input.error ?? "");
      const told = await after(input, text, text);
      // What a tool failed with can't be changed.
      return told === text ? {} : withhold(input, new Refused("what the tool failed with is withheld"));
    } catch (error) {
      return withhold(input, error);
    }
  };

  const matcher = (hook) => [{ hooks: [hook], timeout: TIMEOUT, onFailure: "block" }];
  return {
    PreToolUse: matcher(before),
    PostToolUse: matcher(afterResult),
    PostToolUseFailure: matcher(afterFailure),
    PostToolBatch: matcher(afterAll),
  };
}

/** Whether two values have the same JSON form, in whatever order their keys are. */
function isSame(a, b) {
  const order = (_, item) =>
    typeof item === "object" && item !== null && !Array.isArray(item)
      ? Object.fromEntries(Object.entries(item).sort(([a], [b]) => (a < b ? -1 : 1)))
      : item;
  return JSON.stringify(a, order) === JSON.stringify(b, order);
}
