// Agreement between annotators: their error rates, Cohen's and Fleiss' kappa, and the items with different answers.

import { get } from "./api.js";
import { isTask, MANY, NUMBERS } from "./answers.js";
import { itemRow } from "./browse.js";
import { count, h, plural } from "./dom.js";
import { checkButton, programPanels } from "./programs.js";
import { isOwner, on, state } from "./state.js";

const PAGE_SIZE = 50;
const PROGRAM_PREFIX = "machine:";

/** Upper bounds of kappa and what they are called, after Landis and Koch (1977). */
const INTERPRETATIONS = [
  [0, "no better than chance"],
  [0.2, "slight"],
  [0.4, "fair"],
  [0.6, "moderate"],
  [0.8, "substantial"],
  [Infinity, "almost perfect"],
];

function interpretation(kappa) {
  if (kappa === null || kappa === undefined || Number.isNaN(kappa)) return "undefined: only one class was used";
  return INTERPRETATIONS.find(([upper]) => kappa <= upper)[1];
}

const formatted = (kappa) => (kappa === null || kappa === undefined ? "–" : kappa.toFixed(2));

/** Fleiss' kappa of each label, for multi-label projects. */
function labelPanel(kappas) {
  const rows = Object.entries(kappas).map(([label, kappa]) =>
    h("tr", {}, h("th", { scope: "row", dir: "auto" }, label), h("td", { class: "numeric" }, formatted(kappa)), h("td", {}, interpretation(kappa))),
  );
  const head = ["Label", "Fleiss’ κ", "Interpretation"].map((name, i) => h("th", { scope: "col", class: i === 1 ? "numeric" : null }, name));
  return h("section", { class: "panel" }, h("h2", { class: "panel-title" }, "Agreement by label"), h("table", { class: "table" }, h("thead", {}, h("tr", {}, head)), h("tbody", {}, rows)));
}

/** How to get to know an error rate for which no answer was checked. */
function unknownAdvice(annotator) {
  if (!annotator.name.startsWith(PROGRAM_PREFIX)) return h("span", { class: "quiet" }, "nobody else has answered the same items");
  return isOwner() ? checkButton(annotator) : h("span", { class: "quiet" }, "people have checked none of its answers");
}

export function agreementView() {
  const figures = h("div", { class: "agreement-figures" });
  const errors = h("div", {});
  const programs = h("div", {});
  const list = h("ul", { class: "rows" });
  const summary = h("p", { class: "quiet summary", role: "status" });
  const node = h("div", {}, programs, errors, figures, h("h2", {}, "Items with different answers"), summary, list);

  function drawErrors() {
    const annotators = [...(state.live?.heard ?? [])].sort((a, b) => (b.error ?? -1) - (a.error ?? -1));
    const share = (value) => `${(100 * value).toFixed(value < 0.1 ? 1 : 0)} %`;
    const rows = annotators.map((annotator) =>
      h(
        "tr",
        {},
        h(
          "td",
          { dir: "auto" },
          annotator.name,
          annotator.same_mistakes_as.length > 0 &&
            h("span", { class: "quiet" }, ` makes the same mistakes as ${annotator.same_mistakes_as.join(" and ")}: they count as one`),
        ),
        ...(annotator.error === null
          ? [h("td", { class: "numeric" }, "not known"), h("td", {}, unknownAdvice(annotator))]
          : [
              h("td", { class: "numeric" }, share(annotator.error)),
              h("td", { class: "numeric" }, `${share(annotator.low)} to ${share(annotator.high)}`),
            ]),
        h("td", { class: "numeric" }, count(annotator.n_checked)),
        h("td", { class: "numeric" }, count(annotator.n_answers)),
      ),
    );
    const head = ["Annotator", "Error rate", "90 % interval", "Checked", "Answers"].map((name, i) =>
      h("th", { scope: "col", class: i ? "numeric" : null }, name),
    );
    const panel = h(
      "section",
      { class: "panel agreement-errors" },
      h("h2", { class: "panel-title" }, "Annotator error rates"),
      h(
        "div",
        { class: "scroll-x", tabindex: "0", role: "group", "aria-label": "Annotator error rates" },
        h("table", { class: "table" }, h("thead", {}, h("tr", {}, head)), h("tbody", {}, rows)),
      ),
      h("p", { class: "quiet" }, "Measured on checked answers: items that another person answered too. People’s errors are updated with each report; a program is wrong where its label differs from people’s."),
    );
    errors.replaceChildren(...(annotators.length ? [panel] : []));
  }

  function draw() {
    programs.replaceChildren(...programPanels(state.live?.programs ?? []));
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
              ? "Agreement on numbers is not measured. Items with different answers are listed below. "
              : "Agreement is measured on items with two or more answers. ",
            ...(state.project.answers_wanted > 1
              ? [`Each item is labelled by ${state.project.answers_wanted} people; their agreement appears here.`]
              : [h("a", { href: "#settings" }, "In the settings"), ", ask for two or more answers per item."]),
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
        h("td", { class: "numeric" }, formatted(pair.kappa)),
        h("td", {}, interpretation(pair.kappa)),
        h("td", { class: "numeric" }, count(pair.n)),
      ),
    );
    const head = ["Annotator", "Other annotator", "Cohen’s κ", "Interpretation", "Items"];
    figures.replaceChildren(
      h(
        "section",
        { class: "panel" },
        h("h2", { class: "panel-title" }, "All annotators"),
        h(
          "p",
          {},
          `${interpretation(agreement.fleiss)[0].toUpperCase()}${interpretation(agreement.fleiss).slice(1)} agreement between people over ${plural(agreement.n_items, "item")} with two or more answers: Fleiss’ κ is ${formatted(agreement.fleiss)}. Programs do not count here.`,
        ),
        h(
          "p",
          { class: "quiet" },
          "κ is 1 for perfect agreement and 0 for the agreement expected by chance. The interpretation follows Landis and Koch (1977), a common convention.",
        ),
      ),
      ...(isTask(MANY) ? [labelPanel(agreement.by_label)] : []),
      h(
        "section",
        { class: "panel" },
        h("h2", { class: "panel-title" }, "Agreement by pair"),
        h(
          "div",
          { class: "scroll-x", tabindex: "0", role: "group", "aria-label": "Agreement by pair" },
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
      const reply = await get(`/api/items?state=disagree&limit=${PAGE_SIZE}`);
      list.replaceChildren(...reply.items.map((item) => itemRow(item, load)));
      summary.textContent = reply.items.length
        ? `${plural(reply.items.length, "item")}${reply.next !== null && reply.next !== undefined ? " and more (see Browse)" : ""}. Open an item to see its history and to correct your answer.`
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
