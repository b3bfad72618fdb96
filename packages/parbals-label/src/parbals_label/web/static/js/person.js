// Who is labelling, light or dark, and the list of keys.

import { get } from "./api.js";
import { byId, h, openDialog, toast } from "./dom.js";
import { emit, memory, on, setName, state } from "./state.js";

const LONGEST_NAME = 80;

/** A name as the project spells it: Ada and ada are one person. */
async function spelt(name) {
  try {
    return (await get(`/api/me?name=${encodeURIComponent(name)}`)).spelt;
  } catch (error) {
    if (error.temporary) return name; // the server is away
    throw error;
  }
}

/** Ask for a name; resolves when there is one. The first time it cannot be waved away. */
export function askName() {
  if (state.me.name !== null) {
    toast(`This link is ${state.me.name}'s: your answers carry that name.`);
    return Promise.resolve(state.name);
  }
  return new Promise((resolve) => {
    const input = h("input", {
      id: "name",
      type: "text",
      maxlength: String(LONGEST_NAME),
      required: true,
      autocomplete: "nickname",
      value: state.name ?? "",
      list: "known-names",
    });
    const known = h(
      "datalist",
      { id: "known-names" },
      (state.live?.annotators ?? []).map((person) => h("option", { value: person.name })),
    );
    const said = h("p", { class: "quiet", role: "alert" });
    const form = h(
      "form",
      { class: "stack" },
      h(
        "p",
        {},
        "Your answers carry this name, so that several people can share the work. There is no account and no password.",
      ),
      h("div", { class: "field" }, h("label", { for: "name" }, "Your name"), input, known),
      said,
      h(
        "div",
        { class: "actions" },
        h("button", { class: "primary", type: "submit" }, state.name ? "Use this name" : "Start"),
      ),
    );
    const dialog = openDialog(state.name ? "Change your name" : "Who is labelling?", form, {
      closable: state.name !== null,
    });
    form.addEventListener("submit", async (event) => {
      event.preventDefault();
      const name = input.value.trim().replace(/\s+/g, " ");
      if (!name) return;
      try {
        setName(await spelt(name));
        dialog.close();
      } catch (error) {
        said.textContent = error.message;
      }
    });
    dialog.addEventListener("close", () => resolve(state.name));
    input.focus();
    input.select();
  });
}

function drawName() {
  byId("name-text").textContent = state.name ?? "Your name";
  byId("name-initial").textContent = state.name ? [...state.name][0].toUpperCase() : "?";
  const change = state.me.name === null ? "; change" : "";
  byId("name-button").setAttribute("aria-label", state.name ? `You label as ${state.name}${change}` : "Enter your name");
}

export function themeName() {
  return document.documentElement.dataset.theme ?? "auto";
}

export function setTheme(name) {
  if (name === "auto") {
    delete document.documentElement.dataset.theme;
    memory.remove("theme");
  } else {
    document.documentElement.dataset.theme = name;
    memory.set("theme", name);
  }
  emit("theme", name);
}

function turnTheme() {
  const dark = themeName() === "dark" || (themeName() === "auto" && matchMedia("(prefers-color-scheme: dark)").matches);
  setTheme(dark ? "light" : "dark");
}

const KEYS = [
  [["1", "–", "9", "0"], "answer with one of the first ten classes"],
  [["/"], "find a class, where there are more; Enter takes the first match"],
  [["Enter"], "confirm several labels, or a number"],
  [["S"], "skip: someone else may know"],
  [["U"], "unsure: keep it for a closer look"],
  [["C"], "write a comment; Enter ends it"],
  [["Z"], "undo the last answer (Backspace does the same)"],
  [["W"], "show or hide what the model thinks"],
  [["G"], "open or close the guidelines"],
  [["+", "−", "0"], "zoom a picture, and fit it again"],
  [["?"], "this list"],
];

export function openHelp() {
  const rows = KEYS.map(([keys, what]) =>
    h(
      "div",
      { class: "pair" },
      h(
        "dt",
        {},
        keys.map((key) => (key === "–" ? " – " : h("kbd", {}, key))),
      ),
      h("dd", {}, what),
    ),
  );
  openDialog(
    "Help",
    h(
      "div",
      { class: "stack" },
      h(
        "p",
        {},
        "Read the item, tap its class or press its key, and the next one appears. Every answer is kept in this browser until the server has written it to disk; “saved” at the top means that it has.",
      ),
      h("dl", { class: "keys" }, rows),
      h("p", { class: "quiet" }, "Single keys can be switched off under Settings."),
    ),
  );
}

export function startPerson() {
  state.name = state.me.name ?? (memory.get("name") || null);
  if (state.me.name !== null) memory.set("name", state.me.name);
  drawName();
  on("name", drawName);
  byId("name-button").addEventListener("click", () => askName());
  byId("theme-button").addEventListener("click", turnTheme);
  byId("help-button").addEventListener("click", openHelp);
  document.addEventListener("keydown", (event) => {
    if (
      event.key === "?" &&
      !event.target.closest("input, textarea, select") &&
      !document.querySelector("dialog[open]")
    )
      openHelp();
  });
  window.addEventListener("storage", (event) => {
    if (state.me.name !== null || event.key !== "parbals:name" || !event.newValue || event.newValue === state.name) return;
    setName(event.newValue);
    toast(`Your name was changed in another tab: you are ${event.newValue} here too.`);
  });
}
