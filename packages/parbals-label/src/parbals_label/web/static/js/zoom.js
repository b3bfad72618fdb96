// A picture that fits its frame and can be zoomed and moved: buttons, wheel, pinch, drag, and the keys + - 0 and arrows.

import { h } from "./dom.js";
import { t } from "./text.js";

const MAX_SCALE = 12;
const STEP = 1.5;

export function zoomable(picture) {
  picture.className = "picture";
  picture.draggable = false;
  const frame = h(
    "div",
    { class: "frame", tabindex: "0", role: "group", "aria-label": t("Picture; plus and minus zoom, arrows move, 0 fits") },
    picture,
  );
  const level = h("output", { class: "zoom-level" });
  const fitButton = h("button", { class: "text-button", type: "button", onclick: fit }, t("Fit"));
  const fingers = new Map();
  let scale = 1;
  let x = 0;
  let y = 0;

  function draw() {
    const roomX = (frame.clientWidth * (scale - 1)) / 2;
    const roomY = (frame.clientHeight * (scale - 1)) / 2;
    x = Math.min(roomX, Math.max(-roomX, x));
    y = Math.min(roomY, Math.max(-roomY, y));
    picture.style.transform = `translate(${x}px, ${y}px) scale(${scale})`;
    frame.classList.toggle("zoomed", scale > 1);
    level.textContent = scale === 1 ? "" : `${Number(scale.toFixed(1))}×`; // relative to the fitted size
    fitButton.hidden = scale === 1;
  }

  /** Zoom and keep the point at (cx, cy), relative to the frame's centre, in its place. */
  function zoom(factor, cx = 0, cy = 0) {
    const next = Math.min(MAX_SCALE, Math.max(1, scale * factor));
    x = cx - ((cx - x) * next) / scale;
    y = cy - ((cy - y) * next) / scale;
    scale = next;
    draw();
  }

  function fit() {
    scale = 1;
    draw();
  }

  function fromCentre(event) {
    const box = frame.getBoundingClientRect();
    return [event.clientX - box.left - box.width / 2, event.clientY - box.top - box.height / 2];
  }

  frame.addEventListener(
    "wheel",
    (event) => {
      event.preventDefault();
      zoom(Math.exp(-event.deltaY / 400), ...fromCentre(event));
    },
    { passive: false },
  );
  frame.addEventListener("dblclick", (event) => (scale > 1 ? fit() : zoom(3, ...fromCentre(event))));
  frame.addEventListener("pointerdown", (event) => {
    fingers.set(event.pointerId, event);
    if (scale > 1 || fingers.size > 1) frame.setPointerCapture(event.pointerId);
  });
  frame.addEventListener("pointermove", (event) => {
    const last = fingers.get(event.pointerId);
    if (!last) return;
    const other = [...fingers.values()].find((finger) => finger.pointerId !== event.pointerId);
    if (other) {
      const gap = (finger) => Math.hypot(finger.clientX - other.clientX, finger.clientY - other.clientY);
      zoom(gap(event) / Math.max(1, gap(last)), ...fromCentre(other));
    } else {
      x += event.clientX - last.clientX;
      y += event.clientY - last.clientY;
      draw();
    }
    fingers.set(event.pointerId, event);
  });
  for (const end of ["pointerup", "pointercancel"])
    frame.addEventListener(end, (event) => fingers.delete(event.pointerId));
  frame.addEventListener("keydown", (event) => {
    const moves = { ArrowLeft: [60, 0], ArrowRight: [-60, 0], ArrowUp: [0, 60], ArrowDown: [0, -60] };
    if (event.key === "+" || event.key === "=") zoom(STEP);
    else if (event.key === "-") zoom(1 / STEP);
    else if (event.key === "0") fit();
    else if (scale > 1 && moves[event.key]) {
      x += moves[event.key][0];
      y += moves[event.key][1];
      draw();
    } else return;
    event.preventDefault();
    event.stopPropagation();
  });

  const button = (name, sign, action) =>
    h("button", { class: "icon-button", type: "button", "aria-label": name, onclick: action }, sign);
  const tools = h(
    "div",
    { class: "zoom-tools" },
    button(t("Zoom out"), "−", () => zoom(1 / STEP)),
    level,
    button(t("Zoom in"), "+", () => zoom(STEP)),
    fitButton,
  );
  draw();
  return h("figure", { class: "picture-box" }, frame, tools);
}
