// What stands where the item would be while there is none: what is going on, in plain words.

import { h, plural } from "./dom.js";

const WORDS = {
  starting: ["Fetching an item", "It appears in a moment."],
  choosing: ["No item is free right now", "Others are working on those that are out. This page looks again by itself."],
  idle: ["No item is free right now", "Others are working on those that are out. This page looks again by itself."],
  finished: ["Everything is labelled", "Every item has its label or was passed."],
};

export function waitingNode(queue, connection, outbox, failed = null) {
  const kept =
    outbox.waiting > 0
      ? ` ${plural(outbox.waiting, "answer is", "answers are")} kept in this browser and will be sent by themselves.`
      : "";
  if (connection === "locked") {
    return message(
      "off",
      "This page's link is no longer valid",
      `Open the link that parbals serve printed when it was started.${kept}`,
    );
  }
  if (connection === "lost")
    return message("off", "The server cannot be reached", `More items come as soon as it answers again.${kept}`);
  if (failed) return message("off", "No item could be fetched", failed.message);
  if (queue?.state === "failed")
    return message(
      "off",
      "The model stopped with an error",
      queue.message ?? "It is started again; its last words are in the terminal.",
    );
  const [title, sentence] = WORDS[queue?.state] ?? WORDS.starting;
  const node = message(
    queue?.state === "finished" ? "finished" : queue?.state === "idle" ? "idle" : "busy",
    title,
    queue?.message ?? sentence,
  );
  if (queue?.state === "finished") {
    node.append(
      h(
        "p",
        { class: "actions" },
        h("a", { class: "button primary", href: "#export" }, "Export the labels"),
        h("a", { class: "button", href: "#browse" }, "Look through them"),
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
