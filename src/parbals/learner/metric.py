"""What a model is judged by, and the loss that strategies lower for its sake."""

from typing import TYPE_CHECKING, Any

from parbals.errors import InputError
from parbals.validate import check_choice

if TYPE_CHECKING:
    from parbals.scores.losses import Loss

__all__ = ["METRICS", "loss_for", "metric_of"]

METRICS: dict[str, "Loss"] = {"accuracy": "error", "log-loss": "log"}


def loss_for(metric: Any, loss: Any) -> "Loss":
    """The loss of a metric. ``loss`` says the same in other words; with neither it is accuracy."""
    if loss is not None:
        check_choice(loss, tuple(METRICS.values()), "loss")
    if metric is None:
        return loss or METRICS["accuracy"]
    check_choice(metric, tuple(METRICS), "metric")
    wanted = METRICS[metric]
    if loss not in (None, wanted):
        raise InputError(
            f'metric="{metric}" and loss="{loss}" contradict each other; leave loss out, or say '
            f'loss="{wanted}".'
        )
    return wanted


def metric_of(loss: str) -> str:
    """The metric whose loss this is."""
    return next(metric for metric, its_loss in METRICS.items() if its_loss == loss)
