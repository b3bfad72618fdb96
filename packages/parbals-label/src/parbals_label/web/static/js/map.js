// The pool as a map: every item a mark at its place, told apart by colour and by shape.

import { get } from "./api.js";
import { isTask, MANY, NUMBERS } from "./answers.js";
import { labelTogether } from "./bulk.js";
import { count, h, percent, plural } from "./dom.js";
import { openItem } from "./detail.js";
import { drawMap, legendRows, STATES } from "./marks.js";
import { on, state } from "./state.js";

const REACH = 14; // pixels
const PAUSE_MS = 120;
const RELOAD_MS = 2500;
const snippets = new Map();

async function snippet(position) {
  if (!snippets.has(position)) {
    const item = await get(`/api/items/${position}`);
    snippets.set(position, item.snippet ?? Object.values(item.content ?? {}).join(", "));
  }
  return snippets.get(position);
}

/** Whether a spot lies in a ring of corners: a line from it to the right crosses the ring an odd number of times. */
function isInside({ x, y }, ring) {
  let odd = false;
  ring.forEach(([ax, ay], i) => {
    const [bx, by] = ring[(i || ring.length) - 1];
    if (ay > y !== by > y && x < ax + ((y - ay) / (by - ay)) * (bx - ax)) odd = !odd;
  });
  return odd;
}

