"""The confidence of programs: their answers split into thirds, each like an annotator."""

from collections.abc import Mapping

import numpy as np

__all__ = ["split_by_confidence"]

_MIN_CHECKED_ANSWERS = 20
"""Answers of a program that people must have checked before its confidence is used."""
_MIN_Z = 1.64
"""Standard errors by which the correlation of accuracy and confidence must exceed 0: one-sided,
95 %."""
_CONFIDENCE_THIRDS = ("least sure", "surer", "surest")


def split_by_confidence(
    confidences: Mapping[tuple[int, str], float], is_right: Mapping[tuple[int, str], bool]
) -> dict[tuple[int, str], str]:
    """Split a program's answers into thirds by confidence: (position, program) → name of the third.

    The learner treats each third as an annotator. A program is split only when the answers that
    people have checked (``is_right``) show, beyond chance, that it is right more often where it is
    more confident. The answers of other programs are not in the result.

    >>> confidences = {(i, "bot"): i / 40 for i in range(40)}
    >>> names = split_by_confidence(confidences, {key: key[0] > 20 for key in confidences})
    >>> names[0, "bot"], names[39, "bot"]
    ('bot, least sure', 'bot, surest')
    >>> split_by_confidence(confidences, {})
    {}
    """
    aliases: dict[tuple[int, str], str] = {}
    for program in {name for _, name in confidences}:
        by_position = {
            position: value for (position, name), value in confidences.items() if name == program
        }
        checked = [
            (value, is_right[position, program])
            for position, value in by_position.items()
            if (position, program) in is_right
        ]
        if not _is_informative(checked):
            continue
        cuts = np.quantile([*by_position.values()], [1 / 3, 2 / 3])
        for position, value in by_position.items():
            third = _CONFIDENCE_THIRDS[int(np.searchsorted(cuts, value))]
            aliases[position, program] = f"{program}, {third}"
    return aliases


def _is_informative(checked: list[tuple[float, bool]]) -> bool:
    """Whether accuracy increases with confidence beyond chance, in pairs (confidence, is right)."""
    if len(checked) < _MIN_CHECKED_ANSWERS:
        return False
    is_constant = any(len(set(values)) == 1 for values in zip(*checked, strict=True))
    if is_constant:
        return False
    correlation = np.corrcoef(np.transpose(checked))[0, 1]
    return bool(correlation * np.sqrt(len(checked)) > _MIN_Z)
