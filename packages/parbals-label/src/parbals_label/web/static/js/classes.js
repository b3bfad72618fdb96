// Inputs for an answer: class buttons with digit keys and a search box, toggles for multi-label, a number field.

import { displayLabel, isTask, MANY, namesOf, NUMBERS, numberField, ORDERED, textOf } from "./answers.js";
import { announce, h } from "./dom.js";
import { fades } from "./fade.js";
import { state, tone } from "./state.js";
import { t } from "./text.js";

const DIGITS = [..."1234567890"];
const SHORT_NAME = 3; // characters; buttons are narrow if all names are this short

/** Label → key. A class whose name is a digit has that key; the others get the remaining digits, in order. */
export function keysOf(classes) {
  const keys = new Map(classes.filter((label) => DIGITS.includes(label)).map((label) => [label, label]));
  const freeDigits = DIGITS.filter((digit) => !keys.has(digit));
  for (const label of classes) if (!keys.has(label) && freeDigits.length > 0) keys.set(label, freeDigits.shift());
  return keys;
}

/**
 * The input for an answer of the project's task. `choose(label, event)` is called for a click, a key, or Enter in the
 * search box. Returns {node, press, mark, enable, focusSearch}: `press(key, event)` handles a key and returns whether it
 * was one of its own, `mark(label)` shows the answer before an undo, `enable(isEnabled)` switches the input on or off.
 */
export function answerChooser(choose) {
  if (isTask(NUMBERS)) return numberChooser(choose);
  return isTask(MANY) ? labelsChooser(choose) : classChooser(choose);
}

const confirmButton = (confirm) =>
  h("button", { class: "primary confirm", type: "button", "aria-keyshortcuts": "Enter", onclick: confirm }, h("span", {}, t("Confirm")), h("kbd", { "aria-hidden": "true" }, "↵"));

/** A number: digits go to the field wherever the focus is; Enter confirms. */
function numberChooser(choose) {
  const field = numberField();
  const confirm = (event) => {
    const value = field.value();
    if (value === null) announce(field.node.textContent);
    else choose(value, event);
  };
  const button = confirmButton(confirm);
  field.input.addEventListener("keydown", (event) => {
    if (event.key === "Escape") field.input.blur();
    if (event.key !== "Enter") return;
    event.preventDefault();
    confirm(event);
  });
  field.node.prepend(h("label", { for: "number" }, t("Number")));
  field.node.firstChild.nextSibling.append(button);
  return {
    node: field.node,
    press(key, event) {
      if (key === "Enter" && !event.target.closest("button, summary, a")) confirm(event);
      else if (/^[\d.,+-]$/.test(key)) {
        field.input.value += event.key;
        field.input.focus();
      } else return false;
      return true;
    },
    mark: (label) => field.fill(label),
    enable(isEnabled) {
      for (const control of [field.input, button]) control.disabled = !isEnabled;
    },
    focusSearch: () => field.input.focus(),
  };
}

/** Multi-label: keys and clicks toggle labels, Enter confirms. */
function labelsChooser(choose) {
  const chosen = new Set();
  const inner = classChooser((label) => {
    if (!chosen.delete(label)) chosen.add(label);
    draw();
    announce(`${label}: ${chosen.has(label) ? t("yes") : t("no")}`);
  });
  const confirm = (event) => choose(textOf(chosen), event);
  const button = confirmButton(confirm);
  const status = h("p", { class: "quiet" });
  inner.node.append(h("div", { class: "confirm-line" }, status, button));
  const toggles = [...inner.node.querySelectorAll(".class-button")];
  inner.node.querySelector(".class-list").classList.add("toggles");

  function draw() {
    for (const toggle of toggles) toggle.setAttribute("aria-pressed", String(chosen.has(toggle.dataset.label)));
    status.textContent = chosen.size ? displayLabel(textOf(chosen)) : t("No label selected");
  }
  draw();
  return {
    ...inner,
    press(key, event) {
      if (key !== "Enter") return inner.press(key, event);
      if (event.target.closest("button, summary, a")) return false; // Enter activates the focused control
      confirm(event);
      return true;
    },
    mark(label) {
      chosen.clear();
      for (const name of label === null ? [] : namesOf(label)) chosen.add(name);
      draw();
    },
    enable(isEnabled) {
      inner.enable(isEnabled);
      button.disabled = !isEnabled;
    },
  };
}

