// Runs on the page that a link opens: keeps the half of the session that only this address can read, and goes on. The
// link itself is in no address after this one, and not in the browser's history. Where another site has opened the link,
// the browser may be somebody else's already, and is not handed over without a word.

const { key, who } = document.documentElement.dataset;
const BASE = location.pathname.slice(0, -1); // of several projects each has its own
const STORED = `parbals:key${BASE}`;

function show(...nodes) {
  const add = () => document.body.append(...nodes);
  if (document.body) add();
  else document.addEventListener("DOMContentLoaded", add);
}

/** Who is signed in here: a name, "" for the page's own link, null for nobody. */
async function present() {
  const kept = localStorage.getItem(STORED);
  const reply = kept && (await fetch(`${BASE}/api/me`, { headers: { "X-Parbals-Key": kept } }));
  return reply?.ok ? ((await reply.json()).name ?? "") : null;
}

async function arrive() {
  const onward = `${location.href}&here`;
  const now = await present();
  if (now === null) location.replace(onward);
  else if (now === who) location.replace(`${BASE}/`);
  else {
    const named = (name) => name || "the page's owner";
    const link = (href, textContent) => Object.assign(document.createElement("a"), { href, textContent });
    const words = document.createElement("p");
    words.append(`You are signed in as ${named(now)}, and another page has opened a link of ${named(who)}.`);
    show(words, link(`${BASE}/`, `Stay ${named(now)}`), " · ", link(onward, `Go on as ${named(who)}`));
  }
}

try {
  if (key) {
    localStorage.setItem(STORED, key);
    location.replace(`${BASE}/`);
  } else arrive().catch(() => show("The server cannot be reached; open the link again."));
} catch {
  show("This browser does not let the page keep anything; allow it to, and open the link again.");
}
