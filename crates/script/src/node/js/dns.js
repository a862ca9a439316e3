// `node:dns`: names are looked up where `fetch` connects, and nowhere else.
const promises = require("dns/promises");
const { asked, codes } = promises.shared;
return Object.assign(
  require("absent")("dns", [...asked, "Resolver", "setServers", "getServers", "setDefaultResultOrder", "getDefaultResultOrder"]),
  codes, { promises, ADDRCONFIG: 32, ALL: 16, V4MAPPED: 8 },
);
