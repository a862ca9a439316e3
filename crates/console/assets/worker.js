// Shows what is pushed to this device. A notice says that something waits and leads to its page; nothing is decided here.
"use strict";

const HOME = "/-/console/approvals";

// Where a notice leads: a page of the console and nowhere else, whatever it says.
function destination(link) {
  const home = new URL(HOME, self.location.origin);
  try {
    const url = new URL(link, self.location.origin);
    return url.origin === self.location.origin && url.pathname.startsWith("/-/console/") ? url.href : home.href;
  } catch {
    return home.href;
  }
}

self.addEventListener("install", () => self.skipWaiting());
self.addEventListener("activate", (event) => event.waitUntil(self.clients.claim()));

self.addEventListener("push", (event) => {
  let said = {};
  try {
    said = event.data?.json() ?? {};
  } catch { /* What can't be read is still a sign that something waits. */ }
  const text = (value, otherwise) => (typeof value === "string" ? value : otherwise);
  event.waitUntil(self.registration.showNotification(text(said.title, "Backstop"), {
    body: text(said.body, "A question waits."),
    // One notice for each question: that it is over takes the place of that it waits.
    tag: text(said.tag, "backstop"),
    silent: said.kind === "over",
    icon: "/-/console/icon.svg",
    data: { link: text(said.link, HOME) },
  }));
});

self.addEventListener("notificationclick", (event) => {
  event.notification.close();
  const address = destination(event.notification.data?.link);
  event.waitUntil((async () => {
    const pages = await self.clients.matchAll({ type: "window" });
    const open = pages.find((page) => page.url === address);
    await (open ? open.focus() : self.clients.openWindow(address));
  })());
});
