// The panels beside the item and on the overview: progress, class balance, error and advice, annotators.

import { post } from "./api.js";
import { displayLabel, isTask, MANY, NUMBERS, threeDigits } from "./answers.js";
import { errorChart, errorTable } from "./chart.js";
import { ago, count, h, percent, plural, toast, unbroken } from "./dom.js";
import { isOwner, on, state, tone } from "./state.js";

const MAX_BARS = 10;
export const SAMPLE_SIZE = 60;
const SHIFT_SENTENCE = "Items of the target set ";

function panel(title, ...body) {
  return h("section", { class: "panel" }, h("h2", { class: "panel-title" }, title), body);
}

/** A panel whose content is redrawn when the project or its state changes, and at further `events`. */
export function livePanel(title, draw, events = []) {
  const inside = h("div", { class: "panel-body" }, h("p", { class: "quiet" }, "Loading …"));
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
    h("ul", { class: "bars", "aria-label": "Number of labels per class" }, rows),
    nHidden > 0 && h("p", { class: "quiet" }, `and ${plural(nHidden, "more class", "more classes")}`),
  ];
}

function meter(share, name) {
  const fill = h("span", { class: "meter-fill" });
  fill.style.width = `${Math.max(share ? 0.8 : 0, 100 * share)}%`;
  return h("span", { class: "meter", role: "img", "aria-label": `${percent(share)} ${name}` }, fill);
}

/** A progress bar for each goal or, without a goal, for the share of labelled items. */
function goalBars(live) {
  const goals = live.goal ?? [];
  if (goals.length === 0) return [meter(live.n_items ? live.labelled / live.n_items : 0, "labelled")];
  return goals.map(({ share, sentence }) =>
    h(
      "div",
      { class: "goal" },
      h("p", { class: "quiet" }, "Goal: ", unbroken(sentence)),
      meter(share, "of the goal"),
    ),
  );
}

/** The number of labels of the visitor, for annotators. */
function ownLabels({ annotators }) {
  const labels = annotators?.[0]?.answers ?? 0;
  return [h("p", { class: "quiet" }, `You have given ${plural(labels, "label")}.`)];
}

/** Measure the error, for owners: draw a random sample whose items are labelled next. Numbers need a sample that is kept. */
function measureControl(live) {
  const keep = isTask(NUMBERS);
  if (!isOwner() || live.is_measuring || (keep && live.audit)) return [];
  const left = keep ? Math.floor(live.measurable / 2) : live.measurable;
  const size = Math.min(SAMPLE_SIZE, left);
  const done = keep
    ? `Every third item is a test item from now on, ${size} in all. They measure the error.`
    : `Label the next ${plural(size, "item")}, drawn at random. Then the error is measured.`;
  return [measureButton("Measure the error", { n: size, keep }, done, measureHint(live, size))];
}

/** A button that draws the random sample of a request, with a hint beside it; `done` is said afterwards. */
export function measureButton(title, request, done, hint) {
  const button = h("button", { type: "button", class: "button" }, title);
  button.disabled = request.n === 0 || !state.live.report;
  button.addEventListener("click", async () => {
    button.disabled = true;
    try {
      await post("/api/measure", request);
      toast(done);
    } catch (error) {
      button.disabled = false;
      toast(error.message);
    }
  });
  return h("div", { class: "measure" }, button, h("p", { class: "quiet" }, hint));
}

/** What measuring the error needs. */
function measureHint(live, size) {
  if (!live.report) return "Possible after a few labels.";
  if (size === 0) return "No item without a label is left.";
  const items = size < SAMPLE_SIZE ? `the ${plural(size, "random item")} that are left` : `${size} random items`;
  return `You label ${items}. The model does not train on them until all are labelled.`;
}

export function progressPanel({ full = false } = {}) {
  return livePanel("Progress", (live) => {
    const facts = [
      live.partly && `${count(live.partly)} need more answers`,
      live.queued && `${count(live.queued)} queued`,
      live.out && `${count(live.out)} assigned`,
      live.passed && `${count(live.passed)} skipped or unsure`,
      live.audit && `${count(live.audit_labelled)} of ${count(live.audit)} test items`,
    ].filter(Boolean);
    return [
      h("p", { class: "figure" }, h("strong", {}, count(live.labelled)), ` of ${count(live.n_items)} labelled`),
      ...goalBars(live),
      facts.length > 0 && h("p", { class: "quiet facts" }, facts.join(" · ")),
      ...(live.class_balance ? classBalance(live, full) : ownLabels(live)),
      live.chosen && h("p", { class: "quiet" }, unbroken(`${live.chosen}.`)),
    ];
  });
}

/** Recall and precision of each class, measured by the test items. */
function classTable({ recall, precision }) {
  const cell = (share) =>
    h("td", {}, share ? `${percent(share.mean)} (${percent(share.low)} to ${percent(share.high)})` : "too few items");
  const rows = Object.keys(recall).map((label) =>
    h("tr", {}, h("th", { scope: "row", dir: "auto" }, label), cell(recall[label]), cell(precision[label])),
  );
  const names = ["Class", "Measured recall", "Measured precision"].map((name) => h("th", { scope: "col" }, name));
  return h("table", { class: "table" }, h("thead", {}, h("tr", {}, names)), h("tbody", {}, rows));
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
    { class: "scroll-x", tabindex: "0", role: "group", "aria-label": "Confusion matrix" },
    h(
      "table",
      { class: "table confusion" },
      h("caption", {}, "Confusion matrix of the test items: true class (rows) and predicted class (columns)"),
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
    h("summary", {}, "Details"),
    loss && h("p", { class: "quiet" }, `Expected log loss: ${loss.mean.toPrecision(3)} nats per item.`),
    report.next_gain !== null &&
      h(
        "p",
        { class: "quiet" },
        `The next ${plural(report.batch_size, "label")} should lower it by ${report.next_gain.toPrecision(2)} nats.`,
      ),
  );
}

