/** The client of the decision API, against the real `backstop serve`. */

import assert from "node:assert/strict";
import { createServer as createHttpServer } from "node:http";
import { createServer } from "node:net";
import { after, before, test } from "node:test";

import { Client, Conflict, InvalidRequest, NotAllowed, NotFound, Refused, Responded, ToolFailed, Unavailable } from "../../src/client.js";
import { ASKED, DENIED, House, TOKEN, until } from "./house.js";

let house, client;

before(async () => {
  house = await House.open();
  client = new Client({ url: house.url, token: house.judge, context: { sessionId: "s-1", runId: "r-1" } });
});
after(() => house.close());

const note = (ran) => (params) => (ran.push(params), "done");

test("what may run runs with the arguments that were judged", async () => {
  const ran = [];
  const params = { path: "notes.txt", lines: [1, 2.5, null, "ü"] };
  assert.equal(await client.run("read", params, note(ran)), "done");
  assert.deepEqual(ran, [params]);
});

test("what is denied does not run and says why", async () => {
  const ran = [];
  await assert.rejects(client.run(DENIED, { query: "weather" }, note(ran)), (error) => {
    assert.ok(error instanceof Refused && !error.unavailable && error.message === error.reason);
    assert.equal(error.hook, "hooks.tool_call.pre_call[0]");
    return error.reason.includes(DENIED);
  });
  assert.deepEqual(ran, []);
});

test("who is asked about waits and goes on after the answer", async () => {
  for (const [decision, expected] of [["allow-once", [{ command: ASKED }]], ["deny", []]]) {
    const ran = [];
    const running = client.run("exec", { command: ASKED }, note(ran)).catch((error) => error);
    await until(async () => (await house.questions()).length > 0);
    assert.deepEqual(ran, []);
    assert.equal((await house.answer(decision)).agent, "bot");
    assert.equal((await running) instanceof Refused, decision === "deny");
    assert.deepEqual(ran, expected);
  }
});

test("a call that a person changed runs as they changed it", async () => {
  const ran = [];
  const running = client.run("exec", { command: ASKED }, note(ran));
  await until(async () => (await house.questions()).length > 0);
  await house.answer("edit", { arguments: { command: "echo other" } });
  await running;
  assert.deepEqual(ran, [{ command: "echo other" }]);
});

test("a result that a person gave is judged, and the tool does not run", async () => {
  const ran = [];
  const running = client.run("exec", { command: ASKED }, note(ran));
  await until(async () => (await house.questions()).length > 0);
  const question = await house.answer("respond", { result: `key ${TOKEN}` });
  assert.deepEqual([...question.substitutes].sort(), ["edit", "respond"]);
  assert.equal(await running, "key [redacted:github_token]");
  assert.deepEqual(ran, []);
  const taking = client.permit("exec", { command: ASKED }, { takesResult: true });
  const thrown = assert.rejects(taking, (error) => error instanceof Responded && error instanceof Refused && error.result === "by hand");
  await until(async () => (await house.questions()).length > 0);
  await house.answer("respond", { result: "by hand" });
  await thrown;
  // Whoever does not say so is not given one.
  const [, plain] = await Promise.all([client.permit("exec", { command: ASKED }), house.answer("allow-once")]);
  assert.deepEqual(plain.substitutes, ["edit"]);
});

test("who loses patience, or gives up, leaves no question", async () => {
  await assert.rejects(client.permit("exec", { command: ASKED }, { patienceMs: 500 }), Refused);
  await until(async () => (await house.questions()).length === 0);
  const giving = new AbortController();
  const waiting = client.permit("exec", { command: ASKED }, { signal: giving.signal });
  await until(async () => (await house.questions()).length > 0);
  giving.abort();
  await assert.rejects(waiting, { name: "AbortError" });
  await until(async () => (await house.questions()).length === 0);
});

test("a question can be waited for later or given up", async () => {
  const event = { toolName: "exec", params: { command: ASKED } };
  const pending = await client.submit("before_tool_call", event);
  assert.ok(pending.isPending && !pending.mayHappen && pending.params === undefined);
  const [decided] = await Promise.all([client.wait(pending), house.answer("allow-once")]);
  assert.deepEqual([decided.verdict, decided.params], ["allow", { command: ASKED }]);
  // That it may run is told once.
  await assert.rejects(client.wait(pending), Conflict);
  const givenUp = await client.submit("before_tool_call", event);
  await client.cancel(givenUp);
  await until(async () => (await house.questions()).length === 0);
  await assert.rejects(client.wait(givenUp), (error) => error instanceof NotFound && error.kind === "decision");
});

