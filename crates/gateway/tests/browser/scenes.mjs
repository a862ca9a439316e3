// Scenes in a browser, by the names that the tests have for them.

import { once } from "node:events";
import { createServer, get } from "node:http";
import axe from "axe-core";
import { ADMIN, ANN, BOB, CAT, ROOT, at, holds, is, person, play, signIn, tell } from "./stage.mjs";

const WAIT = { timeout: 20_000 };
const status = async (id) => (await tell("state", id)).status;

async function answering() {
  const page = await person();
  await page.goto(ROOT);
  holds(/^http:\/\/console-[0-9a-f]{32}\.localhost:/.test(page.url()), `a name of its own: ${page.url()}`);
  await page.fill("#token", "wrong");
  await page.click("button.primary");
  await page.waitForSelector("[role=alert]");
  await signIn(page, ANN);
  holds(await page.getByText("Nothing waits").isVisible(), "an empty queue");
  const [first, second] = [await tell("ask"), await tell("ask", { critical: true, title: "a grave one" })];
  // Both come in without a reload.
  await page.waitForFunction(() => document.querySelectorAll("#queue li.row").length === 2, null, WAIT);
  is(await page.textContent("#waiting"), "2");
  holds((await page.title()).startsWith("(2) "), "the title counts");
  await page.keyboard.press("j");
  is(await page.evaluate(() => document.activeElement.textContent), "a grave one", "what is grave comes first");
  await page.keyboard.press("j");
  await page.keyboard.press("Enter");
  await page.waitForURL(new RegExp(first));
  holds((await page.textContent("#call")).includes("marker 1"), "the exact call");
  holds(/left/.test(await page.textContent("time.countdown")), "a clock");
  await page.keyboard.press("a");
  holds(await page.evaluate(() => document.activeElement.dataset.key === "a"), "a key leads to the button");
  await page.keyboard.press("Enter");
  await page.waitForSelector("#state [data-is=allowed]");
  is((await tell("state", first)).by.split(" (")[0], "ann: ann, by the console");
  await page.click("#next");
  await page.waitForURL(new RegExp(second));
  await page.keyboard.press("d");
  await page.keyboard.type("use the other one");
  await page.keyboard.press("Enter");
  await page.waitForSelector("#state [data-is=denied]");
  is((await tell("state", second)).word, "use the other one");
  // From now on, and revoked.
  const third = await tell("ask");
  await page.goto(at(page, `/approvals/${third}`));
  await page.click("summary");
  await page.check("#scope-rule");
  await page.fill("#times", "2");
  await page.click("details button.allow");
  await page.waitForSelector("#state [data-is=allowed]");
  is(await tell("grants"), 1);
  await page.goto(at(page, "/policy"));
  await page.getByRole("button", { name: /^Revoke/ }).click();
  await page.waitForSelector("p.done");
  // What is shown in part is allowed once all of it was shown.
  const large = await tell("ask", { whole: true, arguments: { command: "x".repeat(20_000) } });
  await page.goto(at(page, `/approvals/${large}`));
  is(await page.getByRole("button", { name: "Allow once" }).count(), 0);
  await page.getByRole("button", { name: "Show all of it" }).click();
  await page.getByRole("button", { name: "Allow once" }).waitFor();
  holds((await page.textContent("#call")).length > 20_000, "all of it");
  // Several of a kind.
  const alike = [large, await tell("ask"), await tell("ask")];
  await page.goto(at(page, `/approvals/${large}`));
  for (const box of await page.locator("input[name=which]").all()) await box.check();
  await page.getByRole("button", { name: "Allow once what is ticked" }).click();
  await page.waitForURL(/allowed=2/);
  is(await Promise.all(alike.slice(1).map(status)), ["allowed", "allowed"]);
  is(await status(large), "pending");
  await page.keyboard.press("?");
  holds(await page.locator("#keys").isVisible(), "the keys");
  await page.keyboard.press("Escape");
  await page.locator("#keys").waitFor({ state: "hidden" });
  // The browser gives the focus back a moment later.
  await page.waitForFunction(() => !document.activeElement.closest("dialog"), null, WAIT);
  await page.keyboard.press("/");
  await page.waitForFunction(() => document.activeElement.id === "filter", null, WAIT);
  await page.keyboard.type("no such question");
  is(await page.locator("#queue li.row:visible").count(), 0);
  await page.getByRole("button", { name: "Sign out" }).click();
  await page.waitForSelector("#token");
  await page.goto(at(page, "/approvals"));
  await page.waitForSelector("#token");
}

