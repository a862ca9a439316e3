// What pages do beyond their links and forms: keys, clocks, filters, and what comes in meanwhile.
// Texts are set as texts. What is taken over from the server as HTML comes from the pages' own templates.
"use strict";

const ROWS = 200;
const find = (selector) => document.querySelector(selector);

// What becomes HTML, or a worker, goes through this one policy; browsers that know of policies refuse everything else. HTML is parsed aside,
// and comes from the pages' own templates; there is one worker.
const WORKER = "/-/console/worker.js";
const rules = {
  createHTML: (text) => text,
  createScriptURL: (address) => {
    if (address !== WORKER) throw new TypeError("this is not the worker");
    return address;
  },
};
const trusted = window.trustedTypes?.createPolicy("backstop", rules) ?? rules;

// The key of a session goes where browsers keep passwords: for this port alone, and in memory. What does not take it asks the person.
const handOver = find("#hand-over");
if (handOver) {
  handOver.hidden = true;
  const request = new XMLHttpRequest();
  request.open("GET", "/-/console/key", true, "console", handOver.dataset.key);
  request.addEventListener("loadend", () => {
    if (request.status === 204) location.replace(handOver.dataset.to);
    else handOver.hidden = false;
  });
  request.send();
}

// Clocks.
function say(left) {
  const seconds = Math.ceil(left / 1000);
  if (seconds <= 0) return "over";
  if (seconds < 60) return `${seconds} s left`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min ${seconds % 60} s left`;
  if (seconds < 86400) return `${Math.floor(seconds / 3600)} h left`;
  return `${Math.floor(seconds / 86400)} d left`;
}
const TURNS = 5000;
let turnedAt = -TURNS;
function tick() {
  for (const clock of document.querySelectorAll("time[data-until]")) {
    const text = say(Number(clock.dataset.until) - Date.now());
    if (clock.textContent !== text) clock.textContent = text;
  }
  // From a moment on others may answer, too: nothing comes in that says so. The server says when it is there: the clock here may be ahead,
  // and what is asked may get lost.
  const standing = find("#standing[data-turns]");
  if (standing && Date.now() >= Number(standing.dataset.turns) && performance.now() - turnedAt >= TURNS) {
    turnedAt = performance.now();
    take();
  }
}

// Filters: rows of the page that do not have all of the words are hidden.
const filter = find("#filter");
function passes(row) {
  const words = filter.value.toLowerCase().split(/\s+/).filter(Boolean);
  const text = row.textContent.toLowerCase();
  return words.every((word) => text.includes(word));
}
function sift() {
  if (!filter) return;
  for (const row of document.querySelectorAll(filter.dataset.filters)) row.hidden = !passes(row);
  for (const group of document.querySelectorAll(".group")) group.hidden = !group.querySelector("li.row:not([hidden])");
}
filter?.addEventListener("input", sift);

// Keys.
const visible = (selector) => [...document.querySelectorAll(selector)].filter((one) => one.checkVisibility());
const stops = () => visible(".first a, summary, #live button");
function step(by) {
  const all = stops();
  const here = all.indexOf(document.activeElement);
  const next = all[here < 0 ? (by > 0 ? 0 : all.length - 1) : Math.min(all.length - 1, Math.max(0, here + by))];
  next?.focus();
}
function press(key) {
  const target = find(`[data-key="${key}"]`);
  if (!target?.checkVisibility()) return false;
  // A key leads to what allows, and another presses it: one that was meant for another window allows nothing.
  if (target.tagName === "BUTTON" && key !== "a") target.click();
  else target.focus();
  return true;
}
const KEYS = {
  j: () => step(1),
  k: () => step(-1),
  "/": () => (filter ?? find("#text"))?.focus(),
  "?": () => find("#keys")?.showModal(),
  g: () => location.assign("/-/console/approvals"),
  a: () => press("a") || document.activeElement?.closest(".row")?.querySelector(".first a")?.click(),
  d: () => press("d") || document.activeElement?.closest(".row")?.querySelector(".first a")?.click(),
  p: () => press("p"),
};
document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.repeat) return;
  const types = event.target.closest("input, select, textarea, dialog");
  if (event.key === "Escape" && types && types.tagName !== "DIALOG") types.blur();
  if (types && !(types.tagName === "INPUT" && ["checkbox", "radio"].includes(types.type))) return;
  const act = KEYS[event.key];
  if (!act) return;
  event.preventDefault();
  act();
});
const hint = find(".keys-hint");
if (hint) hint.hidden = false;

// An answer is sent once.
document.addEventListener("submit", (event) => {
  if (event.target.method !== "post") return;
  const form = event.target;
  if (form.dataset.sent) event.preventDefault();
  form.dataset.sent = "1";
  setTimeout(() => delete form.dataset.sent, 5000);
});

// What comes in meanwhile.
const connection = find("#connection");
function told(text, isLost) {
  if (!connection || connection.textContent === text) return;
  connection.textContent = text;
  connection.classList.toggle("lost", Boolean(isLost));
}
// Asked for by the page and not by the person, so that nobody stays signed in by leaving a page open.
const aside = (address) => fetch(address, { headers: { "x-backstop-aside": "1" }, cache: "no-store" });

function over() {
  told("Signed out. ", true);
  const standing = find("#standing");
  if (standing) delete standing.dataset.turns;
  const link = document.createElement("a");
  link.href = location.pathname + location.search;
  link.textContent = "Sign in";
  connection?.append(link);
  stream?.close();
  isOver = true;
  leaveOff();
}

// A part of the page that is taken anew, where nobody is in the middle of something in it.
// Once a second at most, however much comes in.
let taking = null;
let isStale = false;
let takenAt = 0;
function take() {
  const part = find("[data-part]");
  if (!part) return;
  if (taking) { isStale = true; return; }
  taking = setTimeout(async () => {
    await exchange(part);
    takenAt = Date.now();
    taking = null;
    if (isStale) { isStale = false; take(); }
  }, Math.max(0, takenAt + 1000 - Date.now()));
}
async function exchange(part) {
  try {
    const answer = await aside(part.dataset.part + (part.id === "queue" ? location.search : ""));
    if (answer.status === 401) return over();
    if (!answer.ok) return;
    put(part, new DOMParser().parseFromString(trusted.createHTML(await answer.text()), "text/html").body);
  } catch { /* The stream says that the connection is lost. */ }
}
// Who has voted, and for whom it waits. The rest of the part stays, so that nothing is said twice, and the clock goes on.
function stand(part, fresh) {
  const [was, is] = [part, fresh].map((one) => one.querySelector("#standing"));
  if (was && is) {
    if (is.dataset.turns) was.dataset.turns = is.dataset.turns;
    else delete was.dataset.turns;
  }
  if (was?.textContent === is?.textContent) return;
  if (was && is) was.textContent = is.textContent;
  else if (is) part.append(is);
  else was.remove();
}
function put(part, fresh) {
  if (part.id === "state") {
    const now = fresh.querySelector("[data-is]")?.dataset.is;
    if (now === part.dataset.status) return stand(part, fresh);
    part.dataset.status = now;
    // What can't be answered any more offers no answer.
    if (now !== "pending") find(".answers")?.remove();
  }
  const focused = part.contains(document.activeElement) ? document.activeElement : null;
  const address = focused?.getAttribute?.("href");
  const word = part.querySelector("#word")?.value;
  const ticked = new Set([...part.querySelectorAll("input:checked")].map((box) => box.value));
  part.replaceChildren(...fresh.childNodes);
  for (const box of part.querySelectorAll('input[type="checkbox"]')) box.checked = ticked.has(box.value);
  const field = part.querySelector("#word");
  if (field && word) field.value = word;
  if (focused) {
    const same = focused.id === "word" ? field : address && [...part.querySelectorAll("a")].find((link) => link.getAttribute("href") === address);
    (same || part.querySelector(".first a") || find("#main"))?.focus({ preventScroll: true });
  }
  sift();
  tick();
}

// Live rows.
const table = find("#live");
const pause = find("#pause");
let held = 0;
let skipped = 0;
const isPaused = () => pause?.getAttribute("aria-pressed") === "true";
pause?.addEventListener("click", () => {
  pause.setAttribute("aria-pressed", String(!isPaused()));
  pause.textContent = isPaused() ? "Go on" : "Pause";
  held = 0;
  count();
});
function count() {
  const more = find("#more");
  const text = isPaused() ? `paused, ${held} more` : skipped ? `${skipped} more are in the audit` : "";
  if (more && more.textContent !== text) more.textContent = text;
}
const TONES = { pass: "good", modify: "warning", block: "critical", asked: "info", other: "info" };
function cell(text) {
  const cell = document.createElement("td");
  cell.textContent = text;
  return cell;
}
function rowOf(one) {
  const row = document.createElement("tr");
  row.className = "row";
  const time = document.createElement("td");
  const open = document.createElement("button");
  open.type = "button";
  open.textContent = new Date(one.at).toLocaleTimeString();
  open.setAttribute("aria-label", `${open.textContent}, details of entry ${one.seq}`);
  time.append(open);
  const decision = document.createElement("td");
  const badge = document.createElement("span");
  badge.className = `badge ${TONES[one.decision] ?? "info"}`;
  badge.textContent = one.decision;
  decision.append(badge);
  row.append(time, decision, cell(one.point), cell(one.tool), cell(one.agent), cell(one.by));
  row.addEventListener("click", () => details(one));
  return row;
}
function details(one) {
  const list = find("#facts");
  list.replaceChildren();
  const facts = [["entry", String(one.seq)], ["time", new Date(one.at).toISOString()], ["decision", one.decision], ["point", one.point], ["tool", one.tool], ["agent", one.agent], ["by", one.by], ...one.facts];
  for (const [name, value] of facts) {
    if (!value) continue;
    const line = document.createElement("div");
    const term = document.createElement("dt");
    term.textContent = name;
    const said = document.createElement("dd");
    said.textContent = value;
    line.append(term, said);
    list.append(line);
  }
  find("#details").showModal();
}
function passed({ rows, more }) {
  if (!table) return;
  if (isPaused()) {
    held += rows.length + more;
    return count();
  }
  skipped += more;
  const fresh = document.createDocumentFragment();
  for (const one of rows.slice(-ROWS).reverse()) {
    const row = rowOf(one);
    if (filter?.value) row.hidden = !passes(row);
    fresh.append(row);
  }
  table.prepend(fresh);
  while (table.childElementCount > ROWS) table.lastElementChild.remove();
  const nothing = find("#nothing");
  if (nothing) nothing.hidden = true;
  count();
}

// Notifications: that something waits, and not what, since others may look at the screen. They come while a page is open.
const notify = find("#notify");
const canNotify = () => "Notification" in window && Notification.permission === "granted";
const wantsNotice = () => canNotify() && localStorage.getItem("notify") === "yes";
function showNotify() {
  if (!notify) return;
  notify.hidden = !("Notification" in window);
  notify.setAttribute("aria-pressed", String(wantsNotice()));
}
notify?.addEventListener("click", async () => {
  const wants = !wantsNotice();
  if (wants && !canNotify()) await Notification.requestPermission();
  localStorage.setItem("notify", wants && canNotify() ? "yes" : "no");
  if (wants && !canNotify()) told("This browser shows no notifications of this page", true);
  showNotify();
});
let lastWaiting = null;
function notice(waiting) {
  const isMore = lastWaiting !== null && waiting > lastWaiting;
  lastWaiting = waiting;
  if (!isMore || !wantsNotice() || document.hasFocus()) return;
  // One at a time, however many pages are open.
  const shown = new Notification("Backstop", { body: waiting === 1 ? "A question waits." : `${waiting} questions wait.`, tag: "backstop" });
  shown.addEventListener("click", () => {
    window.focus();
    location.assign("/-/console/approvals");
  });
}
showNotify();

// Devices: notices also while no page is open, by the push service of the browser.
const device = find("#device");
const canPush = device && "Notification" in window && "serviceWorker" in navigator && "PushManager" in window;
const ownKey = () => Uint8Array.from(atob(device.dataset.key.replaceAll("-", "+").replaceAll("_", "/")), (char) => char.charCodeAt(0));
function showDevice(isTold) {
  device.hidden = false;
  device.setAttribute("aria-pressed", String(isTold));
}
// Returns why that was not taken; nothing, if it was.
async function sayDevice(address, subscription, headers) {
  const { endpoint, keys } = subscription.toJSON();
  const body = new URLSearchParams({ form: find('input[name="form"]').value, endpoint, p256dh: keys.p256dh, auth: keys.auth });
  const answer = await fetch(address, { method: "POST", body, headers, cache: "no-store" });
  const text = await answer.text();
  const isPlain = answer.headers.get("content-type")?.startsWith("text/plain");
  return answer.ok ? "" : isPlain && text ? text : "The device could not be told of that";
}
async function subscription(worker) {
  const known = await worker.pushManager.getSubscription();
  const key = ownKey();
  const its = known && new Uint8Array(known.options.applicationServerKey ?? []);
  const isOurs = its && its.length === key.length && its.every((byte, at) => byte === key[at]);
  // One for another key takes nothing that this server sends.
  if (known && !isOurs) await known.unsubscribe();
  return isOurs ? known : null;
}
async function turn() {
  const isOn = device.getAttribute("aria-pressed") === "true";
  if (!isOn && (await Notification.requestPermission()) !== "granted") throw new Error("This browser shows no notifications of this page");
  const worker = await navigator.serviceWorker.register(trusted.createScriptURL(WORKER));
  let known = await subscription(worker);
  if (isOn) {
    const why = known && (await sayDevice("/-/console/devices/remove", known, {}));
    if (why) throw new Error(why);
    await known?.unsubscribe();
    return showDevice(false);
  }
  known ??= await worker.pushManager.subscribe({ userVisibleOnly: true, applicationServerKey: ownKey() });
  const why = await sayDevice("/-/console/devices", known, {});
  if (why) {
    await known.unsubscribe();
    throw new Error(why);
  }
  showDevice(true);
}
device?.addEventListener("click", async () => {
  device.disabled = true;
  try { await turn(); } catch (error) { told(error.message, true); }
  device.disabled = false;
});
// What is on stays on: for the token by which the person has signed in now.
async function renew() {
  showDevice(false);
  if (Notification.permission !== "granted") return;
  const worker = await navigator.serviceWorker.getRegistration("/-/console/");
  const known = worker && (await subscription(worker));
  if (known) showDevice(!(await sayDevice("/-/console/devices", known, { "x-backstop-aside": "1" })));
}
if (canPush) renew().catch(() => told("Whether this device is told is not known", true));

// One stream for a page, while somebody looks at it, and one more for whoever wants to be told: without TLS a browser has six connections to a
// server, so pages in the background that held one each would keep the next page from coming at all.
const TELLER = "backstop-notices";
let isTeller = false;
let isInLine = false;
let isOver = false;
let stepDown = null;
function leaveOff() {
  stepDown?.();
  [isTeller, stepDown] = [false, null];
}
// The page in the background that is the first in line tells, until somebody looks at it or it is closed.
function standInLine() {
  if (isInLine || isOver || !document.body.dataset.events || !document.hidden || !wantsNotice() || !navigator.locks) return;
  isInLine = true;
  navigator.locks.request(TELLER, () => new Promise((done) => {
    isInLine = false;
    if (!document.hidden || isOver) return done();
    [isTeller, stepDown] = [true, done];
    again();
  }));
}
const isAside = () => document.hidden && !isTeller;
let stream = null;
let lastEntry = "";
let mark = null;
function listen() {
  const address = document.body.dataset.events;
  if (!address || isAside() || stream) return;
  const from = lastEntry ? `${address.includes("?") ? "&" : "?"}after=${lastEntry}` : "";
  const opened = new EventSource(address + from);
  stream = opened;
  opened.addEventListener("open", () => told("Connected"));
  opened.addEventListener("approvals", (event) => {
    const { waiting, mark: latest } = JSON.parse(event.data);
    const badge = find("#waiting");
    badge.hidden = waiting === 0;
    badge.textContent = waiting;
    badge.setAttribute("aria-label", `${waiting} waiting`);
    notice(waiting);
    document.title = document.title.replace(/^(\(\d+\) )?/, waiting ? `(${waiting}) ` : "");
    // The first says how it was when the stream began, which the page may be older than.
    if (mark !== latest) take();
    mark = latest;
  });
  opened.addEventListener("live", (event) => {
    lastEntry = event.lastEventId || lastEntry;
    passed(JSON.parse(event.data));
  });
  // Of a conversation more was said, or done.
  opened.addEventListener("chat", take);
  opened.addEventListener("over", over);
  opened.addEventListener("error", () => {
    if (stream !== opened) return;
    told("The connection is lost; trying again", true);
    opened.close();
    stream = null;
    setTimeout(again, 1500);
  });
}
async function again() {
  if (isAside() || stream) return;
  try {
    const answer = await aside("/-/console/session");
    if (answer.status === 401) return over();
  } catch { return void setTimeout(again, 1500); }
  mark = null;
  listen();
}
document.addEventListener("visibilitychange", () => {
  if (!document.hidden) leaveOff();
  standInLine();
  if (isAside()) {
    stream?.close();
    stream = null;
  } else if (document.body.dataset.events) {
    again();
  }
});

tick();
setInterval(tick, 1000);
standInLine();
listen();
