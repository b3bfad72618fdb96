// State that all parts of the page share: the project, the annotator, and what this browser stores.

const bus = new EventTarget();

export function emit(type, detail) {
  bus.dispatchEvent(new CustomEvent(type, { detail }));
}

export function on(type, listener) {
  bus.addEventListener(type, (event) => listener(event.detail));
}

/** `me` is the signed-in visitor {name, role}; the name is null with the shared link that `parbals serve` prints. */
export const state = { project: null, me: null, live: null, name: null, shown: null };

export const isOwner = () => state.me?.role === "owner";

/** The path of this project: "" or, if several are served, "/p/NAME"; each has its own session key. */
export const BASE = location.pathname.slice(0, location.pathname.lastIndexOf("/"));
export const KEY = `key${BASE}`;

/** localStorage that never throws: without storage, only what is remembered between visits is lost. */
export const memory = {
  get(key) {
    try {
      return localStorage.getItem(`parbals:${key}`);
    } catch {
      return null;
    }
  },
  set(key, value) {
    try {
      localStorage.setItem(`parbals:${key}`, value);
      return true;
    } catch {
      return false;
    }
  },
  remove(key) {
    try {
      localStorage.removeItem(`parbals:${key}`);
    } catch {
      /* nothing was stored */
    }
  },
};

/**
 * Identifies the project, so that an unsent answer in the browser never reaches another project that is later served at
 * the same address.
 */
export function projectKey(project = state.project) {
  return project.identity;
}

export function setName(name) {
  const before = state.name;
  state.name = name;
  memory.set("name", name);
  if (before !== name) emit("name", { name, before });
}

export function shortcutsOn() {
  return memory.get("shortcuts") !== "off";
}

export const TONES = 10;

/** The colour class of a label: ten colours, which further classes reuse in order; none for a class of the past. */
export function tone(label) {
  const index = state.project.classes.indexOf(label);
  return index < 0 ? "tone-none" : `tone-${index % TONES}`;
}
