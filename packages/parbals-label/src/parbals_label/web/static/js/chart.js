// The learning curve: expected error against the number of labels, with its 90 % interval, as SVG.

import { h, percent, range, s } from "./dom.js";
import { count, t } from "./text.js";

/** Round axis ticks that divide 0..max into two to five parts. */
function ticks(max) {
  const rough = max / 4;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 2.5, 5, 10].map((factor) => factor * power).find((size) => max / size <= 4.5) ?? rough;
  const values = [];
  for (let value = 0; value <= max * 1.0001; value += step) values.push(value);
  return values;
}

/** The chart; `format` writes an error, and `max` is the largest error that the axis shows. */
export function errorChart(history, { width = 320, height = 150, format = percent, max = 1 } = {}) {
  const edge = { left: 38, right: 14, top: 10, bottom: 24 };
  const points = [...history].sort(
    (a, b) => a.n_labels - b.n_labels || String(a.created).localeCompare(String(b.created)),
  );
  const last = points.at(-1);
  const first = points[0].n_labels;
  const span = Math.max(1, last.n_labels - first);
  const top = Math.min(max, Math.max(0.02 * Math.min(max, 1), ...points.map((point) => point.high)) * 1.05);
  const x = (n) => edge.left + ((n - first) / span) * (width - edge.left - edge.right);
  const y = (share) => height - edge.bottom - (Math.min(share, top) / top) * (height - edge.top - edge.bottom);
  const at = (n, share) => `${x(n).toFixed(1)},${y(share).toFixed(1)}`;

  const chart = s("svg", {
    class: "chart",
    viewBox: `0 0 ${width} ${height}`,
    role: "img",
    "aria-label": t("Expected error: {error}, 90 % interval {range}, with {n:# label|# labels}; {before} with {first}.", {
      error: format(last.mean),
      range: range(last, format),
      n: last.n_labels,
      before: format(points[0].mean),
      first,
    }),
  });
  for (const value of ticks(top)) {
    chart.append(
      s("line", { class: "grid", x1: edge.left, x2: width - edge.right, y1: y(value), y2: y(value) }),
      s("text", { class: "tick", x: edge.left - 6, y: y(value) + 3.5, "text-anchor": "end" }, format(value)),
    );
  }
  for (const n of new Set(
    span > 3 ? [first, Math.round((first + last.n_labels) / 2), last.n_labels] : [last.n_labels],
  )) {
    chart.append(
      s(
        "text",
        {
          class: "tick",
          x: x(n),
          y: height - 7,
          "text-anchor": { [last.n_labels]: "end", [first]: "start" }[n] ?? "middle",
        },
        n === last.n_labels ? t("{n:# label|# labels}", { n }) : count(n),
      ),
    );
  }
  if (points.length > 1) {
    const outline = [
      ...points.map((point) => at(point.n_labels, point.high)),
      ...points.toReversed().map((point) => at(point.n_labels, point.low)),
    ];
    chart.append(
      s("polygon", { class: "band", points: outline.join(" ") }),
      s("polyline", { class: "curve", points: points.map((point) => at(point.n_labels, point.mean)).join(" ") }),
    );
  } else {
    chart.append(s("line", { class: "band-line", x1: x(first), x2: x(first), y1: y(last.low), y2: y(last.high) }));
  }
  const radius = points.length > 30 ? 1.5 : 2.5;
  for (const point of points) {
    chart.append(
      s(
        "circle",
        {
          class: point === last ? "point last" : "point",
          cx: x(point.n_labels),
          cy: y(point.mean),
          r: point === last ? 4 : radius,
        },
        s(
          "title",
          {},
          `${t("{n:# label|# labels}", { n: point.n_labels })}: ${format(point.mean)} (${range(point, format)})`,
        ),
      ),
    );
  }
  return chart;
}

/** The learning curve as a table, for screen readers. */
export function errorTable(history, format = percent) {
  const rows = [...history]
    .sort((a, b) => b.n_labels - a.n_labels)
    .slice(0, 50)
    .map((point) =>
      h(
        "tr",
        {},
        h("td", {}, count(point.n_labels)),
        h("td", {}, format(point.mean)),
        h("td", {}, range(point, format)),
      ),
    );
  return h(
    "table",
    { class: "table" },
    h(
      "thead",
      {},
      h(
        "tr",
        {},
        [t("Labels"), t("Expected error"), t("90 % interval")].map((name) => h("th", { scope: "col" }, name)),
      ),
    ),
    h("tbody", {}, rows),
  );
}