test("a result is judged before the model reads it", async () => {
  for (const value of [`key ${TOKEN}`, { keys: [TOKEN] }, [{ type: "text", text: TOKEN }]]) {
    const told = await client.run("read", { path: "keys" }, () => value);
    assert.ok(told.includes("[redacted:github_token]") && !told.includes(TOKEN), told);
  }
  // What is not changed stays what it is, unless it has a form that hooks do not see.
  const plain = { people: [1, null, "ü"] };
  assert.equal(await client.run("read", {}, () => plain), plain);
  assert.equal(await client.run("read", {}, () => undefined), undefined);
  const hides = { key: TOKEN, toJSON: () => "nothing to see" };
  assert.equal(await client.run("read", {}, () => hides), '"nothing to see"');
  assert.equal(await client.run("read", {}, () => new Map([["key", TOKEN]])), "{}");
});

test("what a tool throws is judged too", async () => {
  const fails = () => {
    throw new Error(`no entry for ${TOKEN}`);
  };
  // Nobody has judged what led to it.
  const told = (error) =>
    error instanceof ToolFailed && error.message === "Error: no entry for [redacted:github_token]" && error.cause === undefined;
  await assert.rejects(client.run("read", {}, fails), told);
});

test("what ran is reported, and a run can end", async () => {
  const context = { sessionId: "s-2", runId: "r-2" };
  await client.run("read", {}, () => "done", { context });
  const event = { toolName: "exec", params: { command: ASKED }, runId: "r-2" };
  const pending = await client.submit("before_tool_call", event, { context });
  await client.end("r-2", { context });
  assert.deepEqual(await house.questions(), []);
  assert.equal((await client.wait(pending)).mayHappen, false);
  const points = async () => {
    const { entries } = (await house.ask("GET", "audit?kind=receipt&limit=1000")).body;
    return entries.filter(({ run }) => run === "r-2").map(({ body }) => body.point);
  };
  for (const point of ["before_tool_call", "tool.after", "after_tool_call"]) {
    await until(async () => (await points()).includes(point));
  }
});

test("a call to which a person gave the result is not reported as one that ran", async () => {
  const context = { sessionId: "s-3", runId: "r-3" };
  const taking = client.permit("exec", { command: ASKED }, { context, takesResult: true });
  const thrown = assert.rejects(taking, Responded);
  await until(async () => (await house.questions()).length > 0);
  await house.answer("respond", { result: "by hand" });
  await thrown;
  const points = async () => {
    const { entries } = (await house.ask("GET", "audit?kind=receipt&limit=1000")).body;
    return entries.filter(({ run }) => run === "r-3").map(({ body }) => body.point);
  };
  for (const point of ["before_tool_call", "tool.after"]) {
    await until(async () => (await points()).includes(point));
  }
  assert.ok(!(await points()).includes("after_tool_call"));
});

test("a request with a key is judged once", async () => {
  const event = { toolName: "read", params: { path: "once" } };
  assert.equal((await client.judge("before_tool_call", event, { key: "a key" })).verdict, "allow");
  // A key permits nothing: that it may run is told once.
  const again = client.judge("before_tool_call", event, { key: "a key" });
  await assert.rejects(again, (error) => error instanceof Conflict && error.kind === "conflict");
  const asked = { toolName: "exec", params: { command: ASKED } };
  const [one, same] = [0, 1].map(() => client.submit("before_tool_call", asked, { key: "another" }));
  assert.deepEqual((await one).raw, (await same).raw);
  assert.ok((await one).isPending);
  await client.cancel(await one);
  const other = client.judge("before_tool_call", { ...event, params: {} }, { key: "a key" });
  await assert.rejects(other, (error) => error instanceof InvalidRequest && error.kind === "idempotency-key");
});

test("problems have types", async () => {
  const event = { toolName: "read", params: {} };
  const as = (token) => new Client({ url: house.url, token });
  for (const [asking, point, sent, Type, kind] of [
    [as("bst_0_0"), "before_tool_call", event, NotAllowed, "token"],
    [as(house.person), "before_tool_call", event, NotAllowed, "scope"],
    [client, "before_tool_cal", event, NotFound, "point"],
    [client, "../approvals", event, NotFound, "no-route"],
    [client, "before_tool_call", { toolName: "read" }, InvalidRequest, "body"],
    [client, "before_tool_call", { params: { x: 1n } }, InvalidRequest, "body"],
  ]) {
    await assert.rejects(asking.judge(point, sent), (error) => error instanceof Type && error.kind === kind);
  }
});

