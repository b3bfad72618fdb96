// Runs on the page that a link opens: keeps the half of the session that only this address can read, and goes on. The
// link itself is in no address after this one, and not in the browser's history.

try {
  localStorage.setItem("parbals:key", document.documentElement.dataset.key);
  location.replace("/");
} catch {
  const words = "This browser does not let the page keep anything; allow it to, and open the link again.";
  document.addEventListener("DOMContentLoaded", () => document.body.append(words));
}
