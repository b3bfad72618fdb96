// The target set: the error on it and on the pool, how different the two are, and what to collect.

import { get } from "./api.js";
import { displayLabel, isTask, NUMBERS, threeDigits } from "./answers.js";
import { h, percent, range, unbroken } from "./dom.js";
import { livePanel, measureButton } from "./panels.js";
import { translated } from "./server_texts.js";
import { emit, on, state } from "./state.js";
import { t } from "./text.js";

let target = null; // the latest reply about the target set
let requestNumber = 0;

async function load() {
  const number = ++requestNumber;
  if (!state.live?.target) {
    target = null;
    return emit("target", target);
  }
  try {
    const reply = await get("/api/target");
    if (number !== requestNumber) return;
    target = reply;
    emit("target", target);
  } catch {
    /* the notice of the lost connection is shown */
  }
}

/** An expected error with its interval, and what it is about. */
function errorFigure(error, about) {
  if (!error) return null;
  const format = isTask(NUMBERS) ? (value) => displayLabel(threeDigits(value)) : percent;
  return h(
    "p",
    { class: "figure" },
    h("strong", {}, format(error.mean)),
    h("span", { class: "interval" }, ` (${range(error, format)})`),
    h("span", { class: "figure-about" }, about),
  );
}

/** Similar items that are far from the pool: how many, and examples. */
function farGroup({ n_items: nItems, examples }) {
  const nMore = nItems - examples.length;
  return h(
    "li",
    { class: "far-group" },
    h("span", { class: "far-count" }, t("{n:# item|# items}", { n: nItems })),
    h(
      "ul",
      {},
      examples.map(({ id, snippet }) => h("li", { dir: "auto" }, snippet || id)),
      nMore > 0 && h("li", { class: "quiet" }, t("and {n:# similar item|# similar items}", { n: nMore })),
    ),
  );
}

/** Measure the error on the target set: draw a random sample of it, whose items are labelled next. */
function measureControl(live) {
  if (live.is_measuring || isTask(NUMBERS) || !target.n_measurable) return null;
  return measureButton(
    t("Measure the error on the target set"),
    { from_target: true },
    target.n_measurable,
    (n) => t("A random sample is being drawn. Label its {n:# item|# items}, then the error is measured.", { n }),
    t("You choose how many random items of the target set to label."),
  );
}

/** For owners: the panel of the target set; hidden where there is none. */
export function targetPanel() {
  const node = livePanel(t("Target set"), (live) => {
    if (!live.target || !target?.name) return [];
    const error = live.report?.expected_error ?? live.report?.expected_metric;
    const hasErrors = error && live.report?.pool_error;
    return [
      h("p", { class: "quiet" }, h("span", { class: "target-name", dir: "auto" }, target.name), ` · ${t("{n:# item|# items}.", { n: target.n_rows })} ${t("Items are chosen for what their labels say about it.")}`),
      hasErrors &&
        h(
          "div",
          { class: "two-figures" },
          errorFigure(error, t("expected on the target set")),
          errorFigure(live.report.pool_error, t("expected on the pool")),
        ),
      measureControl(live),
      target.message && h("p", { class: "quiet" }, translated(target.message)),
      target.sentence && h("p", { class: "target-sentence" }, unbroken(translated(target.sentence))),
      target.far_sentence && h("p", { class: target.far.length ? "target-sentence" : "quiet" }, unbroken(translated(target.far_sentence))),
      target.far.length > 0 && h("ul", { class: "far-groups" }, target.far.map(farGroup)),
    ];
  }, ["target"]);
  const toggle = () => {
    node.hidden = !state.live?.target;
  };
  on("live", load);
  on("live", toggle);
  toggle();
  load();
  return node;
}

/** What the map says about its layers. */
export function layerSentence(points) {
  const nFar = points.far.filter(Boolean).length;
  const n = points.row.length;
  if (nFar === 0) return t("{n:# item|# items} of the target set.", { n });
  return t("{n:# item|# items} of the target set, {far} of them far from the pool.", { n, far: nFar });
}
