// `node:perf_hooks`.
const now = host.now;
const timeOrigin = Date.now() - now();
const performance = {
  now: () => now(),
  timeOrigin,
  mark: (name) => ({ name, entryType: "mark", startTime: now(), duration: 0 }),
  measure: (name) => ({ name, entryType: "measure", startTime: 0, duration: now() }),
  clearMarks() {},
  clearMeasures() {},
  getEntries: () => [],
  getEntriesByName: () => [],
  getEntriesByType: () => [],
  toJSON: () => ({ timeOrigin }),
};
class PerformanceObserver {
  observe() {}
  disconnect() {}
}
return { performance, PerformanceObserver };
