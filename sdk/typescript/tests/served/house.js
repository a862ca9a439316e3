/**
 * A Backstop for tests: the real `backstop serve`, a scripted model, and people who answer.
 *
 * `BACKSTOP_TEST_PROGRAM` names the program; it is what `cargo test` built. Everything listens on this machine only.
 */

import { execFileSync, spawn } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";

const PROGRAM = process.env.BACKSTOP_TEST_PROGRAM ?? fileURLToPath(new URL("../../../../target/debug/backstop", import.meta.url));
export const DENIED = "web_search";
/** A call about which the guard asks. Nobody runs it: the tools of these tests note that they ran. */
export const ASKED = 'eval "$PLAN" || true; echo ran';
/** Looks like a token of GitHub and is none; put together here so that no scanner of this repository trips. */
export const TOKEN = ["ghp", "_", "aB3dE5fG7hJ9kL1m", "N2pQ4rS6tU8vW0xY2zA4"].join("");
const CONFIG = `
hooks:
  tool_call:
    pre_call:
      - { type: policy, config: { deny_tools: ["web_*", "mcp__*__web_*"] } }
    post_call:
      - { type: passthrough }
`;

export class House {
  #children = [];

  static async open() {
    const house = new House();
    house.home = mkdtempSync(join(tmpdir(), "backstop-"));
    mkdirSync(join(house.home, "config", "backstop"), { recursive: true });
    writeFileSync(join(house.home, "config", "backstop", "backstop.yaml"), CONFIG);
    house.url = await house.start("serve", "--port", "0");
    house.judge = await house.token("--agent", "bot", "--scope", "judge");
    house.person = await house.token("--user", "ann", "--scope", "approve", "--scope", "read");
    return house;
  }

  #options() {
    const env = {
      PATH: "/usr/local/bin:/usr/bin:/bin",
      HOME: this.home,
      XDG_CONFIG_HOME: join(this.home, "config"),
      XDG_DATA_HOME: join(this.home, "data"),
    };
    return { cwd: this.home, env, stdio: ["ignore", "pipe", "ignore"] };
  }

  /** Starts a part of the program that prints its address, and returns that. */
  async start(...args) {
    const child = spawn(PROGRAM, args, this.#options());
    this.#children.push(child);
    for await (const line of createInterface({ input: child.stdout })) {
      // What `serve` prints is for models, and has a token in its path.
      return new URL(line).origin;
    }
    throw new Error(`${args} did not start`);
  }

  /** Makes an access token, and waits until the server knows it. */
  async token(...args) {
    const token = execFileSync(PROGRAM, ["token", "create", ...args], this.#options()).toString().trim();
    await until(async () => (await this.ask("GET", "openapi.json", undefined, token)).status === 200);
    return token;
  }

  /** Ends the server, and whatever else was started. */
  async stop() {
    const gone = this.#children.map((child) => child.exitCode ?? child.signalCode ?? new Promise((end) => child.on("exit", end)));
    this.#children.forEach((child) => child.kill("SIGKILL"));
    await Promise.all(gone);
  }

  async close() {
    await this.stop();
    rmSync(this.home, { recursive: true });
  }

  /** Asks the API, without the client that is tested. */
  async ask(method, path, body, token = this.person) {
    const headers = { authorization: `Bearer ${token}`, ...(body && { "content-type": "application/json" }) };
    const response = await fetch(`${this.url}/-/v1/${path}`, { method, headers, body: body && JSON.stringify(body) });
    const text = await response.text();
    return { status: response.status, body: text ? JSON.parse(text) : undefined };
  }

  async questions() {
    return (await this.ask("GET", "approvals")).body.approvals;
  }

  /** Waits for the one question that there is, and answers it. Returns the question. */
  async answer(decision, more = {}) {
    const [question] = await until(async () => {
      const all = await this.questions();
      return all.length > 0 && all;
    });
    const { status } = await this.ask("POST", `approvals/${question.id}/answer`, { decision, digest: question.digest, ...more });
    if (status !== 200) {
      throw new Error(`the answer was refused: ${status}`);
    }
    return question;
  }
}

/** Passes requests on to the scripted model, and keeps what the model was sent. */
export async function recorder(model) {
  const received = [];
  const server = createServer(async (request, response) => {
    let body = "";
    for await (const piece of request) {
      body += piece;
    }
    received.push(body);
    const headers = { "content-type": "application/json", authorization: "Bearer client-key" };
    const answer = await fetch(model + request.url, { method: "POST", headers, body });
    response.writeHead(answer.status, { "content-type": answer.headers.get("content-type") });
    response.end(await answer.text());
  });
  await new Promise((listening) => server.listen(0, "127.0.0.1", listening));
  const close = () => {
    server.closeAllConnections();
    server.close();
  };
  return { received, url: `http://127.0.0.1:${server.address().port}`, close };
}

/** Waits until something is true, and returns it. */
export async function until(holds) {
  for (let left = 3000; left > 0; left--) {
    const value = await holds();
    if (value) {
      return value;
    }
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
  throw new Error("it did not become true within a minute");
}
