// A two-dimensional map of the items, with a colour and a shape for each state or class.

import { get } from "./api.js";
import { isTask, MANY, NUMBERS } from "./answers.js";
import { labelTogether } from "./bulk.js";
import { h, percent } from "./dom.js";
import { openItem } from "./detail.js";
import { drawMap, legendRows, STATES, TARGETS } from "./marks.js";
import { translated } from "./server_texts.js";
import { on, state } from "./state.js";
import { layerSentence } from "./target.js";
import { t } from "./text.js";

const HIT_RADIUS_PX = 14;
const HOVER_DELAY_MS = 120;
const RELOAD_MS = 2500;
const snippets = new Map(); // by address

/** The address of a spot's item: of the project, or of the target set. */
function addressOf({ row, position }) {
  return row === undefined ? `/api/items/${position}` : `/api/target/${row}`;
}

async function snippet(address) {
  if (!snippets.has(address)) {
    const item = await get(address);
    snippets.set(address, item.snippet ?? Object.values(item.content ?? {}).join(", "));
  }
  return snippets.get(address);
}

/** What a spot is, in a few words. */
function kindOf(spot) {
  if (spot.row !== undefined) return TARGETS[Number(spot.isFar)].name;
  const label = state.project.classes[spot.label];
  return label ? t("labelled {label}", { label }) : (STATES[spot.state]?.name ?? "");
}

/** Whether a point lies in a polygon: a ray to the right crosses the outline an odd number of times. */
function isInside({ x, y }, polygon) {
  let odd = false;
  polygon.forEach(([ax, ay], i) => {
    const [bx, by] = polygon.at(i - 1);
    if (ay > y !== by > y && x < ax + ((y - ay) / (by - ay)) * (bx - ax)) odd = !odd;
  });
  return odd;
}

