// `node:cluster`: there is one process, and it starts no others.
return Object.assign(
  require("absent")("cluster", ["fork", "setupPrimary", "setupMaster", "disconnect", "Worker"]),
  { isMaster: true, isPrimary: true, isWorker: false, workers: {}, settings: {}, SCHED_NONE: 1, SCHED_RR: 2, schedulingPolicy: 2 },
);