/** That something waits is told to whoever wants to be told and looks elsewhere. */
async function notified() {
  const page = await person();
  await page.addInitScript(() => {
    window.shown = [];
    window.Notification = class extends EventTarget {
      static permission = localStorage.getItem("granted") ?? "default";
      static requestPermission() {
        localStorage.setItem("granted", "granted");
        return Promise.resolve((this.permission = "granted"));
      }
      constructor(title, options) {
        super();
        window.shown.push({ title, ...options });
        window.last = this;
      }
    };
    Document.prototype.hasFocus = () => Boolean(window.looks);
  });
  await signIn(page, ANN);
  const pressed = () => page.getAttribute("#notify", "aria-pressed");
  const shown = () => page.evaluate(() => window.shown);
  const asked = async (title) => {
    const before = await page.locator("#queue li.row").count();
    await tell("ask", { title });
    await page.waitForFunction((count) => document.querySelectorAll("#queue li.row").length === count + 1, before, WAIT);
  };
  is(await pressed(), "false");
  await asked("the first secret plan");
  is(await shown(), [], "nobody asked for it");
  await page.click("#notify");
  await page.waitForFunction(() => document.querySelector("#notify").ariaPressed === "true", null, WAIT);
  await asked("the second secret plan");
  is(await shown(), [{ title: "Backstop", body: "2 questions wait.", tag: "backstop" }], "and not what it is");
  await page.evaluate(() => { window.looks = true; });
  await asked("the third secret plan");
  is((await shown()).length, 1, "whoever looks sees it");
  // It is remembered, and leads to the questions.
  await page.goto(at(page, "/live"));
  await page.waitForFunction(() => document.querySelector("#waiting").textContent === "3", null, WAIT);
  await tell("ask");
  await page.waitForFunction(() => window.shown.length === 1, null, WAIT);
  await page.evaluate(() => window.last.dispatchEvent(new Event("click")));
  await page.waitForURL(/approvals$/);
  is(await pressed(), "true");
  await oneOfManyTells(page);
  await page.click("#notify");
  is(await pressed(), "false");
}

/** Pages in the background keep no page from coming, and one of them tells. */
async function oneOfManyTells(page) {
  const [queue, policy] = [at(page, "/approvals"), at(page, "/policy")];
  const context = page.context();
  const behind = () => {
    Object.defineProperty(document, "hidden", { get: () => !window.looksHere });
    Document.prototype.hasFocus = () => false;
    window.streams = [];
    window.shown = [];
    window.Notification = class extends EventTarget {
      static permission = "granted";
      constructor(title) {
        super();
        window.shown.push(title);
      }
    };
    const Stream = window.EventSource;
    window.EventSource = class extends Stream {
      constructor(address) {
        super(address);
        window.streams.push(this);
      }
    };
  };
  const pages = [];
  for (let number = 0; number < 8; number += 1) {
    const next = await context.newPage();
    await next.addInitScript(behind);
    // The first in the background is told nothing, and must not stand in the others' way.
    await next.goto(number === 0 ? policy : queue, WAIT);
    pages.push(next);
  }
  const open = () => Promise.all(pages.map((one) => one.evaluate(() => window.streams.filter((stream) => stream.readyState !== 2).length)));
  const until = async (expected) => {
    const [end, wanted] = [Date.now() + WAIT.timeout, JSON.stringify(expected)];
    let found = "";
    while (found !== wanted && Date.now() < end) {
      found = JSON.stringify(await open());
      await new Promise((done) => setTimeout(done, 50));
    }
    is(found, wanted);
  };
  await until([0, 1, 0, 0, 0, 0, 0, 0]);
  // No frame is drawn in the background, so these waits are by the clock.
  const behindIt = { ...WAIT, polling: 50 };
  await pages.shift().close();
  await pages[0].waitForFunction(() => document.querySelector("#waiting").textContent !== "", null, behindIt);
  await tell("ask");
  await pages[0].waitForFunction(() => window.shown.length === 1, null, behindIt);
  // Another one takes its place.
  await pages.shift().close();
  await until([1, 0, 0, 0, 0, 0]);
  // Whoever looks at a page has a stream there, and the next in line tells.
  await pages[0].evaluate(() => {
    window.looksHere = true;
    document.dispatchEvent(new Event("visibilitychange"));
  });
  await until([1, 1, 0, 0, 0, 0]);
  // A page whose session has ended tells nobody, and leaves it to the next.
  await pages[1].evaluate(() => window.streams.at(-1).dispatchEvent(new Event("over")));
  await until([1, 0, 1, 0, 0, 0]);
  await Promise.all(pages.map((one) => one.close()));
  await page.bringToFront();
}

