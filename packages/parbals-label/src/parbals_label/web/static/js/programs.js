// Programs and LLMs that label: their error, their agreement with people, their cost, and a switch.

import { post } from "./api.js";
import { h, percent, range, toast } from "./dom.js";
import { translated } from "./server_texts.js";
import { on, state } from "./state.js";
import { pieces, t } from "./text.js";

const N_CHECKS = 20; // of a program's answers, until its error is known

function actionButton(text, label, path, body) {
  const button = h("button", { type: "button", class: "text-button", "aria-label": label }, text);
  button.addEventListener("click", async () => {
    try {
      const { sentence } = await post(path, body);
      toast(translated(sentence));
    } catch (error) {
      toast(error.message);
    }
  });
  return button;
}

/** For owners: have people check random answers of a program, which measures its error. */
export function checkButton(annotator) {
  const program = annotator.name.split(", ")[0]; // answers may be split by confidence
  const label = t("Check {n} random answers of {name}", { n: N_CHECKS, name: annotator.name });
  return actionButton(t("Check {n} at random", { n: N_CHECKS }), label, "/api/check", { program, n: N_CHECKS });
}

/** Send the answers that a program is least sure of to people. */
function unsureButton(program) {
  const n = program.n_unsure;
  const label = t("Send the {n} answers that {name} is least sure of to people", { n, name: program.name });
  return actionButton(t("Send the {n} least sure to people", { n }), label, "/api/check", { program: program.name, n, unsure: true });
}

/** The switch of a program: a running one stops at its next request. */
function pauseButton(program) {
  const name = program.name;
  const [text, label] = program.paused ? [t("Resume"), t("Resume {name}", { name })] : [t("Pause"), t("Pause {name}", { name })];
  return actionButton(text, label, "/api/pause", { program: name, paused: !program.paused });
}

function errorSentence(program, annotators) {
  const rate = annotators.find((annotator) => annotator.name === program.name);
  if (!rate || rate.error === null) return t("Its error is not known.");
  return t("Its error is {error} ({range}), measured on {n:# answer|# answers} that people checked.", {
    error: percent(rate.error),
    range: range(rate, percent),
    n: rate.n_checked,
  });
}

function driftNotice(sentence) {
  return h("p", { class: "advice warn", dir: "auto" }, h("span", { class: "advice-sign", "aria-hidden": "true" }, "!"), h("span", {}, translated(sentence)));
}

function programLine(program, annotators) {
  const values = { name: h("strong", { dir: "auto" }, program.name), n: program.n_labels };
  const labels = program.paused
    ? pieces("{name} (paused) has given {n:# label|# labels}.", values)
    : pieces("{name} has given {n:# label|# labels}.", values);
  const usage = program.usage ? ` ${t("Used so far: {usage}", { usage: translated(program.usage) })}` : "";
  return h(
    "div",
    { class: "program-line" },
    h("p", {}, labels, " ", errorSentence(program, annotators), usage),
    program.drift && driftNotice(program.drift),
    h("p", {}, pauseButton(program), " ", checkButton(program), program.n_unsure ? [" ", unsureButton(program)] : null),
  );
}

/** For owners: who labels besides people, and how good they are; hidden in projects without programs. */
export function programNotice() {
  const lines = h("div", {});
  const node = h(
    "section",
    { class: "panel program-notice", hidden: true },
    h("h2", { class: "panel-title" }, t("Programs and LLMs")),
    lines,
    h(
      "p",
      { class: "quiet" },
      t("Their labels count where no person has labelled."),
      " ",
      t("What they abstain on goes to people."),
      " ",
      pieces("Details: {link}", { link: h("a", { href: "#agreement" }, t("Agreement")) }),
    ),
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
      h(
        "ul",
        {},
        program.lines.map((line) => h("li", { dir: "auto" }, translated(line))),
        program.usage && h("li", {}, t("Used so far: {usage}", { usage: translated(program.usage) })),
      ),
    ),
  );
}
