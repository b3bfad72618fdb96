// Helpers to build DOM nodes. Data becomes text nodes and attributes, never markup.

import { language, t } from "./text.js";

const MAX_ANNOUNCEMENTS = 6;
const TOAST_MS = 5000;
const SVG = "http://www.w3.org/2000/svg";

function fill(node, properties, children) {
  for (const [name, value] of Object.entries(properties ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (name === "value") node.value = value;
    else node.setAttribute(name, value === true ? "" : String(value));
  }
  node.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
  return node;
}

/** Create an HTML element: h("p", {class: "note", onclick: f}, "text", otherNode). */
export function h(tag, properties, ...children) {
  return fill(document.createElement(tag), properties, children);
}

/** Create an SVG element, like `h`. */
export function s(tag, properties, ...children) {
  return fill(document.createElementNS(SVG, tag), properties, children);
}

export function byId(id) {
  return document.getElementById(id);
}

/** Announce a sentence to screen readers. It is appended to a log, so that sentences in quick succession are all read. */
export function announce(sentence) {
  const log = byId("announce");
  log.append(h("p", {}, sentence));
  while (log.children.length > MAX_ANNOUNCEMENTS) log.firstChild.remove();
}

let toastTimer = 0;

/** Show a sentence for a few seconds and announce it. */
export function toast(sentence) {
  const box = byId("toast");
  box.textContent = sentence;
  box.hidden = false;
  clearTimeout(toastTimer);
  toastTimer = setTimeout(() => {
    box.hidden = true;
  }, TOAST_MS);
  announce(sentence);
}

/** Open a modal dialog with a title and a close button; closing removes it from the page. */
export function openDialog(title, body, { closable = true, wide = false } = {}) {
  const heading = h("h2", { id: `dialog-${randomId(6)}` }, title);
  const close = h(
    "button",
    { class: "icon-button", type: "button", "aria-label": t("Close"), onclick: () => dialog.close() },
    "✕",
  );
  const head = h("header", { class: "dialog-head" }, heading, closable && close);
  const dialog = h("dialog", { class: wide ? "wide" : null, "aria-labelledby": heading.id }, head, body);
  dialog.addEventListener("close", () => dialog.remove());
  if (!closable) dialog.addEventListener("cancel", (event) => event.preventDefault());
  dialog.addEventListener("click", (event) => {
    if (closable && event.target === dialog) dialog.close();
  });
  document.body.append(dialog);
  dialog.showModal();
  return dialog;
}

/** Random hexadecimal digits. crypto.randomUUID would need a secure context, which http://some-host is not. */
export function randomId(digits = 32) {
  const bytes = crypto.getRandomValues(new Uint8Array(Math.ceil(digits / 2)));
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0"))
    .join("")
    .slice(0, digits);
}

/** A fraction in per cent, formatted like the reports (wording.py) but with the language's decimal sign, with a no-break space before the sign. */
export function percent(share) {
  if (share > 0 && share < 0.0005) return `<${(0.1).toLocaleString(language)}\u00a0%`;
  if (share >= 0.9995 && share < 1) return `>${(99.9).toLocaleString(language)}\u00a0%`;
  return `${(Number((100 * share).toFixed(1)) + 0).toLocaleString(language)}\u00a0%`;
}

/** A sentence from the server with no-break spaces before per cent signs. */
export function unbroken(sentence) {
  return sentence?.replace(/(\d) %/g, "$1\u00a0%");
}

/** The interval {low, high}: "3 % to 5 %". */
export function range({ low, high }, format) {
  return t("{low} to {high}", { low: format(low), high: format(high) });
}

/** "3 minutes ago" from unix seconds or an ISO time. */
export function ago(time) {
  const then = typeof time === "number" ? time * 1000 : Date.parse(time);
  const seconds = Math.max(0, (Date.now() - then) / 1000);
  if (!Number.isFinite(seconds)) return "";
  if (seconds < 60) return t("just now");
  const relative = new Intl.RelativeTimeFormat(language);
  if (seconds < 3600) return relative.format(-Math.floor(seconds / 60), "minute");
  if (seconds < 86400) return relative.format(-Math.floor(seconds / 3600), "hour");
  return new Date(then).toLocaleDateString(language);
}

/** A cell's value as it is displayed. */
export function shown(value) {
  if (value === null || value === undefined || value === "") return "—";
  return typeof value === "object" ? JSON.stringify(value) : String(value);
}
