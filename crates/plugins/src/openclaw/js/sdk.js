// What plugins import by value from `openclaw/plugin-sdk` and `backstop/plugin-sdk`, and from their parts.

/** The entry of a plugin, as it is. */
export const definePluginEntry = (entry) => {
  if (typeof entry !== "object" || entry === null || typeof entry.register !== "function") {
    throw new TypeError("`definePluginEntry` needs an object with `register`");
  }
  return entry;
};

/** A result of a tool that is one piece of JSON. */
export const jsonResult = (value) => ({
  content: [{ type: "text", text: JSON.stringify(value, null, 2) }],
  details: value,
});

/** A result of a tool that is a text. */
export const textResult = (text, details) => ({ content: [{ type: "text", text: String(text) }], details });

/** The schema of a plugin that has no options. */
export const emptyPluginConfigSchema = () => ({
  type: "object",
  additionalProperties: false,
  properties: {},
  safeParse(value) {
    if (value === undefined) return { success: true, data: undefined };
    const isEmpty = typeof value === "object" && value !== null && !Array.isArray(value) && Object.keys(value).length === 0;
    return isEmpty
      ? { success: true, data: value }
      : { success: false, error: { issues: [{ path: [], message: "the plugin has no options" }] } };
  },
});

/** An error in words. */
export const formatErrorMessage = (error) => (error instanceof Error ? error.message || error.name : String(error));
