// The list of the projects on this server that the browser may open.

import { post } from "./api.js";
import { byId, h } from "./dom.js";
import { memory } from "./state.js";
import { t, translateMarkup } from "./text.js";

const KEY_PREFIX = "parbals:key/p/";

/** The session keys that this browser has stored, by project name. */
function keys() {
  const stored = {};
  try {
    for (const key of Object.keys(localStorage)) {
      if (key.startsWith(KEY_PREFIX)) stored[decodeURIComponent(key.slice(KEY_PREFIX.length))] = localStorage.getItem(key);
    }
  } catch {
    /* without storage there is no session */
  }
  return stored;
}

/** Open a project with the server's own link, whose holder owns every project: start a session there first. */
async function open(project) {
  const { key } = await post("/api/open", { name: project.name });
  memory.set(`key${project.path.slice(0, -1)}`, key);
  location.href = project.path;
}

function row(project, isOwner) {
  const progress =
    project.n_items === null ? "" : t("{n} of {total} labelled", { n: project.labelled, total: project.n_items });
  const go = () => {
    if (!isOwner) location.href = project.path;
    else open(project).catch((error) => (byId("status").textContent = `${project.name}: ${error.message}`));
  };
  return h(
    "button",
    { class: "row", type: "button", onclick: go },
    h("strong", { class: "row-name" }, project.name),
    h("span", { class: "quiet" }, project.trouble ?? progress),
  );
}

async function start() {
  const { owner, projects } = await post("/api/projects", { keys: keys() });
  byId("projects").replaceChildren(...projects.map((project) => row(project, owner)));
  byId("status").textContent = projects.length
    ? ""
    : t("No projects yet. Open the link that you were given.");
}

translateMarkup();
document.title = t("Projects");
start().catch((error) => (byId("status").textContent = error.message));