function classChooser(choose) {
  const { classes } = state.project;
  const keys = keysOf(classes);
  const needsSearch = classes.length > DIGITS.length;
  const buttons = classes.map((label) =>
    h(
      "button",
      {
        class: `class-button ${tone(label)}`,
        type: "button",
        "data-label": label,
        "aria-keyshortcuts": keys.get(label) ?? null,
        onclick: (event) => choose(label, event),
      },
      keys.has(label)
        ? h("kbd", { "aria-hidden": "true" }, keys.get(label))
        : h("span", { class: "no-key", "aria-hidden": "true" }),
      h("span", { class: "class-name", dir: "auto" }, label),
      h("span", { class: "swatch", "aria-hidden": "true" }),
    ),
  );
  const list = fades(h("div", { class: "class-list", role: "group", "aria-label": t("Classes") }, buttons));
  const node = h("div", { class: "class-chooser" });
  if (needsSearch) node.append(searchBox());
  node.append(list);
  if (needsSearch) list.classList.add("many");
  list.classList.toggle("brief", classes.every((label) => label.length <= SHORT_NAME));
  if (isTask(ORDERED))
    node.append(h("p", { class: "quiet order" }, h("span", {}, `← ${classes[0]}`), h("span", {}, t("in this order")), h("span", {}, `${classes.at(-1)} →`)));

  function searchBox() {
    const input = h("input", {
      type: "search",
      id: "class-search",
      autocomplete: "off",
      spellcheck: "false",
      placeholder: t("Search {n} classes", { n: classes.length }),
      "aria-keyshortcuts": "/",
    });
    input.addEventListener("input", () => filter(input.value, true));
    input.addEventListener("keydown", (event) => {
      if (event.key === "Enter") {
        event.preventDefault();
        const first = matches(input.value)[0];
        if (!input.value.trim() || !first) return;
        input.value = "";
        filter("", false);
        choose(first.dataset.label, event);
      } else if (event.key === "ArrowDown") {
        event.preventDefault();
        matches(input.value)[0]?.focus();
      } else if (event.key === "Escape") {
        input.value = "";
        filter("", false);
        input.blur();
      }
    });
    return h(
      "div",
      { class: "class-search" },
      h("label", { for: "class-search", class: "visually-hidden" }, t("Find a class")),
      input,
      h("kbd", { "aria-hidden": "true" }, "/"),
    );
  }

  /** Buttons whose class begins with what was typed, then those that contain it. */
  function matches(typed) {
    const text = typed.trim().toLocaleLowerCase();
    const starts = buttons.filter((button) => button.dataset.label.toLocaleLowerCase().startsWith(text));
    const contains = buttons.filter(
      (button) => !starts.includes(button) && button.dataset.label.toLocaleLowerCase().includes(text),
    );
    return [...starts, ...contains];
  }

  function filter(typed, shouldAnnounce) {
    const matching = matches(typed);
    buttons.forEach((button) => {
      button.hidden = !matching.includes(button);
      button.classList.toggle("first-match", typed.trim() !== "" && button === matching[0]);
    });
    list.append(...(typed.trim() ? matching : buttons));
    if (shouldAnnounce)
      announce(
        matching.length
          ? t("{n:# class|# classes}; Enter chooses {label}", { n: matching.length, label: matching[0].dataset.label })
          : t("No class matches"),
      );
  }

  list.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
    if (!step) return;
    const visible = [...list.querySelectorAll("button:not([hidden])")];
    const index = visible.indexOf(document.activeElement);
    if (index < 0) return;
    event.preventDefault();
    visible[(index + step + visible.length) % visible.length].focus();
  });

  return {
    node,
    press(key, event) {
      const label = classes.find((name) => keys.get(name) === key);
      if (label !== undefined) choose(label, event);
      return label !== undefined;
    },
    /** Mark the answer that was given before an undo. */
    mark(label) {
      buttons.forEach((button) => button.classList.toggle("was", button.dataset.label === label));
    },
    enable(isEnabled) {
      buttons.forEach((button) => {
        button.disabled = !isEnabled;
      });
    },
    focusSearch: () => node.querySelector("input")?.focus(),
  };
}
