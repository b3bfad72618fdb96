// Looking through all items: filter, search, open one to correct it.

import { get, imageAddress, loadWhenSeen } from "./api.js";
import { announce, count, h, plural } from "./dom.js";
import { labelChip, openItem } from "./detail.js";
import { highlighted } from "./item.js";
import { isOwner, on, state } from "./state.js";

const PAGE = 40;
const TYPING_MS = 250;
const STATES = {
  all: "All items",
  labelled: "Labelled",
  unlabelled: "Unlabelled",
  unsure: "Unsure",
  skipped: "Skipped",
  disagree: "Disagreement",
  tied: "Tied",
  doubted: "Doubted",
  queued: "Queued",
  out: "Out",
};

const OWN = ["all", "labelled", "unsure", "skipped"]; // of an annotator, who sees their own answers

/** A row of the list; also used where annotators disagree. */
export function itemRow(item, changed) {
  const address = imageAddress(item.image);
  const answers = Object.entries(item.answers ?? {});
  const passes = Object.entries(item.passes ?? {});
  const split = new Set(answers.map(([, label]) => label)).size > 1;
  const who = split
    ? answers.map(([name, label]) =>
        h("span", { class: "who" }, h("span", { class: "quiet", dir: "auto" }, name), labelChip(label)),
      )
    : [
        item.label !== null && item.label !== undefined ? labelChip(item.label) : null,
        answers.length > 0 && h("span", { class: "quiet", dir: "auto" }, answers.map(([name]) => name).join(", ")),
      ];
  const passed = passes.map(([name, kind]) =>
    h("span", { class: "chip", dir: "auto" }, `${name}: ${kind === "skip" ? "skipped" : kind}`),
  );
  return h(
    "li",
    {},
    h(
      "button",
      { class: "row", type: "button", onclick: () => openItem(item.position, changed) },
      address && loadWhenSeen(h("img", { class: "thumb", alt: "", width: "56", height: "56" }), address),
      h(
        "span",
        { class: "row-text" },
        item.id !== item.snippet && h("span", { class: "row-id" }, item.id),
        h("span", { class: "row-snippet", dir: "auto" }, highlighted(item.snippet ?? "")),
      ),
      h("span", { class: "row-end" }, who, passed, item.doubt && h("span", { class: "chip", dir: "auto" }, item.doubt)),
    ),
  );
}

export function browseView() {
  const select = (id, name, options) =>
    h("div", { class: "field" }, h("label", { for: id }, name), h("select", { id }, options));
  const stateBox = select(
    "browse-state",
    "Show",
    Object.entries(STATES)
      .filter(([value]) => isOwner() || OWN.includes(value))
      .map(([value, name]) => h("option", { value }, name)),
  );
  const labelBox = select("browse-label", "Label", [
    h("option", { value: "" }, "Any"),
    state.project.classes.map((label) => h("option", { value: label }, label)),
  ]);
  const personBox = select("browse-person", "Answered by", [h("option", { value: "" }, "Anyone")]);
  const search = h("input", {
    id: "browse-search",
    type: "search",
    autocomplete: "off",
    placeholder: "Words in the item",
  });
  const searchBox = h("div", { class: "field grow" }, h("label", { for: "browse-search" }, "Search"), search);
  const form = h(
    "form",
    { class: "filters", role: "search" },
    searchBox,
    stateBox,
    labelBox,
    isOwner() && personBox,
  );
  const summary = h("p", { class: "quiet summary", role: "status" });
  const list = h("ul", { class: "rows" });
  const more = h("button", { type: "button", class: "more", hidden: true, onclick: () => load(true) }, "Show more");
  const node = h("div", {}, form, summary, list, more);
  let next = null;
  let asked = 0;
  let typing = 0;

  async function load(further = false) {
    const number = ++asked;
    const query = new URLSearchParams({ state: stateBox.querySelector("select").value, limit: String(PAGE) });
    const [label, annotator, words] = [
      labelBox.querySelector("select").value,
      personBox.querySelector("select").value,
      search.value.trim(),
    ];
    if (label) query.set("label", label);
    if (annotator) query.set("annotator", annotator);
    if (words) query.set("q", words);
    if (further && next !== null) query.set("after", String(next));
    let reply;
    try {
      reply = await get(`/api/items?${query}`);
    } catch (error) {
      if (number === asked) summary.textContent = error.message;
      return;
    }
    if (number !== asked) return;
    const rows = reply.items.map((item) => itemRow(item, () => load()));
    if (further) list.append(...rows);
    else list.replaceChildren(...rows);
    next = reply.next;
    more.hidden = next === null || next === undefined;
    const shown = list.children.length;
    summary.textContent =
      shown === 0
        ? "No item fits."
        : reply.total === undefined || reply.total === null
          ? `${plural(shown, "item")}${more.hidden ? "" : " so far"}`
          : `${count(shown)} of ${plural(reply.total, "item")}`;
    if (further && rows.length) rows[0].querySelector("button").focus();
    announce(summary.textContent);
  }

  function drawPeople() {
    const box = personBox.querySelector("select");
    const names = (state.live?.annotators ?? []).map((person) => person.name);
    if (box.length === names.length + 1) return;
    const chosen = box.value;
    box.replaceChildren(
      h("option", { value: "" }, "Anyone"),
      ...names.map((name) => h("option", { value: name }, name)),
    );
    box.value = names.includes(chosen) ? chosen : "";
  }

  form.addEventListener("submit", (event) => {
    event.preventDefault();
    load();
  });
  form.addEventListener("change", (event) => {
    if (event.target !== search) load();
  });
  search.addEventListener("input", () => {
    clearTimeout(typing);
    typing = setTimeout(load, TYPING_MS);
  });
  on("live", drawPeople);
  drawPeople();
  return { node, enter: () => load() };
}
