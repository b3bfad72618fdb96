// One item on the page: text, a picture, a card of columns, or several of these together.

import { h, shown } from "./dom.js";
import { fades } from "./fade.js";
import { state } from "./state.js";
import { t } from "./text.js";
import { zoomable } from "./zoom.js";

const LONG_TEXT = 900; // characters

let pattern = { words: null, regex: null };

/** A regular expression that matches the highlighted words; `prize*` matches every word that begins with prize. */
function wordPattern(words) {
  if (pattern.words === words) return pattern.regex;
  const parts = words
    .map((word) => word.trim())
    .filter((word) => word.replaceAll("*", ""))
    .map((word) => {
      const isPrefix = word.endsWith("*");
      const literal = word
        .replace(/\*+$/, "")
        .replace(/[.*+?^${}()|[\]\\/-]/g, "\\$&")
        .replace(/\s+/g, "\\s+");
      return literal + (isPrefix ? "[\\p{L}\\p{N}_]*" : "");
    });
  parts.sort((a, b) => b.length - a.length);
  const whole = `(?<![\\p{L}\\p{N}_])(?:${parts.join("|")})(?![\\p{L}\\p{N}_])`;
  pattern = { words, regex: parts.length ? new RegExp(whole, "giu") : null };
  return pattern.regex;
}

/** Text nodes with the project's highlighted words in <mark>. */
export function highlighted(text) {
  const regex = wordPattern(state.project.highlight ?? []);
  if (!regex) return [text];
  const nodes = [];
  let from = 0;
  for (const match of text.matchAll(regex)) {
    if (match[0] === "") continue;
    nodes.push(text.slice(from, match.index), h("mark", {}, match[0]));
    from = match.index + match[0].length;
  }
  nodes.push(text.slice(from));
  return nodes;
}

function prose(column, value, hasTitle) {
  const text = shown(value);
  let size = "long";
  if (text.length < 280) size = "short";
  else if (text.length < 1200) size = "middling";
  return h(
    "div",
    { class: "prose-block" },
    hasTitle && h("h3", { class: "column-name" }, column),
    fades(h("p", { class: `prose ${size}`, dir: "auto" }, highlighted(text))),
  );
}

function card(columns, content, small) {
  const pairs = columns.map((column) =>
    h(
      "div",
      { class: "pair" },
      h("dt", {}, column),
      h(
        "dd",
        { dir: "auto", class: typeof content[column] === "number" ? "numeric" : null },
        highlighted(shown(content[column])),
      ),
    ),
  );
  return h("dl", { class: small ? "card small" : "card" }, pairs);
}

/** How a skipped item is marked. */
export function passName(kind) {
  return kind === "skip" ? t("skipped") : t("unsure");
}

/** The title of an item, with the name of its image file if that differs from the id. */
export function itemName(task) {
  const file = task.image ? task.content?.[state.project.image_column] : null;
  const name = t("Item {id}", { id: task.id });
  return file && file !== task.id ? `${name} · ${file}` : name;
}

/** The title of an item to label. The name of an image file may give its class away, so it is not shown. */
export function taskName(task) {
  return task.image ? t("Item {id}", { id: String(task.position + 1) }) : itemName(task);
}

function pictureNode(task, picture) {
  const container = h("div", { class: "picture-place" }, zoomable(picture));
  picture.alt = t("Picture: {item}", { item: taskName(task) });
  const showError = () =>
    container.replaceChildren(
      h("p", { class: "sorry" }, t("The picture cannot be shown. Skip the item, or look up its file under Browse.")),
    );
  if (picture.dataset.failed || (picture.complete && picture.src && picture.naturalWidth === 0)) showError();
  picture.addEventListener("error", showError);
  return container;
}

/** The node that shows a task or a browsed item; `picture` is its image element, or null. */
export function itemNode(task, picture) {
  const { text_columns: textColumns = [], image_column: imageColumn, columns = [] } = state.project;
  const texts = textColumns.filter((column) => column in task.content);
  const knownColumns = columns.filter((column) => column in task.content);
  const otherColumns = (knownColumns.length ? knownColumns : Object.keys(task.content)).filter(
    (column) => !texts.includes(column) && column !== imageColumn,
  );
  const node = h("div", { class: "item-body" });
  if (picture) node.append(pictureNode(task, picture));
  node.append(...texts.map((column) => prose(column, task.content[column], texts.length > 1 || picture !== null)));
  if (otherColumns.length) node.append(card(otherColumns, task.content, texts.length > 0 || picture !== null));
  return node;
}

/** Pictures and long items take all the height there is; short ones leave the classes near the text. */
export function needsRoom(task) {
  const values = Object.values(task.content).map(shown);
  return Boolean(task.image) || values.length > 10 || values.reduce((length, text) => length + text.length, 0) > LONG_TEXT;
}

/** The beginning of an item in a few words, for notices and screen readers. */
export function gist(task, length = 140) {
  const { text_columns: textColumns, image_column: imageColumn } = state.project;
  const otherColumns = Object.keys(task.content).filter((column) => column !== imageColumn);
  const columns = textColumns?.length ? textColumns : otherColumns;
  const text = task.snippet ?? (columns.map((column) => shown(task.content[column])).join(", ") || taskName(task));
  const flat = text.replace(/\s+/g, " ").trim();
  return flat.length > length ? `${flat.slice(0, length)} …` : flat;
}
