// The list of projects at one address: those that this browser may open.

import { post } from "./api.js";
import { byId, h } from "./dom.js";
import { memory } from "./state.js";

const STORED = "parbals:key/p/";

/** The keys that this browser keeps, by the names of their projects. */
function keys() {
  const kept = {};
  try {
    for (const key of Object.keys(localStorage)) {
      if (key.startsWith(STORED)) kept[decodeURIComponent(key.slice(STORED.length))] = localStorage.getItem(key);
    }
  } catch {
    /* a browser that keeps nothing has no session either */
  }
  return kept;
}

/** The server's own link is an owner everywhere: the project begins a session for it. */
async function open(project) {
  const { key } = await post("/api/open", { name: project.name });
  memory.set(`key${project.path.slice(0, -1)}`, key);
  location.href = project.path;
}

function row(project, isOwner) {
  const done =
    project.n_items === null ? "" : `${project.labelled.toLocaleString()} of ${project.n_items.toLocaleString()} labelled`;
  const go = () => {
    if (!isOwner) location.href = project.path;
    else open(project).catch((error) => (byId("said").textContent = `${project.name}: ${error.message}`));
  };
  return h(
    "button",
    { class: "row", type: "button", onclick: go },
    h("strong", { class: "row-name" }, project.name),
    h("span", { class: "quiet" }, project.trouble ?? done),
  );
}

async function start() {
  const { owner, projects } = await post("/api/projects", { keys: keys() });
  byId("projects").replaceChildren(...projects.map((project) => row(project, owner)));
  byId("said").textContent = projects.length
    ? ""
    : "There is nothing here for you yet: open the link that you were given.";
}

start().catch((error) => (byId("said").textContent = error.message));
