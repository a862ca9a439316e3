/** Tool call hooks: asked before each tool call, told after it. */

import { register, suggestion } from "./registry.js";

const isObject = (value) => typeof value === "object" && value !== null && !Array.isArray(value);

export class HookVerdict {
  /** Only its own words make one, so that a word which is none can't be taken for consent. */
  static #key = Symbol("verdict");

  constructor(key, verdict, reasoning, modifiedArguments) {
    if (key !== HookVerdict.#key) {
      throw new TypeError("a verdict is made by `approve`, `deny`, `modify` or `ask`");
    }
    this.verdict = verdict;
    this.reasoning = String(reasoning ?? "");
    this.modifiedArguments = modifiedArguments;
    Object.freeze(this);
  }

  static approve() {
    return new HookVerdict(HookVerdict.#key, "approve");
  }

  static deny(reasoning) {
    return new HookVerdict(HookVerdict.#key, "deny", reasoning);
  }

  static modify(args, reasoning) {
    if (!isObject(args)) {
      throw new TypeError("`modify` needs arguments, an object");
    }
    return new HookVerdict(HookVerdict.#key, "modify", reasoning, args);
  }

  static ask(reasoning) {
    return new HookVerdict(HookVerdict.#key, "ask", reasoning);
  }
}

export class ToolCallHook {
  preCall(_toolName, _args, _sessionId) {
    return HookVerdict.approve();
  }

  postCall(_toolName, _args, _result, _sessionId) {}
}

export class PassthroughHook extends ToolCallHook {
  constructor(config = {}) {
    super();
    if (Object.keys(config).length > 0) {
      throw new Error("`passthrough` has no options");
    }
  }
}

export const hookTypes = new Map([["passthrough", PassthroughHook]]);

const BUILT_IN = ["policy", "webhook", "human_approval"];

export function createHooks(entries) {
  return [...entries].map(({ type, config, ...more }) => {
    const [unknown] = Object.keys(more);
    if (unknown !== undefined) {
      throw new Error(`a hook has \`type\` and \`config\`, and not \`${unknown}\``);
    }
    const Type = hookTypes.get(type);
    if (Type === undefined) {
      throw new Error(
        BUILT_IN.includes(type)
          ? `\`${type}\` is a hook of Backstop itself\nhint: configure it in \`backstop.yaml\``
          : `unknown hook type \`${type}\`${suggestion(type, hookTypes.keys())}`,
      );
    }
    return new Type(config);
  });
}

export class ToolExecutor {
  #skills;
  #hooks;

  constructor(skills, hooks = [new PassthroughHook()]) {
    this.#skills = skills;
    this.#hooks = [...hooks];
  }

  async execute(toolName, args = {}, sessionId = "") {
    let effective = structuredClone(args);
    let result;
    for (const hook of this.#hooks) {
      const verdict = await ask(hook, toolName, effective, sessionId);
      if (verdict.verdict === "modify") {
        effective = structuredClone(verdict.modifiedArguments);
      } else if (verdict.verdict !== "approve") {
        const why = verdict.reasoning || "a hook denied the call";
        const isAsked = verdict.verdict === "ask";
        const error = isAsked ? `a human has to allow this, and nobody can be asked here: ${why}` : why;
        result = { success: false, output: "", error };
        break;
      }
    }
    result ??= await this.#run(toolName, effective);
    for (const hook of this.#hooks) {
      try {
        await hook.postCall(toolName, structuredClone(effective), structuredClone(result), sessionId);
      } catch (error) {
        console.error(`a hook failed after \`${toolName}\`: ${error?.name}`);
      }
    }
    return result;
  }

  async #run(toolName, args) {
    const skill = this.#skills.get(toolName);
    if (skill === undefined) {
      return { success: false, output: "", error: `there is no tool \`${toolName}\`` };
    }
    try {
      const output = await (typeof skill === "function" ? skill(args) : skill.execute(toolName, args));
      return typeof output?.success === "boolean" ? output : { success: true, output };
    } catch (error) {
      return { success: false, output: "", error: String(error) };
    }
  }
}

/** What a hook says; what it does to its copy of the arguments is no verdict. */
async function ask(hook, toolName, args, sessionId) {
  try {
    const verdict = await hook.preCall(toolName, structuredClone(args), sessionId);
    return verdict instanceof HookVerdict
      ? verdict
      : HookVerdict.deny("a hook gave no verdict, so the call is denied");
  } catch (error) {
    return HookVerdict.deny(`a hook failed (${error?.name}), so the call is denied`);
  }
}

/** Puts a tool call hook before and after every tool call. */
export function registerVerdicts(hook) {
  const name = hook?.constructor?.name;
  if (!(hook instanceof ToolCallHook)) {
    throw new TypeError(`\`${name}\` is no ToolCallHook`);
  }
  const called = (event) => String(event.calledAs || event.toolName);
  const session = (event) => String(event.context?.sessionId ?? "");
  register({ id: name, point: "before_tool_call", priority: 0 }, async (event) => {
    const verdict = await hook.preCall(called(event), event.params, session(event));
    return outcome(called(event), verdict);
  });
  register({ id: `${name}.post_call`, point: "after_tool_call", priority: 0 }, async (event) => {
    await hook.postCall(called(event), event.params, told(event), session(event));
  });
}

function told(event) {
  const parts = event.result?.content ?? [];
  const output = parts.filter((part) => typeof part.text === "string").map((part) => part.text).join("\n");
  const failed = event.result?.isError === true || event.error !== undefined;
  return failed ? { success: false, output, error: event.error ?? output } : { success: true, output };
}

function outcome(tool, verdict) {
  if (!(verdict instanceof HookVerdict)) {
    throw new TypeError("a hook answered no HookVerdict");
  }
  switch (verdict.verdict) {
    case "deny":
      return { block: true, blockReason: verdict.reasoning || "denied by a hook that gave no reason" };
    case "modify":
      return { params: verdict.modifiedArguments };
    case "ask": {
      const cut = (text, most) => [...text].slice(0, most).join("");
      const title = cut(`\`${tool}\` needs approval`, 80);
      return { requireApproval: { title, description: cut(verdict.reasoning, 512) } };
    }
    default:
      return null;
  }
}
