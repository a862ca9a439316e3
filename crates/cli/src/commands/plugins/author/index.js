import { definePluginEntry } from "backstop/plugin-sdk";

export default definePluginEntry({
  id: "PLUGIN_ID",
  name: "PLUGIN_ID",
  register(api) {
    api.on("before_tool_call", (event) => {
      const command = String(event.params.command ?? "");
      if (/^\s*sudo\b/.test(command)) return { block: true, blockReason: "sudo is not allowed" };
    }, { priority: 50, matcher: ["exec"] });
  },
});
