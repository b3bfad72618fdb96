// The panels beside the item and on the overview: progress, class balance, error and advice, annotators.

import { post } from "./api.js";
import { displayLabel, isTask, MANY, NUMBERS, threeDigits } from "./answers.js";
import { errorChart, errorTable } from "./chart.js";
import { ago, h, openDialog, percent, range, toast, unbroken } from "./dom.js";
import { pollSoon } from "./live.js";
import { translated } from "./server_texts.js";
import { isOwner, on, state, tone } from "./state.js";
import { count, pieces, t } from "./text.js";

const MAX_BARS = 10;
const SAMPLE_SIZE = 60;
const SHIFT_SENTENCE = "Items of the target set ";

function panel(title, ...body) {
  return h("section", { class: "panel" }, h("h2", { class: "panel-title" }, title), body);
}

/** A panel whose content is redrawn when the project or its state changes, and at further `events`. */
export function livePanel(title, draw, events = []) {
  const inside = h("div", { class: "panel-body" }, h("p", { class: "quiet" }, t("Loading …")));
  let drawnWidth = 0;
  const redraw = () => {
    if (!state.live) return;
    const opened = new Set([...inside.querySelectorAll("details[open] > summary")].map((node) => node.textContent));
    inside.replaceChildren(...[draw(state.live, inside)].flat().filter(Boolean));
    // Keep open what the person has opened.
    for (const node of inside.querySelectorAll("details > summary"))
      node.parentElement.open = opened.has(node.textContent);
  };
  for (const name of ["live", "project", ...events]) on(name, redraw);
  new ResizeObserver(([box]) => {
    if (Math.abs(box.contentRect.width - drawnWidth) < 1) return;
    drawnWidth = box.contentRect.width;
    redraw();
  }).observe(inside);
  redraw();
  return panel(title, inside);
}

/** The number of labels of each class, or summary statistics of numbers. */
function classBalance(live, showAll) {
  if (live.numbers)
    return [h("p", { class: "quiet" }, Object.entries(live.numbers).map(([name, value]) => `${name} ${displayLabel(threeDigits(value))}`).join(" · "))];
  const pairs = state.project.classes.map((label) => [label, live.class_balance[label] ?? 0]);
  const shown = showAll || pairs.length <= MAX_BARS + 1 ? pairs : [...pairs].sort((a, b) => b[1] - a[1]).slice(0, MAX_BARS);
  const largest = Math.max(1, ...pairs.map(([, n]) => n));
  const rows = shown.map(([label, n]) => {
    const fill = h("span", { class: `bar-fill ${tone(label)}` });
    fill.style.width = `${(100 * n) / largest}%`;
    return h(
      "li",
      { class: "bar-row" },
      h("span", { class: "bar-name", dir: "auto" }, label),
      h("span", { class: "bar-track", "aria-hidden": "true" }, fill),
      h("span", { class: "bar-value" }, count(n)),
    );
  });
  const nHidden = pairs.length - shown.length;
  return [
    h("ul", { class: "bars", "aria-label": t("Number of labels per class") }, rows),
    nHidden > 0 && h("p", { class: "quiet" }, t("and {n:# more class|# more classes}", { n: nHidden })),
  ];
}

function meter(share, name) {
  const fill = h("span", { class: "meter-fill" });
  fill.style.width = `${Math.max(share ? 0.8 : 0, 100 * share)}%`;
  return h("span", { class: "meter", role: "img", "aria-label": name }, fill);
}

/** A progress bar for each goal or, without a goal, for the share of labelled items. */
function goalBars(live) {
  const goals = live.goal ?? [];
  const labelledShare = live.n_items ? live.labelled / live.n_items : 0;
  if (goals.length === 0) return [meter(labelledShare, t("{share} labelled", { share: percent(labelledShare) }))];
  return goals.map(({ share, sentence }) =>
    h(
      "div",
      { class: "goal" },
      h("p", { class: "quiet" }, t("Goal: {goal}", { goal: unbroken(translated(sentence)) })),
      meter(share, t("{share} of the goal", { share: percent(share) })),
    ),
  );
}

/** The number of labels of the visitor, for annotators. */
function ownLabels({ annotators }) {
  const labels = annotators?.[0]?.answers ?? 0;
  return [h("p", { class: "quiet" }, t("You have given {n:# label|# labels}.", { n: labels }))];
}