test("what is refused as a request runs on nobody's word", async () => {
  // It is the one who is judged who chooses how large a call is.
  const lenient = new Client({ url: house.url, token: house.judge, onFailure: "allow" });
  const stranger = new Client({ url: house.url, token: "bst_0_0", onFailure: "allow" });
  const ran = [];
  await assert.rejects(lenient.run("write", { text: "x".repeat(5 << 20) }, note(ran)), Refused);
  await assert.rejects(lenient.run("write", { x: 1n }, note(ran)), Refused);
  await assert.rejects(stranger.run("read", {}, note(ran)), Refused);
  assert.deepEqual(ran, []);
});

test("a token goes nowhere else", () => {
  for (const url of ["http://example.com", "ftp://127.0.0.1", "http://127.0.0.1@example.com", "http://127.0.0.1/t/x"]) {
    assert.throws(() => new Client({ url, token: "bst_0_0" }), TypeError);
  }
  for (const token of ["", "a b", "a\r\nb: c", "ü"]) {
    assert.throws(() => new Client({ url: house.url, token }), TypeError);
  }
  assert.ok(!JSON.stringify(client).includes("bst"));
});

test("a server that is gone lets nothing run", async () => {
  const other = await House.open();
  const options = { url: other.url, token: other.judge };
  const waiting = await new Client(options).submit("before_tool_call", { toolName: "exec", params: { command: ASKED } });
  await other.close();
  const ran = [];
  await assert.rejects(new Client(options).run("read", {}, note(ran)), (error) => error instanceof Refused && error.unavailable);
  assert.deepEqual(ran, []);
  await assert.rejects(new Client(options).wait(waiting), Unavailable);
  const lenient = new Client({ ...options, onFailure: "allow" });
  assert.equal(await lenient.run("read", { path: "x" }, note(ran)), "done");
  assert.deepEqual(ran, [{ path: "x" }]);
});

/** A server that says these, one for each connection; with `null` at their end, it listens no more after them. */
async function answering(...answers) {
  const received = [];
  const server = createServer((socket) => {
    socket.on("error", () => {});
    socket.once("data", (data) => {
      received.push(data.toString());
      const answer = answers.length > 1 ? answers.shift() : answers[0];
      if (answers[0] === null) {
        server.close();
      }
      socket.end(answer);
    });
  });
  await new Promise((listening) => server.listen(0, "127.0.0.1", listening));
  return { url: `http://127.0.0.1:${server.address().port}`, received, close: () => server.close() };
}

const reply = (status, body) => `HTTP/1.1 ${status} x\r\ncontent-length: ${body.length}\r\nconnection: close\r\n\r\n${body}`;

test("what is no answer of Backstop lets nothing run", async () => {
  const decided = { status: "decided", verdict: "allow" };
  for (const answer of [
    reply(200, "<html>"),
    reply(200, "[]"),
    reply(200, "{}"),
    reply(200, JSON.stringify(decided)),
    reply(200, JSON.stringify({ ...decided, params: "ls" })),
    reply(200, JSON.stringify({ ...decided, params: {}, verdict: "allowed" })),
    reply(200, JSON.stringify({ ...decided, params: {}, status: "done" })),
    reply(200, JSON.stringify({ status: "decided", verdict: "respond", result: "x" })),
    reply(204, ""),
    reply(302, ""),
    reply(418, ""),
    reply(500, "{}"),
    "no http",
  ]) {
    const server = await answering(answer);
    await assert.rejects(new Client({ url: server.url, token: "bst_0_0" }).permit("read", {}), Refused, answer);
    assert.ok(server.received.length > 0);
    server.close();
  }
});

test("only where nobody is there something passes unjudged", async () => {
  const pending = reply(202, JSON.stringify({ id: "d-1", status: "pending" }));
  const problems = [408, 429, 500, 503].map((status) => [reply(status, JSON.stringify({ type: "urn:backstop:problem:x" }))]);
  // Whoever is judged can bring these about. Nobody listens any more after the last answer.
  for (const answers of [...problems, ["no http"], ["", "", ""], [""], [pending], [pending, ""]]) {
    const server = await answering(...answers, null);
    const lenient = new Client({ url: server.url, token: "bst_0_0", onFailure: "allow" });
    await assert.rejects(lenient.permit("read", {}), (error) => error instanceof Refused && error.unavailable, answers.join());
    assert.ok(server.received.length > 0);
    server.close();
  }
  const sockets = [];
  const slow = createServer((socket) => sockets.push(socket));
  await new Promise((listening) => slow.listen(0, "127.0.0.1", listening));
  const options = { url: `http://127.0.0.1:${slow.address().port}`, token: "bst_0_0", onFailure: "allow" };
  await assert.rejects(new Client({ ...options, timeoutMs: 300 }).permit("read", {}), Refused);
  sockets.forEach((socket) => socket.destroy());
  await new Promise((closed) => slow.close(closed));
  assert.deepEqual((await new Client(options).permit("read", { x: 1 })).params, { x: 1 });
});

