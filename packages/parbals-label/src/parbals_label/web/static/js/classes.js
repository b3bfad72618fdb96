// The class buttons: a digit each for the first ten, and a search box when there are more.

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

/** The part with the buttons; `choose(label, event)` is called for a click, a key or Enter in the search box. */
export function classChooser(choose) {
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
    /** The class of a digit, or undefined. */
    labelOfKey: (key) => classes.find((label) => keys.get(label) === key),
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
