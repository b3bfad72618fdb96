// The outbox keeps answers in localStorage from the click until the server has confirmed that they are on disk.
//
// Each entry has a key of its own, so that two tabs never overwrite each other's list. Entries are sent in the order in
// which they were made, by one tab at a time, with the same request id on every attempt: the server ignores repeats. An
// entry that the server rejects, or fails to store five times, is kept and shown until the person decides, without
// blocking entries of other items. No entry is dropped silently.

import { connection, post } from "./api.js";
import { randomId } from "./dom.js";
import { sameProject } from "./identity.js";
import { emit, memory, on, projectKey, state } from "./state.js";

const PREFIX = "parbals:out:";
const UNREADABLE_PREFIX = "parbals:unreadable:";
const LAST_NUMBER = "last-entry";
const DISMISSED = "seen-unreadable";
const MAX_FAILURES = 5; // server errors (status 500) for one entry, which `failed` counts
const MIN_WAIT_MS = 500;
const MAX_WAIT_MS = 15_000;

const inMemory = new Map(); // entries of a browser whose storage is full or switched off
let lastNumber = 0;
let failures = 0; // failed attempts in a row, of any entry
let timer = 0;
let sending = false;

const keysOf = (prefix) => Object.keys(localStorage).filter((key) => key.startsWith(prefix));

/** Entries of all projects and people in this browser, oldest first: a key begins with the entry's number. */
function all() {
  const entries = [...inMemory.values()];
  try {
    for (const key of keysOf(PREFIX)) {
      const entry = read(key);
      if (entry) entries.push({ ...entry, key });
    }
  } catch {
    /* no storage: only the entries in memory */
  }
  return entries.sort((a, b) => (a.key < b.key ? -1 : 1));
}

/** Read a stored entry. One that cannot be parsed is moved to another key, so that it can be inspected. */
function read(key) {
  const text = localStorage.getItem(key);
  if (text === null) return null; // another tab has sent it
  try {
    const entry = JSON.parse(text);
    if (typeof entry.request_id === "string" && typeof entry.kind === "string") return entry;
  } catch {
    /* handled below, like an entry without these fields */
  }
  try {
    localStorage.setItem(UNREADABLE_PREFIX + key.slice(PREFIX.length), text);
    localStorage.removeItem(key);
  } catch {
    /* the storage is full: it stays where it is */
  }
  return null;
}

/** A number larger than all earlier ones in any tab, even when the clock is set back. */
function nextNumber() {
  const newest = all().at(-1)?.key.slice(PREFIX.length).slice(0, 15);
  // The filter removes NaN, and numbers that no clock can have given.
  const earlier = [lastNumber, Number(memory.get(LAST_NUMBER)), Number(newest)].filter((number) => number < 1e14);
  lastNumber = Math.max(Date.now(), 1 + Math.max(...earlier));
  memory.set(LAST_NUMBER, String(lastNumber));
  return String(lastNumber).padStart(15, "0");
}

function save(entry) {
  const { key, ...body } = entry;
  try {
    localStorage.setItem(key, JSON.stringify(body));
    inMemory.delete(key);
  } catch {
    inMemory.set(key, entry);
  }
}

function drop(entry) {
  inMemory.delete(entry.key);
  try {
    localStorage.removeItem(entry.key);
  } catch {
    /* it is in memory only */
  }
}

/** Entries of this project and, with a personal link, of this person, oldest first. */
export function entries() {
  const project = projectKey();
  const isMine = (entry) => state.me.name === null || entry.annotator === state.me.name;
  return all().filter((entry) => entry.project === project && isMine(entry));
}

/** The number of entries for other projects that were served at this address, or for other people's links. */
export function countElsewhere() {
  return all().length - entries().length;
}

export function hasEntriesInMemoryOnly() {
  return inMemory.size > 0;
}

/** Add an entry {kind: answer|pass|undo, annotator, position, ...} and send it to the server. */
export function add(entry) {
  const number = nextNumber();
  const request = randomId();
  const stored = { ...entry, request_id: request, project: projectKey(), key: `${PREFIX}${number}:${request}` };
  save(stored);
  notifyChange();
  flush();
  return stored;
}

