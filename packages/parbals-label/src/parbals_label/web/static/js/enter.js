// Runs on the page that a sign-in link opens: stores the session's key, which only this address can read, and redirects
// to the project. The redirect keeps the link out of later addresses and the browser's history. If another site opened
// the link while somebody is signed in, they are asked first.

const { key, who, ...texts } = document.documentElement.dataset; // the server has translated the texts
const BASE = location.pathname.slice(0, -1); // each project has its own if several are served
const STORAGE_KEY = `parbals:key${BASE}`;

function filled(text, values) {
  return text.replace(/\{(\w+)\}/g, (_, name) => values[name]);
}

function show(...nodes) {
  const add = () => document.body.append(...nodes);
  if (document.body) add();
  else document.addEventListener("DOMContentLoaded", add);
}

/** Who is signed in: a name, "" for the link that `parbals serve` printed, null for nobody. */
async function signedIn() {
  const storedKey = localStorage.getItem(STORAGE_KEY);
  const reply = storedKey && (await fetch(`${BASE}/api/me`, { headers: { "X-Parbals-Key": storedKey } }));
  return reply?.ok ? ((await reply.json()).name ?? "") : null;
}

async function enter() {
  const signIn = `${location.href}&here`;
  const current = await signedIn();
  if (current === null) location.replace(signIn);
  else if (current === who) location.replace(`${BASE}/`);
  else {
    const displayName = (name) => name || texts.owner;
    const link = (href, textContent) => Object.assign(document.createElement("a"), { href, textContent });
    const question = document.createElement("p");
    question.append(filled(texts.question, { current: displayName(current), other: displayName(who) }));
    const stay = filled(texts.stay, { name: displayName(current) });
    const proceed = filled(texts.continue, { name: displayName(who) });
    show(question, link(`${BASE}/`, stay), " · ", link(signIn, proceed));
  }
}

try {
  if (key) {
    localStorage.setItem(STORAGE_KEY, key);
    location.replace(`${BASE}/`);
  } else enter().catch(() => show(texts.unreachable));
} catch {
  show(texts.noStorage);
}
