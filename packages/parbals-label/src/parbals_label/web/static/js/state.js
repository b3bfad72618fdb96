// What every part of the page knows: the project, who is labelling, what this browser was told to remember.

const bus = new EventTarget();

export function emit(type, detail) {
  bus.dispatchEvent(new CustomEvent(type, { detail }));
}

export function on(type, listener) {
  bus.addEventListener(type, (event) => listener(event.detail));
}

/** `me` is who the server takes this browser for: {name, role}; no name with the link that everybody may have. */
export const state = { project: null, me: null, live: null, name: null, shown: null };

export const isOwner = () => state.me?.role === "owner";

/** Where this page begins: "" or, where several projects are served, "/p/NAME"; each has a key of its own. */
export const BASE = location.pathname.slice(0, location.pathname.lastIndexOf("/"));
export const KEY = `key${BASE}`;

/** localStorage that never throws: a browser that keeps nothing only loses the memory between visits. */
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
      /* nothing was kept */
    }
  },
};

/**
 * Tells projects apart that are served at the same address one after the other, so that an answer which waited in the
 * browser can never reach another project's items.
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

/** Ten colours, on the map with as many shapes; classes beyond take them in turn. */
export function tone(label) {
  return `tone-${Math.max(0, state.project.classes.indexOf(label)) % TONES}`;
}