/** What a program sees that opens another port by the console's name. */
async function port() {
  const page = await person(ANN);
  const seen = [];
  const thief = createServer((request, response) => {
    seen.push(request.headers);
    response.writeHead(request.url.includes("challenge") ? 401 : 200, { "www-authenticate": 'Basic realm="Backstop console"' });
    response.end();
  });
  await once(thief.listen(0, "127.0.0.1"), "listening");
  const other = new URL(page.url());
  other.port = thief.address().port;
  for (const path of ["/approvals", "/key", "/challenge"]) await page.goto(`${other.origin}/-/console${path}`).catch(() => {});
  const cookies = seen.filter((headers) => headers.cookie?.startsWith("backstop="));
  holds(cookies.length > 0, "browsers send cookies to every port, which is why there is a key");
  is(seen.filter((headers) => headers.authorization), [], "the key is for one port");
  const stolen = { cookie: cookies[0].cookie, host: other.hostname };
  const [got] = await once(get(`${ROOT}/approvals`, { headers: stolen }), "response");
  is(got.statusCode, 401, "what the thief has");
  got.resume();
  thief.closeAllConnections();
  thief.close();
  // The browser's own page about the challenge that nobody took comes when it likes, and would interrupt what is opened next.
  await page.waitForTimeout(500);
  await page.goto("about:blank").catch(() => {});
  // The person goes on, in a page of the old kind and in a new one.
  await page.goto(`${ROOT.replace("127.0.0.1", other.hostname)}/approvals`);
  await page.waitForSelector("#queue");
  const next = await page.context().newPage();
  await next.goto(at(page, "/policy"));
  await next.waitForSelector("#hooks-title");
  // Signed out and in again, with another key.
  await page.getByRole("button", { name: "Sign out" }).click();
  await page.waitForSelector("#token");
  await page.fill("#token", ANN);
  await page.click("button.primary");
  await page.waitForSelector("#queue");
}

async function two() {
  const [ann, bob] = [await person(ANN), await person(BOB)];
  const id = await tell("ask");
  const address = `/approvals/${id}`;
  await Promise.all([ann.goto(at(ann, address)), bob.goto(at(bob, address))]);
  await ann.getByRole("button", { name: "Allow once" }).click();
  await ann.waitForSelector("#state [data-is=allowed]");
  // The other one sees it without doing anything, and has nothing left to answer.
  await bob.waitForSelector("#state [data-is=allowed]", WAIT);
  holds((await bob.textContent("#state")).includes("by ann: ann, by the console"), "who was first");
  is(await bob.locator(".answers").count(), 0);
  // At the same moment: one of them counts, and both see which.
  const both = await tell("ask");
  await Promise.all([ann, bob].map((page) => page.goto(at(page, `/approvals/${both}`))));
  await Promise.all([
    ann.getByRole("button", { name: "Allow once" }).click(),
    bob.getByRole("button", { name: "Deny", exact: true }).click(),
  ]);
  const state = await tell("state", both);
  for (const page of [ann, bob]) {
    await page.waitForFunction((by) => document.querySelector("#state").textContent.includes(by), state.by, WAIT);
  }
  // Where two must allow, the other one sees the vote on the page that is open, and can still answer.
  const votes = await tell("ask", { votes: 2 });
  await Promise.all([ann, bob].map((page) => page.goto(at(page, `/approvals/${votes}`))));
  holds((await bob.textContent("#standing")).startsWith("0 of 2: waiting for ann or bob"), "nobody has voted");
  await bob.getByText("Connected").waitFor();
  await ann.getByRole("button", { name: "Allow once" }).click();
  await bob.waitForFunction(() => document.querySelector("#standing").textContent === "1 of 2: ann allowed it; waiting for bob", null, WAIT);
  await bob.getByRole("button", { name: "Allow once" }).click();
  for (const page of [ann, bob]) await page.waitForSelector("#state [data-is=allowed]", WAIT);
  is((await tell("state", votes)).by, "ann and bob");
}

