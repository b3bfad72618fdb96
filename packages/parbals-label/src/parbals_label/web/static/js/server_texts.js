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
];

/** A pattern that matches what the server writes for a text, with a group for each value. */
function patternOf(text) {
  const literal = text.replace(/[.*+?^$()|[\]\\/]/g, "\\$&");
  return new RegExp(`^${literal.replace(/\{(\w+)\}/g, "(?<$1>.+)")}$`, "u");
}

/** A value in the visitor's language: a number, a percentage, or classes that are joined by "and". */
function localValue(text) {
  const [, number, sign] = /^([\d,]+(?:\.\d+)?)( %)?$/.exec(text) ?? [];
  if (number) return count(number.replaceAll(",", "")) + (sign ?? "");
  const names = text.split(/, | and /);
  const areClasses = names.every((name) => state.project.classes.includes(name));
  return areClasses ? new Intl.ListFormat(language).format(names) : text;
}

/** A sentence of the server in the visitor's language; one that has no translation stays as it is. */
export function translated(sentence) {
  if (language === "en" || !sentence) return sentence;
  for (const key of SERVER_TEXTS) {
    const match = patternOf(key).exec(sentence);
    if (!match) continue;
    const values = Object.entries(match.groups ?? {}).map(([name, value]) => [name, localValue(value)]);
    return t(key, Object.fromEntries(values));
  }
  return sentence;
}
