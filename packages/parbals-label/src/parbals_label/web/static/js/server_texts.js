// Sentences that the server writes and the page shows in the visitor's language. Others stay in English.

import { state } from "./state.js";
import { count, language, t } from "./text.js";

const SERVER_TEXTS = [
  "A representative item, to get started.",
  "The model has no prediction for this item yet.",
  "The model expects its prediction to be off by about {deviation}.",
  "The model is fairly certain about this item.",
  "The model is uncertain about {number} of the labels.",
  "The model is uncertain about {names}.",
  "The model is undecided between many classes.",
  "The model is undecided between {names}.",
  "The model has a prediction but is not certain.",
  "This item was not chosen by a strategy; it was opened from the list.",
  "Test item: chosen at random to measure the error. The model never trains on it.",
  "Test item: chosen at random to measure the error. The model does not train on it until the whole sample is labelled.",
  "All items are labelled, skipped or assigned.",
  "All items are labelled, skipped or marked unsure.",
  "The map is being computed; it appears a moment after the server has started.",
  "{number} of {total} labels",
  "{number} labels; the goal was {goal}",
  "an error below {goal}; measured {number} (90 % interval up to {high})",
  "an error below {goal}; expected {number} (90 % interval up to {high})",
  "an error below {goal}",
  "{number} of {total} labelled items were chosen by {strategy}",
  "{number} by k-means, before there was a model",
  "{number} by a quick fallback, so that nobody had to wait ({share})",
  "{number} by {strategy}",
  "Keep labelling: the first estimate appears after a few labels.",
  "Go on: the model has not seen two classes yet.",
  "Go on: more labels still make the model better.",
  "More labels hardly change the model; better features may help more.",
  "More labels hardly change the model; better features may help more. Set an error goal to see how far away it is.",
  "Nothing is left to choose: every item is labelled, pending or a test item.",
  "Your goal is reached.",
  "Your goal is reached. The measured error is {number}.",
  "You reached your label goal, but the error is not known yet.",
  "You reached your label goal, but the error may still be above target.",
  "You reached your label goal, but the error is still above target.",
  "The model expects that your goal is reached. Label 60 random items to measure it.",
  "The error is estimated by the model and has not been measured; label a random sample to measure it.",
  "With 95 % confidence the error is below {high}: of {total} random items the model trained on the first {trained} labels got {wrong} wrong, {number} (90 % interval {low} to {top}).",
  "With 95 % confidence the error is below {high}: of {total} random items the model trained on the first {trained} labels got {wrong} wrong, corrected for how hard they are: {number} (90 % interval {low} to {top}).",
  "With 95 % confidence the error is below {high}: of {total} random items among the {left} without a label the model trained on {trained} labels got {wrong} wrong, {number} (90 % interval {low} to {top}).",
  "The error will be measured as the {number} random test items are labelled.",
  "{number} of the {total} test items are labelled.",
  "{number} of the sample's {total} items are labelled; label all of them.",
  "Sample {number} of {total}.",
  "Labelled by {people}, {dates}.",
  "{labels} read from files.",
  "{labels} changed after the sample was complete.",
  "{labels} changed after they were given.",
  "{items} labelled only by imports, by programs, or in files under names that nobody was invited as; these labels do not count, so people must label them.",
  "Before that, {wrong} of the {total} were wrong, and the limit was {high}.",
  "Encoder: {encoder}.",
  "Encoder: {encoder}; you have enough labels to fine-tune it (parbals adapt, or Settings).",
  "Encoder: words (the extra parbals[text] brings one that reads sentences).",
  "Encoder: words (the extra parbals[text] brings one that reads sentences); you have enough labels to fine-tune it (parbals adapt, or Settings).",
  "Encoder: {encoder}; fine-tuning on {number} labels did not improve held-out predictions.",
  "Features: the columns of the table.",
  "Features: the columns of the table; you have enough labels to add tree features (parbals adapt, or Settings).",
  "Encoder fine-tuned on {number} labels. Held-out error: {share} (was {before}).",
  "Tree features trained on {number} labels. Held-out error: {share} (was {before}).",
  "Items of the target set differ clearly from the pool (AUC {number}).",
  "Labels of the pool say less about them, so the expected error has a wider interval; a random sample of the target set would measure it.",
  "The expected error does not allow for that; a random sample of the target set would measure it.",
  "exported the model",
  "exported training data",
  "exported items as {format}",
  "exported items as {format}, labelled ones only",
  "signed in at {place}",
  "invited {name} as {role}",
  "invited {name} as {role} for {number} days",
  "gave {name} a new link",
  "gave {name} a new link for {number} days",
  "changed the role of {name} from {old} to {new}",
  "revoked the link of {name}",
  "undid {name}'s label of item {item}, which was {label}",
  "released {items}",
  "released {items} of {name}",
  "removed {labels} and {skips} by {name}",
  "backed up {answers} to {file}",
  "ended {sessions} whose id starts with {id}",
  "removed a person, now called {name}",
  "fine-tuned the encoder on {number} labels: held-out error {share}, was {before}; the project uses it",
  "fine-tuned the encoder on {number} labels: held-out error {share}, was {before}; the project does not use it",
  "labelled {items} as {label} at once",
  "decided that {items} {label}",
  "drew {items} to measure the error",
  "drew {items} to measure the error and kept them to measure later models, too",
  "added {items} from {file}, {number} of them labelled",
  "added the target set {name}, {rows}",
  "removed the target set {name}",
  "renamed class {old} to {new}",
  "changed settings ({changes})",
  "the page's link",
  "this machine",
];

const NUMBER = "\\d[\\d.,e+-]*(?: %)?";
const DATE = "\\d{4}-\\d\\d-\\d\\d";
/** What a value looks like, by its name; any other value is any text. */
const VALUES = {
  ...Object.fromEntries(
    ["number", "total", "goal", "high", "low", "top", "wrong", "trained", "left", "share", "before", "deviation"].map(
      (name) => [name, NUMBER],
    ),
  ),
  // A number with its noun, "60 labels were", of which the translation has the number alone.
  ...Object.fromEntries(
    ["labels", "items", "answers", "skips", "sessions", "rows"].map((name) => [name, "\\d[\\d,]* [a-z ]+?"]),
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

/** A value in the visitor's language: a number, dates, or names that are joined by "and". */
function localValue(text) {
  const [, number, sign] = /^([\d,]+(?:\.\d+)?)( %)?$/.exec(text) ?? [];
  if (number) return count(number.replaceAll(",", "")) + (sign ?? "");
  const [, first, last] = /^(\d{4}\S+) to (\d{4}\S+)$/.exec(text) ?? [];
  if (first) return t("{low} to {high}", { low: first, high: last });
  const names = text.split(/, | and /);
  const areClasses = names.every((name) => state.project.classes.includes(name));
  const areCounted = names.every((name) => /\(\d+\)$/.test(name));
  return areClasses || areCounted ? new Intl.ListFormat(language).format(names) : text;
}

function localText(key, match) {
  const values = Object.entries(match.groups ?? {}).map(([name, value]) => {
    const [, number] = name in VALUES ? (/^(\d[\d,]*) [a-z]/.exec(value) ?? []) : [];
    return [name, localValue(number ?? value)];
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
