// `node:constants`: the numbers of other modules under one name.
const { errno, signals } = require("os").constants;
return { ...errno, ...signals, ...require("fs").constants };
