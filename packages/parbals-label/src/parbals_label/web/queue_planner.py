"""How many items to choose ahead, and with how much effort, given the rate of labelling.

When annotators outpace the model, the queue would run dry. Larger batches help first, because they
share the fixed cost of a batch. If that is not enough, the effort is reduced: fewer universes and
targets (with ten classes, an item then costs a fifth), and annotator noise is ignored, which saves
two of three fits of the model. Reports always model annotator noise. Even with reduced effort the
choice is closer to the strategy than the fallback queue.
"""

from parbals.types import DEFAULT_N_TARGETS

__all__ = ["EFFORTS", "QueuePlanner"]

EFFORTS = (
    {"n_universes": 10, "n_targets": DEFAULT_N_TARGETS, "models_annotators": True},
    {"n_universes": 4, "n_targets": DEFAULT_N_TARGETS // 2, "models_annotators": False},
    {"n_universes": 2, "n_targets": DEFAULT_N_TARGETS // 4, "models_annotators": False},
)
"""Arguments of the learner: the normal effort, then reduced ones for when it is outpaced."""
_MIN_QUEUED = 10
_QUEUED_PER_PERSON = 3
_MAX_BATCH_SECONDS = 60.0
_MAX_AHEAD = 120
_MAX_PRESSURE = 0.8
"""Labels per chosen item above which the effort is reduced."""
_MIN_PRESSURE = 0.25
"""Labels per chosen item below which the effort is increased."""


class QueuePlanner:
    """Adjusts the effort and the length of the queue to how fast batches are chosen."""

    def __init__(self) -> None:
        self._level = len(EFFORTS) - 1  # the least effort, until the speed of the machine is known
        self._n_batches = 0

    @property
    def effort(self) -> dict[str, int]:
        """The effort of the next batch, as arguments of the learner."""
        return EFFORTS[self._level]

    def update(self, n_batches: int, seconds: float, n_chosen: int, rate: float) -> None:
        """Adjust the effort after a new batch of ``n_chosen`` items that took ``seconds``.

        ``rate`` is the number of labels a second.
        """
        if n_batches == self._n_batches or not n_chosen:
            return
        self._n_batches = n_batches
        pressure = rate * seconds / n_chosen
        if pressure > _MAX_PRESSURE:
            self._level = min(self._level + 1, len(EFFORTS) - 1)
        elif pressure < _MIN_PRESSURE:
            self._level = max(self._level - 1, 0)

    def queue_length(self, n_people: int, seconds: float, n_chosen: int, rate: float) -> int:
        """Return how many items should be queued; the queue is refilled when half are gone.

        Three for each person, at least ten, and four times the labels that arrive while a batch
        is chosen, limited to what can be chosen in a minute and to 120.
        """
        seconds_per_item = max(seconds / max(n_chosen, 1), 1e-3)
        n_in_a_minute = int(_MAX_BATCH_SECONDS / seconds_per_item)
        n_ahead = min(round(4.0 * seconds * rate), _MAX_AHEAD, n_in_a_minute)
        return max(_MIN_QUEUED, _QUEUED_PER_PERSON * n_people, n_ahead)
