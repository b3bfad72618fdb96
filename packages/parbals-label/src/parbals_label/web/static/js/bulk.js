// Several items at once: a choice of them in a list or on the map, and one label for all.

import { post } from "./api.js";
import { labelChip } from "./detail.js";
import { h, openDialog, plural, randomId, toast } from "./dom.js";
import { emit, state } from "./state.js";

const MOST = 300; // as many as one person may send in a minute and a half

/** Give items a label, or take one's own labels of them back (null); how many were changed. */
async function send(positions, label) {
  const body = { annotator: state.name, positions, label, request_id: randomId() };
  const { changed, left } = await post("/api/bulk", body);
  const kept = left ? ` ${plural(left, "item is kept for measuring: look at it", "items are kept for measuring: look at each")} by itself.` : "";
  toast(`${plural(changed, "item")} ${label === null ? "without your label now" : `labelled ${label}, in bulk`}.${kept}`);
  emit("stored", { entry: { kind: "answer", position: -1 }, reply: null });
}

/** Ask which label, and give it; `done` is called when it is stored. */
export function labelTogether(positions, done = () => {}) {
  if (positions.length > MOST) return toast(`Choose at most ${MOST} items at a time.`);
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
      "Each becomes an answer of yours with “in bulk” beside it; where you had answered otherwise, it is corrected. Items that measure the error are left out.",
    ),
    h("div", { class: "bulk-choices" }, choices),
    h("button", { type: "button", class: "text-button", onclick: () => act(null) }, "Take my labels of them back"),
  );
  const dialog = openDialog(`Label ${plural(positions.length, "item")} at once`, body);
}

/** The line above a list: what is chosen, and what can be done with it. */
export function bulkBar(changed) {
  const chosen = new Set();
  const boxes = new Map();
  const all = h("input", { type: "checkbox", id: "choose-all" });
  const said = h("span", { class: "quiet" });
  const go = h("button", { type: "button", class: "primary", onclick: () => labelTogether([...chosen], changed) }, "Label …");
  const node = h(
    "div",
    { class: "bulk-bar", role: "group", "aria-label": "Several items at once" },
    h("label", { class: "check", for: "choose-all" }, all, h("span", {}, "Choose all that are shown")),
    said,
    go,
  );
  let last = null;

  function draw() {
    said.textContent = chosen.size ? `${plural(chosen.size, "item")} chosen` : "";
    go.disabled = chosen.size === 0;
    all.checked = boxes.size > 0 && chosen.size === boxes.size;
    all.indeterminate = chosen.size > 0 && chosen.size < boxes.size;
    node.hidden = boxes.size === 0;
  }

  function choose(position, yes) {
    const box = boxes.get(position);
    if (!box) return;
    box.checked = yes;
    if (yes) chosen.add(position);
    else chosen.delete(position);
  }

  all.addEventListener("change", () => {
    for (const position of boxes.keys()) choose(position, all.checked);
    draw();
  });
  draw();
  return {
    node,
    /** The box of a row; with shift, those since the last one as well. */
    box(item) {
      const box = h("input", { type: "checkbox", class: "choose", "aria-label": `Choose item ${item.id}` });
      box.addEventListener("click", (event) => {
        const places = [...boxes.keys()];
        const [from, to] = [places.indexOf(event.shiftKey && last !== null ? last : item.position), places.indexOf(item.position)];
        for (const position of places.slice(Math.min(from, to), Math.max(from, to) + 1)) choose(position, box.checked);
        last = item.position;
        draw();
      });
      item.box = box;
      return box;
    },
    /** The list shows these items now, or these as well. */
    listed(items, further = false) {
      if (!further) {
        boxes.clear();
        chosen.clear();
        last = null;
      }
      for (const item of items) boxes.set(item.position, item.box);
      draw();
    },
  };
}
