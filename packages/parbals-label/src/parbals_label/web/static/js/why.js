// Why the item was chosen. The model's prediction and the strategy are shown only on request, because a visible
// prediction biases annotators.

import { get } from "./api.js";
import { displayLabel, isTask, MANY, NUMBERS, threeDigits } from "./answers.js";
import { h, percent } from "./dom.js";
import { translated } from "./server_texts.js";
import { on, state, tone } from "./state.js";
import { t } from "./text.js";

const MAX_BARS = 6;
const MIN_CHANGE = 0.05; // of a probability, or in standard deviations of a number

/** Bars of the most probable classes; for regression the predicted mean and standard deviation. */
export function probabilityBars(predicted) {
  if (isTask(NUMBERS)) {
    const { mean, deviation } = predicted;
    return h("p", {}, t("About {mean} ± {deviation} (standard deviation).", { mean: displayLabel(threeDigits(mean)), deviation: threeDigits(deviation) }));
  }
  const order = Object.entries(predicted).sort((a, b) => b[1] - a[1]);
  const rows = order.slice(0, MAX_BARS).map(([label, share]) => {
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
  const otherProbability = order.slice(MAX_BARS).reduce((sum, [, share]) => sum + share, 0);
  if (order.length > MAX_BARS)
    rows.push(
      h(
        "li",
        { class: "bar-row rest" },
        h("span", { class: "bar-name" }, t("{n:# other|# others}", { n: order.length - MAX_BARS })),
        h("span", { class: "bar-track" }),
        h("span", { class: "bar-value" }, isTask(MANY) ? "" : percent(otherProbability)),
      ),
    );
  return h("ul", { class: "bars" }, rows);
}

/** Whether there is something to show: not before there is a model. */
function canShow(task) {
  return Boolean(task?.why?.predicted || state.live?.report);
}

/** Whether the prediction has changed since the item was chosen. */
function hasChanged(previous, current) {
  if (!previous) return false;
  const scale = isTask(NUMBERS) ? current.deviation : 1;
  return Object.keys(current).some((label) => Math.abs(current[label] - (previous[label] ?? 0)) > MIN_CHANGE * scale);
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
  const node = h("section", { class: "why", "aria-label": t("Why this item") }, sentence, button, guess);

  function draw() {
    button.textContent = open ? t("Hide the model's prediction") : t("Show the model's prediction");
    button.setAttribute("aria-expanded", String(open));
    button.hidden = !open && !canShow(task);
    guess.hidden = !open;
    if (!open || !task) return guess.replaceChildren();
    refresh(task);
    return fill(task.why?.predicted);
  }

  function fill(predicted, isUpdated = false) {
    const details = task?.why?.details;
    guess.replaceChildren(
      predicted
        ? probabilityBars(predicted)
        : h(
            "p",
            { class: "quiet" },
            task?.why?.strategy === "audit"
              ? t("Not shown for a test item: a visible prediction would bias the measurement.")
              : t("No prediction yet: the model needs a few labels first."),
          ),
      isUpdated ? h("p", { class: "quiet" }, t("Updated: the model has been retrained since this item was chosen.")) : "",
      details ? h("details", { class: "why-details" }, h("summary", {}, t("Details")), h("p", {}, details)) : "",
    );
  }

  /** Load the latest prediction: the item was prefetched, and the model may have been retrained since. */
  async function refresh(shownTask) {
    try {
      const { predicted } = await get(`/api/items/${shownTask.position}`);
      if (open && task === shownTask && predicted) fill(predicted, hasChanged(shownTask.why?.predicted, predicted));
    } catch {
      /* keep the prediction that came with the item */
    }
  }

  function toggle() {
    if (!open && !canShow(task)) return;
    open = !open;
    draw();
  }

  on("live", () => {
    if (open && task) refresh(task);
    button.hidden = !open && !canShow(task);
  });

  return {
    node,
    toggle,
    show(next) {
      task = next;
      node.hidden = !task;
      const why = task?.why;
      sentence.textContent = translated(why?.sentence) ?? "";
      draw();
    },
  };
}
