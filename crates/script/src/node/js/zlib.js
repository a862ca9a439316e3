// `node:zlib`: data that is there as a whole. Compression that runs along a stream is not provided.
const { Buffer } = require("buffer");
const { binary, view } = require("encoding");
const zlib = { constants: { Z_NO_COMPRESSION: 0, Z_BEST_SPEED: 1, Z_BEST_COMPRESSION: 9, Z_DEFAULT_COMPRESSION: -1 } };
for (const name of ["gzip", "gunzip", "deflate", "inflate", "deflateRaw", "inflateRaw", "unzip", "brotliCompress", "brotliDecompress"]) {
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
for (const name of ["Gzip", "Gunzip", "Deflate", "Inflate", "DeflateRaw", "InflateRaw", "Unzip", "BrotliCompress", "BrotliDecompress"])
  zlib[`create${name}`] = require("absent").refusing(`zlib.create${name}`, "; use the form that takes all of the data");
return zlib;
