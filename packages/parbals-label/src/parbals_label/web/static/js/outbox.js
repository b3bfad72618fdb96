// Answers live in localStorage from the click until the server has confirmed that they are on disk.
//
// One key an entry, so that two tabs never overwrite each other's list. Entries are sent in the order they were made,
// by one tab at a time, each with the same request id on every attempt: a repeat is free on the server. An entry that
// the server refuses for good, or fails at five times, is kept, shown, and waits for a decision without holding up the
// others; nothing is ever dropped silently.

import { connection, post } from "./api.js";
import { randomId } from "./dom.js";
import { sameProject } from "./identity.js";
import { emit, memory, on, projectKey, state } from "./state.js";

const PREFIX = "parbals:out:";
const ASIDE = "parbals:unreadable:";
const LAST = "last-entry";
const SEEN = "seen-unreadable";
const MOST_FAILURES = 5; // of the server, over one entry
const FIRST_WAIT_MS = 500;
const LONGEST_WAIT_MS = 15_000;

const unkept = new Map(); // entries of a browser whose storage is full or switched off
let last = 0;
let failures = 0;
let timer = 0;
let sending = false;

const keysOf = (prefix) => Object.keys(localStorage).filter((key) => key.startsWith(prefix));

function all() {
  const entries = [...unkept.values()];
  try {
    for (const key of keysOf(PREFIX)) {
      const entry = read(key);
      if (entry) entries.push({ ...entry, key });
    }
  } catch {
    /* what is in memory is all there is */
  }
  return entries.sort((a, b) => (a.key < b.key ? -1 : 1));
}

/** A kept entry. What cannot be read is moved out of the way, for somebody who may still make sense of it. */
function read(key) {
  const text = localStorage.getItem(key);
  if (text === null) return null; // another tab was faster
  try {
    const entry = JSON.parse(text);
    if (typeof entry.request_id === "string" && typeof entry.kind === "string") return entry;
  } catch {
    /* as unreadable as an entry that lacks these */
  }
  try {
    localStorage.setItem(ASIDE + key.slice(PREFIX.length), text);
    localStorage.removeItem(key);
  } catch {
    /* no room to move it: it stays where it is */
  }
  return null;
}

/** Larger than every one before, in any tab, also when the clock is set back. */
function nextNumber() {
  const newest = all().at(-1)?.key.slice(PREFIX.length).slice(0, 15);
  const before = [last, Number(memory.get(LAST)), Number(newest)].filter((number) => number < 1e14);
  last = Math.max(Date.now(), 1 + Math.max(...before));
  memory.set(LAST, String(last));
  return String(last).padStart(15, "0");
}

function keep(entry) {
  const { key, ...body } = entry;
  try {
    localStorage.setItem(key, JSON.stringify(body));
    unkept.delete(key);
  } catch {
    unkept.set(key, entry);
  }
}

function drop(entry) {
  unkept.delete(entry.key);
  try {
    localStorage.removeItem(entry.key);
  } catch {
    /* it was in memory only */
  }
}

/** Entries of this project and, where the link is a name, of this person, oldest first. */
export function entries() {
  const project = projectKey();
  const mine = (entry) => state.me.name === null || entry.annotator === state.me.name;
  return all().filter((entry) => entry.project === project && mine(entry));
}

/** How many entries wait for another project that was served at this address, or for somebody else's link. */
export function elsewhere() {
  return all().length - entries().length;
}

export function keptInMemoryOnly() {
  return unkept.size > 0;
}

/** {kind: answer|pass|undo, annotator, position, ...} goes into the outbox, and from there to the server. */
export function add(entry) {
  const made = nextNumber();
  const request = randomId();
  const whole = { ...entry, request_id: request, project: projectKey(), key: `${PREFIX}${made}:${request}` };
  keep(whole);
  changed();
  flush();
  return whole;
}

export function find(request) {
  return entries().find((entry) => entry.request_id === request);
}

/** Decide about an entry the server refused: send it as a correction, or let it go. */
export function settle(request, { correct }) {
  const entry = find(request);
  if (!entry) return;
  if (correct) keep({ ...entry, revise: true, stuck: undefined });
  else drop(entry);
  changed();
  flush();
}

