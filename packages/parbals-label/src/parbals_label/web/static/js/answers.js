// Labels of each task: how they are stored, displayed and entered.
//
// A label is stored as text: a JSON list of class names (multi-label), a decimal number (regression), or a class name.

import { h } from "./dom.js";
import { memory, projectKey, state } from "./state.js";
import { t } from "./text.js";

export const MANY = "many-labels";
export const ORDERED = "ordinal";
export const NUMBERS = "regression";
const NUMBER = /^([+-]?(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?)\s*(\p{L}.*|[%°€$£¥].*)?$/iu;

export const isTask = (...tasks) => tasks.includes(state.project.task);

/** The classes that a label names, in the order of the project's classes. */
export function namesOf(label) {
  if (!isTask(MANY)) return [label];
  const names = JSON.parse(label);
  const { classes } = state.project;
  const current = classes.filter((name) => names.includes(name));
  const removed = names.filter((name) => !classes.includes(name));
  return [...current, ...removed];
}

export const textOf = (names) => JSON.stringify([...names]);

/** A label as it is displayed. */
export function displayLabel(label) {
  if (isTask(MANY)) return namesOf(label).join(", ") || t("no label");
  return `${label}${unit() && ` ${unit()}`}`;
}

/** A number with three significant digits, as in reports. */
export const threeDigits = (value) => String(Number(value.toPrecision(3)));

/** The unit that was typed last. It is displayed beside numbers in this browser and not sent to the server. */
export const unit = () => (isTask(NUMBERS) ? (memory.get(`unit:${projectKey()}`) ?? "") : "");

/** An input for a number. `value()` returns its text, or shows an error and returns null where it is not a number. */
export function numberField(label = "", id = "number") {
  const input = h("input", { id, class: "number", type: "text", inputmode: "decimal", autocomplete: "off", value: label, "aria-describedby": `${id}-fault` });
  const unitLabel = h("span", { class: "unit" }, unit());
  const fault = h("p", { class: "fault", id: `${id}-fault`, role: "alert" });
  input.addEventListener("input", () => fault.replaceChildren());
  return {
    input,
    node: h("div", { class: "number-field" }, h("div", { class: "number-line" }, input, unitLabel), fault),
    value() {
      const typed = input.value.trim();
      const [, number, typedUnit] = NUMBER.exec(typed) ?? [];
      if (number === undefined) {
        const hint = /^[+-]?\d*,\d+/.test(typed) ? t("Write {number}, with a decimal point.", { number: typed.replace(",", ".") }) : t("Write a number such as 3.5.");
        fault.textContent = typed ? `${t("“{text}” is not a number.", { text: typed })} ${hint}` : t("Type a number first.");
        return null;
      }
      if (typedUnit) memory.set(`unit:${projectKey()}`, typedUnit);
      unitLabel.textContent = unit();
      return number;
    },
    fill(text) {
      input.value = text ?? "";
      fault.replaceChildren();
    },
  };
}

/** A form field for a label of any task. `value()` returns the label's text, or null where it is not valid. */
export function answerField(label, id) {
  const { classes } = state.project;
  if (isTask(NUMBERS)) return numberField(label ?? "", id);
  if (isTask(MANY)) {
    const chosen = label ? namesOf(label) : [];
    const boxes = classes.map((name) => h("input", { type: "checkbox", value: name, checked: chosen.includes(name) }));
    const rows = boxes.map((box) => h("label", { class: "check", dir: "auto" }, box, h("span", {}, box.value)));
    return {
      node: h("div", { id, class: "checks", role: "group", "aria-label": t("Labels") }, rows),
      value: () => textOf(boxes.filter((box) => box.checked).map((box) => box.value)),
    };
  }
  const select = h("select", { id }, classes.map((name) => h("option", { value: name, selected: name === label }, name)));
  return { node: select, value: () => select.value };
}
