"""Settings of :class:`parbals.ActiveLearner` that most users leave as they are, in three groups.

Each field may also be passed to ``ActiveLearner`` as a keyword argument of the same name.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields, replace
from difflib import get_close_matches
from typing import Any, TypeVar

from parbals.errors import InputError
from parbals.features.frames import Encoding

__all__ = [
    "InputSettings",
    "PosteriorSettings",
    "SearchSettings",
    "apply_settings",
    "check_setting_names",
]

_Record = TypeVar("_Record", bound="PosteriorSettings | SearchSettings | InputSettings")


@dataclass(frozen=True)
class PosteriorSettings:
    """The learner's default model, as in :class:`parbals.BayesianLogisticRegression`.

    >>> PosteriorSettings(n_samples=200, inference="laplace")
    PosteriorSettings(n_samples=200, prior_scale='auto', inference='laplace')

    Attributes:
        n_samples: posterior samples, for strategies that need them.
        prior_scale: standard deviation of the prior; "auto" learns it, and how the features vary,
            from the labels and the pool; "even" is for features of an encoder that was fine-tuned
            on the labels.
        inference: "auto", "ep", "smc", "nuts" or "laplace".
    """

    n_samples: int = 400
    prior_scale: float | str = "auto"
    inference: str = "auto"


@dataclass(frozen=True)
class SearchSettings:
    """How thoroughly a strategy searches for the next batch.

    >>> SearchSettings(n_universes=4).n_universes
    4

    Attributes:
        n_universes: labellings of the batch that ParBaLS strategies simulate.
        options: further options of the strategy, as in :func:`parbals.select_batch`.
        n_candidates: at most so many free items are considered at a time, drawn again whenever
            labels change; a note of the batch says so. By default 10,000; for a strategy in closed
            form as many as a CPU scores in a second or two (120,000 with two classes and 300
            features); for your own model 1,000. A Dask array is always scored as a whole in closed
            form.
        n_targets: at most so many target points are used at a time, drawn again likewise; by
            default 1,000, for your own model 200.
    """

    n_universes: int = 10
    options: Mapping[str, Any] | None = None
    n_candidates: int | None = None
    n_targets: int | None = None


@dataclass(frozen=True, eq=False)
class InputSettings:
    """How the features were made, and what other models know about the items.

    >>> InputSettings(features="numbers").features
    'numbers'

    Attributes:
        features: "auto" encodes a data frame with missing values, categories, dates and booleans,
            and reduces sparse rows of more than 1,024 columns by truncated SVD; ``pool.notes`` and
            the notes of every batch describe what it did. "numbers" refuses the first and leaves
            the second as it is.
        checked: True if the features are known to be finite numbers; a large file is then not read
            through to check them.
        encoder: encodes the sentences of ``class_descriptions`` as rows (n, D), as it encoded the
            texts of ``X_pool``.
        class_scores: (N, C) scores of each class for each item by a model that has seen no label,
            such as an LLM's probabilities or CLIP's similarities. They count as class descriptions.
        held_out: (items, probs (n, C)), if the encoder of the features was fine-tuned on labels:
            the items with these labels, and predictions for each of them with an encoder that has
            not seen its label, as cross-validation makes them. The report and the predicted
            probabilities are then calibrated by these predictions. Leave-one-out predictions with
            the fine-tuned features would be too optimistic. Use ``prior_scale="even"`` as well.
        pool_structure: whether the default model knows which rows lie together, and learns from the
            labels how much that tells (:mod:`parbals.features.neighbours`). Only with
            ``prior_scale="auto"``, and not in a cluster or in pools of more than
            100,000 rows; a note of the batch says so.
    """

    features: str | Encoding | None = "auto"
    checked: bool = False
    encoder: Callable[[list[str]], Any] | None = None
    class_scores: Any = None
    held_out: tuple[Any, Any] | None = None
    pool_structure: bool = False


_RECORDS = {
    "posterior": PosteriorSettings,
    "search": SearchSettings,
    "inputs": InputSettings,
}
"""Argument of ``ActiveLearner`` → its type."""


def check_setting_names(names: Iterable[str], arguments: Iterable[str]) -> None:
    """Refuse names that are neither fields of the settings nor ``arguments`` of the learner."""
    setting_names = [field.name for record in _RECORDS.values() for field in fields(record)]
    for name in names:
        if name in setting_names:
            continue
        nearest = get_close_matches(name, [*arguments, *setting_names], n=1)
        hint = "see help(parbals.ActiveLearner)."
        if nearest:
            hint = f"did you mean {nearest[0]!r}?"
        raise TypeError(f"ActiveLearner has no argument {name!r}; {hint}")


def apply_settings(record: _Record | None, argument: str, settings: Mapping[str, Any]) -> _Record:
    """Return a record, or its defaults, with the fields that ``settings`` names replaced.

    >>> apply_settings(None, "search", {"n_universes": 3, "n_samples": 200}).n_universes
    3
    """
    record_type: Any = _RECORDS[argument]
    if record is None:
        record = record_type()
    if not isinstance(record, record_type):
        raise InputError(f"{argument} is {record!r:.60}; pass parbals.{record_type.__name__}(...).")
    names = {field.name for field in fields(record)}
    changes = {name: value for name, value in settings.items() if name in names}
    result: _Record = replace(record, **changes)
    return result
