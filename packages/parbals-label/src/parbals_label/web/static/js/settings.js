// The project's settings, shared by everybody, and the settings of this browser.

import { patch, post } from "./api.js";
import { classPanel } from "./class_list.js";
import { h, toast } from "./dom.js";
import { askName, languageBox, setTheme, themeName } from "./person.js";
import { emit, isOwner, KEY, memory, on, shortcutsOn, state } from "./state.js";
import { logPanel, teamPanel } from "./team.js";
import { pieces, t } from "./text.js";

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

/** End the session on the server. The link is needed to sign in again; unsent answers stay in this browser. */
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
  const answersPerItem = h("input", { type: "number", min: "1", max: "100", step: "1", inputmode: "numeric" });
  const lease = h("input", { type: "number", min: "1", max: "1440", step: "1", inputmode: "numeric" });
  const goalLabels = h("input", { type: "number", min: "0", step: "1", inputmode: "numeric" });
  const goalError = h("input", { type: "number", min: "0", max: "99", step: "any", inputmode: "decimal" });
  const adapt = h("input", { type: "checkbox", id: "set-adapt" });
  const adaptField = h(
    "div",
    { class: "field" },
    h("label", { class: "check", for: "set-adapt" }, adapt, h("span", {}, t("Fine-tune the encoder on your labels"))),
    h(
      "p",
      { class: "quiet help" },
      t(
        "Works best with 100 labels or more. Runs in the background; the new features are used only if they predict held-out labels better. Texts and images need PyTorch on the server.",
      ),
    ),
  );
  const status = h("p", { class: "quiet", role: "status" });
  const form = h(
    "form",
    { class: "panel stack" },
    h("h2", { class: "panel-title" }, t("Project settings")),
    field("set-guidelines", t("Guidelines"), t("Shown to annotators above every item."), guidelines),
    field(
      "set-goal-labels",
      t("Goal: number of labels"),
      t("Progress is shown relative to it. Leave empty for no goal."),
      goalLabels,
    ),
    field(
      "set-goal-error",
      t("Goal: error below (per cent)"),
      t(
        "Met when the upper bound of the measured error is below this. Until it is measured, only the estimate is shown. Leave empty for no goal.",
      ),
      goalError,
    ),
    field(
      "set-wanted",
      t("Answers per item"),
      t("With two or more, several people label each item and their agreement is measured."),
      answersPerItem,
    ),
    field(
      "set-lease",
      t("Minutes that an item is reserved"),
      t("After that, an assigned item without an answer may go to someone else."),
      lease,
    ),
    field(
      "set-words",
      t("Words to highlight"),
      t("One per line, or separated by commas. Use * for any ending, for example prize*"),
      words,
    ),
    adaptField,
    h("div", { class: "actions" }, h("button", { class: "primary", type: "submit" }, t("Save"))),
    status,
  );

  let loaded = {}; // the settings when the form was filled

  function fill() {
    loaded = { ...state.project };
    words.value = (state.project.highlight ?? []).join("\n");
    guidelines.value = state.project.guidelines ?? "";
    answersPerItem.value = String(state.project.answers_wanted ?? 1);
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
    const entered = {
      highlight,
      guidelines: guidelines.value,
      answers_wanted: Number(answersPerItem.value),
      lease_minutes: Number(lease.value),
      goal_labels: Number(goalLabels.value),
      adapt: adapt.checked,
      goal_error: Number((Number(goalError.value) / 100).toFixed(6)),
    };
    // Send only changed settings: somebody else may be changing others.
    const changes = Object.fromEntries(
      Object.entries(entered).filter(([key, value]) => JSON.stringify(value) !== JSON.stringify(loaded[key])),
    );
    try {
      state.project = await patch("/api/settings", changes);
      loaded = entered;
      emit("project", state.project);
      status.textContent = t("Saved.");
      toast(t("Settings saved."));
      log.enter();
    } catch (error) {
      status.textContent = t("Not saved: {reason}", { reason: error.message });
      toast(status.textContent);
    }
  });

  const theme = h(
    "select",
    { id: "set-theme", onchange: () => setTheme(theme.value) },
    ["auto", "light", "dark"].map((value) =>
      h("option", { value }, { auto: t("Same as the system"), light: t("Light"), dark: t("Dark") }[value]),
    ),
  );
  const keys = h("input", {
    type: "checkbox",
    id: "set-keys",
    onchange: () => memory.set("shortcuts", keys.checked ? "on" : "off"),
  });
  const name = h("button", { type: "button", onclick: () => askName() }, t("Change"));
  const currentName = h("strong", { dir: "auto" });
  const leave = h("button", { type: "button", onclick: signOut }, t("Sign out"));
  const browserPanel = h(
    "section",
    { class: "panel stack" },
    h("h2", { class: "panel-title" }, t("This browser")),
    h("p", { class: "own-name" }, pieces("You are labelling as {name}", { name: currentName }), " ", state.me.name === null && name, " ", leave),
    h("div", { class: "field" }, h("label", { for: "set-language" }, t("Language")), languageBox("set-language")),
    h("div", { class: "field" }, h("label", { for: "set-theme" }, t("Theme")), theme),
    h("label", { class: "check", for: "set-keys" }, keys, h("span", {}, t("Single-key shortcuts (digits, s, u, z, c, w, g, /)"))),
  );

  function fillBrowserPanel() {
    currentName.textContent = state.name ?? t("nobody yet");
    theme.value = themeName();
    keys.checked = shortcutsOn();
  }
  on("name", fillBrowserPanel);
  on("theme", fillBrowserPanel);
  const log = isOwner() && logPanel();
  const team = isOwner() && teamPanel(() => log.enter());
  return {
    node: h("div", { class: "stack" }, isOwner() && [form, classPanel(() => log.enter()), team.node, log.node], browserPanel),
    enter() {
      fill();
      fillBrowserPanel();
      status.textContent = "";
      if (isOwner()) Promise.all([team.enter(), log.enter()]);
    },
  };
}
