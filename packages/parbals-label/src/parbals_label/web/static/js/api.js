// Talking to the server. Every failure becomes one ApiError that says whether waiting can help.

import { BASE, emit, KEY, memory } from "./state.js";

const PATIENCE_MS = 20_000;
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

/** "ok", "lost" (no server there) or "locked" (the token is no longer good). */
export const connection = { state: "ok" };

function connected(next) {
  if (connection.state === next) return;
  const before = connection.state;
  connection.state = next;
  emit("connection", { state: next, before });
}

/** A request with the half of the session that no other port of this machine sees; another tab may have renewed it. */
function ask(method, path, body, more = {}) {
  const key = memory.get(KEY);
  const headers = key === null ? {} : { "X-Parbals-Key": key };
  if (body !== undefined) headers["Content-Type"] = "application/json";
  return fetch(BASE + path, {
    method,
    headers,
    body: body === undefined ? undefined : JSON.stringify(body),
    credentials: "same-origin",
    cache: "no-store",
    ...more,
  });
}

async function call(method, path, { body, patience = PATIENCE_MS } = {}) {
  let response;
  try {
    response = await ask(method, path, body, { signal: patience ? AbortSignal.timeout(patience) : undefined });
  } catch {
    connected("lost");
    throw new ApiError("The server cannot be reached.");
  }
  if (response.ok) {
    connected("ok");
    return response;
  }
  connected(response.status === 401 ? "locked" : "ok");
  let error = {};
  try {
    error = (await response.json()).error ?? {};
  } catch {
    /* a proxy's page, or cut short */
  }
  throw new ApiError(error.message ?? `The server answered with status ${response.status}.`, {
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
    connected("lost"); // killed in the middle of its answer
    throw new ApiError("The server's answer was cut short.");
  }
}

export const get = (path) => json("GET", path);
export const post = (path, body) => json("POST", path, body);
export const patch = (path, body) => json("PATCH", path, body);

/** A file to keep: {name, blob}. It may take minutes to make; ``arriving(bytes, all)`` is told what has come. */
export async function download(path, fallbackName, arriving) {
  const response = await call("GET", path, { patience: 0 });
  const all = Number(response.headers.get("Content-Length")) || 0;
  const named = /filename="?([^";]+)"?/.exec(response.headers.get("Content-Disposition") ?? "");
  try {
    const parts = [];
    let bytes = 0;
    for (const reader = response.body.getReader(); ; ) {
      const { done, value } = await reader.read();
      if (done) break;
      parts.push(value);
      bytes += value.length;
      arriving(bytes, all);
    }
    return { name: named ? named[1] : fallbackName, blob: new Blob(parts) };
  } catch {
    connected("lost");
    throw new ApiError("The download was cut short; try again.");
  }
}

/** Said while the page is being left, when no answer can be waited for. */
export function farewell(path, body) {
  ask("POST", path, body, { keepalive: true }).catch(() => {});
}

/** Only our own pictures are ever shown. */
export function imageAddress(image) {
  return typeof image === "string" && image.startsWith("/api/media/") ? image : null;
}

/** Fills an image element: the address alone would come without the key. */
export async function loadPicture(picture, address) {
  try {
    const kept = URL.createObjectURL(await (await call("GET", address, { patience: 0 })).blob());
    picture.addEventListener("load", () => URL.revokeObjectURL(kept), { once: true });
    picture.src = kept;
  } catch {
    picture.dataset.failed = "yes";
    picture.dispatchEvent(new Event("error"));
  }
}

const seen = new IntersectionObserver((entries) => {
  for (const { target, isIntersecting } of entries) {
    if (!isIntersecting) continue;
    seen.unobserve(target);
    loadPicture(target, target.dataset.address);
  }
});

/** The same, once it is about to be seen. */
export function loadWhenSeen(picture, address) {
  picture.dataset.address = address;
  seen.observe(picture);
  return picture;
}
