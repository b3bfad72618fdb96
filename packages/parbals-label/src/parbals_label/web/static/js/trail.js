// What this tab answered last, so that it can be taken back; it outlives a reload of the tab.

import { projectKey } from "./state.js";

const KEY = "parbals:trail";
const LONGEST = 20;

let steps = [];
try {
  steps = JSON.parse(sessionStorage.getItem(KEY)) ?? [];
} catch {
  /* starts empty */
}

function keep() {
  try {
    sessionStorage.setItem(KEY, JSON.stringify(steps));
  } catch {
    /* too long texts: the trail lives until the reload */
  }
}

const mine = (step, name) => step.name === name && step.project === projectKey();

export const trail = {
  push(step) {
    steps = [...steps, { ...step, project: projectKey() }].slice(-LONGEST);
    keep();
  },
  /** The last step of this person, taken off; null when there is none. */
  pop(name) {
    const place = steps.findLastIndex((step) => mine(step, name));
    if (place < 0) return null;
    const [step] = steps.splice(place, 1);
    keep();
    return step;
  },
  empty: (name) => !steps.some((step) => mine(step, name)),
};