/** Something in the place of the call, and what the page says of it afterwards. */
async function editing() {
  const [ann, bob] = [await person(ANN), await person(BOB, { javaScriptEnabled: false })];
  const plain = await tell("ask");
  await ann.goto(at(ann, `/approvals/${plain}`));
  is(await ann.locator("#edit, #respond").count(), 0, "nothing is offered that whoever asks can't take");
  const secret = "a\u202eb";
  const id = await tell("ask", { substitutes: true, arguments: { command: "marker one", cwd: "/p", note: secret } });
  await Promise.all([ann, bob].map((page) => page.goto(at(page, `/approvals/${id}`))));
  await ann.getByText("Change the call").click();
  const written = await ann.inputValue("#edit-arguments");
  is(JSON.parse(written), { command: "marker one", cwd: "/p", note: secret }, "the exact arguments");
  holds(!written.includes(secret), "what can't be seen is spelled out");
  for (const [wrong, why] of [["{", "this is no JSON"], ["[]", "one JSON object"]]) {
    await ann.fill("#edit-arguments", wrong);
    await ann.getByRole("button", { name: "Run the changed call" }).click();
    holds((await ann.textContent("[role=alert]")).includes(why), why);
    await ann.getByText("Change the call").click();
  }
  await ann.fill("#edit-arguments", written.replace("marker one", "marker two <b>"));
  await ann.getByRole("button", { name: "Run the changed call" }).click();
  await ann.waitForSelector("#state [data-is=edited]");
  holds(!(await ann.content()).includes("marker two"), "what was typed is shown to nobody");
  is(await tell("state", id).then(({ given }) => given.edit.arguments.command), "marker two <b>");
  is(await ann.locator(".answers").count(), 0, "nothing is left to answer");
  // Whoever answers all the same is told who was first.
  await bob.getByRole("button", { name: "Allow once", exact: true }).click();
  const told = await bob.textContent("[role=alert]");
  holds(told.includes("ann, by the console") && told.includes("was first and changed the call"), told);
  // A result.
  const other = await tell("ask", { substitutes: true });
  await ann.goto(at(ann, `/approvals/${other}`));
  await ann.getByText("Give the result").click();
  await ann.fill("#respond-result", "three files\nand a folder");
  await ann.getByRole("button", { name: "Answer with this" }).click();
  await ann.waitForSelector("#state [data-is=responded]");
  holds(!(await ann.content()).includes("three files"), "what was typed is shown to nobody");
  is((await tell("state", other)).given.respond.result, "three files\nand a folder");
  // The question about a changed call says of which one it came.
  const child = await tell("ask", { from: id, arguments: { command: "after" } });
  await ann.goto(at(ann, `/approvals/${child}`));
  holds((await ann.textContent("#diff")).includes('"before"'), "before and after");
  await ann.getByRole("link", { name: "another call" }).click();
  await ann.waitForURL(new RegExp(id));
}

async function scriptless() {
  const page = await person(ANN, { javaScriptEnabled: false });
  const [id, late] = [await tell("ask"), await tell("ask")];
  await page.goto(at(page, "/approvals"));
  await page.locator(".first a").first().click();
  await page.fill("#deny-word", "not now");
  await page.getByRole("button", { name: "Deny", exact: true }).click();
  await page.waitForSelector("#state [data-is=denied]");
  is(await tell("state", id).then(({ status, word }) => [status, word]), ["denied", "not now"]);
  // Somebody was first: said on the page.
  const other = await person(BOB, { javaScriptEnabled: false });
  for (const one of [page, other]) await one.goto(at(one, `/approvals/${late}`));
  await page.getByRole("button", { name: "Allow once" }).click();
  await page.waitForSelector("#state [data-is=allowed]");
  await other.getByRole("button", { name: "Deny", exact: true }).click();
  await other.waitForSelector("[role=alert]");
  holds((await other.textContent("[role=alert]")).includes("was first and allowed it"), "who was first");
  is(await status(late), "allowed");
  const ticked = await tell("ask");
  await page.goto(at(page, "/approvals"));
  await page.locator("input[name=deny]").first().check();
  await page.getByRole("button", { name: "Deny what is ticked" }).click();
  await page.waitForURL(/denied=1/);
  is(await status(ticked), "denied");
}

async function restart() {
  const page = await person(ANN);
  const id = await tell("ask");
  await page.goto(at(page, `/approvals/${id}`));
  await page.getByText("Connected").waitFor();
  await tell("restart");
  await page.getByText("Signed out").waitFor(WAIT);
  await page.locator("#connection a").click();
  await page.fill("#token", ANN);
  await page.click("button.primary");
  await page.waitForURL(new RegExp(id));
  await page.getByRole("button", { name: "Allow once" }).click();
  await page.waitForSelector("#state [data-is=allowed]");
  // A form of the old session decides nothing.
  const old = await person(BOB);
  const other = await tell("ask");
  await old.goto(at(old, `/approvals/${other}`));
  await tell("restart");
  await old.getByRole("button", { name: "Allow once" }).click();
  await old.waitForSelector("#token");
  is(await status(other), "pending");
}

