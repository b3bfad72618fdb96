// For owners, in the settings: classes are added, renamed, merged, removed and put in another order.

import { patch } from "./api.js";
import { labelChip } from "./detail.js";
import { h, openDialog, toast } from "./dom.js";
import { emit, on, state } from "./state.js";

export function classPanel(changed) {
  const list = h("ol", { class: "class-rows" });
  const name = h("input", { id: "new-class", type: "text", maxlength: "100", autocomplete: "off" });
  const form = h(
    "form",
    { class: "correction" },
    h("div", { class: "field grow" }, h("label", { for: "new-class" }, "A new class"), name),
    h("button", { type: "submit" }, "Add"),
  );
  const said = h("p", { class: "quiet", role: "status" });
  const node = h(
    "section",
    { class: "panel stack" },
    h("h2", { class: "panel-title" }, "Classes"),
    h("p", { class: "quiet" }, "In the order of their keys. No label is ever lost: the history keeps every name."),
    list,
    form,
    said,
  );

  async function change(body, sentence) {
    try {
      state.project = await patch("/api/settings", { classes: body });
      emit("project", state.project);
      said.textContent = sentence;
      toast(sentence);
      changed();
    } catch (error) {
      said.textContent = error.message;
      toast(error.message);
    }
  }

  /** One question in a dialog: `act` gets what was typed or chosen. */
  function ask(title, input, help, verb, act) {
    const body = h(
      "form",
      { class: "stack" },
      h("div", { class: "field" }, h("label", { for: "class-change" }, help), input),
      h("div", { class: "actions" }, h("button", { class: "primary", type: "submit" }, verb)),
    );
    input.id = "class-change";
    const dialog = openDialog(title, body);
    body.addEventListener("submit", (event) => {
      event.preventDefault();
      dialog.close();
      if (input.value.trim()) act(input.value.trim());
    });
    input.focus();
  }

  function rename(label) {
    const input = h("input", { type: "text", maxlength: "100", autocomplete: "off", value: label });
    ask(`Rename ${label}`, input, "Its labels stay", "Rename", (now) => {
      if (now !== label) change({ renamed: { [label]: now } }, `${label} is called ${now} now.`);
    });
  }

  function merge(label) {
    const others = state.project.classes.filter((other) => other !== label);
    const input = h("select", {}, others.map((other) => h("option", { value: other }, other)));
    ask(`Make ${label} part of another class`, input, `What was ${label} is from now on`, "Merge", (other) =>
      change({ merged: { [label]: other } }, `${label} is part of ${other} now.`),
    );
  }

  function move(place, step) {
    const order = [...state.project.classes];
    order.splice(place + step, 0, ...order.splice(place, 1));
    change({ order }, `${order[place + step]} is number ${place + step + 1} now.`);
  }

  function draw() {
    const { classes } = state.project;
    const button = (text, label, action, off = false) => {
      const made = h("button", { type: "button", class: "text-button", disabled: off, onclick: action }, text);
      made.setAttribute("aria-label", `${{ "↑": "Up", "↓": "Down" }[text] ?? text}: ${label}`);
      return made;
    };
    list.replaceChildren(
      ...classes.map((label, place) =>
        h(
          "li",
          {},
          labelChip(label),
          h(
            "span",
            { class: "class-actions" },
            button("↑", label, () => move(place, -1), place === 0),
            button("↓", label, () => move(place, 1), place === classes.length - 1),
            button("Rename", label, () => rename(label)),
            button("Merge", label, () => merge(label), classes.length < 3),
            button("Remove", label, () => change({ removed: [label] }, `${label} was removed.`), classes.length < 3),
          ),
        ),
      ),
    );
  }

  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const label = name.value.trim();
    if (!label) return;
    name.value = "";
    change({ added: [label] }, `${label} is a class now; who labelled before may want to look again.`);
  });
  on("project", draw);
  draw();
  return node;
}
