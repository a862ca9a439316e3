// Where a plugin begins: makes its `api`, has its entry register, and tells the host what came of it.
//
// The entry is an object with `register` (or `activate`, as it was called), or that function itself. It registers while
// it is called: what it hands over later (a promise) would be a plugin of which nobody knows whether it guards yet.
import { makeApi } from "backstop:api";

const { call } = import.meta.host;

const entryOf = (module) => {
  const found = module.default ?? module;
  if (typeof found === "function") return { register: found };
  if (typeof found !== "object" || found === null) {
    throw new TypeError("the entry exports no plugin\nhint: export default definePluginEntry({ id, register(api) { .. } })");
  }
  const register = found.register ?? found.activate;
  if (typeof register !== "function") {
    throw new TypeError("the plugin has no `register`\nhint: definePluginEntry({ id, register(api) { .. } })");
  }
  return { id: found.id, name: found.name, register: (api) => register.call(found, api) };
};

const about = call("describe");
const { id, name, register } = entryOf(await import("script:entry"));
if (id !== undefined && id !== about.id) {
  throw new TypeError(`the entry calls itself \`${id}\`, and its manifest \`${about.id}\`\nhint: make them the same`);
}
const { api, close } = makeApi(about);
// The names that `api` has, for the hint about one that it does not have.
const namesOf = (group, depth) =>
  Object.keys(group).flatMap((name) => {
    if (name === "config" || name === "pluginConfig") return [];
    const { value } = Object.getOwnPropertyDescriptor(group, name);
    if (typeof value === "function") return [name];
    return depth > 0 && typeof value === "object" && value !== null ? namesOf(value, depth - 1) : [];
  });
let answer;
try {
  answer = register(api);
} catch (error) {
  if (error instanceof TypeError) call("names", { names: namesOf(makeApi(about).api, 2) });
  throw error;
}
if (answer !== null && typeof answer === "object" && typeof answer.then === "function") {
  throw new TypeError("`register` returned a promise\nhint: register while it is called; what takes time belongs into a service or a hook");
}
close();
call("registered", { name: typeof name === "string" ? name : undefined });
