// Programs and LLMs that label: their error, their agreement with people, and their cost.

import { post } from "./api.js";
import { h, percent, range, toast } from "./dom.js";
import { on, state } from "./state.js";
import { pieces, t } from "./text.js";

const N_CHECKS = 10; // of a program's answers, until its error is known

/** For owners: have people check random answers of a program, which measures its error. */
export function checkButton(annotator) {
  const program = annotator.name.split(", ")[0]; // answers may be split by confidence
  const button = h("button", { type: "button", class: "text-button" }, t("Check {n} at random", { n: N_CHECKS }));
  button.setAttribute("aria-label", t("Check {n} random answers of {name}", { n: N_CHECKS, name: annotator.name }));
  button.addEventListener("click", async () => {
    try {
      const { sentence } = await post("/api/check", { program, n: N_CHECKS });
      toast(sentence);
    } catch (error) {
      toast(error.message);
    }
  });
  return button;
}

function programLine(program, annotators) {
  const rate = annotators.find((annotator) => annotator.name === program.name);
  const name = h("strong", { dir: "auto" }, program.name);
  const labels = pieces("{name} has given {n:# label|# labels}.", { name, n: program.n_labels });
  if (!rate || rate.error === null) return h("p", {}, labels, " ", t("Its error is not known."), " ", checkButton(program));
  const measured = t("Its error is {error} ({range}), measured on {n:# answer|# answers} that people checked.", {
    error: percent(rate.error),
    range: range(rate, percent),
    n: rate.n_checked,
  });
  return h("p", {}, labels, " ", measured);
}

/** For owners: who labels besides people, and how good they are; hidden in projects without programs. */
export function programNotice() {
  const lines = h("div", {});
  const node = h(
    "section",
    { class: "panel program-notice", hidden: true },
    h("h2", { class: "panel-title" }, t("Programs and LLMs")),
    lines,
    h("p", { class: "quiet" }, t("Their labels count where no person has labelled."), " ", pieces("Details: {link}", { link: h("a", { href: "#agreement" }, t("Agreement")) })),
  );
  const draw = () => {
    const programs = state.live?.programs ?? [];
    node.hidden = !programs.length;
    lines.replaceChildren(...programs.map((program) => programLine(program, state.live.heard ?? [])));
  };
  on("live", draw);
  draw();
  return node;
}

/** One panel for each program, with the sentences of its report. */
export function programPanels(programs) {
  return programs.map((program) =>
    h(
      "section",
      { class: "panel program-report" },
      h("h2", { class: "panel-title", dir: "auto" }, t("Is {name} good enough?", { name: program.name })),
      h("p", { class: "quiet" }, t("It has given {n:# label|# labels}. What it abstains on stays for people.", { n: program.n_labels })),
      h("ul", {}, ...program.lines.map((line) => h("li", { dir: "auto" }, line))),
    ),
  );
}
