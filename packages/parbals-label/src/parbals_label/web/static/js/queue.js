// The items assigned to this tab: the one on the screen and three prefetched ones, so that the next appears at once.
//
// The server leases items to a name. Tabs of one browser share that name, so each tab records which items it holds in
// localStorage and leaves other tabs' items alone. Leases are renewed while the page is open and released on leaving.

import { sendOnLeave, imageAddress, loadPicture, post } from "./api.js";
import { randomId } from "./dom.js";
import { sameProject } from "./identity.js";
import { entries } from "./outbox.js";
import { emit, memory, on, projectKey, state } from "./state.js";

const PREFETCHED = 3;
const MAX_TAKE = 10; // the server's limit for one request
const RETRY_MS = [1000, 1500, 2500, 4000];
const STALE_MS = 150_000; // claims are renewed every minute, and timers of hidden tabs may be a minute late
const TAB_ID = randomId(12);
const CLAIM_PREFIX = "tab:";

const tasks = []; // the first is on the screen
const answered = new Set(); // positions, so that the server's reply to an earlier request does not show them again
const pictures = new Map();
const channel = "BroadcastChannel" in window ? new BroadcastChannel("parbals") : null;
let info = null; // what the server last said about its queue
let isTaking = false;
let nRetries = 0;
let timer = 0;
let lastHeartbeat = Date.now(); // when the leases were last renewed

export const current = () => tasks[0] ?? null;
export const queueInfo = () => info;

/** The names of the open tabs' locks, or null in browsers without locks: each tab holds one, which a crash releases. */
async function openTabs() {
  if (!navigator.locks) return null;
  const { held: locks } = await navigator.locks.query();
  return new Set(locks.map((lock) => lock.name));
}

/** The positions that other open tabs of this annotator hold; claims of closed or crashed tabs are removed. */
async function othersClaims() {
  const positions = new Set();
  try {
    const tabs = await openTabs();
    for (const key of Object.keys(localStorage)) {
      if (!key.startsWith(`parbals:${CLAIM_PREFIX}`) || key.endsWith(TAB_ID)) continue;
      const claim = JSON.parse(localStorage.getItem(key));
      const isClosed = tabs ? !tabs.has(key) : Date.now() - claim.at > STALE_MS;
      if (isClosed) localStorage.removeItem(key);
      else if (claim.name === state.name && claim.project === projectKey()) claim.positions.forEach((position) => positions.add(position));
    }
  } catch {
    /* tabs do not know of each other; the server still stores one answer per item and person */
  }
  return positions;
}

function writeClaim() {
  const positions = tasks.map((task) => task.position);
  memory.set(CLAIM_PREFIX + TAB_ID, JSON.stringify({ at: Date.now(), name: state.name, project: projectKey(), positions }));
}

/** Load the picture of a task in advance. The same element is shown later, because the server forbids caching. */
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

/** Ask the server for items, and add those that no other tab holds. */
async function take() {
  if (!(await sameProject())) return;
  const claimed = await othersClaims();
  const unsent = new Set(
    entries()
      .filter((entry) => entry.kind !== "undo")
      .map((entry) => entry.position),
  );
  // The reply begins with the items that this annotator holds, in any tab, also those with an unsent answer.
  const n = Math.min(MAX_TAKE, PREFETCHED + 1 + claimed.size + unsent.size);
  const name = state.name;
  const reply = await post("/api/take", { annotator: name, n });
  if (name !== state.name) return;
  info = reply.queue;
  const newTasks = [];
  for (const task of reply.items) {
    const known = tasks.find((other) => other.position === task.position);
    if (known) known.expires = task.expires;
    else if (!answered.has(task.position) && !unsent.has(task.position)) newTasks.push(task);
  }
  const unclaimed = newTasks.filter((task) => !claimed.has(task.position));
  // With many tabs open, other tabs may have claimed every item: then one item is shown twice rather than none.
  const chosen =
    unclaimed.length === 0 && tasks.length === 0 && reply.items.length === MAX_TAKE ? newTasks.slice(0, 1) : unclaimed;
  tasks.push(...chosen.slice(0, Math.max(0, PREFETCHED + 1 - tasks.length)));
  tasks.forEach(pictureOf);
  writeClaim();
}

