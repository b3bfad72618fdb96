// Answers live in localStorage from the click until the server has confirmed that they are on disk.
//
// One key an entry, so that two tabs never overwrite each other's list. Entries are sent in the order they were made,
// by one tab at a time, each with the same request id on every attempt: a repeat is free on the server. An entry that
// the server refuses for good is kept, shown, and waits for a decision; nothing is ever dropped silently.

import { connection, post } from "./api.js";
import { randomId } from "./dom.js";
import { sameProject } from "./identity.js";
import { emit, on, projectKey } from "./state.js";

const PREFIX = "parbals:out:";
const FIRST_WAIT_MS = 500;
const LONGEST_WAIT_MS = 15_000;

const unkept = new Map(); // entries of a browser whose storage is full or switched off
let number = 0;
let failures = 0;
let timer = 0;
let sending = false;

function all() {
  const found = [...unkept.values()];
  try {
    for (let i = 0; i < localStorage.length; i += 1) {
      const key = localStorage.key(i);
      if (key.startsWith(PREFIX)) found.push({ ...JSON.parse(localStorage.getItem(key)), key });
    }
  } catch {
    /* what is in memory is all there is */
  }
  return found.sort((a, b) => (a.key < b.key ? -1 : 1));
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

/** Entries of this project, oldest first. */
export function entries() {
  const project = projectKey();
  return all().filter((entry) => entry.project === project);
}

/** How many entries wait for another project that was served at this address. */
export function elsewhere() {
  return all().length - entries().length;
}

export function keptInMemoryOnly() {
  return unkept.size > 0;
}

/** {kind: answer|pass|undo, annotator, position, ...} goes into the outbox, and from there to the server. */
export function add(entry) {
  number += 1;
  const made = String(Date.now()).padStart(15, "0") + String(number).padStart(6, "0");
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

function changed() {
  emit("outbox", summary());
}

export function summary() {
  const list = entries();
  const stuck = list.filter((entry) => entry.stuck);
  return { waiting: list.length - stuck.length, stuck, sending, failures, memoryOnly: keptInMemoryOnly() };
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
      if (error.temporary) return delay(error);
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
    if (state === "ok") flush();
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
  changed();
  flush();
}
