"""Several labels an item, or none: ``task="many-labels"``, a two-class channel for each label.

What an item has is kept as a whole number whose bit l says whether it has label l. Expectations and
the audit's temperature see every pair of an item and a label as an item of two classes.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from parbals.errors import LabelError, ShapeError
from parbals.learner.evaluation.metric import best_f1
from parbals.learner.tasks.base import Setup, Task
from parbals.posterior.closed.ep import GaussianPosterior, fit_gaussian
from parbals.posterior.closed.prior import make_prior
from parbals.posterior.predictive import add_bias
from parbals.randomness import derive_generator
from parbals.types import ClassWeights, Diagnostics, Loss

__all__ = ["ManyLabels", "ManyModel"]

_MOST = 62  # bits of a whole number


@dataclass(frozen=True)
class ManyPosterior:
    """Independent posteriors of L labels that share a prior; methods are for design rows (N, d)."""

    parts: tuple[GaussianPosterior, ...]

    n_classes, has_samples = 2, False

    def predict_proba(self, X: np.ndarray) -> np.ndarray:
        """(N, L) the probability of each label."""
        return np.stack([part.predict_proba(X)[:, 1] for part in self.parts], axis=1)

    def leave_one_out(self) -> tuple[np.ndarray, np.ndarray]:
        """Places (n,) of the items, and the probability (n, L) of each label by all but them."""
        probs = np.stack([part.leave_one_out()[1][:, 1] for part in self.parts], axis=1)
        return np.arange(len(probs)), probs


class ManyModel:
    """The posteriors of all labels, for prepared rows (N, D)."""

    def __init__(self, gaussian: ManyPosterior, sentence: str, n_samples: int, seed: int) -> None:
        self.gaussian, self._n_samples, self._seed = gaussian, n_samples, seed
        self.sample_weights = np.full(n_samples, 1.0 / n_samples)
        told = tuple(dict.fromkeys(x for part in gaussian.parts for x in part.problems()))
        self.diagnostics_ = Diagnostics("ep", n_samples, n_samples, prior=sentence, problems=told)

    def predict_proba(self, rows: np.ndarray) -> np.ndarray:
        """(N, L) the probability of each label."""
        return self.gaussian.predict_proba(add_bias(rows))

    def sample_proba(self, rows: np.ndarray) -> np.ndarray:
        """(N·L, K, 2) of every pair of a row and a label, the labels of a row side by side."""
        design, parts = add_bias(rows), self.gaussian.parts
        probs = np.empty((len(rows), len(parts), self._n_samples, 2), np.float32)
        for number, part in enumerate(parts):
            generator = derive_generator(self._seed, "labels", number)
            drawn = design @ part.latents.draw(generator, self._n_samples)[:, 0]
            probs[:, number, :, 1] = 0.5 + 0.5 * np.tanh(0.5 * drawn)
        probs[..., 0] = 1.0 - probs[..., 1]
        return probs.reshape(-1, self._n_samples, 2)


class ManyLabels(Task):
    """Any number of the declared labels."""

    name = "many-labels"
    fewest_classes = 1
    metrics = ("hamming", "micro-f1", "macro-f1", "subset")
    uncertainty = ("confidence", "margin", "entropy")
    audit_loss = "hamming"
    has_samples = False

    def __init__(self, classes: Any) -> None:
        super().__init__(classes)
        if len(self.classes) > _MOST:
            raise LabelError(f"classes has {len(self.classes)} labels; at most {_MOST} are kept.")
        self.n_models = len(self.classes)

    # -- labels

    def listed(self, labels: Any) -> list[Any]:
        if not isinstance(labels, np.ndarray) or labels.ndim != 2:
            return super().listed(labels)
        if labels.shape[1] != len(self.classes) or not np.isin(labels, (0, 1)).all():
            raise ShapeError(
                f"labels is an array of shape {labels.shape}; pass 0 or 1 for each item and each "
                f"of the {len(self.classes)} classes, or lists of names."
            )
        return [self.decoded(number) for number in self.kept(labels.astype(bool)).tolist()]

    def encoded(self, label: Any, what: str) -> int:
        if not isinstance(label, list | tuple | set | frozenset):
            raise LabelError(
                f"{what} is {label!r}; give every item a list of its labels, which may be empty, "
                "and nothing was recorded."
            )
        return sum(1 << number for number in {self.class_number(name, what) for name in label})

    def decoded(self, number: Any) -> tuple[Any, ...]:
        return tuple(name for c, name in enumerate(self.classes) if number >> c & 1)

    def bits(self, numbers: np.ndarray) -> np.ndarray:
        """(n, L) whether each item has each label."""
        return (numbers[:, None] >> np.arange(len(self.classes)) & 1).astype(bool)

    def kept(self, bits: np.ndarray) -> np.ndarray:
        """(n,) the numbers behind ``bits``."""
        return bits @ (1 << np.arange(len(self.classes)))

    def has(self, numbers: np.ndarray, number: int) -> np.ndarray:
        return self.bits(numbers)[:, number]

    def balance(self, numbers: np.ndarray) -> dict[Any, int]:
        return dict(zip(self.classes, self.bits(numbers).sum(axis=0).tolist(), strict=True))

    # -- the model

    def loss(self, metric: str) -> Loss:
        return "error"

    def fit(self, setup: Setup, rows: np.ndarray, numbers: np.ndarray, seed: int) -> ManyModel:
        rows, bits = rows.astype(np.float64), self.bits(numbers)
        prior = make_prior(setup.prior_scale, rows, bits, 2, setup.pool_moments)
        whitening = prior.whitening.times(np.sqrt(2.0))  # as of a difference of two classes
        design, labels = add_bias(rows), bits.T.astype(np.int64)
        parts = tuple(fit_gaussian(design, own, whitening, prior.sites) for own in labels)
        return ManyModel(ManyPosterior(parts), prior.description, setup.n_samples, seed)

    def class_weights(self, metric: str, probs: np.ndarray) -> tuple[ClassWeights, ...] | None:
        """Of every label, at judged rows with these probabilities (M, L)."""
        if metric not in ("micro-f1", "macro-f1"):
            return None
        # F1 of all pairs together, or the mean of the labels' own.
        columns = [probs.ravel()] * probs.shape[1] if metric == "micro-f1" else probs.T
        found = []
        for column in columns:
            best, n_decided = best_f1(column)
            size = (column.sum() + n_decided) / len(column)
            found.append(ClassWeights(np.array([best, 2.0 - best]) / size))
        return tuple(found)

    def decided(self, setup: Setup, model: Any, probs: np.ndarray) -> np.ndarray:
        class_weights, threshold = setup.class_weights(model), np.array(0.5)
        if class_weights is not None:
            threshold = np.array([part.values[0] / part.values.sum() for part in class_weights])
        return self.kept(probs > threshold)

    def shown(self, numbers: np.ndarray) -> np.ndarray:
        return self.bits(numbers)

    # -- pairs of items and labels

    def cells(self, probs: np.ndarray, numbers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        second = probs.reshape(-1)
        return np.stack([1.0 - second, second], axis=1), self.bits(numbers).ravel().astype(np.int64)

    def decided_cells(self, setup: Setup, model: Any, probs: np.ndarray) -> np.ndarray:
        numbers = self.decided(setup, model, probs[:, 1].reshape(-1, len(self.classes)))
        return self.cells(probs[:, 1], numbers)[1]

    def losses(self, said: np.ndarray, given: np.ndarray) -> np.ndarray:
        return self.bits(said ^ given).mean(axis=1)

    def doubts(self, probs: np.ndarray, said: np.ndarray) -> np.ndarray:
        return np.abs(self.bits(said) - probs).mean(axis=1)

    def metric_values(self, metric: str, decisions: np.ndarray, labels: np.ndarray) -> np.ndarray:
        said, given = (x.reshape(*x.shape[:-1], -1, len(self.classes)) for x in (decisions, labels))
        if metric == "subset":
            return (said == given).all(axis=2).mean(axis=1)
        hits, sizes = (said & given).sum(axis=1), said.sum(axis=0) + given.sum(axis=1)
        if metric == "micro-f1":
            hits, sizes = hits.sum(axis=1, keepdims=True), sizes.sum(axis=1, keepdims=True)
        return np.where(sizes > 0, 2.0 * hits / np.maximum(sizes, 1), 1.0).mean(axis=1)
