// Runs before the first paint, so that a chosen scheme does not flash in the other one.
(() => {
  try {
    const chosen = localStorage.getItem("parbals:theme");
    if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
  } catch {
    // A browser that keeps nothing follows the system.
  }
})();
