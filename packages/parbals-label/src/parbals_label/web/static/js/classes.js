// The class buttons: a digit each for the first ten, and a search box when there are more.

import { inWords, isTask, MANY, namesOf, NUMBERS, numberField, ORDERED, textOf } from "./answers.js";
import { announce, h, plural } from "./dom.js";
import { fades } from "./fade.js";
import { state, tone } from "./state.js";

const DIGITS = [..."1234567890"];
const BRIEF = 3; // letters of names that need no wide button

/** Label → key. A class that is called by a digit has that key; the others take what is left, in order. */
export function keysOf(classes) {
  const keys = new Map(classes.filter((label) => DIGITS.includes(label)).map((label) => [label, label]));
  const left = DIGITS.filter((digit) => !keys.has(digit));
  for (const label of classes) if (!keys.has(label) && left.length > 0) keys.set(label, left.shift());
  return keys;
}

/**
 * What an answer is given by; `choose(label, event)` is called for a click, a key or Enter in the search box. It takes
 * keys (`press` says whether it was one of its own), shows what was answered before an undo, and can be switched off.
 */
export function answerChooser(choose) {
  if (isTask(NUMBERS)) return numberChooser(choose);
  return isTask(MANY) ? labelsChooser(choose) : classChooser(choose);
}

const confirmButton = (confirm) =>
  h("button", { class: "primary confirm", type: "button", "aria-keyshortcuts": "Enter", onclick: confirm }, h("span", {}, "Confirm"), h("kbd", { "aria-hidden": "true" }, "↵"));

/** A number: what is typed goes to the field, wherever the focus is; Enter confirms. */
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
  field.node.prepend(h("label", { for: "number" }, "Number"));
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
    enable(yes) {
      for (const part of [field.input, button]) part.disabled = !yes;
    },
    focusSearch: () => field.input.focus(),
  };
}

/** Several labels: keys and clicks toggle them, Enter confirms. */
function labelsChooser(choose) {
  const chosen = new Set();
  const inner = classChooser((label) => {
    if (!chosen.delete(label)) chosen.add(label);
    draw();
    announce(`${label}: ${chosen.has(label) ? "yes" : "no"}`);
  });
  const confirm = (event) => choose(textOf(chosen), event);
  const button = confirmButton(confirm);
  const said = h("p", { class: "quiet" });
  inner.node.append(h("div", { class: "confirm-line" }, said, button));
  const toggles = [...inner.node.querySelectorAll(".class-button")];
  inner.node.querySelector(".class-list").classList.add("toggles");

  function draw() {
    for (const toggle of toggles) toggle.setAttribute("aria-pressed", String(chosen.has(toggle.dataset.label)));
    said.textContent = chosen.size ? inWords(textOf(chosen)) : "None of them, so far";
  }
  draw();
  return {
    ...inner,
    press(key, event) {
      if (key !== "Enter") return inner.press(key, event);
      if (event.target.closest("button, summary, a")) return false; // it does what it says
      confirm(event);
      return true;
    },
    mark(label) {
      chosen.clear();
      for (const name of label === null ? [] : namesOf(label)) chosen.add(name);
      draw();
    },
    enable(yes) {
      inner.enable(yes);
      button.disabled = !yes;
    },
  };
}

function classChooser(choose) {
  const { classes } = state.project;
  const keys = keysOf(classes);
  const many = classes.length > DIGITS.length;
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
  const list = fades(h("div", { class: "class-list", role: "group", "aria-label": "Classes" }, buttons));
  const node = h("div", { class: "class-chooser" });
  if (many) node.append(searchBox());
  node.append(list);
  if (many) list.classList.add("many");
  list.classList.toggle("brief", classes.every((label) => label.length <= BRIEF));
  if (isTask(ORDERED))
    node.append(h("p", { class: "quiet order" }, h("span", {}, `← ${classes[0]}`), h("span", {}, "in this order"), h("span", {}, `${classes.at(-1)} →`)));

  function searchBox() {
    const input = h("input", {
      type: "search",
      id: "class-search",
      autocomplete: "off",
      spellcheck: "false",
      placeholder: `Find one of ${classes.length} classes`,
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
      h("label", { for: "class-search", class: "visually-hidden" }, "Find a class"),
      input,
      h("kbd", { "aria-hidden": "true" }, "/"),
    );
  }

  /** Names that begin with the words come first, then those that contain them. */
  function matches(typed) {
    const wanted = typed.trim().toLocaleLowerCase();
    const starts = buttons.filter((button) => button.dataset.label.toLocaleLowerCase().startsWith(wanted));
    const contains = buttons.filter(
      (button) => !starts.includes(button) && button.dataset.label.toLocaleLowerCase().includes(wanted),
    );
    return [...starts, ...contains];
  }

  function filter(typed, aloud) {
    const fitting = matches(typed);
    buttons.forEach((button) => {
      button.hidden = !fitting.includes(button);
      button.classList.toggle("first-match", typed.trim() !== "" && button === fitting[0]);
    });
    list.append(...(typed.trim() ? fitting : buttons));
    if (aloud)
      announce(
        fitting.length
          ? `${plural(fitting.length, "class", "classes")}; Enter chooses ${fitting[0].dataset.label}`
          : "No class matches",
      );
  }

  list.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
    if (!step) return;
    const visible = [...list.querySelectorAll("button:not([hidden])")];
    const place = visible.indexOf(document.activeElement);
    if (place < 0) return;
    event.preventDefault();
    visible[(place + step + visible.length) % visible.length].focus();
  });

  return {
    node,
    press(key, event) {
      const label = classes.find((name) => keys.get(name) === key);
      if (label !== undefined) choose(label, event);
      return label !== undefined;
    },
    /** Mark what was answered before an undo. */
    mark(label) {
      buttons.forEach((button) => button.classList.toggle("was", button.dataset.label === label));
    },
    enable(yes) {
      buttons.forEach((button) => {
        button.disabled = !yes;
      });
    },
    focusSearch: () => node.querySelector("input")?.focus(),
  };
}
