// For owners: the people with personal links, and the log of changes.

import { get, post } from "./api.js";
import { ago, h, toast } from "./dom.js";
import { translated } from "./server_texts.js";
import { t } from "./text.js";

const PAGE_SIZE = 100; // rows that the server sends at once
const ROLES = { annotator: t("Annotator"), owner: t("Owner") };

function roleBox(id, chosen) {
  const options = Object.entries(ROLES).map(([value, name]) => h("option", { value, selected: value === chosen }, name));
  return h("select", { id }, options);
}

function headings(...names) {
  return h("thead", {}, h("tr", {}, names.map((name) => h("th", { scope: "col" }, name))));
}

export function teamPanel(changed) {
  const rows = h("tbody", {});
  const table = h("table", { class: "table team" }, headings(t("Name"), t("Role"), t("Invited"), ""), rows);
  const nobody = h("p", { class: "quiet" }, t("Nobody has been invited yet: anyone with the link of this page can label under any name."));
  const name = h("input", { id: "invite-name", type: "text", maxlength: "100", required: true, autocomplete: "off" });
  const role = roleBox("invite-role", "annotator");
  const link = h("input", { id: "invite-link", type: "text", readonly: true, onfocus: () => link.select() });
  const linkLabel = h("label", { for: "invite-link" });
  const newLink = h(
    "div",
    { class: "field", hidden: true },
    linkLabel,
    link,
    h("p", { class: "quiet help" }, t("The link is shown only once and signs its holder in. Send it only to this person.")),
  );
  const status = h("p", { class: "quiet", role: "status" });
  const form = h(
    "form",
    { class: "correction" },
    h("div", { class: "field grow" }, h("label", { for: "invite-name" }, t("Name")), name),
    h("div", { class: "field" }, h("label", { for: "invite-role" }, t("Role")), role),
    h("div", { class: "actions" }, h("button", { class: "primary", type: "submit" }, t("Invite"))),
  );
  const node = h(
    "section",
    { class: "panel stack" },
    h("h2", { class: "panel-title" }, t("Team")),
    h(
      "p",
      { class: "quiet" },
      t(
        "Answers through a personal link are stored under that person's name. Owners can see and change everything; annotators can label and see their own answers. Once somebody is invited, the link that parbals serve prints is for owners only.",
      ),
    ),
    nobody,
    table,
    form,
    newLink,
    status,
  );

  function draw({ people }) {
    const invited = people.filter((person) => person.invited);
    nobody.hidden = invited.length > 0;
    table.hidden = invited.length === 0;
    rows.replaceChildren(...invited.map(personRow));
  }

  function personRow(person) {
    const role = roleBox(null, person.role);
    role.setAttribute("aria-label", t("Role of {name}", { name: person.name }));
    role.addEventListener("change", () =>
      change("/api/people/role", { name: person.name, role: role.value }, t("{name} is now: {role}.", { name: person.name, role: ROLES[role.value] })),
    );
    const revoke = h("button", { type: "button", class: "text-button" }, t("Revoke"));
    revoke.setAttribute("aria-label", t("Revoke the link of {name}", { name: person.name }));
    revoke.addEventListener("click", () => {
      if (!window.confirm(t("Revoke the link of {name}? It stops working at once; their labels are kept.", { name: person.name }))) return;
      change("/api/people/revoke", { name: person.name }, t("Revoked the link of {name}.", { name: person.name }));
    });
    return h(
      "tr",
      {},
      h("th", { scope: "row", dir: "auto" }, person.name),
      h("td", {}, role),
      h("td", { class: "quiet" }, ago(person.created)),
      h("td", {}, revoke),
    );
  }

  async function change(path, body, sentence) {
    try {
      draw(await post(path, body));
      newLink.hidden = true;
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
      linkLabel.textContent = t("The link of {name}", { name: invited.name });
      link.value = invited.link;
      newLink.hidden = false;
      name.value = "";
      status.textContent = "";
      toast(t("Created a link for {name}.", { name: invited.name }));
      await enter();
      changed();
      link.focus();
    } catch (error) {
      status.textContent = error.message;
    }
  });

  async function enter() {
    try {
      draw(await get("/api/people"));
    } catch (error) {
      status.textContent = error.message;
    }
  }

  return { node, enter };
}

export function logPanel() {
  const rows = h("tbody", {});
  const more = h("button", { type: "button", class: "more", hidden: true, onclick: () => load(last) }, t("Show more"));
  const empty = h("p", { class: "quiet" }, t("No changes yet."));
  const node = h(
    "section",
    { class: "panel stack" },
    h("h2", { class: "panel-title" }, t("Log")),
    h("p", { class: "quiet" }, t("Changes of settings and people, exports, and answers of other people that an owner undid.")),
    empty,
    h("div", { class: "scroll-x" }, h("table", { class: "table log" }, headings(t("Time"), t("Person"), t("Change::noun")), rows)),
    more,
  );
  let last = null;

  async function load(before = null) {
    let reply;
    try {
      reply = await get(`/api/log${before === null ? "" : `?before=${before}`}`);
    } catch {
      return; // loaded again when the page is opened again
    }
    const newRows = reply.rows.map((row) =>
      h(
        "tr",
        {},
        h("td", {}, h("time", { datetime: row.created, title: row.created }, ago(row.created))),
        h(
          "th",
          { scope: "row", dir: "auto" },
          translated(row.who) ?? t("unknown"),
          h("span", { class: "quiet origin" }, translated(row.origin) ?? ""),
        ),
        h("td", { dir: "auto" }, translated(row.sentence)),
      ),
    );
    if (before === null) rows.replaceChildren(...newRows);
    else rows.append(...newRows);
    last = reply.rows.at(-1)?.number ?? null;
    more.hidden = reply.rows.length < PAGE_SIZE;
    empty.hidden = rows.children.length > 0;
    rows.parentElement.hidden = rows.children.length === 0;
  }

  return { node, enter: () => load() };
}
