// Is this still the project the page was opened for? Another one may be served at the same address by now, and its items
// have the same numbers: before items are taken or answers sent, the server is asked.

import { get } from "./api.js";
import { emit, on, projectKey } from "./state.js";

const CHECKED_MS = 1500; // no server is stopped and another one started in less

let checkedAt = 0;
on("connection", () => {
  checkedAt = 0;
});

/** False, and said, when it is another one; raises when the server cannot be asked. */
export async function sameProject() {
  if (Date.now() - checkedAt < CHECKED_MS) return true;
  const project = await get("/api/project");
  if (projectKey(project) !== projectKey()) {
    emit("other-project", project);
    return false;
  }
  checkedAt = Date.now();
  return true;
}
