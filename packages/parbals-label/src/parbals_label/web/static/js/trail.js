// The latest answers of this tab, for undo; kept in sessionStorage across reloads.

import { projectKey } from "./state.js";

const KEY = "parbals:trail";
const MAX_STEPS = 20;

let steps = [];
try {
  steps = JSON.parse(sessionStorage.getItem(KEY)) ?? [];
} catch {
  /* start empty */
}

function save() {
  try {
    sessionStorage.setItem(KEY, JSON.stringify(steps));
  } catch {
    /* the texts are too long for the storage: undo works until the next reload */
  }
}

const isBy = (step, name) => step.name === name && step.project === projectKey();

export const trail = {
  push(step) {
    steps = [...steps, { ...step, project: projectKey() }].slice(-MAX_STEPS);
    save();
  },
  /** Remove and return the last step of this person; null when there is none. */
  pop(name) {
    const index = steps.findLastIndex((step) => isBy(step, name));
    if (index < 0) return null;
    const [step] = steps.splice(index, 1);
    save();
    return step;
  },
  empty: (name) => !steps.some((step) => isBy(step, name)),
};
