import type { HookCallbackMatcher, HookEvent } from "@anthropic-ai/claude-agent-sdk";

import type { Client, Context } from "../client.js";

/**
 * Returns the hooks by which all calls of tools are judged, those of Claude Code and those of MCP servers: `query({ prompt, options: { hooks:
 * hooks(new Client()) } })`. A call waits for a human where one is asked, and runs with the arguments that were judged; its result is
 * judged before the model reads it. What Claude Code asks its own user about is still asked. Let no other hook answer with `updatedInput`:
 * the tool would run with arguments that nobody has judged, and its result is withheld then.
 *
 * A result of which the model may read nothing ends the turn, and so does the text of a failure that would have to be changed: Claude
 * Code can't take another in its place. A Claude Code that does not know hooks whose failure blocks does not start.
 */
export function hooks(
  client: Client,
  options?: {
    context?: Context;
    /** How long a human may take; a little less than a day, if it is absent. */
    patienceMs?: number;
  },
): Partial<Record<HookEvent, HookCallbackMatcher[]>>;
