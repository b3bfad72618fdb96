// The page's texts in the visitor's language.
//
// A text is written in English where it is used, t("Saved"), and the English is its key in texts/de.json and the others.
// {name} stands for a value; {n:# label|# labels} chooses the form by the number n, which replaces #. What follows ::
// tells apart texts that are spelt alike in English, "Label::noun", and is not shown. Classes, items and names are values.

const page = document.documentElement;
const FIELD = /\{(\w+)(?::([^{}]*))?\}/;
const CATEGORIES = ["zero", "one", "two", "few", "many", "other"];

/** [language, texts]: English, whose texts are their own keys, if the others cannot be loaded. */
async function loadTexts(language) {
  if (language === "en") return [language, {}];
  try {
    const reply = await fetch(new URL(`../texts/${language}.json`, import.meta.url));
    if (reply.ok) return [language, await reply.json()];
  } catch {
    /* the notice of the lost connection is shown */
  }
  return ["en", {}];
}

const [loadedLanguage, texts] = await loadTexts(page.lang);
export const language = loadedLanguage;
page.lang = language;

const rules = new Intl.PluralRules(language);
const categories = CATEGORIES.filter((name) => rules.resolvedOptions().pluralCategories.includes(name));

export function count(number) {
  return Number(number).toLocaleString(language);
}

function valueText(value, forms) {
  if (forms === undefined) return typeof value === "number" ? count(value) : value;
  const options = forms.split("|"); // of the last categories, one form may serve for all
  const option = options[Math.min(categories.indexOf(rules.select(value)), options.length - 1)];
  return option.replaceAll("#", count(value));
}

/** A text with values that may be nodes, as a list of strings and nodes. */
export function pieces(key, values = {}) {
  const template = texts[key] ?? key.split("::")[0];
  // split() returns, for every field, the text before it, its name and its forms.
  return template
    .split(FIELD)
    .map((part, i, parts) => {
      if (i % 3 === 0) return part;
      return i % 3 === 1 ? valueText(values[part], parts[i + 1]) : "";
    })
    .filter((part) => part !== "");
}

/** A text as a string: t("{n:# label|# labels} of {total}", {n: 3, total: 5}). */
export function t(key, values) {
  return pieces(key, values).join("");
}

/** Translate the markup of the page: elements with `data-t`, and labels of those with `data-t-label`. */
export function translateMarkup() {
  for (const node of document.querySelectorAll("[data-t]")) node.textContent = t(node.textContent);
  for (const node of document.querySelectorAll("[data-t-label]"))
    node.setAttribute("aria-label", t(node.getAttribute("aria-label")));
  delete page.dataset.untranslated;
}

/** The languages of the page and what they call themselves: [["en", "English"], …]. */
export function languageNames() {
  return page.dataset.languages.split(" ").map((code) => {
    const name = new Intl.DisplayNames(code, { type: "language" }).of(code);
    return [code, name[0].toLocaleUpperCase(code) + name.slice(1)];
  });
}
