// Runs before the first paint, so that the other theme does not flash.
(() => {
  try {
    const chosen = localStorage.getItem("parbals:theme");
    if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
  } catch {
    // Without storage the page follows the system.
  }
})();
