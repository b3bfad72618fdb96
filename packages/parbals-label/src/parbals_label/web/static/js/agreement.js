// Agreement between annotators: their error rates, Cohen's and Fleiss' kappa, and the items with different answers.

import { get } from "./api.js";
import { isTask, MANY, NUMBERS } from "./answers.js";
import { itemRow } from "./browse.js";
import { h, percent, range } from "./dom.js";
import { checkButton, programPanels } from "./programs.js";
import { isOwner, on, state } from "./state.js";
import { count, pieces, t } from "./text.js";

const PAGE_SIZE = 50;
const PROGRAM_PREFIX = "machine:";

/** Upper bounds of kappa and what they are called, after Landis and Koch (1977). */
const INTERPRETATIONS = [
  [0, t("no better than chance")],
  [0.2, t("slight")],
  [0.4, t("fair")],
  [0.6, t("moderate")],
  [0.8, t("substantial")],
  [Infinity, t("almost perfect")],
];

function interpretation(kappa) {
  if (kappa === null || kappa === undefined || Number.isNaN(kappa)) return t("undefined: only one class was used");
  return INTERPRETATIONS.find(([upper]) => kappa <= upper)[1];
}

const formatted = (kappa) => (kappa === null || kappa === undefined ? "–" : kappa.toFixed(2));

/** Fleiss' kappa of each label, for multi-label projects. */
function labelPanel(kappas) {
  const rows = Object.entries(kappas).map(([label, kappa]) =>
    h("tr", {}, h("th", { scope: "row", dir: "auto" }, label), h("td", { class: "numeric" }, formatted(kappa)), h("td", {}, interpretation(kappa))),
  );
  const head = [t("Label::noun"), t("Fleiss’ κ"), t("Interpretation")].map((name, i) => h("th", { scope: "col", class: i === 1 ? "numeric" : null }, name));
  return h("section", { class: "panel" }, h("h2", { class: "panel-title" }, t("Agreement by label")), h("table", { class: "table" }, h("thead", {}, h("tr", {}, head)), h("tbody", {}, rows)));
}

/** How to get to know an error rate for which no answer was checked. */
function unknownAdvice(annotator) {
  if (!annotator.name.startsWith(PROGRAM_PREFIX)) return h("span", { class: "quiet" }, t("no other person has answered the same items"));
  return isOwner() ? checkButton(annotator) : h("span", { class: "quiet" }, t("people have checked none of its answers"));
}

export function agreementView() {
  const figures = h("div", { class: "agreement-figures" });
  const errors = h("div", {});
  const programs = h("div", {});
  const list = h("ul", { class: "rows" });
  const summary = h("p", { class: "quiet summary", role: "status" });
  const node = h("div", {}, programs, errors, figures, h("h2", {}, t("Items with different answers")), summary, list);

  function drawErrors() {
    const annotators = [...(state.live?.heard ?? [])].sort((a, b) => (b.error ?? -1) - (a.error ?? -1));
    
    const rows = annotators.map((annotator) =>
      h(
        "tr",
        {},
        h(
          "td",
          { dir: "auto" },
          annotator.name,
          annotator.same_mistakes_as.length > 0 &&
            h("span", { class: "quiet" }, ` ${t("makes the same mistakes as {names}: they count as one", { names: annotator.same_mistakes_as.join(", ") })}`),
        ),
        ...(annotator.error === null
          ? [h("td", { class: "numeric" }, t("not known")), h("td", {}, unknownAdvice(annotator))]
          : [
              h("td", { class: "numeric" }, percent(annotator.error)),
              h("td", { class: "numeric" }, range(annotator, percent)),
            ]),
        h("td", { class: "numeric" }, count(annotator.n_checked)),
        h("td", { class: "numeric" }, count(annotator.n_answers)),
      ),
    );
    const head = [t("Annotator"), t("Error rate"), t("90 % interval"), t("Checked"), t("Answers")].map((name, i) =>
      h("th", { scope: "col", class: i ? "numeric" : null }, name),
    );
    const panel = h(
      "section",
      { class: "panel agreement-errors" },
      h("h2", { class: "panel-title" }, t("Annotator error rates")),
      h(
        "div",
        { class: "scroll-x", tabindex: "0", role: "group", "aria-label": t("Annotator error rates") },
        h("table", { class: "table" }, h("thead", {}, h("tr", {}, head)), h("tbody", {}, rows)),
      ),
      h("p", { class: "quiet" }, t("Measured on checked answers: items that another person answered too. People’s errors are updated with each report; a program is wrong where its label differs from people’s.")),
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
          h("h2", {}, t("Nothing to compare yet")),
          h(
            "p",
            {},
            isTask(NUMBERS)
              ? t("Agreement on numbers is not measured. Items with different answers are listed below.")
              : t("Agreement is measured on items with two or more answers."),
            " ",
            ...(state.project.answers_wanted > 1
              ? [t("Each item is labelled by {n} people; their agreement appears here.", { n: state.project.answers_wanted })]
              : pieces("{link}, ask for two or more answers per item.", { link: h("a", { href: "#settings" }, t("In the settings")) })),
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
    const head = [t("Annotator"), t("Other annotator"), t("Cohen’s κ"), t("Interpretation"), t("Items")];
    figures.replaceChildren(
      h(
        "section",
        { class: "panel" },
        h("h2", { class: "panel-title" }, t("All annotators")),
        h(
          "p",
          {},
          t(
            "Agreement between people: {level}. Fleiss’ κ is {kappa} over {n:# item|# items} with two or more answers. Programs do not count here.",
            { level: interpretation(agreement.fleiss), kappa: formatted(agreement.fleiss), n: agreement.n_items },
          ),
        ),
        h(
          "p",
          { class: "quiet" },
          t("κ is 1 for perfect agreement and 0 for the agreement expected by chance. The interpretation follows Landis and Koch (1977), a common convention."),
        ),
      ),
      ...(isTask(MANY) ? [labelPanel(agreement.by_label)] : []),
      h(
        "section",
        { class: "panel" },
        h("h2", { class: "panel-title" }, t("Agreement by pair")),
        h(
          "div",
          { class: "scroll-x", tabindex: "0", role: "group", "aria-label": t("Agreement by pair") },
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
      const n = reply.items.length;
      const hasMore = reply.next !== null && reply.next !== undefined;
      summary.textContent = n
        ? `${hasMore ? t("{n:# item|# items} and more (see Browse).", { n }) : t("{n:# item|# items}.", { n })} ${t("Open an item to see its history and to correct your answer.")}`
        : t("None.");
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
