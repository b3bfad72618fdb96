// Polls the server for changes and notifies the panels.

import { connection, get } from "./api.js";
import { emit, on, projectKey, state } from "./state.js";

const POLL_MS = 3000;
const POLL_HIDDEN_MS = 20_000;
const SOON_MS = 400;
const PROJECT_REFRESH_MS = 5000;

let timer = 0;
let isPolling = false;
let isDue = false; // a poll is to follow shortly
let serverStarted = null;
let refreshedAt = Date.now();
let projectMayDiffer = false; // something changed since the project was loaded

async function poll() {
  if (isPolling) return;
  isPolling = true;
  isDue = false;
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
      projectMayDiffer = true;
    }
    // Not only after a change: one that came too soon after the last refresh waits for its turn.
    if (projectMayDiffer) await refreshProject(state.live.server?.started);
    emit("trouble", reply.trouble ?? null);
  } catch (error) {
    emit("trouble", error.status > 0 && error.status !== 401 ? error.message : null); // otherwise the notice of the lost connection is shown
  }
  isPolling = false;
  timer = setTimeout(poll, isDue ? SOON_MS : document.hidden ? POLL_HIDDEN_MS : POLL_MS);
}

/** Reload the project: others may have changed its settings, and a restarted server may serve another project. */
async function refreshProject(start) {
  const restarted = serverStarted !== null && start !== serverStarted;
  serverStarted = start;
  if (!restarted && Date.now() - refreshedAt < PROJECT_REFRESH_MS) return;
  refreshedAt = Date.now();
  const project = await get("/api/project");
  projectMayDiffer = false;
  if (projectKey(project) !== projectKey()) return emit("other-project", project);
  if (JSON.stringify(project) === JSON.stringify(state.project)) return;
  state.project = project;
  emit("project", project);
}

/** Poll shortly, because something was just stored. A further call does not put it off: fast answers would do so for ever. */
export function pollSoon() {
  if (isDue) return;
  isDue = true;
  if (isPolling) return;
  clearTimeout(timer);
  timer = setTimeout(poll, SOON_MS);
}

export function startLive() {
  on("stored", pollSoon);
  on("shown", pollSoon); // the number of assigned items has changed
  on("connection", ({ state: connectionState }) => {
    if (connectionState === "ok") {
      if (state.live) state.live = { ...state.live, revision: null };
      pollSoon();
    }
  });
  document.addEventListener("visibilitychange", () => {
    if (!document.hidden && connection.state !== "locked") pollSoon();
  });
  return poll();
}