test("arguments that are more than plain data are not permitted", async () => {
  class Command {
    line = "ls";
  }
  const hidden = [new Map([["key", 1]]), new Set([1]), new Blob(["x"]), new Command(), { toJSON: () => "x" }, () => 1, NaN, [new Map()]];
  for (const value of hidden) {
    await assert.rejects(client.permit("read", { value }), Refused, String(value));
  }
  await assert.rejects(client.permit("read", new Map([["path", "x"]])), Refused);
  const params = { path: "x", none: undefined, at: new Date(0), many: [{ deep: null }] };
  assert.deepEqual((await client.permit("read", params)).params, { path: "x", at: "1970-01-01T00:00:00.000Z", many: [{ deep: null }] });
});

test("who gives up before the answer leaves no question", async () => {
  const giving = new AbortController();
  const received = [];
  const server = createHttpServer(async (request, response) => {
    received.push(`${request.method} ${request.url}`);
    if (request.method === "POST") {
      giving.abort();
      await assert.rejects(asking, { name: "AbortError" });
      response.writeHead(202);
      return response.end(JSON.stringify({ id: "d-1", status: "pending" }));
    }
    response.writeHead(204);
    response.end();
  });
  await new Promise((listening) => server.listen(0, "127.0.0.1", listening));
  const url = `http://127.0.0.1:${server.address().port}`;
  const asking = new Client({ url, token: "bst_0_0" }).permit("read", {}, { signal: giving.signal });
  await assert.rejects(asking, { name: "AbortError" });
  await until(() => received.length === 2);
  assert.deepEqual(received, ["POST /-/v1/hooks/before_tool_call", "DELETE /-/v1/decisions/d-1"]);
  server.closeAllConnections();
  server.close();
});

test("a connection that breaks is no second request", async () => {
  const whole = reply(200, JSON.stringify({ status: "decided", verdict: "allow", params: {} }));
  const server = await answering("", whole);
  await new Client({ url: server.url, token: "bst_0_0" }).permit("read", {});
  const keys = server.received.map((text) => /idempotency-key: (.*)\r/i.exec(text)[1]);
  assert.equal(keys.length, 2);
  assert.equal(new Set(keys).size, 1);
  server.close();
});

test("a permit that was lost is asked for anew", async () => {
  const told = reply(409, JSON.stringify({ type: "urn:backstop:problem:conflict", detail: "told before" }));
  const whole = reply(200, JSON.stringify({ status: "decided", verdict: "allow", params: {} }));
  const server = await answering("", told, whole);
  await new Client({ url: server.url, token: "bst_0_0" }).permit("read", {});
  const keys = server.received.map((text) => /idempotency-key: (.*)\r/i.exec(text)[1]);
  assert.deepEqual([keys.length, keys[0] === keys[1], keys[1] === keys[2]], [3, true, false]);
  server.close();
  // Not without a connection that broke, not twice, and not by the key of whoever asks.
  for (const [answers, key] of [[[told], undefined], [["", told, told], undefined], [["", told], "k"]]) {
    const server = await answering(...answers);
    const asking = new Client({ url: server.url, token: "bst_0_0" }).judge("before_tool_call", { toolName: "read", params: {} }, { key });
    await assert.rejects(asking, (error) => error instanceof Conflict && error.kind === "conflict");
    assert.equal(server.received.length, answers.length);
    server.close();
  }
});

test("a server that says nothing is waited for within bounds", async () => {
  const server = createServer(() => {});
  await new Promise((listening) => server.listen(0, "127.0.0.1", listening));
  const url = `http://127.0.0.1:${server.address().port}`;
  const asking = new Client({ url, token: "bst_0_0", timeoutMs: 300 }).permit("read", {});
  await assert.rejects(asking, (error) => error.cause instanceof Unavailable);
  server.close();
});
