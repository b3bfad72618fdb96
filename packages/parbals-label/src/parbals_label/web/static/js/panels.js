// What is seen beside the work: progress, class balance, error and advice, who labels.

import { post } from "./api.js";
import { brief, inWords, isTask, MANY, NUMBERS } from "./answers.js";
import { errorChart, errorTable } from "./chart.js";
import { ago, count, h, percent, plural, toast, unbroken } from "./dom.js";
import { isOwner, on, state, tone } from "./state.js";

const FEW = 10;

function panel(title, ...body) {
  return h("section", { class: "panel" }, h("h2", { class: "panel-title" }, title), body);
}

/** A panel whose inside is drawn again when something has changed. */
function livePanel(title, draw) {
  const inside = h("div", { class: "panel-body" }, h("p", { class: "quiet" }, "One moment …"));
  let drawnFor = 0;
  const redraw = () => {
    if (!state.live) return;
    const opened = new Set([...inside.querySelectorAll("details[open] > summary")].map((node) => node.textContent));
    inside.replaceChildren(...[draw(state.live, inside)].flat().filter(Boolean));
    // What somebody has opened stays open.
    for (const node of inside.querySelectorAll("details > summary"))
      node.parentElement.open = opened.has(node.textContent);
  };
  on("live", redraw);
  on("project", redraw);
  new ResizeObserver(([box]) => {
    if (Math.abs(box.contentRect.width - drawnFor) < 1) return;
    drawnFor = box.contentRect.width;
    redraw();
  }).observe(inside);
  redraw();
  return panel(title, inside);
}

function balance(live, all) {
  if (live.numbers)
    return [h("p", { class: "quiet" }, Object.entries(live.numbers).map(([name, value]) => `${name} ${inWords(brief(value))}`).join(" · "))];
  const pairs = state.project.classes.map((label) => [label, live.class_balance[label] ?? 0]);
  const shown = all || pairs.length <= FEW + 1 ? pairs : [...pairs].sort((a, b) => b[1] - a[1]).slice(0, FEW);
  const most = Math.max(1, ...pairs.map(([, n]) => n));
  const rows = shown.map(([label, n]) => {
    const fill = h("span", { class: `bar-fill ${tone(label)}` });
    fill.style.width = `${(100 * n) / most}%`;
    return h(
      "li",
      { class: "bar-row" },
      h("span", { class: "bar-name", dir: "auto" }, label),
      h("span", { class: "bar-track", "aria-hidden": "true" }, fill),
      h("span", { class: "bar-value" }, count(n)),
    );
  });
  const left = pairs.length - shown.length;
  return [
    h("ul", { class: "bars", "aria-label": "Labels of each class" }, rows),
    left > 0 && h("p", { class: "quiet" }, `and ${plural(left, "more class", "more classes")}`),
  ];
}

function meter(share, name) {
  const fill = h("span", { class: "meter-fill" });
  fill.style.width = `${Math.max(share ? 0.8 : 0, 100 * share)}%`;
  return h("span", { class: "meter", role: "img", "aria-label": `${percent(share)} ${name}` }, fill);
}

/** A bar for each part of the goal that people set, or else for all items. */
function goalBars(live) {
  const parts = live.goal ?? [];
  if (parts.length === 0) return [meter(live.n_items ? live.labelled / live.n_items : 0, "labelled")];
  return parts.map(({ share, sentence }) =>
    h(
      "div",
      { class: "goal" },
      h("p", { class: "quiet" }, "Goal: ", unbroken(sentence)),
      meter(share, "of the goal"),
    ),
  );
}

/** An annotator's own part. */
function own({ annotators }) {
  const labels = annotators?.[0]?.answers ?? 0;
  return [h("p", { class: "quiet" }, `${plural(labels, "label is", "labels are")} yours.`)];
}