const HOSTILE = [
  `<img src=x onerror="window.hit=1"><script>window.hit=1</script>`,
  `"><svg onload=window.hit=1> ' onfocus=window.hit=1 autofocus`,
  `\u202egnp.exe\u2066 \u200b\u0000\u001b[2J\u2028 \u3164`,
  "w".repeat(5_000),
  `javascript:window.hit=1`,
  `</title></textarea></style><base href=//evil.example>`,
];

/** What no page may do, whatever stands on it. */
async function harmless(page, what) {
  const seen = await page.evaluate(() => {
    // What somebody typed stays in its field as it is.
    const typed = [...document.querySelectorAll("#command, #arguments, #other")].map((field) => field.textContent);
    const text = typed.reduce((all, one) => all.replace(one, ""), document.body.textContent);
    return {
      hit: window.hit ?? 0,
      foreign: document.querySelectorAll("main img, main svg, main script, main base, main iframe, main [onfocus], main [onclick]").length,
      unseen: /[\u0000-\u0008\u000b-\u001f\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164]/.test(text),
      width: document.documentElement.scrollWidth - document.documentElement.clientWidth,
    };
  });
  is(seen, { hit: 0, foreign: 0, unseen: false, width: 0 }, what);
}

const NARROW = { viewport: { width: 390, height: 800 } };

async function hostile() {
  const page = await person(ANN, NARROW);
  await page.addInitScript(() => { window.hit = 0; });
  for (const text of HOSTILE) {
    const id = await tell("ask", { title: text, tool: text, everywhere: text, substitutes: true, from: "one", arguments: { [text]: text } });
    const answered = await tell("ask", { title: text, everywhere: text });
    await tell("answer", { id: answered, by: text, deny: true });
    await tell("ask", { title: text, everywhere: text, refused: true });
    await tell("pass", { receipt: {
      point: text, verdict: text, tool: text, calledAs: text, agentId: text, sessionId: text, runId: text, toolCallId: text,
      workspace: text, host: text, client: text, requester: { senderId: text, channel: text }, approval: { resolution: text, rules: [text] },
      blocked: { hook: text, reason: { rules: [text] } }, steps: [{ hook: text, said: "rewrote", spans: [{ kind: text, replaced: 1 }] }],
    } });
    // The same id is a session that is kept, and one that the trail alone knows of stands beside it.
    await tell("pass", { receipt: { agentId: text, sessionId: `${text} other`, host: text } });
    await tell("session", { id: text, text });
    await tell("grant", text);
    await tell("budget", text);
    const session = encodeURIComponent(text);
    // Of a long id the trail has the beginning and a digest, and no address is as long as that.
    const isShort = text.length < 1_000;
    const search = isShort ? `text=${session}&rule=${session}` : `text=${session}`;
    for (const path of [`/approvals/${id}`, `/approvals/${answered}`, "/approvals", "/live", "/audit", "/policy", "/sessions", "/money", `/sessions/one?id=${session}`, `/audit?${search}`]) {
      await page.goto(at(page, path));
      if (path === "/live") {
        await page.waitForSelector("#live tr", WAIT);
        await page.locator("#live button").first().click();
        await page.locator("#details[open]").waitFor();
      }
      if (path.startsWith("/sessions/one") && isShort) is(await page.locator("[id^=message-]").count(), 4, "what was said is there");
      await harmless(page, `${path} with ${text.slice(0, 40)}`);
    }
  }
}

/** Hostile names of people, of what they vote on, and of what they try. */
async function named() {
  const [page, admin] = [await person(ANN, NARROW), await person(ADMIN, NARROW)];
  const votes = await tell("ask", { votes: 2, everywhere: HOSTILE[0] });
  for (const user of ["eve", ...HOSTILE]) {
    const other = await person(await tell("token", user), NARROW);
    const id = user === "eve" ? votes : await tell("ask");
    await other.goto(at(other, `/approvals/${id}`));
    await harmless(other, `the page of ${user.slice(0, 40)}`);
    await other.getByRole("button", { name: "Allow once" }).click();
    const answered = ([isVote]) => isVote ? document.querySelector("#standing")?.textContent.startsWith("1 of 2") : document.querySelector("#state [data-is=allowed]");
    await other.waitForFunction(answered, [user === "eve"], WAIT);
    await page.goto(at(page, `/approvals/${id}`));
    await harmless(page, `what ${user.slice(0, 40)} answered`);
    await other.context().close();
  }
  await page.goto(at(page, `/approvals/${votes}`));
  holds((await page.textContent("#standing")).startsWith("1 of 2: <b onclick"), "who voted");
  await admin.goto(at(admin, "/policy"));
  is(await admin.locator("section[aria-labelledby=exceptions-title] li.row").count(), 2, "exceptions are shown to an admin");
  await harmless(admin, "what is excepted from the guards");
  for (const text of HOSTILE.flatMap((text) => [text, `wrong ${text}`])) {
    await admin.goto(at(admin, "/try"));
    await admin.fill("#command", text);
    await admin.fill("#other", text);
    // A token tries one call a second.
    await admin.waitForTimeout(1_100);
    await admin.getByRole("button", { name: "Judge it" }).click();
    await admin.waitForSelector("#compared-title, #problems-title", WAIT);
    await harmless(admin, `the comparison with ${text.slice(0, 40)}`);
  }
}

