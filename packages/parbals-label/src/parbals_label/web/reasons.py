"""Why an item was chosen, in a sentence that does not give the answer away."""

from collections.abc import Mapping, Sequence

from parbals_label.answer_form import MANY, NUMBERS

__all__ = ["why_words"]


def why_words(
    predicted: Mapping[str, float] | None, *, task: str = "classes", is_start: bool = False
) -> str:
    """Why this item: how sure the model is of it.

    Classes between which the model wavers are named in the order of the project, without shares,
    and one that it is sure of is not named: a guess that is seen sways the reader.
    """
    if is_start or predicted is None:
        sentence = "One of the items that stand for the others, to begin with"
        if not is_start:
            sentence = "The model does not know this item yet"
    elif task == NUMBERS:
        sentence = f"Here the model would be off by about {predicted['deviation']:.2g}"
    elif task == MANY:
        near = [label for label, share in predicted.items() if 0.2 < share < 0.8]
        sentence = "The model is fairly sure of this one"
        if near:
            some = _listed(near) if len(near) <= 3 else f"{len(near)} of the labels"
            sentence = f"The model wavers about {some}"
    else:
        best = max(predicted.values())
        near = [label for label, share in predicted.items() if share > 0.5 * best]
        if len(near) == 1:
            sure = "is fairly sure of this one" if best >= 0.9 else "has a guess but is not sure"
            sentence = f"The model {sure}"
        elif len(near) <= 3:
            sentence = f"The model wavers between {_listed(near)}"
        else:
            sentence = "The model has no idea yet what this is"
    return f"{sentence}."


def _listed(names: Sequence[str]) -> str:
    return " and ".join([", ".join(names[:-1]), names[-1]][len(names) == 1 :])
