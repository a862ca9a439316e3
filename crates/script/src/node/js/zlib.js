// `node:zlib`: data that is there as a whole. Compression that runs along a stream is not provided.
const { Buffer } = require("buffer");
const { binary, view } = require("encoding");
const zlib = { constants: { Z_NO_COMPRESSION: 0, Z_BEST_SPEED: 1, Z_BEST_COMPRESSION: 9, Z_DEFAULT_COMPRESSION: -1 } };
for (const name of ["gzip", "gunzip", "deflate", "inflate", "deflateRaw", "inflateRaw", "unzip"]) {
  const act = (data) => {
    const made = host.zip(name, binary(typeof data === "string" ? Buffer.from(data) : view(data)));
    return Buffer.from(made.buffer, made.byteOffset, made.length);
  };
  zlib[`${name}Sync`] = act;
  zlib[name] = (data, options, back = options) => {
    let answer;
    try {
      answer = [null, act(data)];
    } catch (error) {
      answer = [error];
    }
    queueMicrotask(() => back(...answer));
  };
}
for (const name of ["brotliCompress", "brotliDecompress"]) {
  zlib[`${name}Sync`] = require("absent").refusing(`zlib.${name}Sync`);
  zlib[name] = require("absent").refusing(`zlib.${name}`);
}
for (const name of ["Gzip", "Gunzip", "Deflate", "Inflate", "DeflateRaw", "InflateRaw", "Unzip", "BrotliCompress", "BrotliDecompress"])
  zlib[`create${name}`] = require("absent").refusing(`zlib.create${name}`, "; use the form that takes all of the data");
const table = Array.from({ length: 256 }, (_, byte) => {
  for (let bit = 0; bit < 8; bit++) byte = byte & 1 ? 0xedb88320 ^ (byte >>> 1) : byte >>> 1;
  return byte;
});
zlib.crc32 = (data, start = 0) => {
  let sum = ~start;
  for (const byte of typeof data === "string" ? Buffer.from(data) : view(data)) sum = table[(sum ^ byte) & 255] ^ (sum >>> 8);
  return ~sum >>> 0;
};
const codes = { Z_OK: 0, Z_STREAM_END: 1, Z_NEED_DICT: 2, Z_ERRNO: -1, Z_STREAM_ERROR: -2, Z_DATA_ERROR: -3, Z_MEM_ERROR: -4, Z_BUF_ERROR: -5, Z_VERSION_ERROR: -6 };
zlib.codes = { ...codes, ...Object.fromEntries(Object.entries(codes).map(([name, code]) => [code, name])) };
return zlib;