async function many() {
  await tell("ask-many", 10_000);
  const page = await person(ANN);
  is(await page.locator("#queue li.row").count(), 100);
  holds((await page.textContent(".summary")).includes("of 10000 questions"), "how many there are");
  await page.getByRole("link", { name: "9900 more" }).click();
  await page.waitForURL(/skip=100/);
  holds((await page.textContent(".summary")).includes("101 to 200"), "the next page");
  await page.keyboard.press("j");
  await page.keyboard.press("a");
  await page.waitForURL(/approvals\/[0-9a-f-]+$/);
  const id = page.url().split("/").pop();
  await page.keyboard.press("a");
  await page.keyboard.press("Enter");
  await page.waitForSelector("#state [data-is=allowed]");
  is(await status(id), "allowed");
  await page.waitForFunction(() => document.querySelector("#waiting").textContent === "9999", null, WAIT);
  // What comes in while the list is open is taken in, and the list stays as long as it is.
  await page.goto(at(page, "/approvals"));
  await tell("ask-many", 50);
  await page.waitForFunction(() => document.querySelector(".summary").textContent.includes("of 10049"), null, WAIT);
  is(await page.locator("#queue li.row").count(), 100);
}

async function live() {
  const page = await person(ANN);
  await page.goto(at(page, "/live"));
  await page.getByText("Connected").waitFor();
  await tell("pass", { count: 3, receipt: { verdict: "block", agentId: "bot", blocked: { cause: "decision", hook: "gate", reason: { rules: ["test.rule"] } } } });
  await page.waitForFunction(() => document.querySelectorAll("#live tr").length === 3, null, WAIT);
  is(await page.locator("#live .badge.critical").count(), 3);
  holds((await page.textContent("#live tr")).includes("gate, test.rule"), "who decided it");
  // Whoever comes back is shown the same once, also where others kept a page open.
  const other = await person(BOB);
  for (const path of ["/approvals", "/live"]) {
    await page.goto(at(page, path));
    await page.getByText("Connected").waitFor();
  }
  await page.waitForFunction(() => document.querySelectorAll("#live tr").length > 0, null, WAIT);
  await other.waitForTimeout(500);
  is(await page.locator("#live tr").count(), 3);
  await page.locator("#live button").first().click();
  holds((await page.textContent("#facts")).includes("decision"), "the details");
  await page.keyboard.press("Escape");
  await page.locator("#pause").click();
  await tell("pass", { count: 500 });
  await page.waitForFunction(() => /paused, [1-9]/.test(document.querySelector("#more").textContent), null, WAIT);
  is(await page.locator("#live tr").count(), 3, "paused");
  await page.locator("#pause").click();
  for (let round = 0; round < 10; round += 1) await tell("pass", { count: 500, receipt: { verdict: round % 2 ? "pass" : "modify" } });
  await page.waitForFunction(() => document.querySelectorAll("#live tr").length === 200, null, WAIT);
  await page.waitForFunction(() => /[1-9][0-9]* more/.test(document.querySelector("#more").textContent), null, WAIT);
  await page.keyboard.press("/");
  await page.keyboard.type("tool-499");
  await page.waitForFunction(() => document.querySelectorAll("#live tr:not([hidden])").length <= 1, null, WAIT);
  await page.goto(at(page, "/audit?text=tool-77"));
  holds((await page.locator("li.row").count()) > 0, "what is looked for");
  await page.getByRole("button", { name: "Verify now" }).click();
  await page.locator(".trail [role=status]").waitFor(WAIT);
  holds((await page.textContent(".trail")).includes("No witness was compared here"), "what can't be told");
  const [file] = await Promise.all([page.waitForEvent("download"), page.getByRole("link", { name: /Download/ }).click()]);
  const lines = await import("node:fs/promises").then(async (fs) => (await fs.readFile(await file.path(), "utf8")).trim().split("\n"));
  holds(lines.length > 5_500 && lines.every((line) => JSON.parse(line).seq), "all of the trail");
}

