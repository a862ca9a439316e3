// What Node and the Node surface must say alike of files, digests, compressed data and streams. `given` is a folder of
// the one who is asked; its name is taken out of the answers.
import crypto from "node:crypto";
import fs, { existsSync, readFileSync as read } from "node:fs";
import * as all from "node:fs";
import promises from "node:fs/promises";
import path from "node:path";
import { PassThrough, Readable, Transform, pipeline } from "node:stream";
import { pipeline as piped } from "node:stream/promises";
import zlib from "node:zlib";

export async function main(folder) {
  let state = 11;
  const random = (most) => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return Math.floor((state / 2 ** 32) * most);
  };
  const pick = (list) => list[random(list.length)];
  const lines = [];
  const clean = (text) => String(text).replaceAll(folder, "~").replace(/(mkd-)[A-Za-z0-9]{6}/g, "$1XXXXXX");
  const shown = (value) => (value === undefined ? "undefined" : value instanceof Uint8Array ? `bytes ${Buffer.from(value).toString("hex")}` : JSON.stringify(value));
  const failed = (error) => `throws ${error.name} ${error.code} ${error.errno} ${error.syscall} ${error.path} ${error.dest}${/^E[A-Z]+$/.test(error.code) ? ` ${error.message}` : ""}`;
  const ask = async (label, question) => {
    let answer;
    try {
      answer = shown(await question());
    } catch (error) {
      answer = failed(error);
    }
    lines.push(clean(`${label} => ${answer}`));
  };
  const names = ["a", "b", "d", "d/e", "d/e/f", "none", "none/x", "a/x", "link", "dangling", "d/../a", "./b", "d/"];
  const place = () => `${folder}/${pick(names)}`;
  fs.mkdirSync(`${folder}/d/e`, { recursive: true });
  fs.writeFileSync(`${folder}/a`, "first");
  const look = (stats) => [stats.isFile(), stats.isDirectory(), stats.isSymbolicLink(), stats.isDirectory() ? 0 : stats.size, stats.mode & 0o170000, stats.mtime instanceof Date];
  for (let i = 0; i < 400; i++) {
    const [p, q] = [place(), place()];
    const data = pick(["", "text", "ü\n", Buffer.from([0, 255, 1])]);
    const [label, act] = pick([
      ["readFile", () => read(p)], ["readFile utf8", () => fs.readFileSync(p, "utf8")], ["promises.readFile", () => promises.readFile(p, { encoding: "hex" })],
      ["writeFile", () => fs.writeFileSync(p, data)], ["writeFile wx", () => fs.writeFileSync(p, data, { flag: "wx" })], ["appendFile", () => fs.appendFileSync(p, data)], ["promises.writeFile", () => promises.writeFile(p, data)],
      ["exists", () => existsSync(p)], ["stat", () => look(fs.statSync(p))], ["lstat", () => look(all.lstatSync(p))], ["stat quiet", () => fs.statSync(p, { throwIfNoEntry: false }) === undefined],
      ["readdir", () => fs.readdirSync(p).sort()], ["readdir types", () => fs.readdirSync(p, { withFileTypes: true }).map((one) => [one.name, one.isFile(), one.isDirectory(), one.isSymbolicLink()]).sort()], ["readdir deep", () => fs.readdirSync(p, { recursive: true }).sort()],
      ["mkdir", () => fs.mkdirSync(p)], ["mkdir deep", () => fs.mkdirSync(p, { recursive: true })], ["unlink", () => fs.unlinkSync(p)], ["rmdir", () => fs.rmdirSync(p)],
      ["rm", () => fs.rmSync(p)], ["rm force", () => fs.rmSync(p, { force: true })], ["copyFile", () => fs.copyFileSync(p, q)], ["copyFile excl", () => fs.copyFileSync(p, q, fs.constants.COPYFILE_EXCL)],
      ["access", () => fs.accessSync(p)], ["promises.access", () => promises.access(p, fs.constants.R_OK)], ["realpath", () => fs.realpathSync(p)], ["readlink", () => fs.readlinkSync(p)], ["truncate", () => fs.truncateSync(p, 2)],
      ["callback", () => new Promise((ok, no) => fs.readFile(p, "latin1", (error, text) => (error ? no(error) : ok(text))))], ["rename", () => fs.renameSync(p, q)],
    ]);
    // Node copies and renames by other calls, so which error comes first of two is its own.
    const two = /rename|copy/.test(label);
    const [from, to] = [p, q].map((one) => one.slice(folder.length));
    if (two && (from.endsWith("/") || to.endsWith("/") || from.includes("/x") || to.includes("/x") || from.includes("..") || to.includes("d") || from.includes("d"))) continue;
    // Slashes at the end and steps through files are looked at by the system, and not here.
    if (from.endsWith("/") || from.includes("..")) continue;
    await ask(`${i} ${label} ${p}${two ? ` ${q}` : ""}`, act);
  }
  await ask("open, write, read", () => {
    const fd = fs.openSync(`${folder}/fd`, "w+");
    const into = Buffer.alloc(8);
    const counts = [fs.writeSync(fd, "hello"), fs.writeSync(fd, Buffer.from("world"), 1, 3), fs.readSync(fd, into, 0, 8, 0), fs.readSync(fd, into, { offset: 2, length: 2, position: 1 }), fs.fstatSync(fd).size];
    fs.ftruncateSync(fd, 3);
    fs.closeSync(fd);
    return [counts, into.toString(), fs.readFileSync(`${folder}/fd`, "utf8")];
  });
  await ask("close twice", () => { const fd = fs.openSync(`${folder}/fd`); fs.closeSync(fd); fs.closeSync(fd); });
  for (const bad of [undefined, null, 5.5, {}, [], true]) await ask(`readFile ${bad}`, () => fs.readFileSync(bad));
  await ask("nul", () => fs.readFileSync(`${folder}/a\0b`));
  await ask("mkdtemp", () => [fs.mkdtempSync(path.join(folder, "mkd-")).length > folder.length, fs.readdirSync(folder).filter((name) => name.startsWith("mkd-")).length]);
  await ask("handle", async () => {
    const handle = await promises.open(`${folder}/h`, "w+");
    await handle.write("abc");
    const size = (await handle.stat()).size;
    await handle.close();
    return [size, (await promises.readFile(`${folder}/h`)).toString()];
  });
  await ask("url", () => { fs.writeFileSync(new URL(`file://${folder}/u%20v`), "x"); return fs.readFileSync(`${folder}/u v`, "utf8"); });
  await ask("streams of files", async () => {
    await piped(Readable.from(["one ", "two ", "three"]), fs.createWriteStream(`${folder}/s`));
    let text = "";
    for await (const piece of fs.createReadStream(`${folder}/s`, { encoding: "utf8", highWaterMark: 4 })) text += `${piece}|`;
    return text.replaceAll("|", "");
  });

  for (let i = 0; i < 60; i++) {
    const bytes = Buffer.from(Array.from({ length: random(200) }, () => random(256)));
    const key = Buffer.from(Array.from({ length: random(150) }, () => random(256)));
    for (const algorithm of ["md5", "sha1", "sha256", "SHA512", "sha384", "nonsense"]) {
      await ask(`hash ${i} ${algorithm}`, () => crypto.createHash(algorithm).update(bytes).update("ü", "latin1").digest(pick(["hex", "base64", undefined])).toString());
      await ask(`hmac ${i} ${algorithm}`, () => crypto.createHmac(algorithm, key).update(bytes).digest("hex"));
    }
    await ask(`zip ${i}`, () => [zlib.gunzipSync(zlib.gzipSync(bytes)).equals(bytes), zlib.inflateSync(zlib.deflateSync(bytes)).equals(bytes), zlib.inflateRawSync(zlib.deflateRawSync(bytes)).toString("hex")]);
  }
  await ask("bad zip", () => { try { zlib.gunzipSync("no"); } catch (error) { return error.code; } return "none"; });
  await ask("random", () => [crypto.randomBytes(5).length, crypto.randomUUID().length, crypto.randomInt(5) < 5, crypto.timingSafeEqual(Buffer.from("a"), Buffer.from("a")), crypto.getRandomValues(new Uint32Array(3)).length]);
  await ask("unequal lengths", () => crypto.timingSafeEqual(Buffer.from("a"), Buffer.from("ab")));
  await ask("digest twice", () => { const hash = crypto.createHash("sha1"); hash.digest(); hash.digest(); });
  await ask("subtle", async () => Buffer.from(await crypto.webcrypto.subtle.digest("SHA-256", Buffer.from("abc"))).toString("hex"));
  await ask("transform", async () => {
    const upper = new Transform({ transform(chunk, _, done) { done(null, chunk.toString().toUpperCase()); }, flush(done) { this.push("!"); done(); } });
    const out = [];
    await piped(Readable.from(["a", "b"]), upper, new PassThrough(), async function* (source) { for await (const piece of source) { out.push(piece.toString()); yield piece; } }).catch((error) => out.push(error.name));
    return out.length > 0;
  });
  await ask("pipeline that fails", () => new Promise((ok) => pipeline(new Readable({ read() { this.destroy(new Error("broken")); } }), new PassThrough(), (error) => ok(error.message))));
  await ask("objects", async () => { const seen = []; for await (const one of Readable.from([{ a: 1 }, 2, "x"])) seen.push(one); return seen; });
  return lines.map((line) => line.toWellFormed());
}
