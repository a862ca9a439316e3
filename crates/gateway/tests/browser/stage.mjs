// What the scenes have in common: the browser, and the words that are said to the program that started this one.

import { once } from "node:events";
import { existsSync } from "node:fs";
import { delimiter, join } from "node:path";
import { createInterface } from "node:readline";
import { chromium } from "playwright-core";

const replies = createInterface({ input: process.stdin })[Symbol.asyncIterator]();

/** Has something done there, and returns what comes of it. */
export async function tell(what, said = null) {
  process.stdout.write(`> ${what} ${JSON.stringify(said)}\n`);
  return JSON.parse((await replies.next()).value);
}

export const ROOT = `http://127.0.0.1:${process.env.CONSOLE}/-/console`;
export const { ANN, BOB, ADMIN, CAT } = process.env;

function browserPath() {
  const folders = process.env.PATH.split(delimiter);
  const found = folders.map((folder) => join(folder, "chromium")).find(existsSync);
  if (!found) throw new Error("there is no `chromium`; on Debian install the package of that name");
  return found;
}

export const browser = await chromium.launch({ executablePath: browserPath() });

const scriptless = new WeakSet();

/** What no page may do: break its policy, or fail. */
export const troubles = [];

/** A person with a browser of their own. */
export async function person(token, options = {}) {
  const context = await browser.newContext(options);
  const page = await context.newPage();
  page.on("pageerror", (error) => troubles.push(`${page.url()}: ${error}`));
  page.on("console", (message) => {
    if (/Content Security Policy|Refused to|requires 'Trusted/.test(message.text())) troubles.push(`${page.url()}: ${message.text()}`);
  });
  page.on("dialog", (dialog) => {
    troubles.push(`${page.url()}: a dialog: ${dialog.message()}`);
    return dialog.dismiss();
  });
  if (options.javaScriptEnabled === false) scriptless.add(page);
  if (token) await signIn(page, token);
  return page;
}

export async function signIn(page, token) {
  await page.goto(`${ROOT}/approvals`);
  await page.fill("#token", token);
  await page.click("button.primary");
  if (scriptless.has(page)) {
    // What the browser asks for is given by the driver.
    await page.context().setHTTPCredentials({ username: "console", password: await page.textContent("#key") });
    await page.getByRole("link", { name: "Go on" }).click();
  }
  await page.waitForSelector("#queue");
}

/** The address of a page, by the name that this browser has for the console. */
export const at = (page, path) => `${new URL(page.url()).origin}/-/console${path}`;

export function is(value, wanted, what) {
  const [one, other] = [JSON.stringify(value), JSON.stringify(wanted)];
  if (one !== other) throw new Error(`${what ?? "value"}: ${one}, and not ${other}`);
}

export function holds(condition, what) {
  if (!condition) throw new Error(`it does not hold: ${what}`);
}

/** Plays a scene, and ends. */
export async function play(scenes, name) {
  try {
    await scenes[name]();
    is(troubles, [], "troubles of pages");
  } finally {
    await browser.close();
  }
  process.stdout.end();
  await once(process.stdout, "finish");
  process.exit(0);
}