/** What the page is told, and what it costs, where much passes. */
async function busy() {
  const page = await person(ANN);
  await page.addInitScript(() => {
    window.seen = { pieces: 0, rows: 0, most: 0, began: 0, ended: 0, long: [] };
    new PerformanceObserver((list) => {
      for (const one of list.getEntries()) window.seen.long.push(one.duration);
    }).observe({ entryTypes: ["longtask"] });
    const listen = EventSource.prototype.addEventListener;
    EventSource.prototype.addEventListener = function (kind, act) {
      return listen.call(this, kind, kind !== "live" ? act : (event) => {
        const { rows, more } = JSON.parse(event.data);
        act(event);
        const { seen } = window;
        seen.pieces += 1;
        seen.rows += rows.length + more;
        seen.most = Math.max(seen.most, document.querySelectorAll("#live tr").length);
        seen.began ||= performance.now();
        seen.ended = performance.now();
      });
    };
  });
  await page.goto(at(page, "/live"));
  await page.getByText("Connected").waitFor();
  await tell("pass", { count: 1 });
  await page.waitForFunction(() => window.seen.rows === 1, null, WAIT);
  await tell("pass-on", { count: 50, times: 60 });
  await page.waitForFunction(() => window.seen.rows === 3001, null, WAIT);
  const seen = await page.evaluate(() => window.seen);
  const tenths = (seen.ended - seen.began) / 100;
  holds(seen.pieces <= tenths + 2, `ten pieces a second at most: ${seen.pieces} in ${tenths} tenths`);
  is(seen.most, 200, "rows");
  is(await page.locator("#live tr").count(), 200);
  console.log(`live at 500 calls a second: ${seen.pieces} pieces in ${Math.round(tenths)} tenths of a second, long tasks (ms): ${JSON.stringify(seen.long)}`);
}

/** What is read, and a call that is tried, by keys and without a script. */
async function reading() {
  for (const javaScriptEnabled of [true, false]) {
    const page = await person(ANN, { javaScriptEnabled });
    await page.goto(at(page, "/try"));
    await page.fill("#command", HOSTILE[0]);
    await page.getByRole("button", { name: "Judge it" }).click();
    await page.waitForSelector("#decision");
    holds((await page.textContent("#decision")).includes("It would run as it is"), "the decision");
    is(await page.inputValue("#command"), HOSTILE[0], "what was typed stays");
    holds((await page.textContent("main")).includes("<b>gate</b>"), "hook by hook");
    is(await page.evaluate(() => [window.hit, document.querySelectorAll("main img").length]), [null, 0]);
    await page.fill("#arguments", "{}");
    await page.getByRole("button", { name: "Judge it" }).click();
    await page.waitForSelector("[role=alert]");
    await tell("pass", { receipt: { sessionId: "one two", verdict: "block", blocked: { hook: "gate", reason: { rules: ["test.rule"] } } } });
    await page.goto(at(page, "/sessions/one?id=one%20two"));
    holds((await page.textContent("main")).includes("stopped: gate by test.rule"), "why");
    await page.goto(at(page, "/money"));
    await page.waitForSelector("#budgets-title");
  }
}

/** Talking with the agent: what one browser says and stops, another one of the same person sees. */
async function chatting() {
  const ann = await person(ANN);
  is(await ann.getByRole("link", { name: "Chat" }).count(), 0, "who may not talk is not led there");
  await ann.goto(at(ann, "/chat"));
  await ann.getByText("Not allowed").waitFor();
  const page = await person(CAT);
  await page.getByRole("link", { name: "Chat" }).click();
  await page.getByRole("button", { name: "Begin a conversation" }).click();
  await page.waitForURL(/chat\/s-/);
  const path = new URL(page.url()).pathname.replace("/-/console", "");
  const id = path.split("/").pop();
  const say = async (from, words) => {
    await from.fill("#message", words);
    await from.getByRole("button", { name: "Send" }).click();
  };
  await say(page, "good day");
  await page.getByText("You said: good day").waitFor(WAIT);
  const other = await person(CAT, { colorScheme: "dark", viewport: { width: 360, height: 740 } });
  await other.goto(at(other, path));
  await other.getByText("You said: good day").waitFor(WAIT);
  // What somebody is typing stays while more comes in.
  await other.fill("#message", "half a sen");
  await say(page, "work on it");
  await other.getByText("The agent works.").waitFor(WAIT);
  const evil = "<img src=x onerror=alert(1)></li>\u202e";
  await tell("chat", { id, word: evil });
  for (const one of [page, other]) {
    await one.getByText("denied by `gate`").first().waitFor(WAIT);
    is(await one.locator("main img").count(), 0, "what agents write is text");
    is(await one.locator("#chat a[href$='/approvals/ask-1']").count(), 1, "its question");
  }
  is(await other.inputValue("#message"), "half a sen");
  await clean(page, "chat", "light");
  await clean(other, "chat", "dark and narrow");
  await other.getByRole("button", { name: "Stop the agent" }).click();
  await page.getByText("Stopped by you.").waitFor(WAIT);
  await page.getByText("The agent waits for you.").waitFor(WAIT);
  await page.goto(at(page, "/chat"));
  await clean(page, "chats", "light");
  // After a restart an open page says so, and leads on.
  await tell("chat-restart");
  await other.getByText("not open here any more").waitFor(WAIT);
  await other.getByRole("link", { name: "Load the page anew" }).click();
  await clean(other, "a closed chat", "dark and narrow");
  await other.getByRole("button", { name: "Go on with it" }).click();
  await say(other, "here again");
  await other.getByText("You said: here again").waitFor(WAIT);
  // All of it without the script.
  const plain = await person(CAT, { javaScriptEnabled: false });
  await plain.goto(at(plain, path));
  await say(plain, "without a script");
  await plain.getByText("You said: without a script").waitFor(WAIT);
  await plain.getByRole("button", { name: "Leave the conversation" }).click();
  await plain.waitForURL(/chat$/);
  is(await plain.locator("ul.rows").count(), 0);
}