/** Try once more what the server failed at; it may have been put right. */
export function tryAgain(request = null) {
  for (const entry of entries())
    if (entry.stuck?.code === "failing" && (request === null || entry.request_id === request))
      keep({ ...entry, stuck: undefined, failed: undefined });
  changed();
  flush();
}

function countUnreadable() {
  try {
    return keysOf(ASIDE).length;
  } catch {
    return 0;
  }
}

/** Somebody has read that something could not be read. */
export function seenUnreadable() {
  memory.set(SEEN, String(countUnreadable()));
  changed();
}

function changed() {
  emit("outbox", summary());
}

export function summary() {
  const list = entries();
  const stuck = list.filter((entry) => entry.stuck);
  const unreadable = Math.max(0, countUnreadable() - Number(memory.get(SEEN)));
  return { waiting: list.length - stuck.length, stuck, sending, failures, unreadable, memoryOnly: keptInMemoryOnly() };
}

function send(entry) {
  const { annotator, position, request_id, comment } = entry;
  if (entry.kind === "answer") {
    const answer = { position, label: entry.label, request_id };
    if (comment) answer.comment = comment;
    if (entry.revise) answer.revise = true;
    return post("/api/answers", { annotator, answers: [answer] });
  }
  if (entry.kind === "undo") return post("/api/undo", { annotator, position, request_id });
  const pass = { annotator, position, kind: entry.pass, request_id };
  if (comment) pass.comment = comment;
  return post("/api/passes", pass);
}

/** The oldest entry that may go: nothing overtakes a refused entry of the same item. */
function nextToSend() {
  const blocked = new Set();
  for (const entry of entries()) {
    if (entry.stuck) blocked.add(entry.position);
    else if (!blocked.has(entry.position)) return entry;
  }
  return null;
}

function delay(error) {
  const wait = Math.min(FIRST_WAIT_MS * 2 ** failures, LONGEST_WAIT_MS);
  failures += 1;
  return Math.max(error.wait * 1000, wait);
}

/** Send one entry after the other; returns the milliseconds to wait before the next attempt, 0 when nothing is left. */
async function sendAll() {
  try {
    if (!(await sameProject())) return LONGEST_WAIT_MS;
  } catch (error) {
    return delay(error);
  }
  for (let entry = nextToSend(); entry; entry = nextToSend()) {
    try {
      const reply = await send(entry);
      drop(entry);
      failures = 0;
      emit("stored", { entry, reply });
    } catch (error) {
      const failed = (entry.failed ?? 0) + (error.status === 500 ? 1 : 0);
      if (error.temporary && failed < MOST_FAILURES) {
        if (failed) keep({ ...entry, failed });
        if (error.status === 429) emit("trouble", error.message);
        return delay(error);
      }
      if (error.temporary) error.code = "failing";
      failures = 0;
      keep({ ...entry, stuck: { code: error.code, message: error.message, held: error.detail.held ?? null } });
    }
    changed();
  }
  return 0;
}

/** Send what waits. Tabs take turns where the browser has locks; without them a repeat is recognised by its id. */
export async function flush() {
  if (sending || entries().every((entry) => entry.stuck)) return;
  sending = true;
  clearTimeout(timer);
  changed();
  let wait = 0;
  try {
    wait = navigator.locks ? await navigator.locks.request("parbals-outbox", sendAll) : await sendAll();
  } finally {
    sending = false;
    changed();
  }
  if (wait > 0) timer = setTimeout(flush, wait);
  else if (nextToSend()) flush();
}

export function startOutbox() {
  on("connection", ({ state }) => {
    if (state === "ok") tryAgain();
  });
  window.addEventListener("online", flush);
  window.addEventListener("storage", (event) => {
    if (!event.key?.startsWith(PREFIX)) return;
    changed();
    if (event.newValue) flush(); // the tab that wrote it may be closed by now
  });
  document.addEventListener("visibilitychange", () => {
    if (!document.hidden) flush();
  });
  window.addEventListener("beforeunload", (event) => {
    if (keptInMemoryOnly() && connection.state !== "ok") event.preventDefault();
  });
  tryAgain();
}
