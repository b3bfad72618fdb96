// Requests to the server. Every failure becomes an ApiError that says whether a retry can help.

import { BASE, emit, KEY, memory } from "./state.js";
import { t } from "./text.js";

const TIMEOUT_MS = 20_000;
const TEMPORARY = new Set([408, 425, 429, 500, 502, 503, 504]);

export class ApiError extends Error {
  constructor(message, { status = 0, code = "unreachable", detail = {}, wait = 0 } = {}) {
    super(message);
    this.status = status;
    this.code = code;
    this.detail = detail;
    this.wait = wait; // seconds the server asked for
  }

  /** True when the same request may succeed later. */
  get temporary() {
    return this.status === 0 || this.status === 401 || TEMPORARY.has(this.status);
  }
}

/** "ok", "lost" (the server cannot be reached) or "locked" (the session is no longer valid). */
export const connection = { state: "ok" };

function setConnection(state) {
  if (connection.state === state) return;
  const before = connection.state;
  connection.state = state;
  emit("connection", { state, before });
}

/**
 * A fetch with the session's key. Other ports of this machine see its cookie, but not the key. The key is read for every
 * request, because another tab may have renewed it.
 */
function request(method, path, body, options = {}) {
  const key = memory.get(KEY);
  const headers = key === null ? {} : { "X-Parbals-Key": key };
  if (body !== undefined) headers["Content-Type"] = "application/json";
  return fetch(BASE + path, {
    method,
    headers,
    body: body === undefined ? undefined : JSON.stringify(body),
    credentials: "same-origin",
    cache: "no-store",
    ...options,
  });
}

async function call(method, path, { body, timeout = TIMEOUT_MS } = {}) {
  let response;
  try {
    response = await request(method, path, body, { signal: timeout ? AbortSignal.timeout(timeout) : undefined });
  } catch {
    setConnection("lost");
    throw new ApiError(t("The server cannot be reached."));
  }
  if (response.ok) {
    setConnection("ok");
    return response;
  }
  setConnection(response.status === 401 ? "locked" : "ok");
  let error = {};
  try {
    error = (await response.json()).error ?? {};
  } catch {
    /* the page of a proxy, or a truncated response */
  }
  throw new ApiError(error.message ?? t("The server answered with status {status}.", { status: String(response.status) }), {
    status: response.status,
    code: error.code ?? "error",
    detail: error,
    wait: Number(response.headers.get("Retry-After")) || 0,
  });
}

async function json(method, path, body) {
  const response = await call(method, path, { body });
  try {
    return await response.json();
  } catch {
    setConnection("lost"); // the server stopped in the middle of its response
    throw new ApiError(t("The server's response was incomplete."));
  }
}

export const get = (path) => json("GET", path);
export const post = (path, body) => json("POST", path, body);
export const patch = (path, body) => json("PATCH", path, body);

/** Download a file as {name, blob}, without a timeout; `onProgress(bytes, total)` is called for every chunk. */
export async function download(path, fallbackName, onProgress) {
  const response = await call("GET", path, { timeout: 0 });
  const total = Number(response.headers.get("Content-Length")) || 0;
  const filename = /filename="?([^";]+)"?/.exec(response.headers.get("Content-Disposition") ?? "");
  try {
    const chunks = [];
    let bytes = 0;
    for (const reader = response.body.getReader(); ; ) {
      const { done, value } = await reader.read();
      if (done) break;
      chunks.push(value);
      bytes += value.length;
      onProgress(bytes, total);
    }
    return { name: filename ? filename[1] : fallbackName, blob: new Blob(chunks) };
  } catch {
    setConnection("lost");
    throw new ApiError(t("The download was interrupted; try again."));
  }
}

/** Send a request while the page is being closed, without waiting for its response. */
export function sendOnLeave(path, body) {
  request("POST", path, body, { keepalive: true }).catch(() => {});
}

/** The address of an item's picture; null unless this server serves it. */
export function imageAddress(image) {
  return typeof image === "string" && image.startsWith("/api/media/") ? image : null;
}

/** Load an image element by fetch, because the browser's own request would lack the key. */
export async function loadPicture(picture, address) {
  try {
    const objectUrl = URL.createObjectURL(await (await call("GET", address, { timeout: 0 })).blob());
    picture.addEventListener("load", () => URL.revokeObjectURL(objectUrl), { once: true });
    picture.src = objectUrl;
  } catch {
    picture.dataset.failed = "yes";
    picture.dispatchEvent(new Event("error"));
  }
}

const visibility = new IntersectionObserver((entries) => {
  for (const { target, isIntersecting } of entries) {
    if (!isIntersecting) continue;
    visibility.unobserve(target);
    loadPicture(target, target.dataset.address);
  }
});

/** Load an image element once it scrolls into view. */
export function loadWhenVisible(picture, address) {
  picture.dataset.address = address;
  visibility.observe(picture);
  return picture;
}
