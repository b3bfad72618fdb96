"""Why an item was chosen, in a sentence that does not give the answer away."""

from collections.abc import Mapping, Sequence

__all__ = ["why_words"]


def why_words(
    predicted: Mapping[str, float] | None, similar: int | None = None, *, is_start: bool = False
) -> str:
    """Why this item: how sure the model is of it, and how many others depend on it.

    Classes between which the model wavers are named in the order of the project, without shares,
    and one that it is sure of is not named: a guess that is seen sways the reader.
    """
    if is_start or predicted is None:
        sentence = "One of the items that stand for the others, to begin with"
        if not is_start:
            sentence = "The model does not know this item yet"
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
    about = _about(similar or 0)
    return f"{sentence}; about {about} similar items depend on it." if about else f"{sentence}."


def _about(count: int) -> str:
    """A count with two digits that mean something; "" where it is not worth a word."""
    if count < 5:
        return ""
    size = 10 ** max(0, len(str(count)) - 2)
    return f"{round(count / size) * size:,}"


def _listed(names: Sequence[str]) -> str:
    return f"{', '.join(names[:-1])} and {names[-1]}"
