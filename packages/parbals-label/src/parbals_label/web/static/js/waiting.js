// The message that is shown while there is no item to label.

import { h } from "./dom.js";
import { translated } from "./server_texts.js";
import { t } from "./text.js";

const NONE_LEFT = [
  t("No item is available right now"),
  t("All remaining items are assigned to other annotators. This page checks again automatically."),
];
const MESSAGES = {
  starting: [t("Loading an item"), t("It will appear in a moment.")],
  choosing: NONE_LEFT,
  idle: NONE_LEFT,
  finished: [t("Everything is labelled"), t("All items are labelled, skipped or marked unsure.")],
};

export function waitingNode(queue, connection, outbox, failed = null) {
  const unsent =
    outbox.waiting > 0
      ? ` ${t("{n:# answer is|# answers are} kept in this browser and will be sent automatically.", { n: outbox.waiting })}`
      : "";
  if (connection === "locked") {
    return message(
      "off",
      t("This page's link is no longer valid"),
      t("Open your link again, or the link that parbals serve printed.") + unsent,
    );
  }
  if (connection === "lost")
    return message("off", t("The server cannot be reached"), t("More items will appear as soon as it is back.") + unsent);
  if (failed) return message("off", t("No item could be loaded"), failed.message);
  if (queue?.state === "failed")
    return message(
      "off",
      t("The model process stopped with an error"),
      translated(queue.message) ?? t("Restarting. See the terminal for the error."),
    );
  const [title, sentence] = MESSAGES[queue?.state] ?? MESSAGES.starting;
  const kind = ["finished", "idle"].includes(queue?.state) ? queue.state : "busy";
  const node = message(kind, title, translated(queue?.message) ?? sentence);
  if (queue?.state === "finished") {
    node.append(
      h(
        "p",
        { class: "actions" },
        h("a", { class: "button primary", href: "#export" }, t("Export labels")),
        h("a", { class: "button", href: "#browse" }, t("Browse items")),
      ),
    );
  }
  return node;
}

function message(kind, title, sentence) {
  return h(
    "div",
    { class: `waiting ${kind}` },
    h("span", { class: "waiting-sign", "aria-hidden": "true" }),
    h("h2", {}, title),
    h("p", {}, sentence),
  );
}