/** Take items until one is shown and three are prefetched; while there is none, retry periodically. */
export async function refill() {
  if (isTaking || !state.name || tasks.length > PREFETCHED) return;
  isTaking = true;
  clearTimeout(timer);
  const shownBefore = current();
  let failed = null;
  try {
    await (navigator.locks ? navigator.locks.request("parbals-take", take) : take());
  } catch (error) {
    failed = error;
  }
  isTaking = false;
  if (current()) nRetries = 0;
  if (current() !== shownBefore || !current()) emit("task", { failed });
  if (!current() || failed) {
    const wait = info?.state === "finished" && !failed ? 10_000 : RETRY_MS[Math.min(nRetries, RETRY_MS.length - 1)];
    nRetries += 1;
    timer = setTimeout(refill, wait);
  }
}

/** Remove a task from this tab; returns its index, -1 if there was none. */
function removeTask(position) {
  const index = tasks.findIndex((task) => task.position === position);
  if (index >= 0) tasks.splice(index, 1);
  pictures.delete(position);
  return index;
}

/** Remove an item that was answered or skipped, so that the next one is shown. */
export function finish(position) {
  answered.add(position);
  removeTask(position);
  channel?.postMessage({ done: position, name: state.name });
  writeClaim();
  refill();
}

/** Show an item again whose answer is being undone. */
export function putBack(task) {
  answered.delete(task.position);
  removeTask(task.position);
  tasks.unshift(task);
  channel?.postMessage({ undone: task.position, name: state.name });
  writeClaim();
}

/** Update the tasks after the server stored an answer, which may have been given on the page Browse. */
function updateAfterStored(entry, reply) {
  if (entry.kind !== "undo") {
    answered.add(entry.position);
    if (removeTask(entry.position) === 0) emit("task", {});
    return;
  }
  const task = tasks.find(({ position }) => position === entry.position);
  if (task) task.expires = reply.item.expires;
  else answered.delete(entry.position);
}

/** Renew the leases of this tab, and remove items that it has lost. */
async function heartbeat() {
  const away = Date.now() - lastHeartbeat;
  lastHeartbeat = Date.now();
  writeClaim();
  if (tasks.length === 0 || !state.name) return;
  const positions = tasks.map((task) => task.position);
  let reply;
  try {
    reply = await post("/api/leases", { annotator: state.name, positions });
  } catch {
    return; // the leases are renewed once the server is back
  }
  const lost = positions.filter((position) => !reply.mine.includes(position));
  const shown = current()?.position;
  lost.forEach(removeTask);
  tasks.forEach((task) => {
    task.expires = reply.expires;
  });
  if (lost.includes(shown)) emit("task", { lost: true, away });
  if (lost.length > 0) refill();
}

/** Milliseconds: a third of a lease, at most a minute. */
function heartbeatInterval() {
  return Math.min(60, ((state.project.lease_minutes ?? 30) * 60) / 3) * 1000;
}

/** Put the items of this tab back into the server's queue. */
function releaseAll(name = state.name) {
  if (tasks.length > 0 && name)
    sendOnLeave("/api/release", { annotator: name, positions: tasks.map((task) => task.position) });
}

export function startQueue() {
  navigator.locks?.request(`parbals:${CLAIM_PREFIX}${TAB_ID}`, () => new Promise(() => {})); // held for as long as the tab lives
  channel?.addEventListener("message", ({ data }) => {
    if (data.name !== state.name) return;
    if (data.undone !== undefined) answered.delete(data.undone);
    if (data.done === undefined) return;
    answered.add(data.done);
    if (removeTask(data.done) === 0) emit("task", { elsewhere: true });
    refill();
  });
  on("name", ({ before }) => {
    releaseAll(before);
    tasks.length = 0;
    answered.clear();
    pictures.clear();
    emit("task", {});
    refill();
  });
  on("stored", ({ entry, reply }) => {
    const hasLaterEntry = entries().some((other) => other.position === entry.position);
    if (!hasLaterEntry && entry.annotator === state.name) updateAfterStored(entry, reply);
    refill();
  });
  on("connection", ({ state: connectionState }) => {
    if (connectionState !== "ok") return;
    heartbeat();
    refill();
  });
  window.addEventListener("pagehide", () => {
    releaseAll();
    memory.remove(CLAIM_PREFIX + TAB_ID);
  });
  window.addEventListener("pageshow", (event) => {
    if (event.persisted) heartbeat().then(refill);
  });
  document.addEventListener("visibilitychange", () => {
    if (!document.hidden && Date.now() - lastHeartbeat > heartbeatInterval() / 2) heartbeat();
  });
  const beat = () => heartbeat().finally(() => setTimeout(beat, heartbeatInterval()));
  setTimeout(beat, heartbeatInterval());
  refill();
}
