// One item as people read it: long text, a picture, a card of columns, or several of these together.

import { h, shown } from "./dom.js";
import { fades } from "./fade.js";
import { state } from "./state.js";
import { zoomable } from "./zoom.js";

const LONG = 900; // characters

let pattern = { words: null, regex: null };

/** A regular expression that finds the chosen words; `prize*` also finds what begins with prize. */
function wordPattern(words) {
  if (pattern.words === words) return pattern.regex;
  const parts = words
    .map((word) => word.trim())
    .filter((word) => word.replaceAll("*", ""))
    .map((word) => {
      const open = word.endsWith("*");
      const literal = word
        .replace(/\*+$/, "")
        .replace(/[.*+?^${}()|[\]\\/-]/g, "\\$&")
        .replace(/\s+/g, "\\s+");
      return literal + (open ? "[\\p{L}\\p{N}_]*" : "");
    });
  parts.sort((a, b) => b.length - a.length);
  const whole = `(?<![\\p{L}\\p{N}_])(?:${parts.join("|")})(?![\\p{L}\\p{N}_])`;
  pattern = { words, regex: parts.length ? new RegExp(whole, "giu") : null };
  return pattern.regex;
}

/** Text nodes with the project's words in <mark>. */
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

function prose(column, value, titled) {
  const text = shown(value);
  const size = text.length < 280 ? "short" : text.length < 1200 ? "middling" : "long";
  return h(
    "div",
    { class: "prose-block" },
    titled && h("h3", { class: "column-name" }, column),
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

/** What an item is called; a picture also by its file, where its name is another. */
export function itemName(task) {
  const file = task.image ? task.content?.[state.project.image_column] : null;
  return file && file !== task.id ? `Item ${task.id} · ${file}` : `Item ${task.id}`;
}

function pictureNode(task, picture) {
  const place = h("div", { class: "picture-place" }, zoomable(picture));
  picture.alt = `Picture of item ${task.id}`;
  const sorry = () =>
    place.replaceChildren(
      h("p", { class: "sorry" }, `The picture of item ${task.id} cannot be shown; skip the item or look at the file.`),
    );
  if (picture.dataset.failed || (picture.complete && picture.src && picture.naturalWidth === 0)) sorry();
  picture.addEventListener("error", sorry);
  return place;
}

/** The node that shows a task or a browsed item; `picture` is its image element, or null. */
export function itemNode(task, picture) {
  const { text_columns: textColumns = [], image_column: imageColumn, columns = [] } = state.project;
  const texts = textColumns.filter((column) => column in task.content);
  const known = columns.filter((column) => column in task.content);
  const rest = (known.length ? known : Object.keys(task.content)).filter(
    (column) => !texts.includes(column) && column !== imageColumn,
  );
  const node = h("div", { class: "item-body" });
  if (picture) node.append(pictureNode(task, picture));
  node.append(...texts.map((column) => prose(column, task.content[column], texts.length > 1 || picture !== null)));
  if (rest.length) node.append(card(rest, task.content, texts.length > 0 || picture !== null));
  return node;
}

/** Pictures and long items take all the height there is; short ones leave the classes near the text. */
export function needsRoom(task) {
  const values = Object.values(task.content).map(shown);
  return Boolean(task.image) || values.length > 10 || values.reduce((length, text) => length + text.length, 0) > LONG;
}

/** The beginning of an item in a few words, for notices and screen readers. */
export function gist(task, length = 140) {
  const columns = state.project.text_columns?.length ? state.project.text_columns : Object.keys(task.content);
  const text = task.snippet ?? columns.map((column) => shown(task.content[column])).join(", ");
  const flat = text.replace(/\s+/g, " ").trim();
  return flat.length > length ? `${flat.slice(0, length)} …` : flat;
}