/** Measure the error, for owners: draw a random sample whose items are labelled next. Numbers need a sample that is kept. */
function measureControl(live) {
  if (!isOwner()) return [];
  const keep = isTask(NUMBERS);
  if (live.undoable > 0) return [undoButton(live.undoable)];
  if (live.is_measuring || (keep && live.audit)) return [];
  const left = keep ? Math.floor(live.measurable / 2) : live.measurable;
  const done = (n) =>
    keep
      ? t("Every third item is a test item from now on, {n} in all. They measure the error.", { n })
      : t("Label the next {n:# item|# items}, drawn at random. Then the error is measured.", { n });
  const untrained = t("The model does not train on them until all are labelled.");
  const hint = keep ? t("You choose how many random items measure the error.") : `${t("You choose how many random items to label.")} ${untrained}`;
  return [measureButton(t("Measure the error"), { keep }, left, done, left === 0 ? t("No item without a label is left.") : hint)];
}

/** A button that asks for a size, and draws the random sample of a request; `done` is said afterwards. */
export function measureButton(title, request, left, done, hint) {
  const button = h("button", { type: "button", class: "button" }, title);
  button.disabled = left === 0 || !state.live.report;
  button.addEventListener("click", () => askSize(title, request, left, done, hint));
  return h("div", { class: "measure" }, button, h("p", { class: "quiet" }, state.live.report ? hint : t("Possible after a few labels.")));
}

/** Ask how many items to draw, and draw them. */
function askSize(title, request, left, done, hint) {
  const size = h("input", { id: "sample-size", type: "number", min: "1", max: String(left), step: "1", required: true, inputmode: "numeric", value: String(Math.min(SAMPLE_SIZE, left)) });
  const cancel = h("button", { type: "button", onclick: () => dialog.close() }, t("Cancel"));
  const submit = h("button", { type: "submit", class: "primary" }, t("Draw them"));
  const form = h(
    "form",
    { class: "stack" },
    h("div", { class: "field" }, h("label", { for: "sample-size" }, t("Number of random items")), size),
    h("p", { class: "quiet" }, hint, " ", t("More items measure the error more precisely. {n:# item|# items} can be drawn.", { n: left })),
    h("div", { class: "actions" }, submit, cancel),
  );
  const dialog = openDialog(title, form);
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    submit.disabled = true;
    const n = Number(size.value);
    try {
      await post("/api/measure", { ...request, n });
      dialog.close();
      toast(done(n));
      pollSoon();
    } catch (error) {
      submit.disabled = false;
      toast(error.message);
    }
  });
}

/** Undo the draw of a sample that nobody has answered. */
function undoButton(n) {
  const button = h("button", { type: "button", class: "text-button" }, t("Undo the measurement"));
  button.addEventListener("click", async () => {
    button.disabled = true;
    try {
      await post("/api/measure/undo", {});
      toast(t("The measurement is undone: its {n:# item is|# items are} ordinary ones again.", { n }));
      pollSoon();
    } catch (error) {
      button.disabled = false;
      toast(error.message);
    }
  });
  return h("div", { class: "measure" }, button, h("p", { class: "quiet" }, t("Possible until somebody answers one of its items.")));
}

export function progressPanel({ full = false } = {}) {
  return livePanel(t("Progress"), (live) => {
    const facts = [
      live.partly && t("{n:# needs|# need} more answers", { n: live.partly }),
      live.queued && t("{n} queued", { n: live.queued }),
      live.out && t("{n} assigned", { n: live.out }),
      live.passed && t("{n} skipped or unsure", { n: live.passed }),
      live.audit && t("{n} of {total} test items", { n: live.audit_labelled, total: live.audit }),
    ].filter(Boolean);
    return [
      h("p", { class: "figure" }, pieces("{n} of {total} labelled", { n: h("strong", {}, count(live.labelled)), total: live.n_items })),
      ...goalBars(live),
      facts.length > 0 && h("p", { class: "quiet facts" }, facts.join(" · ")),
      ...(live.class_balance ? classBalance(live, full) : ownLabels(live)),
      live.chosen && h("p", { class: "quiet" }, unbroken(`${live.chosen.split("; ").map(translated).join("; ")}.`)),
    ];
  });
}

/** Recall and precision of each class, measured by the test items. */
function classTable({ recall, precision }) {
  const cell = (share) =>
    h("td", {}, share ? `${percent(share.mean)} (${range(share, percent)})` : t("too few items"));
  const rows = Object.keys(recall).map((label) =>
    h("tr", {}, h("th", { scope: "row", dir: "auto" }, label), cell(recall[label]), cell(precision[label])),
  );
  const names = [t("Class"), t("Measured recall"), t("Measured precision")].map((name) => h("th", { scope: "col" }, name));
  const table = h("table", { class: "table" }, h("thead", {}, h("tr", {}, names)), h("tbody", {}, rows));
  return h("div", { class: "scroll-x" }, table);
}

