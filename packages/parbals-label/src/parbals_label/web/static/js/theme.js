// Runs before the first paint, so that neither the other theme nor another language flashes.
(() => {
  const LANGUAGES = ["en", "de", "fr", "es", "zh"];
  const page = document.documentElement;
  const stored = (key) => {
    try {
      return localStorage.getItem(`parbals:${key}`);
    } catch {
      return null; // without storage the page follows the system and the browser
    }
  };
  const theme = stored("theme");
  if (theme === "light" || theme === "dark") page.dataset.theme = theme;
  const wanted = [stored("language") ?? "", ...navigator.languages].map((tag) => tag.toLowerCase().split("-")[0]);
  page.lang = wanted.find((language) => LANGUAGES.includes(language)) ?? "en";
  page.dataset.languages = LANGUAGES.join(" ");
  if (page.lang !== "en") page.dataset.untranslated = ""; // until text.js has translated the markup
})();
