// What a label is, for each task: the text that is stored, how people read it, and fields to give one.
//
// Of many labels the text is a JSON list of names, of numbers a decimal, else the name of a class.

import { h } from "./dom.js";
import { memory, projectKey, state } from "./state.js";

export const MANY = "many-labels";
export const ORDERED = "ordinal";
export const NUMBERS = "regression";
const NUMBER = /^([+-]?(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?)\s*(\p{L}.*|[%°€$£¥].*)?$/iu;

export const isTask = (...tasks) => tasks.includes(state.project.task);

/** The classes that a label names, in their order. */
export function namesOf(label) {
  if (!isTask(MANY)) return [label];
  const given = JSON.parse(label);
  return [...state.project.classes.filter((name) => given.includes(name)), ...given.filter((name) => !state.project.classes.includes(name))];
}

export const textOf = (names) => JSON.stringify([...names]);

/** A label as people read it. */
export const inWords = (label) => (isTask(MANY) ? namesOf(label).join(", ") || "none of them" : `${label}${unit() && ` ${unit()}`}`);

/** A number as a report writes it. */
export const brief = (value) => String(Number(value.toPrecision(3)));

/** The unit that was typed last: it is shown beside numbers in this browser, and not stored. */
export const unit = () => (isTask(NUMBERS) ? (memory.get(`unit:${projectKey()}`) ?? "") : "");

/** A field for a number: `value()` is its text, or null where it is none, which the field then says. */
export function numberField(label = "", id = "number") {
  const input = h("input", { id, class: "number", type: "text", inputmode: "decimal", autocomplete: "off", value: label, "aria-describedby": `${id}-fault` });
  const sign = h("span", { class: "unit" }, unit());
  const fault = h("p", { class: "fault", id: `${id}-fault`, role: "alert" });
  input.addEventListener("input", () => fault.replaceChildren());
  return {
    input,
    node: h("div", { class: "number-field" }, h("div", { class: "number-line" }, input, sign), fault),
    value() {
      const typed = input.value.trim();
      const [, number, named] = NUMBER.exec(typed) ?? [];
      if (number === undefined) {
        const point = /^[+-]?\d*,\d+/.test(typed) ? `write ${typed.replace(",", ".")}, with a point` : "write one such as 3.5";
        fault.textContent = typed ? `“${typed}” is not a number; ${point}.` : "Type a number first.";
        return null;
      }
      if (named) memory.set(`unit:${projectKey()}`, named);
      sign.textContent = unit();
      return number;
    },
    fill(text) {
      input.value = text ?? "";
      fault.replaceChildren();
    },
  };
}

/** A field of a form that holds a label: `value()` is its text, or null where it holds none. */
export function answerField(label, id) {
  const { classes } = state.project;
  if (isTask(NUMBERS)) return numberField(label ?? "", id);
  if (isTask(MANY)) {
    const given = label ? namesOf(label) : [];
    const boxes = classes.map((name) => h("input", { type: "checkbox", value: name, checked: given.includes(name) }));
    const rows = boxes.map((box) => h("label", { class: "check", dir: "auto" }, box, h("span", {}, box.value)));
    return {
      node: h("div", { id, class: "checks", role: "group", "aria-label": "Labels" }, rows),
      value: () => textOf(boxes.filter((box) => box.checked).map((box) => box.value)),
    };
  }
  const select = h("select", { id }, classes.map((name) => h("option", { value: name, selected: name === label }, name)));
  return { node: select, value: () => select.value };
}
