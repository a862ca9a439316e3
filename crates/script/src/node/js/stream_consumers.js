// `node:stream/consumers`: what a stream comes to as a whole.
const { Buffer } = require("buffer");
const buffer = async (stream) => {
  const chunks = [];
  for await (const chunk of stream) chunks.push(typeof chunk === "string" ? Buffer.from(chunk) : chunk);
  return Buffer.concat(chunks);
};
const text = async (stream) => new TextDecoder().decode(await buffer(stream));
return {
  buffer, text,
  arrayBuffer: async (stream) => {
    const bytes = await buffer(stream);
    return bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.length);
  },
  blob: async (stream) => new Blob([await buffer(stream)]),
  json: async (stream) => JSON.parse(await text(stream)),
};
