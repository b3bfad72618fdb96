"""The sentence that tells annotators why an item was chosen, without revealing the prediction."""

from collections.abc import Mapping, Sequence

from parbals_label.answer_form import MANY, NUMBERS

__all__ = ["why_words"]

_CERTAIN = "The model is fairly certain about this item"
_MIN_CERTAIN = 0.9
"""Smallest probability of the likeliest class at which the model is called certain."""
_MAX_NAMED = 3
"""Classes that are named in a sentence; more of them are counted."""


def why_words(
    predicted: Mapping[str, float] | None, *, task: str = "classes", is_start: bool = False
) -> str:
    """Return why an item was chosen: how certain the model is about it.

    Classes between which the model is undecided are named in the order of the project, without
    probabilities. A class that the model is certain of is not named, because a visible prediction
    biases annotators.

    Args:
        predicted: class → probability; for regression "mean" and "deviation"; None before the
            first predictions.
        task: the task of the project.
        is_start: the item was chosen before there were any labels.

    >>> why_words({"ham": 0.5, "spam": 0.4, "other": 0.1})
    'The model is undecided between ham and spam.'
    """
    if is_start:
        return "A representative item, to get started."
    if predicted is None:
        return "The model has no prediction for this item yet."
    if task == NUMBERS:
        return f"The model expects its prediction to be off by about {predicted['deviation']:.2g}."
    if task == MANY:
        return f"{_multilabel_sentence(predicted)}."
    return f"{_class_sentence(predicted)}."


def _multilabel_sentence(predicted: Mapping[str, float]) -> str:
    uncertain = [label for label, prob in predicted.items() if 0.2 < prob < 0.8]
    if not uncertain:
        return _CERTAIN
    if len(uncertain) > _MAX_NAMED:
        return f"The model is uncertain about {len(uncertain)} of the labels"
    return f"The model is uncertain about {_enumeration(uncertain)}"


def _class_sentence(predicted: Mapping[str, float]) -> str:
    highest = max(predicted.values())
    likely = [label for label, prob in predicted.items() if prob > 0.5 * highest]
    if len(likely) > _MAX_NAMED:
        return "The model is undecided between many classes"
    if len(likely) > 1:
        return f"The model is undecided between {_enumeration(likely)}"
    if highest >= _MIN_CERTAIN:
        return _CERTAIN
    return "The model has a prediction but is not certain"


def _enumeration(names: Sequence[str]) -> str:
    """Join names as "a, b and c"."""
    if len(names) == 1:
        return names[0]
    return f"{', '.join(names[:-1])} and {names[-1]}"
