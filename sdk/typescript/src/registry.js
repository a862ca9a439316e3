/** How hooks and tools are registered. */

import { ALIASES, POINTS } from "./points.js";

/** The hooks and tools of this program, by id and by name: `{ declaration, run }`. */
export const registry = { hooks: new Map(), tools: new Map() };

/** The distance of two names, for suggestions. */
function distance(a, b) {
  let row = Array.from({ length: b.length + 1 }, (_, index) => index);
  for (let i = 1; i <= a.length; i++) {
    const next = [i];
    for (let j = 1; j <= b.length; j++) {
      next.push(Math.min(row[j] + 1, next[j - 1] + 1, row[j - 1] + (a[i - 1] === b[j - 1] ? 0 : 1)));
    }
    row = next;
  }
  return row[b.length];
}

/** A hint at the name that is most like this one. */
export function suggestion(name, known) {
  let best;
  for (const candidate of known) {
    const far = distance(String(name), candidate);
    if (far <= 1 + candidate.length / 3 && (best === undefined || far < best.far)) {
      best = { far, candidate };
    }
  }
  return best === undefined ? "" : `\nhint: did you mean \`${best.candidate}\`?`;
}

export function register(declaration, run) {
  const name = declaration.id;
  for (let number = 2; registry.hooks.has(declaration.id); number++) {
    declaration.id = `${name}-${number}`;
  }
  registry.hooks.set(declaration.id, { declaration, run });
}

const OPTIONS = ["id", "priority", "timeoutMs", "matcher", "triggers", "dispatchKinds"];

export function hook(point, options, handler) {
  if (typeof options === "function") {
    [options, handler] = [{}, options];
  }
  const name = Object.hasOwn(ALIASES, point) ? ALIASES[point] : point;
  if (!POINTS.includes(name)) {
    throw new Error(`unknown hook point \`${point}\`${suggestion(point, POINTS)}`);
  }
  if (typeof handler !== "function") {
    throw new TypeError(`the hook at \`${point}\` is no function`);
  }
  const declaration = { id: options.id ?? (handler.name || name), point: name, priority: options.priority ?? 0 };
  for (const [option, value] of Object.entries(options)) {
    if (!OPTIONS.includes(option)) {
      throw new Error(`a hook has no option \`${option}\`${suggestion(option, OPTIONS)}`);
    }
    if (value !== undefined && !(option in declaration)) {
      declaration[option] = value;
    }
  }
  register(declaration, handler);
  return handler;
}

export function tool({ name, description = "", inputSchema = { type: "object" } }, run) {
  if (registry.tools.has(name)) {
    throw new Error(`there are two tools called \`${name}\``);
  }
  registry.tools.set(name, { declaration: { name, description, inputSchema }, run });
}
