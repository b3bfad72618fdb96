// The entry point: starts all parts and switches between #label #overview #browse #agreement #export #settings.

import { agreementView } from "./agreement.js";
import { ApiError, get } from "./api.js";
import { browseView } from "./browse.js";
import { byId, h } from "./dom.js";
import { exportView } from "./export.js";
import { labelView } from "./label.js";
import { startLive } from "./live.js";
import { mapPanel } from "./map.js";
import { startNotices } from "./notices.js";
import { startOutbox } from "./outbox.js";
import { errorPanel, featuresLine, modelLine, peoplePanel, progressPanel } from "./panels.js";
import { askName, startPerson } from "./person.js";
import { programNotice } from "./programs.js";
import { settingsView } from "./settings.js";
import { BASE, emit, isOwner, state } from "./state.js";
import { targetPanel } from "./target.js";
import { t, translateMarkup } from "./text.js";

const TITLES = {
  label: t("Label"),
  overview: t("Overview"),
  browse: t("Browse"),
  agreement: t("Agreement"),
  export: t("Export"),
  settings: t("Settings"),
};
const PAGES = Object.keys(TITLES);
const OWNER_PAGES = ["agreement", "export"];
const views = {};

function overviewView() {
  const grid = h(
    "div",
    { class: "overview" },
    h("div", { class: "column" }, progressPanel({ full: true }), peoplePanel(), isOwner() && programNotice(), modelLine(), isOwner() && featuresLine()),
    isOwner() && h("div", { class: "column" }, errorPanel({ full: true }), targetPanel(), mapPanel({ full: true })),
  );
  return { node: grid };
}

/** The column beside the item on wide screens; narrow screens have the overview instead. */
function sidebar() {
  return h(
    "aside",
    { class: "side", "aria-label": t("Progress") },
    progressPanel(),
    isOwner() && [errorPanel(), mapPanel()],
    modelLine(),
  );
}

const createView = {
  label: () => labelView(sidebar()),
  overview: overviewView,
  browse: browseView,
  agreement: agreementView,
  export: exportView,
  settings: settingsView,
};

/** Show the page of the address's hash; a later switch also moves the focus to its beginning. */
function showPage(isSwitch) {
  const hash = location.hash.slice(1);
  if (hash === "main") return; // the skip link
  const isAllowed = PAGES.includes(hash) && (isOwner() || !OWNER_PAGES.includes(hash));
  const page = isAllowed ? hash : "label";
  for (const name of PAGES) byId(`view-${name}`).hidden = name !== page;
  for (const link of document.querySelectorAll(".tabs a")) {
    if (link.hash === `#${page}`) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  document.body.dataset.page = page;
  document.title = `${TITLES[page]} – ${state.project.name}`;
  if (!views[page]) {
    views[page] = createView[page]();
    byId(`view-${page}`).append(views[page].node);
  }
  if (isSwitch) {
    window.scrollTo(0, 0);
    byId("main").focus({ preventScroll: true });
  }
  views[page].enter?.();
  emit("page", page);
}

/** Load the project and the visitor's name and role, retrying until the server answers. */
async function loadProjectAndVisitor() {
  for (let wait = 500; ; wait = Math.min(wait * 2, 8000)) {
    try {
      return await Promise.all([get("/api/project"), get("/api/me")]);
    } catch (error) {
      const message = error instanceof ApiError ? error.message : t("The page could not be loaded.");
      const section = byId("view-label");
      section.hidden = false;
      section.querySelector(".empty")?.remove();
      section.append(h("p", { class: "empty", role: "alert" }, `${message} ${t("Retrying …")}`));
      await new Promise((resolve) => setTimeout(resolve, wait));
    }
  }
}

async function start() {
  translateMarkup();
  [state.project, state.me] = await loadProjectAndVisitor();
  startPerson();
  for (const name of OWNER_PAGES) document.querySelector(`.tabs a[href="#${name}"]`).hidden = !isOwner();
  byId("view-label").querySelector(".empty")?.remove();
  byId("project-name").textContent = state.project.name;
  if (BASE) document.querySelector(".bar").prepend(h("a", { class: "others", href: "/", "aria-label": t("All projects") }, "‹"));
  startNotices();
  startOutbox();
  await startLive();
  if (!state.name) await askName();
  showPage(false);
  window.addEventListener("hashchange", () => showPage(true));
}

start();