export function mapPanel({ full = false } = {}) {
  const canvas = h("canvas", {
    class: "map",
    tabindex: "0",
    role: "application",
    "aria-roledescription": "map",
    "aria-label": "Map of the items. Arrow keys go from item to item, Enter opens one.",
  });
  const tip = h("p", { class: "map-tip", hidden: true });
  const legend = h("ul", { class: "legend" });
  const note = h("p", { class: "quiet", role: "status" });
  const mode = h(
    "select",
    { id: full ? "map-mode-full" : "map-mode" },
    h("option", { value: "state" }, "by state"),
    !isTask(MANY, NUMBERS) && h("option", { value: "class" }, "by class"),
  );
  const lasso = h("button", { type: "button", class: "text-button", "aria-pressed": "false" }, "Draw a ring");
  const together = h("p", { class: "map-together", hidden: true });
  const choose = h(
    "span",
    { class: "map-mode" },
    full && lasso,
    h("label", { for: mode.id, class: "visually-hidden" }, "Colours of the map"),
    mode,
  );
  const node = h(
    "section",
    { class: "panel map-panel no-map" },
    h("header", { class: "panel-head" }, h("h2", { class: "panel-title" }, "Map"), choose),
    h("div", { class: "map-box" }, canvas, tip),
    together,
    legend,
    note,
  );
  let map = null;
  let spots = [];
  let chosen = -1;
  let here = state.shown?.position ?? null;
  let asked = 0;
  let hover = 0;
  let reload = 0;
  let loadedAt = 0;
  let modeChosen = false;
  let ring = null; // corners while one is drawn
  let pointer = null; // the last movement over the map, while it is there

  function draw() {
    if (!map || canvas.getBoundingClientRect().width === 0) return;
    spots = drawMap(canvas, map.points, { mode: mode.value, large: full, here, chosen, ring });
  }

  /** Points that moved under a resting pointer are told, too. */
  function redraw() {
    draw();
    if (chosen < 0) follow();
  }

  function drawLegend() {
    legend.replaceChildren(...legendRows(mode.value, here));
  }

  async function point(i, aloud) {
    chosen = i;
    draw();
    const spot = spots[i];
    tip.hidden = !spot;
    if (!spot) return;
    const label = state.project.classes[spot.label];
    const kind = label ? `labelled ${label}` : (STATES[spot.state]?.name ?? "");
    const write = (text) => tip.replaceChildren(h("strong", {}, kind), text ? h("span", { dir: "auto" }, text) : null);
    write(snippets.get(spot.position) ?? "…");
    tip.classList.toggle("right", spot.x > canvas.clientWidth / 2);
    tip.style.top = `${Math.min(spot.y + 14, canvas.clientHeight - 20)}px`;
    const number = ++asked;
    try {
      const text = await snippet(spot.position);
      if (number !== asked) return;
      write(text);
      if (aloud) note.textContent = `${kind}: ${text}`;
    } catch {
      /* the connection's state says it */
    }
  }

  function nearest(event) {
    const box = canvas.getBoundingClientRect();
    const [px, py] = [event.clientX - box.left, event.clientY - box.top];
    let best = -1;
    let least = REACH ** 2;
    spots.forEach((spot, i) => {
      const gap = (spot.x - px) ** 2 + (spot.y - py) ** 2 - (spot.state > 0 ? 30 : 0); // marks that matter are easier to hit
      if (gap < least) [best, least] = [i, gap];
    });
    return best;
  }

  /** The closest point that lies in the arrow's direction. */
  function step(dx, dy) {
    if (!spots.length) return;
    if (chosen < 0)
      return void point(
        Math.max(
          0,
          spots.findIndex((spot) => spot.position === here),
        ),
        true,
      );
    const from = spots[chosen];
    let best = -1;
    let least = Infinity;
    spots.forEach((spot, i) => {
      const along = (spot.x - from.x) * dx + (spot.y - from.y) * dy;
      const aside = Math.abs((spot.x - from.x) * dy) + Math.abs((spot.y - from.y) * dx);
      if (i !== chosen && along > 0.5 && along >= aside && along + 2 * aside < least)
        [best, least] = [i, along + 2 * aside];
    });
    if (best >= 0) point(best, true);
  }

  function follow() {
    if (!pointer) return;
    const i = nearest(pointer);
    canvas.classList.toggle("pointing", i >= 0);
    if (i === chosen) return;
    clearTimeout(hover);
    hover = setTimeout(() => point(i, false), i < 0 ? 0 : PAUSE_MS);
  }

  const isDrawing = () => lasso.getAttribute("aria-pressed") === "true";
  lasso.addEventListener("click", () => {
    lasso.setAttribute("aria-pressed", String(!isDrawing()));
    canvas.classList.toggle("drawing", isDrawing());
    ring = null;
    together.hidden = true;
    draw();
  });
  canvas.addEventListener("pointerdown", (event) => {
    if (!isDrawing()) return;
    ring = [];
    together.hidden = true;
    canvas.setPointerCapture(event.pointerId);
  });
  canvas.addEventListener("pointerup", () => {
    if (!isDrawing() || !ring) return;
    const inside = spots.filter((spot) => isInside(spot, ring)).map((spot) => spot.position);
    together.hidden = inside.length === 0;
    together.replaceChildren(
      h("span", {}, `${plural(inside.length, "item")} in the ring`),
      h("button", { type: "button", class: "primary", onclick: () => labelTogether(inside, () => lasso.click()) }, "Label …"),
    );
    note.textContent = inside.length ? `${plural(inside.length, "item")} in the ring.` : "The ring is empty.";
  });
  canvas.addEventListener("pointermove", (event) => {
    if (isDrawing()) {
      if (!ring || event.buttons === 0) return;
      const box = canvas.getBoundingClientRect();
      ring.push([event.clientX - box.left, event.clientY - box.top]);
      return draw();
    }
    pointer = event;
    follow();
  });
  const leave = () => {
    pointer = null;
    clearTimeout(hover);
    point(-1, false);
    note.textContent = share();
  };
  canvas.addEventListener("pointerleave", leave);
  canvas.addEventListener("blur", leave);
  canvas.addEventListener("click", (event) => {
    const i = isDrawing() ? -1 : nearest(event);
    if (i >= 0) openItem(spots[i].position);
  });
  canvas.addEventListener("keydown", (event) => {
    const moves = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
    if (moves[event.key]) step(...moves[event.key]);
    else if (event.key === "Enter" && spots[chosen]) openItem(spots[chosen].position);
    else if (event.key === "Escape") leave();
    else return;
    event.preventDefault();
  });

  function share() {
    if (!map?.points?.position?.length)
      return map?.message ?? "The map appears once the model has looked at the items.";
    const seen = map.points.position.length;
    const part = seen < map.n_total ? `${count(seen)} of ${count(map.n_total)} items. ` : "";
    const [across, up] = map.explained ?? [];
    const explained = !full
      ? ""
      : map.by_model
        ? "Every item is drawn to the classes that the model believes in, and lies beside what looks like it: what it is sure of at the rim, what it wavers between in the middle."
        : `The two directions in which the items differ most; they hold ${percent(across + up)} of the differences. With labels, items are drawn to their classes.`;
    return part + explained;
  }

  async function load() {
    clearTimeout(reload);
    if (node.getBoundingClientRect().width === 0) return; // not on this page now; coming into view loads it
    if (Date.now() - loadedAt < RELOAD_MS) {
      reload = setTimeout(load, RELOAD_MS);
      return;
    }
    loadedAt = Date.now();
    try {
      map = await get("/api/map");
    } catch {
      return;
    }
    const some = map.points?.position?.length > 0;
    if (map.by_model && !modeChosen) mode.value = "class"; // that is what there is to see then
    canvas.hidden = !some;
    legend.hidden = !some;
    node.classList.toggle("no-map", !some);
    note.textContent = share();
    if (!some) {
      reload = setTimeout(load, RELOAD_MS); // the worker is still making it
      return;
    }
    drawLegend();
    redraw();
  }

  mode.addEventListener("change", () => {
    modeChosen = true;
    drawLegend();
    redraw();
  });
  on("live", load);
  on("theme", redraw);
  on("shown", (task) => {
    here = task?.position ?? null;
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
  note.textContent = share();
  return node;
}