/** The confusion matrix of the test items: true classes (rows) and predicted classes (columns) that occur. */
function confusionTable(counts) {
  const { classes } = state.project;
  const occurring = classes.map((_, i) => i).filter((i) => counts[i]?.some(Boolean) || counts.some((row) => row[i]));
  const largest = Math.max(1, ...counts.flat());
  const rows = occurring.map((i) => {
    const cells = occurring.map((j) => {
      const cell = h("td", { class: i === j ? "numeric right-cell" : "numeric wrong-cell" }, counts[i][j] || "·");
      cell.style.setProperty("--share", `${Math.round((100 * counts[i][j]) / largest)}%`);
      return cell;
    });
    return h("tr", {}, h("th", { scope: "row", dir: "auto" }, classes[i]), cells);
  });
  const heads = occurring.map((i) => h("th", { scope: "col", class: "numeric", dir: "auto" }, classes[i]));
  return h(
    "div",
    { class: "scroll-x", tabindex: "0", role: "group", "aria-label": t("Confusion matrix") },
    h(
      "table",
      { class: "table confusion" },
      h("caption", {}, t("Confusion matrix of the test items: true class (rows) and predicted class (columns)")),
      h("thead", {}, h("tr", {}, h("td", {}), heads)),
      h("tbody", {}, rows),
    ),
  );
}

/** Expected log loss, in nats. */
function details({ report }) {
  const loss = report.expected_log_loss;
  return h(
    "details",
    { class: "as-table" },
    h("summary", {}, t("Details")),
    loss && h("p", { class: "quiet" }, t("Expected log loss: {loss} nats per item.", { loss: loss.mean.toPrecision(3) })),
    report.next_gain !== null &&
      h(
        "p",
        { class: "quiet" },
        t("The next {n:# label|# labels} should lower it by {gain} nats.", {
          n: report.batch_size,
          gain: report.next_gain.toPrecision(2),
        }),
      ),
  );
}

/** What the figure of the error measures, before its source. */
function metricName({ by_sample: countsItems }) {
  if (isTask(NUMBERS)) return `${t("RMSE")}, `;
  if (!isTask(MANY)) return "";
  return countsItems ? `${t("of items with a wrong label")}, ` : `${t("of labels wrong")}, `;
}

/** How an error is known: measured with so many labels, or estimated by the model. */
function sourceOf({ is_measured: isMeasured, n_labels: n, target }, live) {
  if (!isMeasured) return live.target ? t("estimated by the model, on the target set") : t("estimated by the model");
  const source = target ? t("measured on the target set with {n:# label|# labels}", { n }) : t("measured with {n:# label|# labels}", { n });
  const newer = live.labelled + (live.partly ?? 0) - n;
  return newer > 0 ? `${source}; ${t("{n:# label is|# labels are} newer", { n: newer })}` : source;
}

/** The model's own estimate, below an error that was measured. */
function ownEstimate(live, format) {
  const expected = live.report.expected_error ?? live.report.expected_metric;
  if (!expected || !live.known_error?.is_measured) return null;
  return h(
    "p",
    { class: "quiet" },
    t("The model itself expects {error} ({range}), with {n:# label|# labels}.", {
      error: format(expected.mean),
      range: range(expected, format),
      n: live.report.n_labelled,
    }),
  );
}

/** Which labels the report does not know. */
function reportNote({ report, labelled, partly, is_measuring: isMeasuring }) {
  const nMeasuring = report.n_labels - report.n_labelled;
  const nNewer = labelled + (partly ?? 0) - report.n_labels;
  const sentences = [
    nNewer > 0 &&
      t("Based on {n:# label|# labels}; {newer:# newer label is|# newer labels are} not included yet.", { n: report.n_labelled, newer: nNewer }),
    nMeasuring > 0 &&
      (isMeasuring
        ? t("{n:# label of the random sample is|# labels of the random sample are} included when all of it is labelled.", { n: nMeasuring })
        : t("{n:# label that measures the error is|# labels that measure the error are} not included.", { n: nMeasuring })),
  ].filter(Boolean);
  return sentences.length > 0 && h("p", { class: "quiet" }, sentences.join(" "));
}

function curveName() {
  if (isTask(NUMBERS)) return t("root mean squared error");
  return isTask(MANY) ? t("share of wrong labels") : t("error");
}