export function find(request) {
  return entries().find((entry) => entry.request_id === request);
}

/** Resolve an entry that the server rejected: send it again as a correction, or discard it. */
export function resolve(request, { correct }) {
  const entry = find(request);
  if (!entry) return;
  if (correct) save({ ...entry, revise: true, stuck: undefined });
  else drop(entry);
  notifyChange();
  flush();
}

/** Retry all entries that the server failed to store, or the one with this request id. */
export function retry(request = null) {
  for (const entry of entries())
    if (entry.stuck?.code === "failing" && (request === null || entry.request_id === request))
      save({ ...entry, stuck: undefined, failed: undefined });
  notifyChange();
  flush();
}

function countUnreadable() {
  try {
    return keysOf(UNREADABLE_PREFIX).length;
  } catch {
    return 0;
  }
}

/** Dismiss the notice about unreadable entries. */
export function dismissUnreadable() {
  memory.set(DISMISSED, String(countUnreadable()));
  notifyChange();
}

function notifyChange() {
  emit("outbox", summary());
}

export function summary() {
  const list = entries();
  const stuck = list.filter((entry) => entry.stuck);
  const unreadable = Math.max(0, countUnreadable() - Number(memory.get(DISMISSED)));
  return { waiting: list.length - stuck.length, stuck, sending, failures, unreadable, memoryOnly: hasEntriesInMemoryOnly() };
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

/** The oldest entry that may be sent: entries wait behind a stuck entry (rejected or failing) of the same item. */
function nextToSend() {
  const blocked = new Set();
  for (const entry of entries()) {
    if (entry.stuck) blocked.add(entry.position);
    else if (!blocked.has(entry.position)) return entry;
  }
  return null;
}

/** Count a failed attempt; returns the milliseconds to wait: doubled each time, at least what the server asked for. */
function backoff(error) {
  const wait = Math.min(MIN_WAIT_MS * 2 ** failures, MAX_WAIT_MS);
  failures += 1;
  return Math.max(error.wait * 1000, wait);
}

/** Send all entries in order; returns the milliseconds to wait before the next attempt, 0 when none is needed. */
async function sendAll() {
  try {
    if (!(await sameProject())) return MAX_WAIT_MS;
  } catch (error) {
    return backoff(error);
  }
  for (let entry = nextToSend(); entry; entry = nextToSend()) {
    try {
      const reply = await send(entry);
      drop(entry);
      failures = 0;
      emit("stored", { entry, reply });
    } catch (error) {
      const failed = (entry.failed ?? 0) + (error.status === 500 ? 1 : 0);
      if (error.temporary && failed < MAX_FAILURES) {
        if (failed) save({ ...entry, failed });
        if (error.status === 429) emit("trouble", error.message);
        return backoff(error);
      }
      if (error.temporary) error.code = "failing";
      failures = 0;
      // `held`: the label that the server has already, if it differs.
      save({ ...entry, stuck: { code: error.code, message: error.message, held: error.detail.held ?? null } });
    }
    notifyChange();
  }
  return 0;
}

/** Send all entries. Tabs take turns if the browser has locks; otherwise the server recognises repeats by their id. */
export async function flush() {
  if (sending || entries().every((entry) => entry.stuck)) return;
  sending = true;
  clearTimeout(timer);
  notifyChange();
  let wait = 0;
  try {
    wait = navigator.locks ? await navigator.locks.request("parbals-outbox", sendAll) : await sendAll();
  } finally {
    sending = false;
    notifyChange();
  }
  if (wait > 0) timer = setTimeout(flush, wait);
  else if (nextToSend()) flush();
}

export function startOutbox() {
  on("connection", ({ state: connectionState }) => {
    if (connectionState === "ok") retry();
  });
  window.addEventListener("online", flush);
  window.addEventListener("storage", (event) => {
    if (!event.key?.startsWith(PREFIX)) return;
    notifyChange();
    if (event.newValue) flush(); // the tab that wrote it may be closed by now
  });
  document.addEventListener("visibilitychange", () => {
    if (!document.hidden) flush();
  });
  window.addEventListener("beforeunload", (event) => {
    if (hasEntriesInMemoryOnly() && connection.state !== "ok") event.preventDefault();
  });
  retry();
}
