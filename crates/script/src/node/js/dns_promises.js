// `node:dns/promises`: names are looked up where `fetch` connects, and nowhere else.
const codes = {};
for (const name of ["NODATA", "FORMERR", "SERVFAIL", "NOTFOUND", "NOTIMP", "REFUSED", "BADQUERY", "BADNAME", "BADFAMILY", "BADRESP", "CONNREFUSED", "TIMEOUT", "EOF", "FILE", "NOMEM", "DESTRUCTION", "BADSTR", "BADFLAGS", "NONAME", "BADHINTS", "NOTINITIALIZED", "LOADIPHLPAPI", "ADDRGETNETWORKPARAMS", "CANCELLED"])
  codes[name] = `E${name}`;
const asked = ["lookup", "lookupService", "resolve", "resolve4", "resolve6", "resolveAny", "resolveCaa", "resolveCname", "resolveMx", "resolveNaptr", "resolveNs", "resolvePtr", "resolveSoa", "resolveSrv", "resolveTxt", "reverse"];
const promises = Object.assign(require("absent")("dns.promises", ["Resolver", "setServers", "getServers", "setDefaultResultOrder", "getDefaultResultOrder"]), codes);
for (const name of asked) promises[name] = require("absent").refusingLater(`dns.promises.${name}`);
// What both forms of the module have.
Object.defineProperty(promises, "shared", { __proto__: null, value: { asked, codes } });
return promises;
