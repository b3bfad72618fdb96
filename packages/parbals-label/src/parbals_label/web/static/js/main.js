// Starts everything and turns the pages: #label #overview #browse #agreement #export #settings.

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
import { settingsView } from "./settings.js";
import { BASE, emit, isOwner, state } from "./state.js";

const PAGES = ["label", "overview", "browse", "agreement", "export", "settings"];
const FOR_OWNERS = ["agreement", "export"];
const views = {};

function overviewView() {
  const grid = h(
    "div",
    { class: "overview" },
    h("div", { class: "column" }, progressPanel({ full: true }), peoplePanel(), modelLine(), isOwner() && featuresLine()),
    isOwner() && h("div", { class: "column" }, errorPanel({ full: true }), mapPanel({ full: true })),
  );
  return { node: grid };
}

/** Wide screens show this beside the item; on narrow ones it is the overview. */
function aside() {
  return h(
    "aside",
    { class: "side", "aria-label": "Progress" },
    progressPanel(),
    isOwner() && [errorPanel(), mapPanel()],
    modelLine(),
  );
}

const makers = {
  label: () => labelView(aside()),
  overview: overviewView,
  browse: browseView,
  agreement: agreementView,
  export: exportView,
  settings: settingsView,
};

function turnTo(moved) {
  const asked = location.hash.slice(1);
  if (asked === "main") return; // the skip link
  const page = PAGES.includes(asked) && (isOwner() || !FOR_OWNERS.includes(asked)) ? asked : "label";
  for (const name of PAGES) byId(`view-${name}`).hidden = name !== page;
  for (const link of document.querySelectorAll(".tabs a")) {
    if (link.hash === `#${page}`) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  document.body.dataset.page = page;
  document.title = `${page[0].toUpperCase()}${page.slice(1)} – ${state.project.name}`;
  if (!views[page]) {
    views[page] = makers[page]();
    byId(`view-${page}`).append(views[page].node);
  }
  if (moved) {
    window.scrollTo(0, 0);
    byId("main").focus({ preventScroll: true });
  }
  views[page].enter?.();
  emit("page", page);
}

/** The project, and who this is in it. */
async function firstAnswers() {
  for (let wait = 500; ; wait = Math.min(wait * 2, 8000)) {
    try {
      return await Promise.all([get("/api/project"), get("/api/me")]);
    } catch (error) {
      const words = error instanceof ApiError ? error.message : "The page could not be started.";
      const section = byId("view-label");
      section.hidden = false;
      section.querySelector(".empty")?.remove();
      section.append(h("p", { class: "empty", role: "alert" }, `${words} Trying again …`));
      await new Promise((resolve) => setTimeout(resolve, wait));
    }
  }
}

async function start() {
  [state.project, state.me] = await firstAnswers();
  startPerson();
  for (const name of FOR_OWNERS) document.querySelector(`.tabs a[href="#${name}"]`).hidden = !isOwner();
  byId("view-label").querySelector(".empty")?.remove();
  byId("project-name").textContent = state.project.name;
  if (BASE) document.querySelector(".bar").prepend(h("a", { class: "others", href: "/", "aria-label": "All projects" }, "‹"));
  startNotices();
  startOutbox();
  await startLive();
  if (!state.name) await askName();
  turnTo(false);
  window.addEventListener("hashchange", () => turnTo(true));
}

start();
