// Checks that the server still serves the project for which the page was opened. Another project may be served at the
// same address by now, and its items have the same positions; so this is checked before items are taken or answers sent.

import { get } from "./api.js";
import { emit, on, projectKey } from "./state.js";

const VALID_MS = 1500; // replacing a server takes longer

let checkedAt = 0;
on("connection", () => {
  checkedAt = 0;
});

/** Whether the server serves the same project; emits "other-project" if not, and throws if it cannot be reached. */
export async function sameProject() {
  if (Date.now() - checkedAt < VALID_MS) return true;
  const project = await get("/api/project");
  if (projectKey(project) !== projectKey()) {
    emit("other-project", project);
    return false;
  }
  checkedAt = Date.now();
  return true;
}
