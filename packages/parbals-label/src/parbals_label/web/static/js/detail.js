// One item in full: its history, what the model thinks, and a way to correct its label.

import { get, imageAddress, loadPicture, post } from "./api.js";
import { answerField, inWords, isTask, namesOf, NUMBERS } from "./answers.js";
import { ago, h, openDialog, randomId, toast } from "./dom.js";
import { gist, itemName, itemNode } from "./item.js";
import * as outbox from "./outbox.js";
import { emit, isOwner, on, shortcutsOn, state, tone } from "./state.js";
import { probabilityBars } from "./why.js";

export function labelChip(label) {
  if (isTask(NUMBERS)) return h("span", { class: "chip" }, inWords(label));
  const names = namesOf(label);
  return names.length ? names.map(classChip) : h("span", { class: "chip" }, inWords(label));
}

function classChip(label) {
  return h(
    "span",
    { class: `label-chip ${tone(label)}`, dir: "auto" },
    h("span", { class: "swatch", "aria-hidden": "true" }),
    label,
  );
}

const SOURCES = { bulk: "in bulk", decision: "decided" };
const opened = new Set();
on("stored", ({ entry }) => opened.forEach((refresh) => refresh(entry.position)));

/** Open the dialog of an item; `changed` is called after every correction that reached the disk. */
export async function openItem(position, changed = () => {}) {
  let item;
  try {
    item = await get(`/api/items/${position}`);
  } catch (error) {
    toast(error.message);
    return;
  }
  const body = h("div", { class: "detail" });
  const dialog = openDialog(itemName(item), body, { wide: true });
  const refresh = async (stored) => {
    if (stored !== position) return;
    try {
      fill(body, await get(`/api/items/${position}`));
    } catch {
      /* shown again when it is opened again */
    }
    changed();
  };
  opened.add(refresh);
  dialog.addEventListener("keydown", (event) => {
    if (event.target.matches("input, select") || event.ctrlKey || event.metaKey || event.altKey || !shortcutsOn()) return;
    if (event.key.toLowerCase() === "a") body.querySelector("[data-key=a]")?.click();
  });
  dialog.addEventListener("close", () => opened.delete(refresh));
  fill(body, item);
}

function fill(body, item) {
  const address = imageAddress(item.image);
  const picture = address ? new Image() : null;
  if (picture) loadPicture(picture, address);
  const model =
    item.predicted &&
    h("details", { class: "model-thinks" }, h("summary", {}, "What the model thinks"), probabilityBars(item.predicted));
  body.replaceChildren(itemNode(item, picture), correction(item), ...[model].filter(Boolean), history(item));
}

function correction(item) {
  const mine = item.answers?.[state.name];
  const given = answerField(mine ?? item.label, "correct-label");
  const comment = h("input", { id: "correct-comment", type: "text", maxlength: "2000", autocomplete: "off" });
  const save = h(
    "button",
    { class: "primary", type: "submit" },
    mine === undefined ? "Add my answer" : "Correct my answer",
  );
  const withdraw =
    (mine !== undefined || item.passes?.[state.name]) &&
    h(
      "button",
      {
        type: "button",
        onclick: () => {
          outbox.add({ kind: "undo", annotator: state.name, position: item.position, gist: gist(item, 80) });
          toast("Your answer is being taken back.");
        },
      },
      "Take my answer back",
    );
  const form = h(
    "form",
    { class: "correction" },
    h("div", { class: "field" }, h("label", { for: "correct-label" }, "Label"), given.node),
    h("div", { class: "field grow" }, h("label", { for: "correct-comment" }, "Comment (optional)"), comment),
    h(
      "div",
      { class: "actions" },
      save,
      withdraw,
      isOwner() && differ(item) && decide(item, given),
      isOwner() && item.label && askAgain(item),
      isOwner() && lookLike(item),
    ),
  );
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const label = given.value();
    if (label === null) return;
    outbox.add({
      kind: "answer",
      annotator: state.name,
      position: item.position,
      label,
      comment: comment.value.trim() || undefined,
      revise: true,
      gist: gist(item, 80),
    });
    toast(`${inWords(label)}: being stored.`);
  });
  return form;
}

const differ = (item) => new Set(Object.values(item.answers ?? {})).size > 1;

/** For an owner: what people said differently is settled; their answers stay. */
function decide(item, given) {
  const act = async () => {
    const label = given.value();
    if (label === null) return;
    const said = { annotator: state.name, positions: [item.position], label, decides: true };
    try {
      await post("/api/bulk", { ...said, request_id: randomId() });
      emit("stored", { entry: { kind: "answer", position: item.position }, reply: null });
      toast(`Decided: ${inWords(label)}.`);
    } catch (error) {
      toast(error.message);
    }
  };
  return h("button", { type: "button", onclick: act }, "Decide for everybody");
}

/** For an owner: Browse, with the items that mean the same. */
function lookLike(item) {
  const go = () => {
    document.querySelector("dialog[open]")?.close();
    location.hash = "#browse";
    setTimeout(() => emit("like", item), 50); // once that page is there
  };
  return h("button", { type: "button", onclick: go }, "Show what is like it");
}

/** For an owner: somebody else labels it as well. The key A does the same. */
function askAgain(item) {
  const ask = async () => {
    try {
      await post("/api/again", { position: item.position });
      toast("It waits for somebody else.");
    } catch (error) {
      toast(error.message);
    }
  };
  const button = h("button", { type: "button", onclick: ask }, "Ask somebody else ", h("kbd", {}, "A"));
  button.dataset.key = "a";
  return button;
}

/** An owner may take back what others said; it stays in the history, and the log says who did it. */
function takeBack(item, name) {
  const button = h("button", { type: "button", class: "text-button" }, "Take back");
  button.setAttribute("aria-label", `Take back the answer of ${name}`);
  button.addEventListener("click", async () => {
    button.disabled = true;
    const { position } = item;
    try {
      await post("/api/undo", { annotator: name, position, request_id: randomId(), as_owner: true });
      emit("stored", { entry: { kind: "undo", annotator: name, position }, reply: null });
      toast(`The answer of ${name} was taken back.`);
    } catch (error) {
      button.disabled = false;
      toast(error.message);
    }
  });
  return button;
}

function history(item) {
  const steps = item.history ?? [];
  const passes = Object.entries(item.passes ?? {});
  if (!steps.length && !passes.length) return h("p", { class: "quiet" }, "Nobody has answered this item yet.");
  const open = new Set(isOwner() ? Object.keys(item.answers ?? {}).filter((name) => name !== state.name) : []);
  const rows = steps
    .toReversed()
    .map((step) =>
      h(
        "li",
        {},
        step.label === null || step.label === undefined
          ? h("span", { class: "chip" }, "taken back")
          : labelChip(step.label),
        h("span", { dir: "auto" }, step.annotator),
        step.source !== "person" && h("span", { class: "chip" }, SOURCES[step.source] ?? step.source),
        h("time", { class: "quiet" }, ago(step.created)),
        step.comment && h("q", { dir: "auto" }, step.comment),
        open.delete(step.annotator) && takeBack(item, step.annotator), // beside the latest
      ),
    );
  const passed = passes.map(([name, kind]) =>
    h("li", {}, h("span", { class: "chip" }, kind === "skip" ? "skipped" : kind), h("span", { dir: "auto" }, name)),
  );
  return h("section", { class: "history" }, h("h3", {}, "History"), h("ol", {}, rows, passed));
}
