// The settings of the classes, for owners: add, rename, merge, remove and reorder.

import { patch } from "./api.js";
import { labelChip } from "./detail.js";
import { h, openDialog, toast } from "./dom.js";
import { emit, on, state } from "./state.js";
import { t } from "./text.js";

export function classPanel(changed) {
  const list = h("ol", { class: "class-rows" });
  const name = h("input", { id: "new-class", type: "text", maxlength: "100", autocomplete: "off" });
  const form = h(
    "form",
    { class: "correction" },
    h("div", { class: "field grow" }, h("label", { for: "new-class" }, t("New class")), name),
    h("button", { type: "submit" }, t("Add")),
  );
  const status = h("p", { class: "quiet", role: "status" });
  const node = h(
    "section",
    { class: "panel stack" },
    h("h2", { class: "panel-title" }, t("Classes")),
    h("p", { class: "quiet" }, t("In the order of their keys. No label is ever lost: the history keeps the original names.")),
    list,
    form,
    status,
  );

  async function change(body, sentence) {
    try {
      state.project = await patch("/api/settings", { classes: body });
      emit("project", state.project);
      emit("draw-classes"); // whoever changes the classes need not be asked
      status.textContent = sentence;
      toast(sentence);
      changed();
    } catch (error) {
      status.textContent = error.message;
      toast(error.message);
    }
  }

  /** Ask for one value in a dialog; `act` is called with what was typed or chosen. */
  function ask(title, input, help, verb, act, warning = null) {
    const body = h(
      "form",
      { class: "stack" },
      warning && h("p", {}, warning),
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
    ask(t("Rename {label}", { label }), input, t("New name; its labels are kept"), t("Rename"), (newName) => {
      if (newName !== label) change({ renamed: { [label]: newName } }, t("Renamed {label} to {name}.", { label, name: newName }));
    });
  }

  function merge(label) {
    const others = state.project.classes.filter((other) => other !== label);
    const options = others.map((other) => h("option", { value: other }, other));
    const input = h("select", { required: true }, h("option", { value: "" }, t("Choose a class")), options);
    const n = state.live?.class_balance?.[label] ?? 0;
    ask(
      t("Merge {label} into another class", { label }),
      input,
      t("Move {n:# label|# labels} of “{label}” to", { n, label }),
      t("Merge"),
      (other) => change({ merged: { [label]: other } }, t("Merged {label} into {other}: {n:# label|# labels} moved.", { label, other, n })),
      t("“{label}” disappears and its labels join the other class. This cannot be undone.", { label }),
    );
  }

  function move(index, step) {
    const order = [...state.project.classes];
    order.splice(index + step, 0, ...order.splice(index, 1));
    change({ order }, t("Moved {label} to number {n}.", { label: order[index + step], n: index + step + 1 }));
  }

  function draw() {
    const { classes } = state.project;
    const button = (text, label, action, disabled = false) => {
      const node = h("button", { type: "button", class: "text-button", disabled, onclick: action }, text);
      const verb = { "↑": t("Move up"), "↓": t("Move down") }[text] ?? text;
      node.setAttribute("aria-label", `${verb}: ${label}`);
      return node;
    };
    list.replaceChildren(
      ...classes.map((label, index) =>
        h(
          "li",
          {},
          labelChip(label),
          h(
            "span",
            { class: "class-actions" },
            button("↑", label, () => move(index, -1), index === 0),
            button("↓", label, () => move(index, 1), index === classes.length - 1),
            button(t("Rename"), label, () => rename(label)),
            button(t("Merge"), label, () => merge(label), classes.length < 3),
            button(t("Remove"), label, () => change({ removed: [label] }, t("Removed {label}.", { label })), classes.length < 3),
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
    change({ added: [label] }, t("Added “{label}”. Earlier items may belong to it.", { label }));
  });
  on("project", draw);
  draw();
  return node;
}
