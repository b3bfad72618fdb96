// Draws the map: the position of every item, and a mark for its state or class.

import { h } from "./dom.js";
import { drawShape, legendSign, SHAPES } from "./shapes.js";
import { state, tone, TONES } from "./state.js";

export const STATES = [
  { name: "unlabelled", tone: "map-free", shape: "dot" },
  { name: "queued", tone: "map-queued", shape: "triangle" },
  { name: "assigned", tone: "map-out", shape: "square" },
  { name: "labelled", tone: "map-labelled", shape: "circle" },
];
const MARGIN_PX = 12;

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
  for (const name of ["paper", "ink", "accent"]) table[name] = colour(`map-${name}`);
  probe.remove();
  return table;
}

/** Scale the points to a canvas of this size: [{position, x, y, state, label}], in the map's order. */
function layout(points, width, height) {
  const scale = (values, from, to) => {
    const [low, high] = [Math.min(...values), Math.max(...values)];
    return (value) => from + ((value - low) / (high - low || 1)) * (to - from);
  };
  const across = scale(points.x, MARGIN_PX, width - MARGIN_PX);
  const down = scale(points.y, height - MARGIN_PX, MARGIN_PX);
  return points.position.map((position, i) => ({
    position,
    x: across(points.x[i]),
    y: down(points.y[i]),
    state: points.state[i],
    label: points.label[i],
  }));
}

/**
 * Draw all points, labelled ones on top, with halos around the item `current` and the spot `focused`, and the lasso.
 * Returns the spots.
 */
export function drawMap(canvas, points, { mode, large, current, focused, lasso = null }) {
  const box = canvas.getBoundingClientRect();
  const ratio = window.devicePixelRatio || 1;
  canvas.width = Math.round(box.width * ratio);
  canvas.height = Math.round(box.height * ratio);
  const pen = canvas.getContext("2d");
  pen.scale(ratio, ratio);
  const colours = colourTable(canvas.parentElement);
  const spots = layout(points, box.width, box.height);
  const order = spots.map((_, i) => i).sort((a, b) => spots[a].state - spots[b].state);
  for (const i of order) {
    const mark = markOf(points, i, mode);
    const size = mark.size * (large ? 1.25 : 1);
    drawShape(pen, mark.shape, spots[i].x, spots[i].y, size, colours[mark.tone], colours.paper, mark.faint);
  }
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
  const halo = (spot, colour, size) => {
    pen.beginPath();
    pen.arc(spot.x, spot.y, size, 0, 2 * Math.PI);
    pen.strokeStyle = colour;
    pen.lineWidth = 2;
    pen.stroke();
  };
  const currentSpot = spots.find((spot) => spot.position === current);
  if (currentSpot) halo(currentSpot, colours.ink, 9);
  if (spots[focused]) halo(spots[focused], colours.accent, 11);
  return spots;
}

/** The rows of the legend. */
export function legendRows(mode, current) {
  const classes = state.project.classes.slice(0, TONES);
  const rows =
    mode === "state"
      ? STATES.toReversed().map((kind) => [kind.tone, kind.shape, kind.name])
      : classes.map((label, i) => [tone(label), SHAPES[i % SHAPES.length], label]);
  const items = rows.map(([colour, shape, name]) =>
    h("li", { class: colour }, legendSign(shape), h("span", { dir: "auto" }, name)),
  );
  if (mode === "class") items.push(h("li", { class: "quiet" }, "large: labelled, small: predicted"));
  if (current !== null) items.push(h("li", { class: "map-here" }, legendSign("ring"), h("span", {}, "on your screen")));
  return items;
}