export function errorPanel({ full = false } = {}) {
  return livePanel(t("Error"), (live, inside) => {
    const { report, history } = live;
    const metricNotes = (live.judged ?? []).map((sentence) => h("p", { class: "quiet" }, unbroken(translated(sentence))));
    if (!report || !history?.length)
      return [
        h("p", { class: "quiet" }, t("The first estimate appears after a few labels.")),
        ...metricNotes,
        ...measureControl(live),
      ];
    const measured = report.measured?.error;
    const known = live.known_error ?? { error: report.expected_error ?? report.expected_metric, is_measured: false };
    const format = isTask(NUMBERS) ? (value) => displayLabel(threeDigits(value)) : percent;
    // The overview has a panel that says how the target set differs from the pool.
    const warnings = (report.warnings ?? []).filter((warning) => !full || !warning.startsWith(SHIFT_SENTENCE));
    return [
      h(
        "p",
        { class: "figure" },
        h("strong", {}, format(known.error.mean)),
        h("span", { class: "interval" }, ` (${range(known.error, format)})`),
        h("span", { class: "source" }, ` ${metricName(known)}${sourceOf(known, live)}`),
      ),
      ownEstimate(live, format),
      h("p", { class: "quiet" }, unbroken(translated(live.certificate))),
      ...metricNotes,
      errorChart(history, { width: Math.max(240, inside.clientWidth), height: full ? 260 : 140, ...(isTask(NUMBERS) && { format: threeDigits, max: Infinity }) }),
      h(
        "p",
        { class: live.advice.is_reached ? "advice stop" : "advice go" },
        h("span", { class: "advice-sign", "aria-hidden": "true" }, live.advice.is_reached ? "✓" : "→"),
        h("span", {}, unbroken(translated(live.advice.sentence))),
      ),
      ...measureControl(live),
      ...warnings.map((warning) =>
        h(
          "p",
          { class: "advice warn" },
          h("span", { class: "advice-sign", "aria-hidden": "true" }, "!"),
          h("span", {}, translated(warning)),
        ),
      ),
      reportNote(live),
      full &&
        h(
          "p",
          { class: "quiet" },
          live.target
            ? t("The curve: {metric}, estimated over the target set, with a 90 % interval.", { metric: curveName() })
            : t("The curve: {metric}, estimated over all items, with a 90 % interval.", { metric: curveName() }),
        ),
      full && measured && Object.keys(report.measured.recall).length > 0 && classTable(report.measured),
      full && live.confusion && confusionTable(live.confusion),
      full && h("details", { class: "as-table" }, h("summary", {}, t("Show the curve as a table")), errorTable(history, format)),
      full && report.expected_log_loss && details(live),
    ];
  });
}

const STATES = {
  idle: t("waiting for labels"),
  choosing: t("selecting the next items"),
  starting: t("starting"),
  failed: t("stopped with an error"),
  finished: t("finished"),
};

/** One line: the state of the model. */
export function modelLine() {
  const text = h("span", {});
  const node = h("p", { class: "model-line" }, h("span", { class: "model-sign", "aria-hidden": "true" }), text);
  const draw = (queue) => {
    if (!queue) return;
    node.dataset.state = queue.state;
    const reason = queue.message && queue.state === "failed" ? ` – ${translated(queue.message)}` : "";
    text.textContent = t("Model: {state}", { state: STATES[queue.state] ?? queue.state }) + reason;
  };
  on("live", (live) => draw(live.queue));
  on("queue", draw);
  draw(state.live?.queue);
  return node;
}

/** For owners: the features in use, and what fine-tuning has gained. */
export function featuresLine() {
  const node = h("p", { class: "model-line quiet", role: "status" });
  const draw = () => {
    node.textContent = translated(state.live?.features) ?? "";
  };
  on("live", draw);
  on("queue", draw);
  draw();
  return node;
}

/** For owners: release the items assigned to a person. An answer that still arrives is stored. */
function releaseButton(name) {
  const button = h("button", { type: "button", class: "text-button" }, t("Release"));
  button.setAttribute("aria-label", t("Release the items assigned to {name}", { name }));
  button.addEventListener("click", async () => {
    try {
      const { released } = await post("/api/release-all", { of: name });
      toast(t("Released {n:# item|# items} assigned to {name}.", { n: released, name }));
    } catch (error) {
      toast(error.message);
    }
  });
  return button;
}

export function peoplePanel() {
  return livePanel(t("Annotators"), (live) => {
    if (!live.annotators?.length) return h("p", { class: "quiet" }, t("No answers yet."));
    const rows = live.annotators.map((person) =>
      h(
        "tr",
        {},
        h(
          "th",
          { scope: "row", dir: "auto" },
          person.name,
          person.source === "machine" && h("span", { class: "chip" }, t("program")),
        ),
        h("td", { class: "numeric" }, count(person.answers)),
        h("td", { class: "quiet" }, person.last ? ago(person.last) : "", isOwner() && h("div", {}, releaseButton(person.name))),
      ),
    );
    const table = h(
      "table",
      { class: "table tight" },
      h(
        "thead",
        {},
        h(
          "tr",
          {},
          h("th", { scope: "col" }, t("Name")),
          h("th", { scope: "col", class: "numeric" }, t("Answers")),
          h("th", { scope: "col" }, t("Last")),
        ),
      ),
      h("tbody", {}, rows),
    );
    return h("div", { class: "scroll-x" }, table);
  });
}
