/** The program that the conformance cases are sent to. */

import { HookVerdict, ToolCallHook, hook, log, run, tool } from "../src/index.js";

function judge(event) {
  if (String(event.params.command ?? "").includes("sudo")) {
    return { block: true, blockReason: "sudo is not allowed" };
  }
  return null;
}

hook("before_tool_call", { id: "no_sudo", priority: 50, matcher: ["exec"] }, judge);
hook("before_tool_call", async function no_sudo_later(event) {
  await Promise.resolve();
  return judge(event);
});
hook("before_tool_call", function rewrites(event) {
  return { params: { ...event.params, command: "echo changed" } };
});
hook("before_tool_call", function asks() {
  return { requireApproval: { title: "Sure?", severity: "critical" } };
});
hook("before_tool_call", function silent() {});
hook("before_tool_call", function raises() {
  throw new Error("out of order");
});
hook("before_tool_call", function prints() {
  console.log("to standard output");
  process.stdout.write("to standard output, too\n");
  log("to the log", "warn");
  return { block: true, blockReason: "printed" };
});
hook("before_tool_call", function no_json() {
  return { params: { number: NaN } };
});
const SAYS = { block: true, blockReason: "said" };
class Says {
  block = true;
}
class Computes {
  get block() {
    return true;
  }
}
const NO_DATA = {
  container: () => new Map(Object.entries(SAYS)),
  class: () => new Says(),
  computed: () => new Computes(),
  keys: () => ({ [Symbol("block")]: true }),
  nested: () => ({ params: { list: [new Map([["a", 1]])] } }),
  cycle: () => {
    const answer = { params: {} };
    answer.params.answer = answer;
    return answer;
  },
  // What only this language has.
  set: () => new Set(["block"]),
  inherited: () => Object.create(SAYS),
  toJSON: () => Object.create({ toJSON: () => SAYS }),
  ownToJSON: () => ({ toJSON: () => SAYS }),
  getter: () => ({ get block() { return true; } }),
  hidden: () => Object.defineProperty({}, "block", { value: true }),
  proxy: () => new Proxy({}, { get: () => true, ownKeys: () => [] }),
  list: () => ({ params: { list: new (class extends Array {})(3) } }),
  hole: () => ({ params: { list: [, 1] } }),
  date: () => ({ params: { at: new Date(0) } }),
  surrogate: () => ({ block: true, blockReason: "\ud800" }),
};
hook("before_tool_call", function no_data(event) {
  return NO_DATA[event.params.kind]();
});
hook("before_agent_run", { timeoutMs: 500, triggers: ["user"] }, function run_gate() {
  return null;
});
hook("deactivate", function stops() {});
hook("before_tool_call", function waits() {
  return new Promise(() => {});
});
tool({ name: "echo", description: "Answers its arguments." }, (args) => ({ echo: args }));

class MyHook extends ToolCallHook {
  async preCall(toolName, args) {
    const command = String(args.command ?? "");
    if (toolName === "run_command" && command.includes("sudo")) {
      return HookVerdict.deny("sudo not allowed");
    }
    switch (command) {
      case "modify":
        return HookVerdict.modify({ command: "ls" });
      case "ask":
        return HookVerdict.ask("sure?");
      case "nonsense":
        return "approve";
      default:
        return HookVerdict.approve();
    }
  }

  async postCall(toolName, _args, result) {
    console.log(`${toolName} -> success=${result.success}`);
  }
}

await run({ hooks: [new MyHook()] });
