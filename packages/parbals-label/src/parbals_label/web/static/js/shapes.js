// The marks of the map, on canvas and in its legend.

import { s } from "./dom.js";

/** The shapes of the classes; further classes reuse them in order. */
export const SHAPES = ["circle", "triangle", "square", "diamond", "cross", "plus", "star", "down", "bar", "post"];

/** Corners of each shape relative to its size; shapes that are not listed are circles. */
const CORNERS = {
  triangle: [
    [0, -1.15],
    [1.05, 0.75],
    [-1.05, 0.75],
  ],
  down: [
    [0, 1.15],
    [1.05, -0.75],
    [-1.05, -0.75],
  ],
  square: [
    [-0.9, -0.9],
    [0.9, -0.9],
    [0.9, 0.9],
    [-0.9, 0.9],
  ],
  diamond: [
    [0, -1.25],
    [1.05, 0],
    [0, 1.25],
    [-1.05, 0],
  ],
  bar: [
    [-1.3, -0.45],
    [1.3, -0.45],
    [1.3, 0.45],
    [-1.3, 0.45],
  ],
  post: [
    [-0.45, -1.3],
    [0.45, -1.3],
    [0.45, 1.3],
    [-0.45, 1.3],
  ],
  plus: arms(0),
  cross: arms(Math.PI / 4),
  star: Array.from({ length: 10 }, (_, i) => {
    const angle = (i * Math.PI) / 5 - Math.PI / 2;
    const reach = i % 2 ? 0.55 : 1.3;
    return [reach * Math.cos(angle), reach * Math.sin(angle)];
  }),
};

function arms(turn) {
  const [a, b] = [0.4, 1.25];
  const corners = [
    [-a, -b],
    [a, -b],
    [a, -a],
    [b, -a],
    [b, a],
    [a, a],
    [a, b],
    [-a, b],
    [-a, a],
    [-b, a],
    [-b, -a],
    [-a, -a],
  ];
  return corners.map(([x, y]) => [x * Math.cos(turn) - y * Math.sin(turn), x * Math.sin(turn) + y * Math.cos(turn)]);
}

export function drawShape(pen, shape, x, y, size, colour, paper, faint) {
  const corners = CORNERS[shape];
  pen.beginPath();
  if (corners)
    corners.forEach(([dx, dy], i) =>
      i ? pen.lineTo(x + dx * size, y + dy * size) : pen.moveTo(x + dx * size, y + dy * size),
    );
  else pen.arc(x, y, size, 0, 2 * Math.PI);
  pen.closePath();
  pen.globalAlpha = faint ? 0.75 : 1;
  pen.fillStyle = colour;
  pen.fill();
  if (!faint) {
    pen.lineWidth = 1;
    pen.strokeStyle = paper;
    pen.stroke();
  }
  pen.globalAlpha = 1;
}

/** A shape as SVG for the legend, in the colour of its text. */
export function legendSign(shape) {
  const sign = s("svg", {
    class: "legend-sign",
    viewBox: "-6 -6 12 12",
    width: "12",
    height: "12",
    "aria-hidden": "true",
  });
  if (shape === "ring") sign.append(s("circle", { r: 4.5, fill: "none", stroke: "currentColor", "stroke-width": 1.6 }));
  else if (CORNERS[shape])
    sign.append(
      s("polygon", { points: CORNERS[shape].map(([x, y]) => `${4 * x},${4 * y}`).join(" "), fill: "currentColor" }),
    );
  else sign.append(s("circle", { r: shape === "dot" ? 2.4 : 4, fill: "currentColor" }));
  return sign;
}
