// The project's settings, shared by everybody, and this browser's own.

import { patch, post } from "./api.js";
import { classPanel } from "./class_list.js";
import { h, toast } from "./dom.js";
import { askName, setTheme, themeName } from "./person.js";
import { emit, isOwner, KEY, memory, on, shortcutsOn, state } from "./state.js";
import { logPanel, teamPanel } from "./team.js";

function field(id, name, help, input) {
  input.id = id;
  input.setAttribute("aria-describedby", `${id}-help`);
  return h(
    "div",
    { class: "field" },
    h("label", { for: id }, name),
    input,
    h("p", { class: "quiet help", id: `${id}-help` }, help),
  );
}

/** The session ends on the server, and its link is needed again; what waits to be sent stays in this browser. */
async function signOut() {
  try {
    await post("/api/leave", {});
    memory.remove(KEY);
    location.reload();
  } catch (error) {
    toast(error.message);
  }
}

export function settingsView() {
  const words = h("textarea", { rows: "3" });
  const guidelines = h("textarea", { rows: "6", maxlength: "20000" });
  const wanted = h("input", { type: "number", min: "1", max: "100", step: "1", inputmode: "numeric" });
  const lease = h("input", { type: "number", min: "1", max: "1440", step: "1", inputmode: "numeric" });
  const goalLabels = h("input", { type: "number", min: "0", step: "1", inputmode: "numeric" });
  const goalError = h("input", { type: "number", min: "0", max: "99", step: "any", inputmode: "decimal" });
  const adapt = h("input", { type: "checkbox", id: "set-adapt" });
  const adaptField = h(
    "div",
    { class: "field" },
    h("label", { class: "check", for: "set-adapt" }, adapt, h("span", {}, "The features learn from the labels")),
    h(
      "p",
      { class: "quiet help" },
      "Best from 100 labels on. It runs in the background while people label; the new features are used only if they predict held-out labels better. Texts and images need PyTorch on the server.",
    ),
  );
  const said = h("p", { class: "quiet", role: "status" });
  const form = h(
    "form",
    { class: "panel stack" },
    h("h2", { class: "panel-title" }, "This project, for everybody"),
    field(
      "set-words",
      "Words to highlight",
      "One a line or separated by commas. A star at the end finds every ending: prize*",
      words,
    ),
    field("set-guidelines", "Guidelines", "Shown above every item, for people who label.", guidelines),
    field(
      "set-goal-labels",
      "Goal: how many labels",
      "Progress is shown against it. Empty or 0 is no goal.",
      goalLabels,
    ),
    field(
      "set-goal-error",
      "Goal: an error below so many per cent",
      "Reached when the measured error is surely below it; without an audit only what the model expects is shown. Empty or 0 is no goal.",
      goalError,
    ),
    field(
      "set-wanted",
      "Answers wanted for each item",
      "With two or more, several people answer the same items and their agreement is measured.",
      wanted,
    ),
    field(
      "set-lease",
      "Minutes an item is kept for a person",
      "After that, an unanswered item may go to someone else.",
      lease,
    ),
    adaptField,
    h("div", { class: "actions" }, h("button", { class: "primary", type: "submit" }, "Save")),
    said,
  );

  let filled = {};

  function fill() {
    filled = { ...state.project };
    words.value = (state.project.highlight ?? []).join("\n");
    guidelines.value = state.project.guidelines ?? "";
    wanted.value = String(state.project.answers_wanted ?? 1);
    lease.value = String(state.project.lease_minutes ?? 30);
    adapt.checked = state.project.adapt;
    adaptField.hidden = state.project.task !== "classes";
    goalLabels.value = state.project.goal_labels || "";
    goalError.value = state.project.goal_error ? String(Number((100 * state.project.goal_error).toFixed(4))) : "";
  }

  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const highlight = [
      ...new Set(
        words.value
          .split(/[\n,]/)
          .map((word) => word.trim())
          .filter(Boolean),
      ),
    ];
    const asked = {
      highlight,
      guidelines: guidelines.value,
      answers_wanted: Number(wanted.value),
      lease_minutes: Number(lease.value),
      goal_labels: Number(goalLabels.value),
      adapt: adapt.checked,
      goal_error: Number((Number(goalError.value) / 100).toFixed(6)),
    };
    // Only what was changed here is sent: somebody else may be changing the rest.
    const changes = Object.fromEntries(
      Object.entries(asked).filter(([key, value]) => JSON.stringify(value) !== JSON.stringify(filled[key])),
    );
    try {
      state.project = await patch("/api/settings", changes);
      filled = asked;
      emit("project", state.project);
      said.textContent = "Saved.";
      toast("The settings are saved.");
      log.enter();
    } catch (error) {
      said.textContent = `Not saved: ${error.message}`;
      toast(said.textContent);
    }
  });

  const theme = h(
    "select",
    { id: "set-theme", onchange: () => setTheme(theme.value) },
    ["auto", "light", "dark"].map((value) =>
      h("option", { value }, { auto: "As the system", light: "Light", dark: "Dark" }[value]),
    ),
  );
  const keys = h("input", {
    type: "checkbox",
    id: "set-keys",
    onchange: () => memory.set("shortcuts", keys.checked ? "on" : "off"),
  });
  const name = h("button", { type: "button", onclick: () => askName() }, "Change");
  const who = h("strong", { dir: "auto" });
  const leave = h("button", { type: "button", onclick: signOut }, "Sign out");
  const own = h(
    "section",
    { class: "panel stack" },
    h("h2", { class: "panel-title" }, "This browser"),
    h("p", { class: "own-name" }, "You label as ", who, " ", state.me.name === null && name, " ", leave),
    h("div", { class: "field" }, h("label", { for: "set-theme" }, "Colours"), theme),
    h("label", { class: "check", for: "set-keys" }, keys, h("span", {}, "Single keys (digits, s, u, z, c) answer")),
  );

  function fillOwn() {
    who.textContent = state.name ?? "nobody yet";
    theme.value = themeName();
    keys.checked = shortcutsOn();
  }
  on("name", fillOwn);
  on("theme", fillOwn);
  const log = isOwner() && logPanel();
  const team = isOwner() && teamPanel(() => log.enter());
  return {
    node: h("div", { class: "stack" }, isOwner() && [form, classPanel(() => log.enter()), team.node, log.node], own),
    enter() {
      fill();
      fillOwn();
      said.textContent = "";
      if (isOwner()) Promise.all([team.enter(), log.enter()]);
    },
  };
}
