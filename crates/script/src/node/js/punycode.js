// `node:punycode`: what Node itself offers of it is deprecated; host names go through `URL`.
const ascii = (name) => host.domain(`${name}`, false), unicode = (name) => host.domain(`${name}`, true);
return { version: "2.1.0", toASCII: ascii, toUnicode: unicode, ucs2: { decode: (text) => Array.from(text, (char) => char.codePointAt(0)), encode: (codes) => String.fromCodePoint(...codes) } };
