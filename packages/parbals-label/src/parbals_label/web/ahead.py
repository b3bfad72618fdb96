"""How many items are chosen ahead, and how carefully: by the pace of the labels.

A strategy that looks at labels to come costs more for every item that is out or chosen with it, so
a queue that runs dry is cured by larger batches, which share what every batch costs, and, where
that is not enough, by fewer universes and targets: of ten classes an item then costs a fifth. With
hundreds of labels the model itself costs most, and of several people three fits of it, two of which
learn what each person is worth: in haste all are taken at their word, though never in a report.
Each is nearer to what the strategy means than an item chosen without it.
"""

from parbals.types import TARGETS

__all__ = ["EFFORTS", "Ahead"]

EFFORTS = (
    {"n_universes": 10, "n_targets": TARGETS, "models_annotators": True},
    {"n_universes": 4, "n_targets": TARGETS // 2, "models_annotators": False},
    {"n_universes": 2, "n_targets": TARGETS // 4, "models_annotators": False},
)
"""Labellings of a choice, items it is for, whether people are weighed: by itself, and in haste."""
_BATCH = 10
_ITEMS_EACH = 3
_SECONDS_TO_CHOOSE = 60.0
_MOST = 120
_HASTE, _LEISURE = 0.8, 0.25
"""Labels that come for each item that is chosen in the same time."""


class Ahead:
    """What the latest batch has taught: ``seconds`` for ``n_chosen`` items, wanted still or not."""

    def __init__(self) -> None:
        self._step = len(EFFORTS) - 1  # how fast this machine is nobody knows yet
        self._n_batches = 0

    @property
    def effort(self) -> dict[str, int]:
        """What the next batch may cost, as arguments of the learner."""
        return EFFORTS[self._step]

    def learn(self, n_batches: int, seconds: float, n_chosen: int, rate: float) -> None:
        """Another batch is there: is choosing as fast as labelling, ``rate`` labels a second?"""
        if n_batches == self._n_batches or not n_chosen:
            return
        self._n_batches = n_batches
        pressure = rate * seconds / n_chosen
        if pressure > _HASTE:
            self._step = min(self._step + 1, len(EFFORTS) - 1)
        elif pressure < _LEISURE:
            self._step = max(self._step - 1, 0)

    def wanted(self, n_people: int, seconds: float, n_chosen: int, rate: float) -> int:
        """How many items should wait; the queue is filled when half are gone.

        Three for each person, at least ten, and four times what people do in the time that a batch
        takes, as far as that fits into a minute and into ``_MOST``.
        """
        each = max(seconds / max(n_chosen, 1), 1e-3)
        ahead = min(round(4.0 * seconds * rate), _MOST, int(_SECONDS_TO_CHOOSE / each))
        return max(_BATCH, _ITEMS_EACH * n_people, ahead)
