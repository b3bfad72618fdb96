// The list of all items: filter, search, sort, and open one to correct its label.

import { get, imageAddress, loadWhenVisible } from "./api.js";
import { bulkBar } from "./bulk.js";
import { announce, h, percent } from "./dom.js";
import { labelChip, openItem } from "./detail.js";
import { highlighted, passName } from "./item.js";
import { translated } from "./server_texts.js";
import { isOwner, on, state } from "./state.js";
import { pieces, t } from "./text.js";

const PAGE_SIZE = 40;
const TYPING_MS = 250;
const STATES = {
  all: t("All items"),
  labelled: t("Labelled"),
  partly: t("More answers needed"),
  unlabelled: t("Unlabelled"),
  unsure: t("Unsure"),
  skipped: t("Skipped"),
  disagree: t("Disagreement"),
  tied: t("Tied"),
  doubted: t("Likely label errors"),
  queued: t("Queued"),
  out: t("Assigned"),
};

const SORTS = {
  order: t("Original order"),
  doubt: t("Least certain first"),
  predicted: t("Predicted class"),
  probability: t("Probability of a class"),
  meaning: t("Similarity in meaning"),
};
/** What annotators may filter by: they see only their own answers. */
const ANNOTATOR_STATES = ["all", "labelled", "unsure", "skipped"];

/** The predicted class of an item and its probability, or the probability of the class `of`. */
function predictionText({ predicted }, of) {
  if (!predicted) return null;
  const [label, share] = of ? [of, predicted[of] ?? 0] : Object.entries(predicted).sort((a, b) => b[1] - a[1])[0];
  return h("span", { class: "quiet row-guess", dir: "auto" }, `${label} ${percent(share)}`);
}

/** A row of a list of items; `extra.start` is placed before it and `extra.end` at its end. */
export function itemRow(item, changed, extra = {}) {
  const address = imageAddress(item.image);
  const answers = Object.entries(item.answers ?? {});
  const passes = Object.entries(item.passes ?? {});
  const disagree = new Set(answers.map(([, label]) => label)).size > 1;
  const labels = disagree
    ? answers.map(([name, label]) =>
        h("span", { class: "who" }, h("span", { class: "quiet", dir: "auto" }, name), labelChip(label)),
      )
    : [
        item.label !== null && item.label !== undefined ? labelChip(item.label) : null,
        answers.length > 0 && h("span", { class: "quiet", dir: "auto" }, answers.map(([name]) => name).join(", ")),
      ];
  const skips = passes.map(([name, kind]) =>
    h("span", { class: "chip", dir: "auto" }, `${name}: ${passName(kind)}`),
  );
  return h(
    "li",
    { class: extra.start ? "chosen-row" : null },
    extra.start,
    h(
      "button",
      { class: "row", type: "button", onclick: () => openItem(item.position, changed) },
      address && loadWhenVisible(h("img", { class: "thumb", alt: "", width: "56", height: "56" }), address),
      h(
        "span",
        { class: "row-text" },
        item.id !== item.snippet && h("span", { class: "row-id" }, item.id),
        h("span", { class: "row-snippet", dir: "auto" }, highlighted(item.snippet ?? "")),
      ),
      h(
        "span",
        { class: "row-end" },
        extra.end,
        labels,
        item.tied && h("span", { class: "chip" }, t("tied")),
        skips,
        item.doubt && h("span", { class: "chip", dir: "auto" }, translated(item.doubt)),
      ),
    ),
  );
}

/** How many items are shown, of how many; the total of a search is not known before its end. */
function summarise(nShown, total, hasMore) {
  if (nShown === 0) return t("No matching items.");
  if (total !== null) return t("{n} of {total:# item|# items}", { n: nShown, total });
  return hasMore ? t("{n:# item|# items} so far", { n: nShown }) : t("{n:# item|# items}", { n: nShown });
}

