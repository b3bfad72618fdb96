// Programs and LLMs that label: their error, their agreement with people, and their cost.

import { post } from "./api.js";
import { h, percent, plural, toast } from "./dom.js";
import { on, state } from "./state.js";

const N_CHECKS = 10; // of a program's answers, until its error is known

/** For owners: have people check random answers of a program, which measures its error. */
export function checkButton(annotator) {
  const program = annotator.name.split(", ")[0]; // answers may be split by confidence
  const button = h("button", { type: "button", class: "text-button" }, `Check ${N_CHECKS} at random`);
  button.setAttribute("aria-label", `Check ${N_CHECKS} random answers of ${annotator.name}`);
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
  const labels = ` has given ${plural(program.n_labels, "label")}.`;
  if (!rate || rate.error === null)
    return h("p", {}, name, `${labels} Its error is not known. `, checkButton(program));
  const interval = `${percent(rate.low)} to ${percent(rate.high)}`;
  const checked = plural(rate.n_checked, "answer");
  return h("p", {}, name, `${labels} Its error is ${percent(rate.error)} (${interval}), measured on ${checked} that people checked.`);
}

/** For owners: who labels besides people, and how good they are; hidden in projects without programs. */
export function programNotice() {
  const lines = h("div", {});
  const node = h(
    "section",
    { class: "panel program-notice", hidden: true },
    h("h2", { class: "panel-title" }, "Programs and LLMs"),
    lines,
    h("p", { class: "quiet" }, "Their labels count where no person has labelled. ", h("a", { href: "#agreement" }, "Agreement"), " has the details."),
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
      h("h2", { class: "panel-title", dir: "auto" }, `Is ${program.name} good enough?`),
      h("p", { class: "quiet" }, `It has given ${plural(program.n_labels, "label")}. What it abstains on stays for people.`),
      h("ul", {}, ...program.lines.map((line) => h("li", { dir: "auto" }, line))),
    ),
  );
}
