import type { ToolSet } from "ai";

import type { Client, Context } from "../client.js";

/**
 * Returns the tools, each of whose calls is judged: it waits for a human where one is asked, and runs with the arguments that were judged;
 * its result is judged before the model reads it. A call that may not run is an error of the tool, whose message says why.
 *
 * What a tool tells before its result (preliminary results) is not passed on: nobody has judged it.
 * @throws {TypeError} for a tool without `execute`: it runs elsewhere
 */
export function guarded<T extends ToolSet>(tools: T, client: Client, options?: { context?: Context }): T;