async function axes() {
  const answered = await tell("ask");
  const ids = [answered, await tell("ask"), await tell("ask", { critical: true }), await tell("ask", { whole: true }), await tell("ask", { substitutes: true, from: "one" }), await tell("ask", { votes: 2 })];
  await tell("answer", { id: answered, by: "ann" });
  await tell("ask", { refused: true });
  await tell("pass", { count: 5, receipt: { verdict: "block", sessionId: "session", blocked: { cause: "decision", hook: "gate" } } });
  await tell("session", { id: "kept", text: "text" });
  await tell("pass", { count: 2, receipt: { sessionId: "kept", toolCallId: "text", agentId: "bot" } });
  await tell("grant", "text");
  await tell("budget", "text");
  for (const look of [
    { colorScheme: "light" },
    { colorScheme: "dark" },
    { colorScheme: "light", viewport: { width: 360, height: 740 } },
    { colorScheme: "dark", viewport: { width: 360, height: 740 } },
  ]) {
    const page = await person(null, look);
    await page.goto(ROOT);
    await clean(page, "sign in", look);
    await signIn(page, ANN);
    for (const path of ["/approvals", ...ids.map((id) => `/approvals/${id}`), "/live", "/sessions", "/sessions/one?id=session", "/sessions/one?id=kept", "/policy", "/audit", "/money", "/try", "/nothing"]) {
      await page.goto(at(page, path));
      if (path === "/live") {
        await page.waitForSelector("#live tr", WAIT);
        await page.locator("#live button").first().click();
        await page.locator("#details[open]").waitFor();
        await clean(page, "details of what passed", look);
        await page.getByRole("button", { name: "Close" }).click();
      }
      if (path === "/audit") {
        await Promise.all([page.waitForEvent("load"), page.getByRole("button", { name: "Verify now" }).click()]);
        await page.locator(".trail [role=status]").waitFor(WAIT);
      }
      if (path === "/try") await tries(page);
      for (const summary of await page.locator("summary").all()) await summary.click();
      await clean(page, path, look);
    }
    await page.keyboard.press("?");
    await clean(page, "keys", look);
    const admin = await person(ADMIN, look);
    await admin.goto(at(admin, "/policy"));
    await clean(admin, "what is excepted from the guards", look);
    for (const other of ["{}", "wrong: [1]"]) {
      await admin.goto(at(admin, "/try"));
      await admin.fill("#other", other);
      await admin.waitForTimeout(1_100);
      await tries(admin, "#compared-title, #problems-title");
      await clean(admin, `try beside ${other}`, look);
    }
    for (const one of [page, admin]) await one.context().close();
  }
}

async function tries(page, shown = "#decision") {
  await page.fill("#command", "marker");
  await page.getByRole("button", { name: "Judge it" }).click();
  await page.waitForSelector(shown, WAIT);
}

async function clean(page, what, look) {
  await page.evaluate(axe.source);
  const { violations } = await page.evaluate(() => window.axe.run());
  const found = violations.map(({ id, nodes }) => `${id}: ${nodes.map((node) => `${node.html} ${node.failureSummary}`).join("; ")}`);
  is(found, [], `axe on ${what} ${JSON.stringify(look)}`);
}

await play({ answering, chatting, editing, notified, port, busy, reading, two, scriptless, restart, hostile, named, many, live, axe: axes }, process.argv[2]);