/** Draws the random items that show whether the goal is reached; people get them next. */
function measureButton() {
  const button = h("button", { type: "button", class: "button" }, "Measure it: 60 labels");
  button.addEventListener("click", async () => {
    button.disabled = true;
    try {
      await post("/api/certify", { labels: 60 });
      toast("60 random items come next. When all are labelled, the error is measured.");
    } catch (error) {
      button.disabled = false;
      toast(error.message, { kind: "error" });
    }
  });
  return button;
}

export function progressPanel({ full = false } = {}) {
  return livePanel("Progress", (live) => {
    const facts = [
      live.partly && `${count(live.partly)} with answers missing`,
      live.queued && `${count(live.queued)} queued`,
      live.out && `${count(live.out)} out`,
      live.passed && `${count(live.passed)} passed`,
      live.audit && `${count(live.audit_labelled)} of ${count(live.audit)} for measuring`,
    ].filter(Boolean);
    return [
      h("p", { class: "figure" }, h("strong", {}, count(live.labelled)), ` of ${count(live.n_items)} labelled`),
      ...goalBars(live),
      facts.length > 0 && h("p", { class: "quiet facts" }, facts.join(" · ")),
      ...(live.class_balance ? balance(live, full) : own(live)),
      live.chosen && h("p", { class: "quiet" }, unbroken(`${live.chosen}.`)),
    ];
  });
}

/** Recall and precision of each class, as far as the audit can tell. */
function classTable({ recall, precision }) {
  const cell = (share) =>
    h("td", {}, share ? `${percent(share.mean)} (${percent(share.low)} to ${percent(share.high)})` : "too few to tell");
  const rows = Object.keys(recall).map((label) =>
    h("tr", {}, h("th", { scope: "row", dir: "auto" }, label), cell(recall[label]), cell(precision[label])),
  );
  const names = ["Measured", "Recall", "Precision"].map((name) => h("th", { scope: "col" }, name));
  return h("table", { class: "table" }, h("thead", {}, h("tr", {}, names)), h("tbody", {}, rows));
}

/** What random items are (rows) and what the model takes them for (columns), classes that were met alone. */
function confusionTable(counts) {
  const { classes } = state.project;
  const met = classes.map((_, i) => i).filter((i) => counts[i]?.some(Boolean) || counts.some((row) => row[i]));
  const most = Math.max(1, ...counts.flat());
  const rows = met.map((i) => {
    const cells = met.map((j) => {
      const cell = h("td", { class: i === j ? "numeric right-cell" : "numeric wrong-cell" }, counts[i][j] || "·");
      cell.style.setProperty("--share", `${Math.round((100 * counts[i][j]) / most)}%`);
      return cell;
    });
    return h("tr", {}, h("th", { scope: "row", dir: "auto" }, classes[i]), cells);
  });
  const heads = met.map((i) => h("th", { scope: "col", class: "numeric", dir: "auto" }, classes[i]));
  return h(
    "div",
    { class: "scroll-x", tabindex: "0", role: "group", "aria-label": "What is taken for what" },
    h(
      "table",
      { class: "table confusion" },
      h("caption", {}, "What random items are, a row each, and what the model takes them for"),
      h("thead", {}, h("tr", {}, h("td", {}), heads)),
      h("tbody", {}, rows),
    ),
  );
}

/** For those who want to know: losses in nats. */
function details({ report }) {
  const loss = report.expected_log_loss;
  return h(
    "details",
    { class: "as-table" },
    h("summary", {}, "Details"),
    loss && h("p", { class: "quiet" }, `Expected log loss: ${loss.mean.toPrecision(3)} nats an item.`),
    report.next_gain !== null &&
      h(
        "p",
        { class: "quiet" },
        `The next ${plural(report.batch_size, "label")} are expected to lower it by ${report.next_gain.toPrecision(2)} nats.`,
      ),
  );
}

