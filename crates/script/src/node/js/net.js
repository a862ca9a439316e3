// `node:net`: which texts are addresses. Connections are made by `fetch`.
const part = "(?:[0-9]|[1-9][0-9]|1[0-9][0-9]|2[0-4][0-9]|25[0-5])";
const v4 = new RegExp(`^(?:${part}\\.){3}${part}$`);
const isIPv4 = (text) => v4.test(`${text}`);
const isIPv6 = (text) => {
  const [address, ...zone] = `${text}`.split("%");
  if (zone.length > 1 || zone[0] === "" || !/^[0-9a-f:.]{2,45}$/i.test(address)) return false;
  const last = address.slice(address.lastIndexOf(":") + 1);
  if (last.includes(".") && !isIPv4(last)) return false;
  return require("url").URL.canParse(`http://[${address}]/`);
};
const isIP = (text) => (isIPv4(text) ? 4 : isIPv6(text) ? 6 : 0);
return Object.assign(
  require("absent")("net", ["connect", "createConnection", "createServer", "Socket", "Server", "Stream", "BlockList", "SocketAddress"]),
  { isIP, isIPv4, isIPv6 },
);
