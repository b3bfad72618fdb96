// Bulk labelling: one label for several items that are selected in the list or on the map.

import { post } from "./api.js";
import { labelChip } from "./detail.js";
import { h, openDialog, randomId, toast } from "./dom.js";
import { emit, state } from "./state.js";
import { t } from "./text.js";

const MAX_ITEMS = 300; // the server's rate limit admits as many answers of one person in 90 seconds

/** Label several items, or undo this person's labels of them (null). */
async function send(positions, label) {
  const body = { annotator: state.name, positions, label, request_id: randomId() };
  const { changed, left } = await post("/api/bulk", body);
  const outcome =
    label === null
      ? t("Undid your {n:# label|# labels}.", { n: changed })
      : t("{n:# item|# items} labelled {label}, in bulk.", { n: changed, label });
  const excluded = left ? ` ${t("{n:# test item was|# test items were} left out: label them one at a time.", { n: left })}` : "";
  toast(outcome + excluded);
  emit("stored", { entry: { kind: "answer", position: -1 }, reply: null });
}

/** Ask for a label and store it for all `positions`; `done` is called when it is stored. */
export function labelTogether(positions, done = () => {}) {
  if (positions.length > MAX_ITEMS) return toast(t("Select at most {n} items at a time.", { n: MAX_ITEMS }));
  const act = async (label) => {
    dialog.close();
    try {
      await send(positions, label);
      done();
    } catch (error) {
      toast(error.message);
    }
  };
  const choices = state.project.classes.map((label) =>
    h("button", { type: "button", onclick: () => act(label) }, labelChip(label)),
  );
  const body = h(
    "div",
    { class: "stack" },
    h(
      "p",
      {},
      t("Each item gets this label as your answer, marked “in bulk”. Your earlier answers are replaced. Test items, which measure the error, are left out."),
    ),
    h("div", { class: "bulk-choices" }, choices),
    h("button", { type: "button", class: "text-button", onclick: () => act(null) }, t("Undo my labels of these items")),
  );
  const dialog = openDialog(t("Label {n:# item|# items} at once", { n: positions.length }), body);
}

/** The bar above a list: how many items are selected, and a button to label them. */
export function bulkBar(changed) {
  const selected = new Set();
  const boxes = new Map();
  const all = h("input", { type: "checkbox", id: "choose-all" });
  const status = h("span", { class: "quiet" });
  const go = h("button", { type: "button", class: "primary", onclick: () => labelTogether([...selected], changed) }, t("Label …"));
  const node = h(
    "div",
    { class: "bulk-bar", role: "group", "aria-label": t("Bulk labelling") },
    h("label", { class: "check", for: "choose-all" }, all, h("span", {}, t("Select all items shown"))),
    status,
    go,
  );
  let lastClicked = null;

  function draw() {
    status.textContent = selected.size ? t("{n:# item|# items} selected", { n: selected.size }) : "";
    go.disabled = selected.size === 0;
    all.checked = boxes.size > 0 && selected.size === boxes.size;
    all.indeterminate = selected.size > 0 && selected.size < boxes.size;
    node.hidden = boxes.size === 0;
  }

  function select(position, isSelected) {
    const box = boxes.get(position);
    if (!box) return;
    box.checked = isSelected;
    if (isSelected) selected.add(position);
    else selected.delete(position);
  }

  all.addEventListener("change", () => {
    for (const position of boxes.keys()) select(position, all.checked);
    draw();
  });
  draw();
  return {
    node,
    /** The checkbox of a row; with the shift key it also sets the rows since the last click. */
    box(item) {
      const box = h("input", { type: "checkbox", class: "choose", "aria-label": t("Select item {id}", { id: item.id }) });
      box.addEventListener("click", (event) => {
        const positions = [...boxes.keys()];
        const anchor = event.shiftKey && lastClicked !== null ? lastClicked : item.position;
        const from = positions.indexOf(anchor);
        const to = positions.indexOf(item.position);
        for (const position of positions.slice(Math.min(from, to), Math.max(from, to) + 1)) select(position, box.checked);
        lastClicked = item.position;
        draw();
      });
      item.box = box;
      return box;
    },
    /** Set the items that the list shows, or append to them. */
    listed(items, append = false) {
      if (!append) {
        boxes.clear();
        selected.clear();
        lastClicked = null;
      }
      for (const item of items) boxes.set(item.position, item.box);
      draw();
    },
  };
}
