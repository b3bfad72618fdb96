// Asks the server what has changed, and tells the panels.

import { connection, get } from "./api.js";
import { emit, on, projectKey, state } from "./state.js";

const EVERY_MS = 3000;
const HIDDEN_MS = 20_000;
const SOON_MS = 400;
const RENEW_MS = 5000;

let timer = 0;
let asking = false;
let started = null;
let renewed = Date.now();

async function ask() {
  if (asking) return;
  asking = true;
  clearTimeout(timer);
  try {
    const since = state.live?.revision ? `?since=${encodeURIComponent(state.live.revision)}` : "";
    const reply = await get(`/api/live${since}`);
    if (reply.unchanged) {
      state.live = { ...state.live, queue: reply.queue ?? state.live.queue };
      if ("features" in reply) state.live.features = reply.features;
      emit("queue", state.live.queue);
    } else {
      state.live = reply;
      emit("live", reply);
      await renewProject(reply.server?.started);
    }
    emit("trouble", reply.trouble ?? null);
  } catch (error) {
    emit("trouble", error.status > 0 && error.status !== 401 ? error.message : null); // else the connection's state says it
  }
  asking = false;
  timer = setTimeout(ask, document.hidden ? HIDDEN_MS : EVERY_MS);
}

/** Others may have changed the settings, and a server that was started again may serve another project. */
async function renewProject(start) {
  const restarted = started !== null && start !== started;
  started = start;
  if (!restarted && Date.now() - renewed < RENEW_MS) return;
  renewed = Date.now();
  const project = await get("/api/project");
  if (projectKey(project) !== projectKey()) return emit("other-project", project);
  if (JSON.stringify(project) === JSON.stringify(state.project)) return;
  state.project = project;
  emit("project", project);
}

/** Ask again shortly: something was just stored. */
export function soon() {
  clearTimeout(timer);
  timer = setTimeout(ask, SOON_MS);
}

export function startLive() {
  on("stored", soon);
  on("shown", soon); // an item that is taken is out
  on("connection", ({ state: now }) => {
    if (now === "ok") {
      if (state.live) state.live = { ...state.live, revision: null };
      soon();
    }
  });
  document.addEventListener("visibilitychange", () => {
    if (!document.hidden && connection.state !== "locked") soon();
  });
  return ask();
}
