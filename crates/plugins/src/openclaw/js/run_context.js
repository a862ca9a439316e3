// What a plugin notes about a run, in the memory of its runtime: for hooks of one run that tell each other something.
//
// Bounds: the latest MOST_RUNS runs, MOST_NAMESPACES values in each, MOST_CHARS characters of JSON in one. What goes beyond is not noted,
// and `setRunContext` says so by `false`. For a new run the one that was set longest ago is forgotten, which is logged once; `getRunContext`
// throws where it would answer `undefined` about a forgotten run, so that a gate that relies on its notes fails.
const MOST_RUNS = 512;
const MOST_NAMESPACES = 64;
const MOST_CHARS = 65_536;

// Forgotten runs are remembered in a Bloom filter: none of them is ever missed, and a new run is taken for one of them by chance alone
// (one in 10 000 once 15 000 runs were forgotten).
const FILTER_BITS = 1 << 20;
const FILTER_SEEDS = [0x811c9dc5, 0x01234567, 0x9e3779b9];
const places = (name) =>
  FILTER_SEEDS.map((seed) => {
    let hash = seed;
    for (let at = 0; at < name.length; at++) hash = Math.imul(hash ^ name.charCodeAt(at), 0x01000193);
    hash = Math.imul(hash ^ (hash >>> 15), 0x85ebca6b);
    return (hash ^ (hash >>> 13)) & (FILTER_BITS - 1);
  });

const isName = (value) => typeof value === "string" && value.trim() !== "";

export const makeRunContext = (warn) => {
  const runs = new Map();
  let forgotten;
  const forgetOldest = () => {
    if (forgotten === undefined) warn(`notes about runs (\`setRunContext\`): ${MOST_RUNS} runs are remembered, and the oldest are forgotten`);
    forgotten ??= new Uint8Array(FILTER_BITS / 8);
    const oldest = runs.keys().next().value;
    for (const place of places(oldest)) forgotten[place >> 3] |= 1 << (place & 7);
    runs.delete(oldest);
  };
  const isForgotten = (runId) =>
    forgotten !== undefined && isName(runId) && places(runId).every((place) => (forgotten[place >> 3] & (1 << (place & 7))) !== 0);
  return {
    setRunContext(patch) {
      const { runId, namespace, value, unset } = patch ?? {};
      if (!isName(runId) || !isName(namespace) || (unset === true) === (value !== undefined)) return false;
      let run = runs.get(runId);
      if (unset === true) {
        run?.delete(namespace);
        return true;
      }
      let text;
      try {
        text = JSON.stringify(value);
      } catch {
        return false;
      }
      if (text === undefined || text.length > MOST_CHARS) return false;
      if (run === undefined) {
        if (runs.size >= MOST_RUNS) forgetOldest();
        run = new Map();
      }
      // A run that is set is the latest one: it goes to the end.
      runs.delete(runId);
      runs.set(runId, run);
      if (!run.has(namespace) && run.size >= MOST_NAMESPACES) return false;
      run.set(namespace, text);
      return true;
    },
    getRunContext(which) {
      const text = runs.get(which?.runId)?.get(which?.namespace);
      if (text !== undefined) return JSON.parse(text);
      if (!isForgotten(which?.runId)) return undefined;
      throw new Error(
        `what was noted about this run was forgotten: the ${MOST_RUNS} runs that were set last are remembered\nhint: call \`clearRunContext\` when a run has ended`,
      );
    },
    clearRunContext(which) {
      const run = runs.get(which?.runId);
      if (which?.namespace !== undefined) run?.delete(which.namespace);
      if (which?.namespace === undefined || run?.size === 0) runs.delete(which?.runId);
    },
  };
};
