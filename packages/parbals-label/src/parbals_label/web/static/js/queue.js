// The items in hand: the one on the screen and three more behind it, so that the next one is there at once.
//
// The server leases items to a name. Tabs of one browser share that name, so each tab writes down which items it holds
// and leaves the others' alone. Leases are renewed while the page is open and given back when it is left.

import { farewell, imageAddress, loadPicture, post } from "./api.js";
import { randomId } from "./dom.js";
import { sameProject } from "./identity.js";
import { entries } from "./outbox.js";
import { emit, memory, on, projectKey, state } from "./state.js";

const AHEAD = 3;
const MOST = 10; // what one request may ask for
const WAIT_MS = [1000, 1500, 2500, 4000];
const STALE_MS = 150_000; // timers of hidden tabs run once a minute
const TAB = randomId(12);
const CLAIM = "tab:";

const held = [];
const done = new Set();
const pictures = new Map();
const channel = "BroadcastChannel" in window ? new BroadcastChannel("parbals") : null;
let info = null;
let taking = false;
let waited = 0;
let timer = 0;
let lastBeat = Date.now();

export const current = () => held[0] ?? null;
export const queueInfo = () => info;

/** The tabs that are open now, or null where the browser does not say: a tab that crashed has let go of its lock. */
async function openTabs() {
  if (!navigator.locks) return null;
  const { held: locks } = await navigator.locks.query();
  return new Set(locks.map((lock) => lock.name));
}

/** What other tabs of this name hold; what a crashed one held is ours again at once. */
async function othersClaims() {
  const positions = new Set();
  try {
    const open = await openTabs();
    for (const key of Object.keys(localStorage)) {
      if (!key.startsWith(`parbals:${CLAIM}`) || key.endsWith(TAB)) continue;
      const claim = JSON.parse(localStorage.getItem(key));
      const gone = open ? !open.has(key) : Date.now() - claim.at > STALE_MS;
      if (gone) localStorage.removeItem(key);
      else if (claim.name === state.name && claim.project === projectKey()) claim.positions.forEach((position) => positions.add(position));
    }
  } catch {
    /* tabs cannot see each other; the server still keeps one answer an item and person */
  }
  return positions;
}

function writeClaim() {
  const positions = held.map((task) => task.position);
  memory.set(CLAIM + TAB, JSON.stringify({ at: Date.now(), name: state.name, project: projectKey(), positions }));
}

/** Loads the picture before it is needed; the same element is shown later, as the server forbids caching. */
export function pictureOf(task) {
  const address = imageAddress(task.image);
  if (!address) return null;
  if (!pictures.has(task.position)) {
    const picture = new Image();
    picture.decoding = "async";
    loadPicture(picture, address);
    pictures.set(task.position, picture);
  }
  return pictures.get(task.position);
}

async function take() {
  if (!(await sameProject())) return;
  const claimed = await othersClaims();
  const waiting = new Set(
    entries()
      .filter((entry) => entry.kind !== "undo")
      .map((entry) => entry.position),
  );
  const n = Math.min(MOST, AHEAD + 1 + claimed.size + waiting.size);
  const name = state.name;
  const reply = await post("/api/take", { annotator: name, n });
  if (name !== state.name) return;
  info = reply.queue;
  const free = [];
  for (const task of reply.items) {
    const mine = held.find((other) => other.position === task.position);
    if (mine) mine.expires = task.expires;
    else if (!done.has(task.position) && !waiting.has(task.position)) free.push(task);
  }
  const unclaimed = free.filter((task) => !claimed.has(task.position));
  // With many tabs open there may be nothing but what they hold: better one item twice than an idle person.
  const chosen =
    unclaimed.length === 0 && held.length === 0 && reply.items.length === MOST ? free.slice(0, 1) : unclaimed;
  held.push(...chosen.slice(0, Math.max(0, AHEAD + 1 - held.length)));
  held.forEach(pictureOf);
  writeClaim();
}

