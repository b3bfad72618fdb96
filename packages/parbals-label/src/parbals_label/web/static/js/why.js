// Why the item was chosen, and, only on request, what the model thinks of it and what chose it: a guess seen first
// sways the reader, and names of strategies mean nothing to most.

import { get } from "./api.js";
import { brief, inWords, isTask, MANY, NUMBERS } from "./answers.js";
import { h, percent } from "./dom.js";
import { on, tone } from "./state.js";

const SHOWN = 6;
const CHANGE = 0.05;

/** Small bars, most probable first; of a number what is expected, and how far off that may be. */
export function probabilityBars(predicted) {
  if (isTask(NUMBERS)) {
    const { mean, deviation } = predicted;
    return h("p", {}, `About ${inWords(brief(mean))}, give or take ${brief(deviation)}.`);
  }
  const order = Object.entries(predicted).sort((a, b) => b[1] - a[1]);
  const rows = order.slice(0, SHOWN).map(([label, share]) => {
    const bar = h("span", { class: `bar-fill ${tone(label)}` });
    bar.style.width = `${Math.max(0.5, 100 * share)}%`;
    return h(
      "li",
      { class: "bar-row" },
      h("span", { class: "bar-name", dir: "auto" }, label),
      h("span", { class: "bar-track", "aria-hidden": "true" }, bar),
      h("span", { class: "bar-value" }, percent(share)),
    );
  });
  const left = order.slice(SHOWN).reduce((sum, [, share]) => sum + share, 0);
  if (order.length > SHOWN)
    rows.push(
      h(
        "li",
        { class: "bar-row rest" },
        h("span", { class: "bar-name" }, `${order.length - SHOWN} others`),
        h("span", { class: "bar-track" }),
        h("span", { class: "bar-value" }, isTask(MANY) ? "" : percent(left)),
      ),
    );
  return h("ul", { class: "bars" }, rows);
}

/** Whether the sentence about an item, made from the first, no longer fits the second. */
function hasChanged(before, now) {
  return Boolean(before) && Object.keys(now).some((label) => Math.abs(now[label] - (before[label] ?? 0)) > CHANGE * (isTask(NUMBERS) ? now.deviation : 1));
}

export function whyPanel() {
  let open = false;
  let task = null;
  const sentence = h("p", { class: "why-sentence" });
  const guess = h("div", { class: "guess", id: "guess", hidden: true });
  const button = h("button", {
    class: "text-button",
    type: "button",
    "aria-expanded": "false",
    "aria-controls": "guess",
    "aria-keyshortcuts": "w",
    onclick: () => toggle(),
  });
  const node = h("section", { class: "why", "aria-label": "Why this item" }, sentence, button, guess);

  function draw() {
    button.textContent = open ? "Hide what the model thinks" : "Show what the model thinks";
    button.setAttribute("aria-expanded", String(open));
    guess.hidden = !open;
    if (!open || !task) return guess.replaceChildren();
    refresh(task);
    return fill(task.why?.predicted);
  }

  function fill(predicted, isNew = false) {
    const details = task?.why?.details;
    guess.replaceChildren(
      predicted
        ? probabilityBars(predicted)
        : h(
            "p",
            { class: "quiet" },
            task?.why?.strategy === "audit"
              ? "Not shown for a random item: a guess seen first would sway the measurement."
              : "The model has made no prediction for this item yet; it needs a few labels first.",
          ),
      isNew ? h("p", { class: "quiet" }, "The model has learnt since this item was chosen; this is what it thinks now.") : "",
      details ? h("details", { class: "why-details" }, h("summary", {}, "Details"), h("p", {}, details)) : "",
    );
  }

  /** The item was fetched a while before it is shown, and the model has learnt since. */
  async function refresh(asked) {
    try {
      const { predicted } = await get(`/api/items/${asked.position}`);
      if (open && task === asked && predicted) fill(predicted, hasChanged(asked.why?.predicted, predicted));
    } catch {
      /* what came with the item stays */
    }
  }

  function toggle() {
    open = !open;
    draw();
  }

  on("live", () => {
    if (open && task) refresh(task);
  });

  return {
    node,
    toggle,
    show(next) {
      task = next;
      node.hidden = !task;
      const why = task?.why;
      sentence.textContent = why?.sentence ?? "";
      draw();
    },
  };
}
