// For owners: who has a link of their own, and the log of what was changed, by whom and from where.

import { get, post } from "./api.js";
import { ago, h, toast } from "./dom.js";

const ROLES = { annotator: "Annotator", owner: "Owner" };

function roleBox(id, chosen) {
  const options = Object.entries(ROLES).map(([value, name]) => h("option", { value, selected: value === chosen }, name));
  return h("select", { id }, options);
}

function headings(...names) {
  return h("thead", {}, h("tr", {}, names.map((name) => h("th", { scope: "col" }, name))));
}

export function teamPanel(changed) {
  const rows = h("tbody", {});
  const table = h("table", { class: "table team" }, headings("Name", "May", "Since", ""), rows);
  const nobody = h("p", { class: "quiet" }, "Nobody yet: anyone with the link of this page labels under any name.");
  const name = h("input", { id: "invite-name", type: "text", maxlength: "100", required: true, autocomplete: "off" });
  const role = roleBox("invite-role", "annotator");
  const link = h("input", { id: "invite-link", type: "text", readonly: true, onfocus: () => link.select() });
  const linkName = h("label", { for: "invite-link" });
  const made = h(
    "div",
    { class: "field", hidden: true },
    linkName,
    link,
    h("p", { class: "quiet help" }, "It is shown this once, and it is the key: send it to them alone."),
  );
  const said = h("p", { class: "quiet", role: "status" });
  const form = h(
    "form",
    { class: "correction" },
    h("div", { class: "field grow" }, h("label", { for: "invite-name" }, "Name"), name),
    h("div", { class: "field" }, h("label", { for: "invite-role" }, "May"), role),
    h("div", { class: "actions" }, h("button", { class: "primary", type: "submit" }, "Invite")),
  );
  const node = h(
    "section",
    { class: "panel stack" },
    h("h2", { class: "panel-title" }, "People with a link of their own"),
    h(
      "p",
      { class: "quiet" },
      "A personal link is a name: answers come under that name alone. Owners see and change everything; annotators label, and see their own answers. Once somebody is invited, the link that parbals serve prints is for owners.",
    ),
    nobody,
    table,
    form,
    made,
    said,
  );

  function draw({ people }) {
    const invited = people.filter((person) => person.invited);
    nobody.hidden = invited.length > 0;
    table.hidden = invited.length === 0;
    rows.replaceChildren(...invited.map(personRow));
  }

  function personRow(person) {
    const may = roleBox(null, person.role);
    may.setAttribute("aria-label", `What ${person.name} may do`);
    may.addEventListener("change", () =>
      change("/api/people/role", { name: person.name, role: may.value }, `${person.name} is now ${may.value}.`),
    );
    const end = h("button", { type: "button", class: "text-button" }, "Revoke");
    end.setAttribute("aria-label", `Revoke the link of ${person.name}`);
    end.addEventListener("click", () => {
      if (!window.confirm(`The link of ${person.name} stops working at once; their labels stay.`)) return;
      change("/api/people/revoke", { name: person.name }, `The link of ${person.name} no longer works.`);
    });
    return h(
      "tr",
      {},
      h("th", { scope: "row", dir: "auto" }, person.name),
      h("td", {}, may),
      h("td", { class: "quiet" }, ago(person.created)),
      h("td", {}, end),
    );
  }

  async function change(path, body, sentence) {
    try {
      draw(await post(path, body));
      made.hidden = true;
      toast(sentence);
    } catch (error) {
      toast(error.message);
      enter();
    }
    changed();
  }

  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    try {
      const invited = await post("/api/people", { name: name.value.trim(), role: role.value });
      linkName.textContent = `The link of ${invited.name}`;
      link.value = invited.link;
      made.hidden = false;
      name.value = "";
      said.textContent = "";
      toast(`${invited.name} has a link now.`);
      await enter();
      changed();
      link.focus();
    } catch (error) {
      said.textContent = error.message;
    }
  });

  async function enter() {
    try {
      draw(await get("/api/people"));
    } catch (error) {
      said.textContent = error.message;
    }
  }

  return { node, enter };
}

export function logPanel() {
  const rows = h("tbody", {});
  const more = h("button", { type: "button", class: "more", hidden: true, onclick: () => load(last) }, "Show more");
  const empty = h("p", { class: "quiet" }, "Nothing was changed yet.");
  const node = h(
    "section",
    { class: "panel stack" },
    h("h2", { class: "panel-title" }, "Log"),
    h("p", { class: "quiet" }, "Every change of settings and people, every export, and every label of somebody else that an owner took back."),
    empty,
    h("div", { class: "scroll-x" }, h("table", { class: "table log" }, headings("When", "Who", "What"), rows)),
    more,
  );
  let last = null;

  async function load(before = null) {
    let reply;
    try {
      reply = await get(`/api/log${before === null ? "" : `?before=${before}`}`);
    } catch {
      return; // shown when the page is turned to again
    }
    const made = reply.rows.map((row) =>
      h(
        "tr",
        {},
        h("td", {}, h("time", { datetime: row.created, title: row.created }, ago(row.created))),
        h(
          "th",
          { scope: "row", dir: "auto" },
          row.who ?? "unknown",
          h("span", { class: "quiet origin" }, row.origin ?? ""),
        ),
        h("td", { dir: "auto" }, `${row.what}: ${row.sentence}`),
      ),
    );
    if (before === null) rows.replaceChildren(...made);
    else rows.append(...made);
    last = reply.rows.at(-1)?.number ?? null;
    more.hidden = reply.rows.length < 100;
    empty.hidden = rows.children.length > 0;
    rows.parentElement.hidden = rows.children.length === 0;
  }

  return { node, enter: () => load() };
}