/** The panel with the map; `full` is the large one of the overview, with a lasso and a description. */
export function mapPanel({ full = false } = {}) {
  const canvas = h("canvas", {
    class: "map",
    tabindex: "0",
    role: "application",
    "aria-roledescription": t("map"),
    "aria-label": t("Map of the items. Arrow keys move between items, Enter opens one."),
  });
  const tip = h("p", { class: "map-tip", hidden: true });
  const legend = h("ul", { class: "legend" });
  const note = h("p", { class: "quiet", role: "status" });
  const mode = h(
    "select",
    { id: full ? "map-mode-full" : "map-mode" },
    h("option", { value: "state" }, t("Colour by state")),
    !isTask(MANY, NUMBERS) && h("option", { value: "class" }, t("Colour by class")),
  );
  const layer = h(
    "select",
    { id: "map-layer" },
    h("option", { value: "pool" }, t("Pool")),
    h("option", { value: "both" }, t("Pool and target set")),
    h("option", { value: "target" }, t("Target set")),
  );
  const layerControl = h(
    "span",
    { hidden: true },
    h("label", { for: layer.id, class: "visually-hidden" }, t("Layers of the map")),
    layer,
  );
  const lassoButton = h("button", { type: "button", class: "text-button", "aria-pressed": "false" }, t("Select with a lasso"));
  const selection = h("p", { class: "map-together", hidden: true });
  const controls = h(
    "span",
    { class: "map-mode" },
    full && lassoButton,
    full && layerControl,
    h("label", { for: mode.id, class: "visually-hidden" }, t("Colours of the map")),
    mode,
  );
  const node = h(
    "section",
    { class: "panel map-panel no-map" },
    h("header", { class: "panel-head" }, h("h2", { class: "panel-title" }, t("Map")), controls),
    h("div", { class: "map-box" }, canvas, tip),
    selection,
    legend,
    note,
  );
  let map = null;
  let spots = []; // the drawn items, with their places on the canvas
  let focused = -1; // the index of the spot under the pointer, or reached with the arrow keys
  let current = state.shown?.position ?? null; // the item on the labelling page
  let requestNumber = 0;
  let hoverTimer = 0;
  let reloadTimer = 0;
  let loadedAt = 0;
  let modeChosen = false; // by the person
  let lasso = null; // its corners while one is drawn
  let pointer = null; // the last event of a pointer over the map

  function draw() {
    if (!map || canvas.getBoundingClientRect().width === 0) return;
    spots = drawMap(canvas, map, { mode: mode.value, layer: map.target ? layer.value : "pool", large: full, current, focused, lasso });
  }

  /** Draw again, and show the tooltip of an item that has moved under a resting pointer. */
  function redraw() {
    draw();
    if (focused < 0) follow();
  }

  function drawLegend() {
    legend.replaceChildren(...legendRows(mode.value, current, map?.target));
  }

  /** Show the tooltip of a spot, and announce it if it was reached by keyboard. */
  async function focusSpot(i, shouldAnnounce) {
    focused = i;
    draw();
    const spot = spots[i];
    tip.hidden = !spot;
    if (!spot) return;
    const kind = kindOf(spot);
    const address = addressOf(spot);
    const write = (text) => tip.replaceChildren(h("strong", {}, kind), text ? h("span", { dir: "auto" }, text) : null);
    write(snippets.get(address) ?? "…");
    tip.classList.toggle("right", spot.x > canvas.clientWidth / 2);
    tip.style.top = `${Math.min(spot.y + 14, canvas.clientHeight - 20)}px`;
    const number = ++requestNumber;
    try {
      const text = await snippet(address);
      if (number !== requestNumber) return;
      write(text);
      if (shouldAnnounce) note.textContent = `${kind}: ${text}`;
    } catch {
      /* the notice of the lost connection is shown */
    }
  }

  /** The index of the spot at the pointer, -1 if none is near. */
  function nearest(event) {
    const box = canvas.getBoundingClientRect();
    const [px, py] = [event.clientX - box.left, event.clientY - box.top];
    let best = -1;
    let least = HIT_RADIUS_PX ** 2;
    spots.forEach((spot, i) => {
      const bonus = spot.state > 0 ? 30 : 0; // labelled, assigned and queued items are easier to hit
      const squaredDistance = (spot.x - px) ** 2 + (spot.y - py) ** 2 - bonus;
      if (squaredDistance < least) [best, least] = [i, squaredDistance];
    });
    return best;
  }

  /** Move to the closest item in the arrow's direction; at first, to the item on the labelling page. */
  function step(dx, dy) {
    if (!spots.length) return;
    if (focused < 0)
      return void focusSpot(
        Math.max(
          0,
          spots.findIndex((spot) => spot.position === current),
        ),
        true,
      );
    const from = spots[focused];
    let best = -1;
    let least = Infinity;
    spots.forEach((spot, i) => {
      const along = (spot.x - from.x) * dx + (spot.y - from.y) * dy;
      const aside = Math.abs((spot.x - from.x) * dy) + Math.abs((spot.y - from.y) * dx);
      if (i !== focused && along > 0.5 && along >= aside && along + 2 * aside < least)
        [best, least] = [i, along + 2 * aside];
    });
    if (best >= 0) focusSpot(best, true);
  }

  /** Focus the spot at the pointer, after a short delay. */
  function follow() {
    if (!pointer) return;
    const i = nearest(pointer);
    canvas.classList.toggle("pointing", i >= 0);
    if (i === focused) return;
    clearTimeout(hoverTimer);
    hoverTimer = setTimeout(() => focusSpot(i, false), i < 0 ? 0 : HOVER_DELAY_MS);
  }

  const isLassoOn = () => lassoButton.getAttribute("aria-pressed") === "true";
  lassoButton.addEventListener("click", () => {
    lassoButton.setAttribute("aria-pressed", String(!isLassoOn()));
    canvas.classList.toggle("drawing", isLassoOn());
    lasso = null;
    selection.hidden = true;
    draw();
  });
  canvas.addEventListener("pointerdown", (event) => {
    if (!isLassoOn()) return;
    lasso = [];
    selection.hidden = true;
    canvas.setPointerCapture(event.pointerId);
  });
  canvas.addEventListener("pointerup", () => {
    if (!isLassoOn() || !lasso) return;
    const positions = spots.filter((spot) => spot.row === undefined && isInside(spot, lasso)).map((spot) => spot.position);
    selection.hidden = positions.length === 0;
    selection.replaceChildren(
      h("span", {}, t("{n:# item|# items} selected", { n: positions.length })),
      h("button", { type: "button", class: "primary", onclick: () => labelTogether(positions, () => lassoButton.click()) }, t("Label …")),
    );
    note.textContent = positions.length
      ? t("{n:# item|# items} selected", { n: positions.length })
      : t("No item is inside the lasso.");
  });
  canvas.addEventListener("pointermove", (event) => {
    if (isLassoOn()) {
      if (!lasso || event.buttons === 0) return;
      const box = canvas.getBoundingClientRect();
      lasso.push([event.clientX - box.left, event.clientY - box.top]);
      return draw();
    }
    pointer = event;
    follow();
  });
  const leave = () => {
    pointer = null;
    clearTimeout(hoverTimer);
    focusSpot(-1, false);
    note.textContent = description();
  };
  canvas.addEventListener("pointerleave", leave);
  canvas.addEventListener("blur", leave);
  canvas.addEventListener("click", (event) => {
    const i = isLassoOn() ? -1 : nearest(event);
    if (spots[i] && spots[i].row === undefined) openItem(spots[i].position);
  });
  canvas.addEventListener("keydown", (event) => {
    const moves = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
    if (moves[event.key]) step(...moves[event.key]);
    else if (event.key === "Enter" && spots[focused]?.position !== undefined) openItem(spots[focused].position);
    else if (event.key === "Escape") leave();
    else return;
    event.preventDefault();
  });

  /** What the map shows, in a sentence. */
  function description() {
    if (!map?.points?.position?.length)
      return translated(map?.message) ?? t("The map appears once the model has processed the items.");
    const nShown = map.points.position.length;
    const sampled = nShown < map.n_total ? `${t("{n} of {total:# item|# items}", { n: nShown, total: map.n_total })}. ` : "";
    if (!full) return sampled;
    if (map.target)
      return `${sampled}${layerSentence(map.target)} ${t("Similar items lie close together; items far outside of the pool are drawn at the edge.")}`;
    if (map.by_model)
      return sampled + t("Items sit near their predicted class: confident predictions at the edge, uncertain ones in the middle.");
    const [first, second] = map.explained ?? [];
    const flatness = t(
      "Similar items lie close together, as far as a flat picture can show it ({share} of the differences). As you label, items move towards their predicted classes.",
      { share: percent(first + second) },
    );
    return sampled + flatness;
  }

  async function load() {
    clearTimeout(reloadTimer);
    if (node.getBoundingClientRect().width === 0) return; // hidden: it is loaded when it comes into view
    if (Date.now() - loadedAt < RELOAD_MS) {
      reloadTimer = setTimeout(load, RELOAD_MS);
      return;
    }
    loadedAt = Date.now();
    try {
      map = await get(full && layer.value !== "pool" ? "/api/map?target=true" : "/api/map");
    } catch {
      return; // the map stays as it is
    }
    const hasPoints = map.points?.position?.length > 0;
    if (!modeChosen && map.target) mode.value = "state"; // colours of the classes would hide the target set
    if (map.by_model && !modeChosen) mode.value = "class"; // because items are placed by their predicted classes
    canvas.hidden = !hasPoints;
    legend.hidden = !hasPoints;
    node.classList.toggle("no-map", !hasPoints);
    note.textContent = description();
    if (!hasPoints) {
      reloadTimer = setTimeout(load, RELOAD_MS); // the worker is still computing it
      return;
    }
    drawLegend();
    redraw();
  }

  layer.addEventListener("change", () => {
    focused = -1;
    loadedAt = 0;
    load();
  });
  on("target", (target) => {
    layerControl.hidden = !target?.name;
    if (!target?.name && layer.value !== "pool") {
      layer.value = "pool";
      loadedAt = 0;
      load();
    }
  });
  mode.addEventListener("change", () => {
    modeChosen = true;
    drawLegend();
    redraw();
  });
  on("live", load);
  on("theme", redraw);
  on("shown", (task) => {
    current = task?.position ?? null;
    if (map) {
      drawLegend();
      redraw();
    }
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
  new ResizeObserver(() => {
    redraw();
    load();
  }).observe(node);
  note.textContent = description();
  return node;
}
