// What became of the answers: the sign at the top, and notices that stay until they are dealt with.

import { inWords } from "./answers.js";
import { connection } from "./api.js";
import { announce, byId, h, plural, toast } from "./dom.js";
import * as outbox from "./outbox.js";
import { on, state } from "./state.js";

let outage = false;
let trouble = null;
let other = null;
let renamed = false; // or classes were added, removed, moved
let spoken = "";

function sign(state, text, title) {
  const button = byId("saved");
  button.dataset.state = state;
  button.title = title;
  byId("saved-text").textContent = text;
}

function drawSign(box) {
  if (connection.state === "locked")
    sign(
      "problem",
      box.waiting ? `${box.waiting} kept here` : "Link not valid",
      "Open your link again.",
    );
  else if (connection.state === "lost")
    sign(
      "offline",
      box.waiting ? `Offline, ${box.waiting} kept` : "Offline",
      "The server cannot be reached. Click to try now.",
    );
  else if (box.stuck.length)
    sign("problem", `${box.stuck.length} to decide`, "The server did not take an answer; see the notice.");
  else if (box.waiting) sign("saving", "Saving", `${plural(box.waiting, "answer")} on the way.`);
  else sign("saved", "Saved", "Every answer is on the server's disk.");
}

function notice(id, kind, text, ...actions) {
  return h(
    "div",
    { class: `notice ${kind}`, "data-notice": id },
    h("span", { class: "notice-sign", "aria-hidden": "true" }, kind === "problem" ? "!" : "i"),
    h("p", {}, text),
    h("div", { class: "actions" }, actions),
  );
}

function button(text, action, primary = false) {
  return h("button", { type: "button", class: primary ? "primary" : null, onclick: action }, text);
}

function stuckNotice(entry) {
  const { stuck, gist, label, request_id: request } = entry;
  const item = gist ? `“${gist}”` : `item ${entry.position}`;
  const leave = (text) => button(text, () => outbox.settle(request, { correct: false }));
  if (stuck.code === "conflict" && entry.kind === "answer") {
    const held = stuck.held ? inWords(stuck.held) : "another label";
    return notice(
      request,
      "problem",
      `You had already labelled ${item} as ${held}, in another tab or at another time. Which one holds?`,
      button(`Change it to ${inWords(label)}`, () => outbox.settle(request, { correct: true }), true),
      leave(`Keep ${held}`),
    );
  }
  const what =
    entry.kind === "answer"
      ? `Your answer ${inWords(label)} to ${item}`
      : entry.kind === "undo"
        ? `Taking back your answer to ${item}`
        : `Passing ${item}`;
  if (stuck.code === "failing")
    return notice(
      request,
      "problem",
      `${what} is kept in this browser: the server failed at it several times. ${stuck.message}`,
      button("Try again", () => outbox.tryAgain(request), true),
      leave("Let it go"),
    );
  return notice(request, "problem", `${what} was not stored. ${stuck.message}`, leave("Understood, leave it"));
}

function otherNotice() {
  const kept = "Answers that were not sent stay in this browser for the old one.";
  const go = button(`Go to ${other.name}`, () => location.reload(), true);
  return notice("other", "problem", `This address now serves another project, ${other.name}. ${kept}`, go);
}

function draw(box = outbox.summary()) {
  drawSign(box);
  const kept = box.waiting
    ? ` ${plural(box.waiting, "answer is", "answers are")} kept in this browser and will be sent by themselves; you can go on, or close the page and come back.`
    : " Nothing is lost.";
  const list = box.stuck.map(stuckNotice);
  if (connection.state === "lost")
    list.unshift(
      notice(
        box.waiting ? "lost-kept" : "lost",
        "calm",
        `The server cannot be reached; it may have been stopped, or the network is gone.${kept}`,
        button("Try now", () => outbox.flush()),
      ),
    );
  if (connection.state === "locked")
    list.unshift(
      notice(
        box.waiting ? "locked-kept" : "locked",
        "problem",
        state.me?.name
          ? `${state.me.name}, your link does not open this project any more: an owner has revoked it or made a new one, or you were signed out. Open your link again; if it does not work, ask an owner for a new one. What you have labelled is stored.${box.waiting ? kept : ""}`
          : `This page's link is no longer valid, or its session has ended. Open your link again, or the one that parbals serve printed.${kept}`,
      ),
    );
  if (trouble) list.push(notice("trouble", "problem", `The server reports: ${trouble}`));
  if (box.memoryOnly)
    list.push(
      notice(
        "memory",
        "problem",
        "This browser does not let the page keep anything. Leave the page open until everything is saved.",
      ),
    );
  if (box.unreadable)
    list.push(
      notice(
        "unreadable",
        "problem",
        `${plural(box.unreadable, "entry", "entries")} that this browser kept for the server cannot be read any more, and could not be sent. What is left of it is set aside; the others are not affected. Look under Browse whether an answer of yours is missing.`,
        button("Understood", () => outbox.seenUnreadable()),
      ),
    );
  if (outbox.elsewhere() > 0)
    list.push(
      notice(
        "elsewhere",
        "calm",
        `${plural(outbox.elsewhere(), "answer waits", "answers wait")} in this browser for another project that was served at this address, or for another person's link. They are sent when that is opened here again.`,
      ),
    );
  if (renamed)
    list.push(
      notice(
        "classes",
        "calm",
        "The classes were changed. What you answer here still counts; to see them as they are now, load the page again.",
        button("Show them", () => location.reload(), true),
      ),
    );
  if (other) list.unshift(otherNotice());
  const ids = list.map((node) => node.dataset.notice + node.textContent).join();
  if (ids === draw.last) return;
  draw.last = ids;
  byId("notices").replaceChildren(...list);
  const first = list[0]?.querySelector("p").textContent ?? "";
  const kind = list[0]?.dataset.notice ?? "";
  if (kind && kind !== spoken) announce(first);
  spoken = kind;
}

export function startNotices() {
  on("outbox", draw);
  on("trouble", (sentence) => {
    trouble = sentence;
    draw();
  });
  on("connection", ({ state }) => {
    if (state === "ok" && outage) {
      const { waiting } = outbox.summary();
      toast(waiting ? `The server is back. Sending ${plural(waiting, "answer")} that waited.` : "The server is back.");
    }
    outage = state !== "ok";
    draw();
  });
  const classes = String(state.project.classes);
  on("project", (project) => {
    renamed = String(project.classes) !== classes;
    draw();
  });
  on("other-project", (project) => {
    other = project;
    draw();
  });
  byId("saved").addEventListener("click", () => outbox.flush());
  draw();
}
