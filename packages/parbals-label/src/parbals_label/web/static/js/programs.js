// Programs and LLMs that label: their error, their agreement with people, and their cost.

import { h, plural } from "./dom.js";

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
