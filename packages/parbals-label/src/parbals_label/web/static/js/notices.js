// The save status at the top, and notices that stay until they are resolved.

import { displayLabel } from "./answers.js";
import { connection } from "./api.js";
import { announce, byId, h, toast } from "./dom.js";
import * as outbox from "./outbox.js";
import { translated } from "./server_texts.js";
import { emit, on, state } from "./state.js";
import { t } from "./text.js";

let isOffline = false;
let serverError = null;
let otherProject = null;
let classesChanged = false;
let announced = ""; // the id of the notice that was announced last

function setStatus(state, text, title) {
  const button = byId("saved");
  button.dataset.state = state;
  button.title = title;
  byId("saved-text").textContent = text;
}

function drawStatus(box) {
  if (connection.state === "locked")
    setStatus(
      "problem",
      box.waiting ? t("{n} unsent", { n: box.waiting }) : t("Signed out"),
      t("Open your link again."),
    );
  else if (connection.state === "lost")
    setStatus(
      "offline",
      box.waiting ? t("Offline, {n} unsent", { n: box.waiting }) : t("Offline"),
      t("The server cannot be reached. Click to retry now."),
    );
  else if (box.stuck.length)
    setStatus("problem", t("{n} unresolved", { n: box.stuck.length }), t("The server rejected an answer; see the notice."));
  else if (box.waiting) setStatus("saving", t("Saving"), t("Sending {n:# answer|# answers}.", { n: box.waiting }));
  else setStatus("saved", t("Saved"), t("All answers are stored on the server's disk."));
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
  const item = gist ? t("“{text}”", { text: gist }) : t("Item {id}", { id: String(entry.position) });
  const discardButton = (text) => button(text, () => outbox.resolve(request, { correct: false }));
  if (stuck.code === "conflict" && entry.kind === "answer") {
    const storedLabel = stuck.held ? displayLabel(stuck.held) : t("another label");
    return notice(
      request,
      "problem",
      t("You already labelled {item} as {label}, in another tab or earlier. Which label is right?", { item, label: storedLabel }),
      button(t("Change it to {label}", { label: displayLabel(label) }), () => outbox.resolve(request, { correct: true }), true),
      discardButton(t("Keep {label}", { label: storedLabel })),
    );
  }
  let action = t("Skipping {item}", { item });
  if (entry.kind === "answer") action = t("Your answer {label} to {item}", { label: displayLabel(label), item });
  else if (entry.kind === "undo") action = t("Undoing your answer to {item}", { item });
  if (stuck.code === "failing")
    return notice(
      request,
      "problem",
      `${t("{action}: failed on the server several times and is kept in this browser.", { action })} ${stuck.message}`,
      button(t("Retry"), () => outbox.retry(request), true),
      discardButton(t("Discard it")),
    );
  return notice(request, "problem", `${t("{action}: not stored.", { action })} ${stuck.message}`, discardButton(t("Discard it")));
}

function otherNotice() {
  const { name } = otherProject;
  const go = button(t("Go to {name}", { name }), () => location.reload(), true);
  const text = t(
    "This address now serves another project, {name}. Unsent answers stay in this browser for the previous project.",
    { name },
  );
  return notice("other", "problem", text, go);
}

function draw(box = outbox.summary()) {
  drawStatus(box);
  const unsent = box.waiting
    ? ` ${t("{n:# answer is|# answers are} kept in this browser and will be sent automatically. You can continue, or close the page and come back.", { n: box.waiting })}`
    : ` ${t("Nothing is lost.")}`;
  // Nothing is sent before the visitor signs in again, so that nobody is told to go on.
  const kept = box.waiting ? ` ${t("{n:# answer is|# answers are} kept in this browser and will be sent when you have signed in again.", { n: box.waiting })}` : "";
  const list = box.stuck.map(stuckNotice);
  if (connection.state === "lost")
    list.unshift(
      notice(
        box.waiting ? "lost-kept" : "lost",
        "calm",
        t("The server cannot be reached. It may have been stopped, or the network is down.") + unsent,
        button(t("Retry now"), () => outbox.flush()),
      ),
    );
  if (connection.state === "locked")
    list.unshift(
      notice(
        box.waiting ? "locked-kept" : "locked",
        "problem",
        state.me?.name
          ? t(
              "{name}, your session has ended: an owner revoked or replaced your link, or you signed out. Open your link again; if it does not work, ask an owner for a new one. Your labels are stored.",
              { name: state.me.name },
            ) + kept
          : t("This page's link is no longer valid, or its session has ended. Open your link again, or the link that parbals serve printed.") + kept,
      ),
    );
  if (serverError) list.push(notice("trouble", "problem", t("The server reports: {message}", { message: translated(serverError) })));
  if (box.memoryOnly)
    list.push(
      notice(
        "memory",
        "problem",
        t("This browser does not let the page store data. Leave the page open until everything is saved."),
      ),
    );
  if (box.unreadable)
    list.push(
      notice(
        "unreadable",
        "problem",
        t(
          "{n:# unsent answer is|# unsent answers are} damaged in this browser's storage and could not be sent. Other answers are not affected. Check under Browse whether one of your answers is missing.",
          { n: box.unreadable },
        ),
        button(t("Dismiss"), () => outbox.dismissUnreadable()),
      ),
    );
  if (outbox.countElsewhere() > 0)
    list.push(
      notice(
        "elsewhere",
        "calm",
        t(
          "{n:# unsent answer|# unsent answers} in this browser for another project that was served at this address, or for another person's link. They are sent when that project or link is opened here again.",
          { n: outbox.countElsewhere() },
        ),
      ),
    );
  if (classesChanged)
    list.push(
      notice(
        "classes",
        "calm",
        t("The classes were changed, and their keys with them. Your answers still count."),
        button(t("Show the new classes"), () => emit("draw-classes"), true),
      ),
    );
  if (otherProject) list.unshift(otherNotice());
  const ids = list.map((node) => node.dataset.notice + node.textContent).join();
  if (ids === draw.last) return;
  draw.last = ids;
  byId("notices").replaceChildren(...list);
  const first = list[0]?.querySelector("p").textContent ?? "";
  const kind = list[0]?.dataset.notice ?? "";
  if (kind && kind !== announced) announce(first);
  announced = kind;
}

export function startNotices() {
  on("outbox", draw);
  on("trouble", (sentence) => {
    serverError = sentence;
    draw();
  });
  on("connection", ({ state }) => {
    if (state === "ok" && isOffline) {
      const { waiting } = outbox.summary();
      toast(waiting ? t("The server is back. Sending {n:# unsent answer|# unsent answers}.", { n: waiting }) : t("The server is back."));
    }
    isOffline = state !== "ok";
    draw();
  });
  let drawnClasses = String(state.project.classes);
  on("project", (project) => {
    classesChanged = String(project.classes) !== drawnClasses;
    draw();
  });
  on("classes-drawn", (classes) => {
    drawnClasses = String(classes);
    classesChanged = String(state.project.classes) !== drawnClasses;
    draw();
  });
  on("other-project", (project) => {
    otherProject = project;
    draw();
  });
  byId("saved").addEventListener("click", () => outbox.flush());
  draw();
}