/** What the figure of the error measures, before its source. */
function metricName() {
  if (isTask(NUMBERS)) return "RMSE, ";
  return isTask(MANY) ? "of labels wrong, " : "";
}

/** The source of an error that was not measured. */
function estimated({ target }) {
  return target ? "estimated by the model, on the target set" : "estimated by the model";
}

function curveName() {
  if (isTask(NUMBERS)) return "root mean squared error";
  return isTask(MANY) ? "share of wrong labels" : "error";
}

export function errorPanel({ full = false } = {}) {
  return livePanel("Error", (live, inside) => {
    const { report, history } = live;
    const metricNotes = (live.judged ?? []).map((sentence) => h("p", { class: "quiet" }, unbroken(sentence)));
    if (!report || !history?.length)
      return [
        h("p", { class: "quiet" }, "The first estimate appears after a few labels."),
        ...metricNotes,
        ...measureControl(live),
      ];
    const measured = report.measured?.error;
    const error = measured ?? report.expected_error ?? report.expected_metric;
    const format = isTask(NUMBERS) ? (value) => displayLabel(threeDigits(value)) : percent;
    const metric = metricName();
    const nNewer = live.labelled + (live.partly ?? 0) - report.n_labels;
    // The overview has a panel that says how the target set differs from the pool.
    const warnings = (report.warnings ?? []).filter((warning) => !full || !warning.startsWith(SHIFT_SENTENCE));
    return [
      h(
        "p",
        { class: "figure" },
        h("strong", {}, format(error.mean)),
        h("span", { class: "interval" }, ` (${format(error.low)} to ${format(error.high)})`),
        h("span", { class: "source" }, ` ${metric}${measured ? "measured" : estimated(live)}`),
      ),
      h("p", { class: "quiet" }, unbroken(live.certificate)),
      ...metricNotes,
      errorChart(history, { width: Math.max(240, inside.clientWidth), height: full ? 260 : 140, ...(isTask(NUMBERS) && { format: threeDigits, max: Infinity }) }),
      h(
        "p",
        { class: live.advice.is_reached ? "advice stop" : "advice go" },
        h("span", { class: "advice-sign", "aria-hidden": "true" }, live.advice.is_reached ? "✓" : "→"),
        h("span", {}, unbroken(live.advice.sentence)),
      ),
      ...measureControl(live),
      ...warnings.map((warning) =>
        h(
          "p",
          { class: "advice warn" },
          h("span", { class: "advice-sign", "aria-hidden": "true" }, "!"),
          h("span", {}, warning),
        ),
      ),
      nNewer > 0 &&
        h(
          "p",
          { class: "quiet" },
          `Based on ${plural(report.n_labels, "label")}; ${plural(nNewer, "newer label is", "newer labels are")} not included yet.`,
        ),
      full &&
        h(
          "p",
          { class: "quiet" },
          `The curve shows the estimated ${curveName()} over ${live.target ? "the target set" : "all items"}, with a 90 % interval.`,
        ),
      full && measured && Object.keys(report.measured.recall).length > 0 && classTable(report.measured),
      full && live.confusion && confusionTable(live.confusion),
      full && h("details", { class: "as-table" }, h("summary", {}, "Show the curve as a table"), errorTable(history, format)),
      full && report.expected_log_loss && details(live),
    ];
  });
}

const STATES = {
  idle: "waiting for labels",
  choosing: "selecting the next items",
  starting: "starting",
  failed: "stopped with an error",
  finished: "finished",
};

/** One line: the state of the model. */
export function modelLine() {
  const text = h("span", {});
  const node = h("p", { class: "model-line" }, h("span", { class: "model-sign", "aria-hidden": "true" }), text);
  const draw = (queue) => {
    if (!queue) return;
    node.dataset.state = queue.state;
    text.textContent = `Model: ${STATES[queue.state] ?? queue.state}${queue.message && queue.state === "failed" ? ` – ${queue.message}` : ""}`;
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
    node.textContent = state.live?.features ?? "";
  };
  on("live", draw);
  on("queue", draw);
  draw();
  return node;
}

/** For owners: release the items assigned to a person. An answer that still arrives is stored. */
function releaseButton(name) {
  const button = h("button", { type: "button", class: "text-button" }, "Release");
  button.setAttribute("aria-label", `Release the items assigned to ${name}`);
  button.addEventListener("click", async () => {
    try {
      const { released } = await post("/api/release-all", { of: name });
      toast(`Released ${plural(released, "item")} assigned to ${name}.`);
    } catch (error) {
      toast(error.message);
    }
  });
  return button;
}

export function peoplePanel() {
  return livePanel("Annotators", (live) => {
    if (!live.annotators?.length) return h("p", { class: "quiet" }, "No answers yet.");
    const rows = live.annotators.map((person) =>
      h(
        "tr",
        {},
        h(
          "th",
          { scope: "row", dir: "auto" },
          person.name,
          person.source === "machine" && h("span", { class: "chip" }, "program"),
        ),
        h("td", { class: "numeric" }, count(person.answers)),
        h("td", { class: "quiet" }, person.last ? ago(person.last) : ""),
        isOwner() && h("td", {}, releaseButton(person.name)),
      ),
    );
    return h(
      "table",
      { class: "table" },
      h(
        "thead",
        {},
        h(
          "tr",
          {},
          h("th", { scope: "col" }, "Name"),
          h("th", { scope: "col", class: "numeric" }, "Answers"),
          h("th", { scope: "col" }, "Last"),
          isOwner() && h("td", {}),
        ),
      ),
      h("tbody", {}, rows),
    );
  });
}
