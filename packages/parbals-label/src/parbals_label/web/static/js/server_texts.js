// Sentences that the server writes and the page shows in the visitor's language. Others stay in English.

import { SERVER_TEXTS } from "./server_sentences.js";
import { state } from "./state.js";
import { language, t } from "./text.js";

const NUMBER = "(?:about |[<>])?\\d[\\d.,e+-]*(?: %)?";
const DATE = "\\d{4}-\\d\\d-\\d\\d";
/** What a value looks like, by its name; any other value is any text. */
const VALUES = {
  ...Object.fromEntries(
    "number total goal high low top wrong trained left share before deviation cost tokens".split(" ").map((name) => [name, NUMBER]),
  ),
  // A number with its noun, "60 labels were", of which the translation has the number alone.
  ...Object.fromEntries(
    "labels items answers skips sessions rows persons requests classes".split(" ").map((name) => [name, "\\d[\\d,]* [a-z ]+?"]),
  ),
  dates: `${DATE}(?: to ${DATE})?`,
  encoder: "[^ ()]+",
};

/** A pattern of what the server writes for a text, with a group for each value. */
function patternOf(text) {
  const literal = text.replace(/[.*+?^$()|[\]\/]/g, "\\$&");
  return literal.replace(/\{(\w+)\}/g, (_, name) => `(?<${name}>${VALUES[name] ?? ".+?"})`);
}

const WHOLE = SERVER_TEXTS.map((key) => [key, new RegExp(`^${patternOf(key)}$`, "u")]);
/** For texts that end like a sentence, at the beginning of several. */
const FIRST = SERVER_TEXTS.filter((key) => key.endsWith(".")).map((key) => [key, new RegExp(`^${patternOf(key)}(?= |$)`, "u")]);

/** A number with its own decimals: "about 1,200" is "≈ 1.200" in German. */
function localNumber(sign, number, unit = "") {
  const plain = number.replaceAll(",", "");
  const digits = plain.split(".")[1]?.length ?? 0;
  const written = Number(plain).toLocaleString(language, { minimumFractionDigits: digits, maximumFractionDigits: digits });
  return `${sign === "about " ? "≈ " : (sign ?? "")}${written}${unit}`;
}

/** A value in the visitor's language: a number, dates, shares of classes, or names that are joined by "and". */
function localValue(text) {
  const [, sign, number, unit] = /^(about |[<>])?([\d,]+(?:\.\d+)?)( %)?$/.exec(text) ?? [];
  if (number) return localNumber(sign, number, unit);
  const [, first, last] = /^(\d{4}\S+) to (\d{4}\S+)$/.exec(text) ?? [];
  if (first) return t("{low} to {high}", { low: first, high: last });
  const names = text.split(/, | and /);
  const areClasses = names.every((name) => state.project?.classes.includes(name));
  const areCounted = names.every((name) => /\(\d+\)$/.test(name));
  return areClasses || areCounted ? new Intl.ListFormat(language).format(names) : text;
}

/** Shares of classes, "ham 80.5 % (70 % to 90 %), spam 19.5 % (10 % to 30 %)". */
function localShares(text) {
  return text
    .replace(/\((\S+ %) to (\S+ %)\)/g, (_, low, high) => `(${t("{low} to {high}", { low: localValue(low), high: localValue(high) })})`)
    .replace(/ ([<>]?)(\d+\.\d)(?= %)/g, (_, sign, number) => ` ${localNumber(sign, number)}`);
}

const localSamples = (text) => text.split("; ").map(translated).join("; ");
/** Values that are texts of the server themselves. */
const WRITTEN = { stage: translated, time: translated, shares: localShares, samples: localSamples };

function localText(key, match) {
  const values = Object.entries(match.groups ?? {}).map(([name, value]) => {
    const [, number] = name in VALUES ? (/^(\d[\d,]*) [a-z]/.exec(value) ?? []) : [];
    return [name, (WRITTEN[name] ?? localValue)(number ?? value)];
  });
  return t(key, Object.fromEntries(values));
}

/** What the server wrote, one text or several sentences, in the visitor's language; what has no translation stays as it is. */
export function translated(text) {
  if (language === "en" || !text) return text;
  for (const [key, pattern] of WHOLE) {
    const match = pattern.exec(text);
    if (match) return localText(key, match);
  }
  const sentences = [];
  let isKnown = false;
  for (let rest = text; rest; ) {
    const [key, match] = firstSentence(rest);
    isKnown ||= key !== null;
    sentences.push(key ? localText(key, match) : match[0]);
    rest = rest.slice(match[0].length).trimStart();
  }
  return isKnown ? sentences.join(language === "zh" ? "" : " ") : text;
}

/** The first sentence of several: its key, null if it has no translation, and the match. */
function firstSentence(text) {
  for (const [key, pattern] of FIRST) {
    const match = pattern.exec(text);
    if (match) return [key, match];
  }
  return [null, /^.*?\.(?= \p{Lu}|$)/su.exec(text) ?? [text]];
}