export function browseView() {
  const select = (id, name, options) =>
    h("div", { class: "field" }, h("label", { for: id }, name), h("select", { id }, options));
  const stateBox = select(
    "browse-state",
    t("Show"),
    Object.entries(STATES)
      .filter(([value]) => isOwner() || ANNOTATOR_STATES.includes(value))
      .map(([value, name]) => h("option", { value }, name)),
  );
  const labelBox = select("browse-label", t("Label::noun"), [
    h("option", { value: "" }, t("Any")),
    state.project.classes.map((label) => h("option", { value: label }, label)),
  ]);
  const personBox = select("browse-person", t("Answered by"), [h("option", { value: "" }, t("Anyone"))]);
  const search = h("input", {
    id: "browse-search",
    type: "search",
    autocomplete: "off",
    placeholder: t("Words in the item"),
  });
  const sortBox = select(
    "browse-sort",
    t("Sort"),
    Object.entries(SORTS)
      .filter(([value]) => isOwner() || value !== "meaning")
      .map(([value, name]) => h("option", { value }, name)),
  );
  const ofBox = select("browse-of", t("Class"), state.project.classes.map((label) => h("option", { value: label }, label)));
  ofBox.hidden = true;
  const searchBox = h("div", { class: "field grow" }, h("label", { for: "browse-search" }, t("Search")), search);
  const form = h(
    "form",
    { class: "filters", role: "search" },
    searchBox,
    stateBox,
    state.project.classes.length > 0 && labelBox,
    isOwner() && personBox,
    sortBox,
    ofBox,
  );
  const similarTo = h("p", { class: "like", hidden: true });
  const bulk = isOwner() ? bulkBar(() => load()) : null;
  const summary = h("p", { class: "quiet summary", role: "status" });
  const list = h("ul", { class: "rows" });
  const more = h("button", { type: "button", class: "more", hidden: true, onclick: () => load(true) }, t("Show more"));
  const node = h("div", {}, form, similarTo, summary, bulk?.node, list, more);
  let near = null;
  let next = null;
  let requestNumber = 0;
  let typingTimer = 0;

  async function load(append = false) {
    const number = ++requestNumber;
    const query = new URLSearchParams({ state: stateBox.querySelector("select").value, limit: String(PAGE_SIZE) });
    const label = labelBox.querySelector("select").value;
    const annotator = personBox.querySelector("select").value;
    const words = search.value.trim();
    if (label) query.set("label", label);
    if (annotator) query.set("annotator", annotator);
    if (words) query.set("q", words);
    const sort = near === null ? sortBox.querySelector("select").value : "meaning";
    ofBox.hidden = sort !== "probability";
    query.set("sort", sort);
    if (sort === "probability") query.set("of", ofBox.querySelector("select").value);
    if (near !== null) query.set("near", String(near));
    search.placeholder = sort === "meaning" ? t("Words that say what to look for") : t("Words in the item");
    if (sort === "meaning" && near === null && !words) {
      list.replaceChildren();
      bulk?.listed([]);
      summary.textContent = t("Type what to look for; items that mean the same come first, whatever words they use.");
      more.hidden = true;
      return;
    }
    if (sort === "meaning" && !append) summary.textContent = t("Looking …");
    if (append && next !== null) query.set("after", String(next));
    let reply;
    try {
      reply = await get(`/api/items?${query}`);
    } catch (error) {
      if (number === requestNumber) summary.textContent = error.message;
      return;
    }
    if (number !== requestNumber) return;
    const of = sort === "probability" ? query.get("of") : null;
    const rows = reply.items.map((item) =>
      itemRow(item, () => load(), {
        start: bulk?.box(item),
        end: ["probability", "predicted", "doubt"].includes(sort) && predictionText(item, of),
      }),
    );
    if (append) list.append(...rows);
    else list.replaceChildren(...rows);
    bulk?.listed(reply.items, append);
    next = reply.next;
    more.hidden = next === null || next === undefined;
    summary.textContent = summarise(list.children.length, reply.total ?? null, !more.hidden);
    if (append && rows.length) rows[0].querySelector("button.row").focus();
    announce(summary.textContent);
  }

  function drawPeople() {
    const box = personBox.querySelector("select");
    const names = (state.live?.annotators ?? []).map((person) => person.name);
    if (box.length === names.length + 1) return;
    const chosen = box.value;
    box.replaceChildren(
      h("option", { value: "" }, t("Anyone")),
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
    clearTimeout(typingTimer);
    typingTimer = setTimeout(load, TYPING_MS);
  });
  /** List the items most similar to `item`; with null, return to the previous list. */
  function showSimilar(item) {
    near = item?.position ?? null;
    similarTo.hidden = item === null;
    if (item)
      similarTo.replaceChildren(
        h("span", {}, pieces("Most similar to {item}", { item: h("q", { dir: "auto" }, (item.snippet ?? item.id).slice(0, 120)) })),
        h("button", { type: "button", onclick: () => showSimilar(null) }, t("Show all items")),
      );
    load();
  }
  on("like", showSimilar);
  on("live", drawPeople);
  drawPeople();
  return { node, enter: () => load() };
}
