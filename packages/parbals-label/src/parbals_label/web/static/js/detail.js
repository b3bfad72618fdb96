// The dialog of one item: its content, a form to correct its label, the model's prediction, and its history.

import { get, imageAddress, loadPicture, post } from "./api.js";
import { answerField, displayLabel, isTask, namesOf, NUMBERS } from "./answers.js";
import { ago, h, openDialog, randomId, toast } from "./dom.js";
import { gist, itemName, itemNode, passName } from "./item.js";
import * as outbox from "./outbox.js";
import { emit, isOwner, on, shortcutsOn, state, tone } from "./state.js";
import { t } from "./text.js";
import { probabilityBars } from "./why.js";

export function labelChip(label) {
  if (isTask(NUMBERS)) return h("span", { class: "chip" }, displayLabel(label));
  const names = namesOf(label);
  return names.length ? names.map(classChip) : h("span", { class: "chip" }, displayLabel(label));
}

function classChip(label) {
  return h(
    "span",
    { class: `label-chip ${tone(label)}`, dir: "auto" },
    h("span", { class: "swatch", "aria-hidden": "true" }),
    label,
  );
}

const SOURCES = { bulk: t("in bulk"), decision: t("final label") };
const opened = new Set();
on("stored", ({ entry }) => opened.forEach((refresh) => refresh(entry.position)));

/** Open the dialog of an item; `changed` is called after every correction that is stored. */
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
      /* the dialog keeps its contents until it is opened again */
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
    h("details", { class: "model-thinks" }, h("summary", {}, t("Model prediction")), probabilityBars(item.predicted));
  body.replaceChildren(itemNode(item, picture), correction(item), ...[model].filter(Boolean), history(item));
}

function correction(item) {
  const mine = item.answers?.[state.name];
  const field = answerField(mine ?? item.label, "correct-label");
  const comment = h("input", { id: "correct-comment", type: "text", maxlength: "2000", autocomplete: "off" });
  const save = h(
    "button",
    { class: "primary", type: "submit" },
    mine === undefined ? t("Add my answer") : t("Correct my answer"),
  );
  const undo =
    (mine !== undefined || item.passes?.[state.name]) &&
    h(
      "button",
      {
        type: "button",
        onclick: () => {
          outbox.add({ kind: "undo", annotator: state.name, position: item.position, gist: gist(item, 80) });
          toast(t("Undoing your answer."));
        },
      },
      t("Undo my answer"),
    );
  const form = h(
    "form",
    { class: "correction" },
    h("div", { class: "field" }, h("label", { for: "correct-label" }, t("Label::noun")), field.node),
    h("div", { class: "field grow" }, h("label", { for: "correct-comment" }, t("Comment (optional)")), comment),
    h(
      "div",
      { class: "actions" },
      save,
      undo,
      isOwner() && hasDisagreement(item) && decide(item, field),
      isOwner() && item.label && requestAnswer(item),
      isOwner() && findSimilar(item),
    ),
  );
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const label = field.value();
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
    toast(t("Saving {label}.", { label: displayLabel(label) }));
  });
  return form;
}

const hasDisagreement = (item) => new Set(Object.values(item.answers ?? {})).size > 1;

/** For owners: store a final label where annotators disagree; their answers are kept. */
function decide(item, field) {
  const act = async () => {
    const label = field.value();
    if (label === null) return;
    const decision = { annotator: state.name, positions: [item.position], label, decides: true };
    try {
      await post("/api/bulk", { ...decision, request_id: randomId() });
      emit("stored", { entry: { kind: "answer", position: item.position }, reply: null });
      toast(t("Final label: {label}.", { label: displayLabel(label) }));
    } catch (error) {
      toast(error.message);
    }
  };
  return h("button", { type: "button", onclick: act }, t("Set as final label"));
}

/** For owners: list the most similar items under Browse. */
function findSimilar(item) {
  const go = () => {
    document.querySelector("dialog[open]")?.close();
    location.hash = "#browse";
    setTimeout(() => emit("like", item), 50); // after the Browse page is shown
  };
  return h("button", { type: "button", onclick: go }, t("Find similar items"));
}

/** For owners: request one more answer, from somebody who has not labelled the item. The key A does the same. */
function requestAnswer(item) {
  const ask = async () => {
    try {
      await post("/api/again", { position: item.position });
      toast(t("Queued for one more answer."));
    } catch (error) {
      toast(error.message);
    }
  };
  const button = h("button", { type: "button", onclick: ask }, t("Request another answer"), " ", h("kbd", {}, "A"));
  button.dataset.key = "a";
  return button;
}

/** For owners: undo somebody's answer. It stays in the history, and the log records who undid it. */
function undoAnswerOf(item, name) {
  const button = h("button", { type: "button", class: "text-button" }, t("Undo"));
  button.setAttribute("aria-label", t("Undo the answer of {name}", { name }));
  button.addEventListener("click", async () => {
    button.disabled = true;
    const { position } = item;
    try {
      await post("/api/undo", { annotator: name, position, request_id: randomId(), as_owner: true });
      emit("stored", { entry: { kind: "undo", annotator: name, position }, reply: null });
      toast(t("Undid the answer of {name}.", { name }));
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
  if (!steps.length && !passes.length) return h("p", { class: "quiet" }, t("Nobody has answered this item yet."));
  const undoable = new Set(isOwner() ? Object.keys(item.answers ?? {}).filter((name) => name !== state.name) : []);
  const rows = steps
    .toReversed()
    .map((step) =>
      h(
        "li",
        {},
        step.label === null || step.label === undefined
          ? h("span", { class: "chip" }, t("undone"))
          : labelChip(step.label),
        h("span", { dir: "auto" }, step.annotator),
        step.source !== "person" && h("span", { class: "chip" }, SOURCES[step.source] ?? step.source),
        h("time", { class: "quiet" }, ago(step.created)),
        step.comment && h("q", { dir: "auto" }, step.comment),
        undoable.delete(step.annotator) && undoAnswerOf(item, step.annotator), // beside the latest answer only
      ),
    );
  const skips = passes.map(([name, kind]) =>
    h("li", {}, h("span", { class: "chip" }, passName(kind)), h("span", { dir: "auto" }, name)),
  );
  return h("section", { class: "history" }, h("h3", {}, t("History")), h("ol", {}, rows, skips));
}
