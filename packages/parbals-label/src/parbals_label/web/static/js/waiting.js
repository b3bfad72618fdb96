// The message that is shown while there is no item to label.

import { h, plural } from "./dom.js";

const MESSAGES = {
  starting: ["Loading an item", "It will appear in a moment."],
  choosing: ["No item is available right now", "All remaining items are assigned to other annotators. This page checks again automatically."],
  idle: ["No item is available right now", "All remaining items are assigned to other annotators. This page checks again automatically."],
  finished: ["Everything is labelled", "All items are labelled, skipped or marked unsure."],
};

export function waitingNode(queue, connection, outbox, failed = null) {
  const unsent =
    outbox.waiting > 0
      ? ` ${plural(outbox.waiting, "answer is", "answers are")} kept in this browser and will be sent automatically.`
      : "";
  if (connection === "locked") {
    return message(
      "off",
      "This page's link is no longer valid",
      `Open your link again, or the link that parbals serve printed.${unsent}`,
    );
  }
  if (connection === "lost")
    return message("off", "The server cannot be reached", `More items will appear as soon as it is back.${unsent}`);
  if (failed) return message("off", "No item could be loaded", failed.message);
  if (queue?.state === "failed")
    return message(
      "off",
      "The model process stopped with an error",
      queue.message ?? "Restarting. See the terminal for the error.",
    );
  const [title, sentence] = MESSAGES[queue?.state] ?? MESSAGES.starting;
  const kind = ["finished", "idle"].includes(queue?.state) ? queue.state : "busy";
  const node = message(kind, title, queue?.message ?? sentence);
  if (queue?.state === "finished") {
    node.append(
      h(
        "p",
        { class: "actions" },
        h("a", { class: "button primary", href: "#export" }, "Export labels"),
        h("a", { class: "button", href: "#browse" }, "Browse items"),
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