/** Fill up to one shown and three behind; while there is none, ask again from time to time. */
export async function refill() {
  if (taking || !state.name || held.length > AHEAD) return;
  taking = true;
  clearTimeout(timer);
  const before = current();
  let failed = null;
  try {
    await (navigator.locks ? navigator.locks.request("parbals-take", take) : take());
  } catch (error) {
    failed = error;
  }
  taking = false;
  if (current()) waited = 0;
  if (current() !== before || !current()) emit("task", { failed });
  if (!current() || failed) {
    const wait = info?.state === "finished" && !failed ? 10_000 : WAIT_MS[Math.min(waited, WAIT_MS.length - 1)];
    waited += 1;
    timer = setTimeout(refill, wait);
  }
}

function forget(position) {
  const place = held.findIndex((task) => task.position === position);
  if (place >= 0) held.splice(place, 1);
  pictures.delete(position);
  return place;
}

/** This item is answered or passed: the next one moves up. */
export function finish(position) {
  done.add(position);
  forget(position);
  channel?.postMessage({ done: position, name: state.name });
  writeClaim();
  refill();
}

/** An item whose answer was taken back is shown again, before the others. */
export function putBack(task) {
  done.delete(task.position);
  forget(task.position);
  held.unshift(task);
  channel?.postMessage({ undone: task.position, name: state.name });
  writeClaim();
}

/** The server has stored the last word about an item, which may have been given outside the desk, under Browse. */
function settle(entry, reply) {
  if (entry.kind !== "undo") {
    done.add(entry.position);
    if (forget(entry.position) === 0) emit("task", {});
    return;
  }
  const mine = held.find((task) => task.position === entry.position);
  if (mine) mine.expires = reply.item.expires;
  else done.delete(entry.position);
}

async function heartbeat() {
  const away = Date.now() - lastBeat;
  lastBeat = Date.now();
  writeClaim();
  if (held.length === 0 || !state.name) return;
  const asked = held.map((task) => task.position);
  let reply;
  try {
    reply = await post("/api/leases", { annotator: state.name, positions: asked });
  } catch {
    return; // the leases are renewed once the server is back
  }
  const lost = asked.filter((position) => !reply.mine.includes(position));
  const shown = current()?.position;
  lost.forEach(forget);
  held.forEach((task) => {
    task.expires = reply.expires;
  });
  if (lost.includes(shown)) emit("task", { lost: true, away });
  if (lost.length > 0) refill();
}

function beatEvery() {
  return Math.min(60, ((state.project.lease_minutes ?? 30) * 60) / 3) * 1000;
}

function giveBack(name = state.name) {
  if (held.length > 0 && name)
    farewell("/api/release", { annotator: name, positions: held.map((task) => task.position) });
}

export function startQueue() {
  navigator.locks?.request(`parbals:${CLAIM}${TAB}`, () => new Promise(() => {})); // held for as long as the tab lives
  channel?.addEventListener("message", ({ data }) => {
    if (data.name !== state.name) return;
    if (data.undone !== undefined) done.delete(data.undone);
    if (data.done === undefined) return;
    done.add(data.done);
    if (forget(data.done) === 0) emit("task", { elsewhere: true });
    refill();
  });
  on("name", ({ before }) => {
    giveBack(before);
    held.length = 0;
    done.clear();
    pictures.clear();
    emit("task", {});
    refill();
  });
  on("stored", ({ entry, reply }) => {
    const later = entries().some((other) => other.position === entry.position);
    if (!later && entry.annotator === state.name) settle(entry, reply);
    refill();
  });
  on("connection", ({ state: now }) => {
    if (now !== "ok") return;
    heartbeat();
    refill();
  });
  window.addEventListener("pagehide", () => {
    giveBack();
    memory.remove(CLAIM + TAB);
  });
  window.addEventListener("pageshow", (event) => {
    if (event.persisted) heartbeat().then(refill);
  });
  document.addEventListener("visibilitychange", () => {
    if (!document.hidden && Date.now() - lastBeat > beatEvery() / 2) heartbeat();
  });
  const beat = () => heartbeat().finally(() => setTimeout(beat, beatEvery()));
  setTimeout(beat, beatEvery());
  refill();
}
