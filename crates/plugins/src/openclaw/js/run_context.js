// What a plugin notes about a run, in the memory of its runtime: for hooks of one run that tell each other something.
//
// Bounds: the latest MOST_RUNS runs, MOST_NAMESPACES values in each, MOST_CHARS characters of JSON in one. What goes beyond is not noted,
// and `setRunContext` says so by `false`; the oldest run is forgotten for a new one, and that is logged once.
const MOST_RUNS = 512;
const MOST_NAMESPACES = 64;
const MOST_CHARS = 65_536;

const isName = (value) => typeof value === "string" && value.trim() !== "";

export const makeRunContext = (warn) => {
  const runs = new Map();
  let isFull = false;
  const forgetOldest = () => {
    if (!isFull) warn(`notes about runs (\`setRunContext\`): ${MOST_RUNS} runs are remembered, and the oldest are forgotten`);
    isFull = true;
    runs.delete(runs.keys().next().value);
  };
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
        runs.set(runId, (run = new Map()));
      }
      if (!run.has(namespace) && run.size >= MOST_NAMESPACES) return false;
      run.set(namespace, text);
      return true;
    },
    getRunContext(which) {
      const text = runs.get(which?.runId)?.get(which?.namespace);
      return text === undefined ? undefined : JSON.parse(text);
    },
    clearRunContext(which) {
      const run = runs.get(which?.runId);
      if (which?.namespace !== undefined) run?.delete(which.namespace);
      if (which?.namespace === undefined || run?.size === 0) runs.delete(which?.runId);
    },
  };
};
