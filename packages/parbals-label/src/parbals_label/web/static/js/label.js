// The page where items are labelled: one item, the classes under it, and everything within reach of the keyboard.

import { connection } from "./api.js";
import { inWords } from "./answers.js";
import { answerChooser } from "./classes.js";
import { announce, h, toast } from "./dom.js";
import { fades } from "./fade.js";
import { gist, itemName, itemNode, needsRoom } from "./item.js";
import * as outbox from "./outbox.js";
import { current, finish, pictureOf, putBack, queueInfo, refill, startQueue } from "./queue.js";
import { emit, on, shortcutsOn, state } from "./state.js";
import { trail } from "./trail.js";
import { waitingNode } from "./waiting.js";
import { whyPanel } from "./why.js";

// Nobody reads an item in this time: what comes sooner is the second half of a double click or a bouncing key.
const SECOND_CLICK_MS = 500;
const SECOND_KEY_MS = 200;

export function labelView(aside) {
  const chooser = answerChooser((label, event) => act({ kind: "answer", label }, event));
  const why = whyPanel();
  const place = h("p", { class: "item-place" });
  const stage = fades(h("div", { class: "stage" }));
  const article = h(
    "article",
    { class: "item", tabindex: "-1", "aria-label": "Item to label" },
    h("header", { class: "item-head" }, place),
    stage,
  );
  const comment = h("textarea", {
    id: "comment",
    rows: "2",
    maxlength: "2000",
    placeholder: "Kept with your answer to this item",
  });
  const commentBox = h(
    "div",
    { class: "comment-box", hidden: true },
    h("label", { for: "comment" }, "Comment"),
    comment,
  );
  const tool = (name, key, action) =>
    h(
      "button",
      { class: "tool", type: "button", "aria-keyshortcuts": key.toLowerCase(), onclick: action },
      name,
      h("kbd", { "aria-hidden": "true" }, key),
    );
  const skip = tool("Skip", "S", (event) => act({ kind: "pass", pass: "skip" }, event));
  const unsure = tool("Unsure", "U", (event) => act({ kind: "pass", pass: "unsure" }, event));
  const undoButton = tool("Undo", "Z", undo);
  const write = tool("Comment", "C", openComment);
  const tools = h(
    "div",
    { class: "tools", role: "group", "aria-label": "Other answers" },
    skip,
    unsure,
    write,
    h("span", { class: "gap" }),
    undoButton,
  );
  const guidelines = h(
    "details",
    { class: "guidelines" },
    h("summary", {}, "Guidelines"),
    fades(h("p", { class: "guideline-text", dir: "auto" })),
  );
  const answer = h("div", { class: "answer" }, chooser.node, commentBox, tools);
  const node = h("div", { class: "desk" }, h("div", { class: "work" }, guidelines, article, why.node, answer), aside);

  let shown; // undefined until the first drawing
  let shownAt = 0;
  let before = null; // what an undone item was answered

  function tooSoon(event) {
    const since = performance.now() - shownAt;
    if (event?.type === "click" && event.detail > 1) return since < SECOND_CLICK_MS;
    return event?.type === "keydown" && (event.repeat || since < SECOND_KEY_MS);
  }

  function act(what, event) {
    const task = shown;
    if (!task || tooSoon(event)) return;
    const note = comment.value.trim();
    const entry = outbox.add({
      ...what,
      annotator: state.name,
      position: task.position,
      comment: note || undefined,
      revise: before !== null || undefined,
      gist: gist(task, 80),
    });
    trail.push({ task, request: entry.request_id, name: state.name, comment: note, ...what });
    const said =
      what.kind === "answer" ? `Labelled ${inWords(what.label)}.` : what.pass === "skip" ? "Skipped." : "Marked unsure.";
    finish(task.position);
    show(said);
  }

  function undo() {
    const last = trail.pop(state.name);
    if (!last) return toast("There is nothing to undo on this page; earlier answers can be corrected under Browse.");
    const refused = outbox.find(last.request)?.stuck;
    if (refused) outbox.settle(last.request, { correct: false });
    else outbox.add({ kind: "undo", annotator: state.name, position: last.task.position, gist: gist(last.task, 80) });
    putBack(last.task);
    const was = last.kind === "answer" ? inWords(last.label) : last.pass;
    show(`Taken back: ${was}.`, last);
  }

  function openComment() {
    if (!shown) return;
    commentBox.hidden = false;
    comment.focus();
  }

  /** Put the current task on the screen; `said` is heard before the item, `undone` is the answer it had. */
  function show(said = "", undone = null) {
    const task = current();
    const same = task === shown && !undone;
    shown = task;
    why.show(task);
    [skip, unsure, write].forEach((button) => {
      button.disabled = !task;
    });
    undoButton.disabled = trail.empty(state.name);
    chooser.enable(task !== null);
    if (same && task) return;
    if (!task) stage.replaceChildren(waitingNode(queueInfo(), connection.state, outbox.summary()));
    if (same) return;
    shownAt = performance.now();
    before = undone;
    chooser.mark(undone?.kind === "answer" ? undone.label : null);
    comment.value = undone?.comment ?? "";
    commentBox.hidden = comment.value === "";
    article.classList.toggle("roomy", task !== null && needsRoom(task));
    if (task) {
      place.textContent = itemName(task);
      stage.replaceChildren(itemNode(task, pictureOf(task)));
      stage.scrollTop = 0;
      announce(`${said} ${undone ? "Again" : "Next"}: ${gist(task)}`.trim());
    } else {
      place.textContent = "";
      if (said) announce(said);
    }
    // A person's own step moves the focus to the item; what arrives by itself only fills an empty focus.
    const free = said !== "" || document.activeElement === document.body;
    if (free && !document.querySelector("dialog[open]") && !node.closest("[hidden]"))
      article.focus({ preventScroll: true });
    state.shown = task;
    emit("shown", task);
  }

  function keydown(event) {
    if (
      event.ctrlKey ||
      event.metaKey ||
      event.altKey ||
      node.closest("[hidden]") ||
      document.querySelector("dialog[open]")
    )
      return;
    if (event.target === comment) {
      if (event.key === "Escape" || (event.key === "Enter" && event.shiftKey === false)) {
        event.preventDefault();
        article.focus({ preventScroll: true });
      }
      return;
    }
    if (event.target.closest("input, textarea, select") || !shortcutsOn()) return;
    const key = event.key.length === 1 ? event.key.toLowerCase() : event.key;
    if (chooser.press(key, event)) event.preventDefault();
    else if (key === "s") act({ kind: "pass", pass: "skip" }, event);
    else if (key === "u") act({ kind: "pass", pass: "unsure" }, event);
    else if (key === "z" || key === "Backspace") {
      if (!event.repeat) undo();
    } else if (key === "c") openComment();
    else if (key === "w") why.toggle();
    else if (key === "/") chooser.focusSearch();
    else if (key === "g") {
      guidelines.open = !guidelines.open;
    } else return;
    event.preventDefault();
  }

  function drawGuidelines() {
    const text = state.project.guidelines?.trim() ?? "";
    guidelines.hidden = text === "";
    guidelines.querySelector("p").textContent = text;
  }

  document.addEventListener("keydown", keydown);
  on("task", ({ lost, elsewhere, failed } = {}) => {
    if (lost)
      toast(
        "You were away longer than items are kept for you, and that item went to someone else. Here is another one.",
      );
    if (elsewhere) toast("You answered that item in another tab. Here is the next one.");
    show();
    if (!current() && failed)
      stage.replaceChildren(waitingNode(queueInfo(), connection.state, outbox.summary(), failed));
  });
  on("outbox", () => {
    if (!current()) stage.replaceChildren(waitingNode(queueInfo(), connection.state, outbox.summary()));
  });
  on("project", () => {
    drawGuidelines();
    if (shown) stage.replaceChildren(itemNode(shown, pictureOf(shown)));
  });
  drawGuidelines();
  show();
  startQueue();
  return {
    node,
    enter() {
      refill();
      article.focus({ preventScroll: true });
    },
  };
}
