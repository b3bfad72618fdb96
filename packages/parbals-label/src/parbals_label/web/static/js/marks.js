// Draws the map: the position of every item, and a mark for its state or class; and the target set.

import { h } from "./dom.js";
import { drawShape, legendSign, SHAPES } from "./shapes.js";
import { state, tone, TONES } from "./state.js";
import { t } from "./text.js";

export const STATES = [
  { name: t("unlabelled"), tone: "map-free", shape: "dot" },
  { name: t("queued"), tone: "map-queued", shape: "triangle" },
  { name: t("assigned"), tone: "map-out", shape: "square" },
  { name: t("labelled"), tone: "map-labelled", shape: "circle" },
];
export const TARGETS = [
  { name: t("target set"), tone: "map-target", size: 2.8, line: 1.2 },
  { name: t("target set, far from the pool"), tone: "map-far", size: 5, line: 2.4 },
];
const MARGIN_PX = 12;
const MAX_BEYOND = 0.35; // share of the pool's range by which target items may lie outside of it

/** The mark of a point, by its state or by its class. */
function markOf(points, i, mode) {
  const kind = STATES[points.state[i]] ?? STATES[0];
  const isUnlabelled = points.state[i] === 0;
  if (mode === "state") return { ...kind, size: isUnlabelled ? 2 : 4.2, faint: isUnlabelled };
  const isLabelled = points.label[i] >= 0;
  const number = isLabelled ? points.label[i] : (points.predicted[i] ?? -1);
  if (number < 0) return { tone: "map-free", shape: "dot", size: 2, faint: true };
  const label = state.project.classes[number];
  return { tone: tone(label), shape: SHAPES[number % SHAPES.length], size: isLabelled ? 4.6 : 2.6, faint: !isLabelled };
}

/** The style sheet's colours, in a form that the canvas accepts. */
function colourTable(node) {
  const probe = h("span", { hidden: true });
  node.append(probe);
  const colour = (name) => {
    probe.className = name;
    return getComputedStyle(probe).color;
  };
  const names = [...STATES.map((kind) => kind.tone), ...Array.from({ length: TONES }, (_, i) => `tone-${i}`)];
  const table = Object.fromEntries(names.map((name) => [name, colour(name)]));
  for (const name of ["paper", "ink", "accent", "target", "far"]) table[name] = colour(`map-${name}`);
  probe.remove();
  return table;
}

/** Scale values to a canvas; target values that lie far outside of the pool's range are moved to its edge. */
function scaleOf(values, targetValues, from, to) {
  const [least, greatest] = [Math.min(...values), Math.max(...values)];
  const beyond = MAX_BEYOND * (greatest - least || 1);
  const bounded = (value) => Math.min(Math.max(value, least - beyond), greatest + beyond);
  const all = [least, greatest, ...targetValues.map(bounded)];
  const [low, high] = [Math.min(...all), Math.max(...all)];
  return (value) => from + ((bounded(value) - low) / (high - low || 1)) * (to - from);
}

/**
 * Scale the points to a canvas of this size, in the map's order: [{position, x, y, state, label}] of the pool, then
 * [{row, x, y, isFar}] of the target set.
 */
function layout(points, target, width, height) {
  const across = scaleOf(points.x, target?.x ?? [], MARGIN_PX, width - MARGIN_PX);
  const down = scaleOf(points.y, target?.y ?? [], height - MARGIN_PX, MARGIN_PX);
  const items = points.position.map((position, i) => ({
    position,
    x: across(points.x[i]),
    y: down(points.y[i]),
    state: points.state[i],
    label: points.label[i],
  }));
  const rows = (target?.row ?? []).map((row, i) => ({
    row,
    x: across(target.x[i]),
    y: down(target.y[i]),
    isFar: target.far[i],
  }));
  return { items, rows };
}

/** Whether a layer of the map is drawn. */
const hasPool = (layer) => layer !== "target";

function ring(pen, spot, colour, size, line) {
  pen.beginPath();
  pen.arc(spot.x, spot.y, size, 0, 2 * Math.PI);
  pen.strokeStyle = colour;
  pen.lineWidth = line;
  pen.stroke();
}

/**
 * Draw all points, labelled ones on top, then the target set, with halos around the item `current` and the spot
 * `focused`, and the lasso. `layer` is "pool", "target" or "both". Returns the spots.
 */
export function drawMap(canvas, { points, target }, { mode, layer, large, current, focused, lasso = null }) {
  const box = canvas.getBoundingClientRect();
  const ratio = window.devicePixelRatio || 1;
  canvas.width = Math.round(box.width * ratio);
  canvas.height = Math.round(box.height * ratio);
  const pen = canvas.getContext("2d");
  pen.scale(ratio, ratio);
  const colours = colourTable(canvas.parentElement);
  const { items, rows } = layout(points, target, box.width, box.height);
  const order = hasPool(layer) ? items.map((_, i) => i).sort((a, b) => items[a].state - items[b].state) : [];
  for (const i of order) {
    const mark = markOf(points, i, mode);
    const size = mark.size * (large ? 1.25 : 1);
    drawShape(pen, mark.shape, items[i].x, items[i].y, size, colours[mark.tone], colours.paper, mark.faint);
  }
  for (const isFar of [false, true]) {
    const { tone: name, size, line } = TARGETS[Number(isFar)];
    for (const spot of rows.filter((row) => row.isFar === isFar))
      ring(pen, spot, colours[name.replace("map-", "")], size, line);
  }
  const spots = [...(hasPool(layer) ? items : []), ...rows];
  if (lasso) {
    pen.beginPath();
    lasso.forEach(([x, y], i) => (i ? pen.lineTo(x, y) : pen.moveTo(x, y)));
    pen.closePath();
    pen.strokeStyle = colours.accent;
    pen.lineWidth = 1.5;
    pen.setLineDash([5, 4]);
    pen.stroke();
    pen.setLineDash([]);
  }
  const currentSpot = spots.find((spot) => spot.position === current);
  if (currentSpot && current !== null) ring(pen, currentSpot, colours.ink, 9, 2);
  if (spots[focused]) ring(pen, spots[focused], colours.accent, 11, 2);
  return spots;
}

/** The rows of the legend; those of the target set where it is drawn. */
export function legendRows(mode, current, target) {
  const classes = state.project.classes.slice(0, TONES);
  const rows =
    mode === "state"
      ? STATES.toReversed().map((kind) => [kind.tone, kind.shape, kind.name])
      : classes.map((label, i) => [tone(label), SHAPES[i % SHAPES.length], label]);
  const items = rows.map(([colour, shape, name]) =>
    h("li", { class: colour }, legendSign(shape), h("span", { dir: "auto" }, name)),
  );
  if (mode === "class") items.push(h("li", { class: "quiet" }, t("large: labelled, small: predicted")));
  const targets = target ? TARGETS.slice(0, target.far.some(Boolean) ? 2 : 1) : [];
  for (const kind of targets) items.push(h("li", { class: kind.tone }, legendSign("ring"), h("span", {}, kind.name)));
  if (current !== null) items.push(h("li", { class: "map-here" }, legendSign("ring"), h("span", {}, t("on your screen"))));
  return items;
}