export function errorPanel({ full = false } = {}) {
  return livePanel("Error", (live, inside) => {
    const { report, history } = live;
    const judged = (live.judged ?? []).map((sentence) => h("p", { class: "quiet" }, unbroken(sentence)));
    if (!report || !history?.length)
      return [
        h("p", { class: "quiet" }, "A first estimate appears once the model has learnt from a few labels."),
        ...judged,
      ];
    const measured = report.measured?.error;
    const error = measured ?? report.expected_error ?? report.expected_metric;
    const write = isTask(NUMBERS) ? (value) => inWords(brief(value)) : percent;
    const what = isTask(NUMBERS) ? "RMSE, " : isTask(MANY) ? "of labels wrong, " : "";
    const behind = live.labelled + (live.partly ?? 0) - report.n_labels;
    return [
      h(
        "p",
        { class: "figure" },
        h("strong", {}, write(error.mean)),
        h("span", { class: "interval" }, ` (${write(error.low)} to ${write(error.high)})`),
        h("span", { class: "source" }, ` ${what}${measured ? "measured" : "as the model expects"}`),
      ),
      h("p", { class: "quiet" }, unbroken(live.certificate)),
      ...judged,
      errorChart(history, { width: Math.max(240, inside.clientWidth), height: full ? 260 : 140, ...(isTask(NUMBERS) && { shown: brief, most: Infinity }) }),
      h(
        "p",
        { class: live.advice.is_reached ? "advice stop" : "advice go" },
        h("span", { class: "advice-sign", "aria-hidden": "true" }, live.advice.is_reached ? "✓" : "→"),
        h("span", {}, unbroken(live.advice.sentence)),
      ),
      live.advice.measures && isOwner() && measureButton(),
      ...(report.warnings ?? []).map((warning) =>
        h(
          "p",
          { class: "advice warn" },
          h("span", { class: "advice-sign", "aria-hidden": "true" }, "!"),
          h("span", {}, warning),
        ),
      ),
      behind > 0 &&
        h(
          "p",
          { class: "quiet" },
          `Made with ${plural(report.n_labels, "label")}; ${plural(behind, "newer one is", "newer ones are")} not in it yet.`,
        ),
      full &&
        h(
          "p",
          { class: "quiet" },
          `The curve is the ${isTask(NUMBERS) ? "root mean squared error" : isTask(MANY) ? "share of wrong labels" : "share of wrong decisions"} somebody would find who labelled everything, as the model itself expects it, with a 90 % interval.`,
        ),
      full && measured && Object.keys(report.measured.recall).length > 0 && classTable(report.measured),
      full && live.confusion && confusionTable(live.confusion),
      full && h("details", { class: "as-table" }, h("summary", {}, "The curve as a table"), errorTable(history, write)),
      full && report.expected_log_loss && details(live),
    ];
  });
}

const STATES = {
  idle: "waiting for labels",
  choosing: "choosing the next batch",
  starting: "starting",
  failed: "stopped with an error",
  finished: "finished",
};

/** One line: what the model is doing now. */
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

/** For owners: which features are in use, and what adapting them has gained. */
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

/** For owners: what a person has in hand waits for everybody again. An answer that still comes is stored. */
function giveBack(name) {
  const button = h("button", { type: "button", class: "text-button" }, "Give back");
  button.setAttribute("aria-label", `Give back the items that ${name} has`);
  button.addEventListener("click", async () => {
    try {
      const { released } = await post("/api/release-all", { of: name });
      toast(`${plural(released, "item")} of ${name} wait${released === 1 ? "s" : ""} for everybody again.`);
    } catch (error) {
      toast(error.message);
    }
  });
  return button;
}

export function peoplePanel() {
  return livePanel("Who labels", (live) => {
    if (!live.annotators?.length) return h("p", { class: "quiet" }, "Nobody has answered yet.");
    const rows = live.annotators.map((person) =>
      h(
        "tr",
        {},
        h(
          "th",
          { scope: "row", dir: "auto" },
          person.name,
          person.source === "machine" && h("span", { class: "chip" }, "machine"),
        ),
        h("td", { class: "numeric" }, count(person.answers)),
        h("td", { class: "quiet" }, person.last ? ago(person.last) : ""),
        isOwner() && h("td", {}, giveBack(person.name)),
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
