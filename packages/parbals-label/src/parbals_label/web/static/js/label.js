// The labelling page: one item, the inputs for its answer, and keyboard shortcuts for everything.

import { connection } from "./api.js";
import { displayLabel } from "./answers.js";
import { answerChooser } from "./classes.js";
import { announce, h, toast } from "./dom.js";
import { fades } from "./fade.js";
import { gist, itemNode, needsRoom, passName, taskName } from "./item.js";
import * as outbox from "./outbox.js";
import { current, finish, pictureOf, putBack, queueInfo, refill, startQueue } from "./queue.js";
import { emit, on, shortcutsOn, state } from "./state.js";
import { t } from "./text.js";
import { trail } from "./trail.js";
import { waitingNode } from "./waiting.js";
import { whyPanel } from "./why.js";

// Nobody reads an item in less time: a sooner event is the second half of a double click or a bouncing key.
const DOUBLE_CLICK_MS = 500;
const KEY_BOUNCE_MS = 200;

/** The sentence that is announced after an answer or a skip. */
function confirmation({ kind, label, pass }) {
  if (kind === "answer") return t("Labelled {label}.", { label: displayLabel(label) });
  return pass === "skip" ? t("Skipped.") : t("Marked unsure.");
}

export function labelView(aside) {
  const newChooser = () => answerChooser((label, event) => act({ kind: "answer", label }, event));
  let chooser = newChooser();
  let drawnClasses = state.project.classes;
  const why = whyPanel();
  const title = h("p", { class: "item-place" });
  const stage = fades(h("div", { class: "stage" }));
  const article = h(
    "article",
    { class: "item", tabindex: "-1", "aria-label": t("Item to label") },
    h("header", { class: "item-head" }, title),
    stage,
  );
  const comment = h("textarea", {
    id: "comment",
    rows: "2",
    maxlength: "2000",
    placeholder: t("Stored with your answer to this item"),
  });
  const commentBox = h(
    "div",
    { class: "comment-box", hidden: true },
    h("label", { for: "comment" }, t("Comment")),
    comment,
  );
  const tool = (name, key, action) =>
    h(
      "button",
      { class: "tool", type: "button", "aria-keyshortcuts": key.toLowerCase(), onclick: action },
      name,
      h("kbd", { "aria-hidden": "true" }, key),
    );
  const skip = tool(t("Skip"), "S", (event) => act({ kind: "pass", pass: "skip" }, event));
  const unsure = tool(t("Unsure"), "U", (event) => act({ kind: "pass", pass: "unsure" }, event));
  const undoButton = tool(t("Undo"), "Z", undo);
  const write = tool(t("Comment"), "C", openComment);
  const tools = h(
    "div",
    { class: "tools", role: "group", "aria-label": t("Other answers") },
    skip,
    unsure,
    write,
    h("span", { class: "gap" }),
    undoButton,
  );
  const guidelines = h(
    "details",
    { class: "guidelines" },
    h("summary", {}, t("Guidelines")),
    fades(h("p", { class: "guideline-text", dir: "auto" })),
  );
  const answer = h("div", { class: "answer" }, chooser.node, commentBox, tools);
  const node = h("div", { class: "desk" }, h("div", { class: "work" }, guidelines, article, why.node, answer), aside);

  let shown; // the task on the screen; undefined until the first one is drawn
  let shownAt = 0;
  let undoneAnswer = null; // the answer that the task on the screen had before an undo

  function isAccidental(event) {
    const elapsed = performance.now() - shownAt;
    if (event?.type === "click" && event.detail > 1) return elapsed < DOUBLE_CLICK_MS;
    return event?.type === "keydown" && (event.repeat || elapsed < KEY_BOUNCE_MS);
  }

  /** Store an answer or a skip and show the next item. */
  function act(action, event) {
    const task = shown;
    if (!task || isAccidental(event)) return;
    const note = comment.value.trim();
    const entry = outbox.add({
      ...action,
      annotator: state.name,
      position: task.position,
      comment: note || undefined,
      revise: undoneAnswer !== null || undefined,
      gist: gist(task, 80),
    });
    trail.push({ task, request: entry.request_id, name: state.name, comment: note, ...action });
    finish(task.position);
    show(confirmation(action));
  }

  function undo() {
    const last = trail.pop(state.name);
    if (!last) return toast(t("Nothing to undo on this page. To correct earlier answers, go to Browse."));
    const refused = outbox.find(last.request)?.stuck;
    if (refused) outbox.resolve(last.request, { correct: false });
    else outbox.add({ kind: "undo", annotator: state.name, position: last.task.position, gist: gist(last.task, 80) });
    putBack(last.task);
    const previous = last.kind === "answer" ? displayLabel(last.label) : passName(last.pass);
    show(t("Undone: {answer}.", { answer: previous }), last);
  }

  function openComment() {
    if (!shown) return;
    commentBox.hidden = false;
    comment.focus();
  }

  /** Draw the current task; `message` is announced before the item, `undone` is the answer that it had. */
  function show(message = "", undone = null) {
    const task = current();
    const isUnchanged = task === shown && !undone;
    shown = task;
    why.show(task);
    [skip, unsure, write].forEach((button) => {
      button.disabled = !task;
    });
    undoButton.disabled = trail.empty(state.name);
    chooser.enable(task !== null);
    if (isUnchanged && task) return;
    if (!task) stage.replaceChildren(waitingNode(queueInfo(), connection.state, outbox.summary()));
    if (isUnchanged) return;
    shownAt = performance.now();
    undoneAnswer = undone;
    chooser.mark(undone?.kind === "answer" ? undone.label : null);
    comment.value = undone?.comment ?? "";
    commentBox.hidden = comment.value === "";
    article.classList.toggle("roomy", task !== null && needsRoom(task));
    if (task) {
      title.textContent = taskName(task);
      stage.replaceChildren(itemNode(task, pictureOf(task)));
      stage.scrollTop = 0;
      const item = gist(task);
      announce(`${message} ${undone ? t("Again: {item}", { item }) : t("Next: {item}", { item })}`.trim());
    } else {
      title.textContent = "";
      if (message) announce(message);
    }
    // An answer moves the focus to the item; an item that arrives later takes the focus only if nothing else has it.
    const mayFocus = message !== "" || document.activeElement === document.body;
    if (mayFocus && !document.querySelector("dialog[open]") && !node.closest("[hidden]"))
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

  /** Draw the present classes in place of those on the screen. */
  function drawClasses() {
    const previous = chooser.node;
    chooser = newChooser();
    drawnClasses = state.project.classes;
    previous.replaceWith(chooser.node);
    chooser.enable(shown !== null);
    chooser.mark(undoneAnswer?.kind === "answer" ? undoneAnswer.label : null);
    emit("classes-drawn", drawnClasses);
  }

  document.addEventListener("keydown", keydown);
  on("task", ({ lost, elsewhere, failed } = {}) => {
    if (lost)
      toast(
        t("You were away longer than items are reserved for you, and that item went to someone else. Here is another one."),
      );
    if (elsewhere) toast(t("You answered that item in another tab. Here is the next one."));
    show();
    if (!current() && failed)
      stage.replaceChildren(waitingNode(queueInfo(), connection.state, outbox.summary(), failed));
  });
  on("outbox", () => {
    if (!current()) stage.replaceChildren(waitingNode(queueInfo(), connection.state, outbox.summary()));
  });
  on("draw-classes", drawClasses);
  on("project", ({ classes }) => {
    drawGuidelines();
    // New classes at the end leave the keys of the others as they are. Other changes wait until the annotator agrees.
    const isExtended = classes.length > drawnClasses.length && drawnClasses.every((name, i) => name === classes[i]);
    if (isExtended) {
      const added = classes.slice(drawnClasses.length);
      drawClasses();
      if (!node.closest("[hidden]")) toast(t("New: {classes}. Earlier items may belong to it.", { classes: added.join(", ") }));
    }
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
