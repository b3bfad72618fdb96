// The annotator's name, the colour theme, and the help with keyboard shortcuts.

import { get } from "./api.js";
import { byId, h, openDialog, toast } from "./dom.js";
import { emit, memory, on, setName, state } from "./state.js";
import { language, languageNames, t } from "./text.js";

const MAX_NAME_LENGTH = 80;

/** The project's spelling of a name: Ada and ada are one person. */
async function canonicalName(name) {
  try {
    return (await get(`/api/me?name=${encodeURIComponent(name)}`)).spelt;
  } catch (error) {
    if (error.temporary) return name; // the server cannot be reached
    throw error;
  }
}

/** Ask for a name; resolves when there is one. The first time the dialog cannot be closed without a name. */
export function askName() {
  if (state.me.name !== null) {
    toast(t("This link belongs to {name}: your answers are stored under that name.", { name: state.me.name }));
    return Promise.resolve(state.name);
  }
  return new Promise((resolve) => {
    const input = h("input", {
      id: "name",
      type: "text",
      maxlength: String(MAX_NAME_LENGTH),
      required: true,
      autocomplete: "nickname",
      value: state.name ?? "",
      list: "known-names",
    });
    const knownNames = h(
      "datalist",
      { id: "known-names" },
      (state.live?.annotators ?? []).map((person) => h("option", { value: person.name })),
    );
    const status = h("p", { class: "quiet", role: "alert" });
    const form = h(
      "form",
      { class: "stack" },
      h(
        "p",
        {},
        t("Your answers are stored under this name, so that several people can share the work. You need no account or password."),
      ),
      h("div", { class: "field" }, h("label", { for: "name" }, t("Your name")), input, knownNames),
      h("div", { class: "field" }, h("label", { for: "name-language" }, t("Language")), languageBox("name-language")),
      status,
      h(
        "div",
        { class: "actions" },
        h("button", { class: "primary", type: "submit" }, state.name ? t("Use this name") : t("Start")),
      ),
    );
    const dialog = openDialog(state.name ? t("Change your name") : t("Who is labelling?"), form, {
      closable: state.name !== null,
    });
    form.addEventListener("submit", async (event) => {
      event.preventDefault();
      const name = input.value.trim().replace(/\s+/g, " ");
      if (!name) return;
      try {
        setName(await canonicalName(name));
        dialog.close();
      } catch (error) {
        status.textContent = error.message;
      }
    });
    dialog.addEventListener("close", () => resolve(state.name));
    input.focus();
    input.select();
  });
}

function nameButtonLabel(name) {
  if (!name) return t("Enter your name");
  return state.me.name === null ? t("Labelling as {name}; change", { name }) : t("Labelling as {name}", { name });
}

function drawName() {
  byId("name-text").textContent = state.name ?? t("Your name");
  byId("name-initial").textContent = state.name ? [...state.name][0].toUpperCase() : "?";
  byId("name-button").setAttribute("aria-label", nameButtonLabel(state.name));
}

/** A box to choose the language of the page, which is loaded again; unsent answers are kept. */
export function languageBox(id) {
  const options = languageNames().map(([code, name]) => h("option", { value: code, lang: code, selected: code === language }, name));
  const choose = () => {
    memory.set("language", box.value);
    location.reload();
  };
  const box = h("select", { id, onchange: choose }, options);
  return box;
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

function toggleTheme() {
  const dark = themeName() === "dark" || (themeName() === "auto" && matchMedia("(prefers-color-scheme: dark)").matches);
  setTheme(dark ? "light" : "dark");
}

const KEYS = [
  [["1", "–", "9", "0"], t("answer with one of the first ten classes")],
  [["/"], t("search the classes, if there are more than ten; Enter takes the first match")],
  [["Enter"], t("confirm the selected labels or the number")],
  [["S"], t("skip: leave the item to someone else")],
  [["U"], t("unsure: mark the item for review")],
  [["C"], t("write a comment; Enter finishes it")],
  [["Z"], t("undo the last answer (also Backspace)")],
  [["W"], t("show or hide the model's prediction")],
  [["G"], t("open or close the guidelines")],
  [["+", "−", "0"], t("zoom a picture in or out, or fit it")],
  [["?"], t("show this help")],
];

export function openHelp() {
  const rows = KEYS.map(([keys, description]) =>
    h(
      "div",
      { class: "pair" },
      h(
        "dt",
        {},
        keys.map((key) => (key === "–" ? " – " : h("kbd", {}, key))),
      ),
      h("dd", {}, description),
    ),
  );
  openDialog(
    t("Help"),
    h(
      "div",
      { class: "stack" },
      h(
        "p",
        {},
        t(
          "Read the item and click its class or press its key; the next item appears. Each answer is kept in this browser until the server has written it to disk. “Saved” at the top means that all answers are on disk.",
        ),
      ),
      h("dl", { class: "keys" }, rows),
      h("p", { class: "quiet" }, t("You can switch off single-key shortcuts under Settings.")),
    ),
  );
}

export function startPerson() {
  state.name = state.me.name ?? (memory.get("name") || null);
  if (state.me.name !== null) memory.set("name", state.me.name);
  drawName();
  on("name", drawName);
  byId("name-button").addEventListener("click", () => askName());
  byId("theme-button").addEventListener("click", toggleTheme);
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
    toast(t("Your name was changed to {name} in another tab.", { name: event.newValue }));
  });
}
