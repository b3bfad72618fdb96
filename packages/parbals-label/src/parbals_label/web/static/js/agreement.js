// Where people who answered the same item differ, and how far they agree beyond chance.

import { get } from "./api.js";
import { isTask, MANY, NUMBERS } from "./answers.js";
import { itemRow } from "./browse.js";
import { count, h, plural } from "./dom.js";
import { on, state } from "./state.js";

const PAGE = 50;
const NAMES = [
  [0, "no better than chance"],
  [0.2, "slight"],
  [0.4, "fair"],
  [0.6, "moderate"],
  [0.8, "substantial"],
  [Infinity, "almost perfect"],
];

function inWords(kappa) {
  if (kappa === null || kappa === undefined || Number.isNaN(kappa)) return "not defined: everybody used one class only";
  return NAMES.find(([most]) => kappa <= most)[1];
}

const number = (kappa) => (kappa === null || kappa === undefined ? "–" : kappa.toFixed(2));

/** Fleiss' kappa of each label, where items have many. */
function labelPanel(kappas) {
  const rows = Object.entries(kappas).map(([label, kappa]) =>
    h("tr", {}, h("th", { scope: "row", dir: "auto" }, label), h("td", { class: "numeric" }, number(kappa)), h("td", {}, inWords(kappa))),
  );
  const head = ["Label", "Fleiss’ κ", "In words"].map((name, i) => h("th", { scope: "col", class: i === 1 ? "numeric" : null }, name));
  return h("section", { class: "panel" }, h("h2", { class: "panel-title" }, "Label by label"), h("table", { class: "table" }, h("thead", {}, h("tr", {}, head)), h("tbody", {}, rows)));
}

export function agreementView() {
  const figures = h("div", { class: "agreement-figures" });
  const errors = h("div", {});
  const list = h("ul", { class: "rows" });
  const summary = h("p", { class: "quiet summary", role: "status" });
  const node = h("div", {}, errors, figures, h("h2", {}, "Items with different answers"), summary, list);

  function drawErrors() {
    const heard = [...(state.live?.heard ?? [])].sort((one, other) => other.error - one.error);
    const share = (value) => `${(100 * value).toFixed(value < 0.1 ? 1 : 0)} %`;
    const rows = heard.map((one) =>
      h(
        "tr",
        {},
        h("td", { dir: "auto" }, one.name),
        h("td", { class: "numeric" }, share(one.error)),
        h("td", { class: "numeric" }, `${share(one.low)} to ${share(one.high)}`),
        h("td", { class: "numeric" }, count(one.n_answers)),
      ),
    );
    const head = ["Who", "Wrong answers", "90 % interval", "Answers"].map((name, i) =>
      h("th", { scope: "col", class: i ? "numeric" : null }, name),
    );
    const panel = h(
      "section",
      { class: "panel agreement-errors" },
      h("h2", { class: "panel-title" }, "How often each is wrong"),
      h(
        "div",
        { class: "scroll-x", tabindex: "0", role: "group", "aria-label": "How often each is wrong" },
        h("table", { class: "table" }, h("thead", {}, h("tr", {}, head)), h("tbody", {}, rows)),
      ),
      h("p", { class: "quiet" }, "Learnt from items that several have answered and from what the model expects, with the latest report. Everybody counts by it."),
    );
    errors.replaceChildren(...(heard.length ? [panel] : []));
  }

  function draw() {
    drawErrors();
    const agreement = state.live?.agreement;
    if (!agreement || !agreement.n_items) {
      figures.replaceChildren(
        h(
          "div",
          { class: "panel empty" },
          h("h2", {}, "Nothing to compare yet"),
          h(
            "p",
            {},
            isTask(NUMBERS)
              ? "How far numbers agree is not measured; where people gave different ones stands below. "
              : "Agreement is measured on items that two or more people have answered. ",
            ...(state.project.answers_wanted > 1
              ? [`Every item is asked of ${state.project.answers_wanted} people; what they say appears here.`]
              : [h("a", { href: "#settings" }, "In the settings"), ", let every item be answered by two people."]),
          ),
        ),
      );
      return;
    }
    const rows = agreement.pairs.map((pair) =>
      h(
        "tr",
        {},
        h("td", { dir: "auto" }, pair.a),
        h("td", { dir: "auto" }, pair.b),
        h("td", { class: "numeric" }, number(pair.kappa)),
        h("td", {}, inWords(pair.kappa)),
        h("td", { class: "numeric" }, count(pair.n)),
      ),
    );
    const head = ["One", "Other", "Cohen’s κ", "In words", "Items"];
    figures.replaceChildren(
      h(
        "section",
        { class: "panel" },
        h("h2", { class: "panel-title" }, "All together"),
        h("p", { class: "figure" }, h("strong", {}, number(agreement.fleiss)), " Fleiss’ κ"),
        h(
          "p",
          {},
          `${inWords(agreement.fleiss)[0].toUpperCase()}${inWords(agreement.fleiss).slice(1)}, over ${plural(agreement.n_items, "item")} with two or more answers.`,
        ),
        h(
          "p",
          { class: "quiet" },
          "κ is 1 when all answers agree and 0 when they agree as often as chance would make them. The words are those of Landis and Koch (1977), a habit rather than a law.",
        ),
      ),
      ...(isTask(MANY) ? [labelPanel(agreement.by_label)] : []),
      h(
        "section",
        { class: "panel" },
        h("h2", { class: "panel-title" }, "Pair by pair"),
        h(
          "div",
          { class: "scroll-x", tabindex: "0", role: "group", "aria-label": "Agreement of pairs" },
          h(
            "table",
            { class: "table" },
            h(
              "thead",
              {},
              h(
                "tr",
                {},
                head.map((name, i) => h("th", { scope: "col", class: i === 2 || i === 4 ? "numeric" : null }, name)),
              ),
            ),
            h("tbody", {}, rows),
          ),
        ),
      ),
    );
  }

  async function load() {
    try {
      const reply = await get(`/api/items?state=disagree&limit=${PAGE}`);
      list.replaceChildren(...reply.items.map((item) => itemRow(item, load)));
      summary.textContent = reply.items.length
        ? `${plural(reply.items.length, "item")}${reply.next !== null && reply.next !== undefined ? " and more; see Browse" : ""}. Open one to see its history and to correct your answer.`
        : "None.";
    } catch (error) {
      summary.textContent = error.message;
    }
  }

  on("live", () => {
    if (!node.closest("[hidden]")) {
      draw();
      load();
    }
  });
  return {
    node,
    enter() {
      draw();
      load();
    },
  };
}
