"""Multi-label classification: ``task="many-labels"``, one two-class model per label.

The labels of an item are encoded as a whole number whose bit l says whether it has label l. The
evaluation flattens them: each pair of an item and a label becomes an item of two classes.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from parbals.errors import LabelError, ShapeError
from parbals.learner.evaluation.metric import best_f1
from parbals.learner.tasks.base import DecisionWeights, FitSettings, Task
from parbals.posterior.closed.ep import GaussianPosterior, fit_gaussian
from parbals.posterior.closed.prior import make_prior
from parbals.posterior.predictive import add_bias
from parbals.randomness import derive_generator
from parbals.types import ClassWeights, Diagnostics, Loss

__all__ = ["MultiLabel", "MultiLabelModel"]

_MAX_LABELS = 62  # bits of a positive 64-bit integer


@dataclass(frozen=True)
class MultiLabelPosterior:
    """Independent posteriors of L labels with a shared prior.

    Methods take rows (N, d) to which the bias column has been added.
    """

    posteriors: tuple[GaussianPosterior, ...]

    n_classes = 2
    has_samples = False

    def predict_proba(self, X: np.ndarray) -> np.ndarray:
        """Return the probability (N, L) of each label."""
        return np.stack([posterior.predict_proba(X)[:, 1] for posterior in self.posteriors], axis=1)

    def leave_one_out(self) -> tuple[np.ndarray, np.ndarray]:
        """Return row indices (n,) and leave-one-out probabilities (n, L) of the labels."""
        probs = np.stack(
            [posterior.leave_one_out()[1][:, 1] for posterior in self.posteriors], axis=1
        )
        return np.arange(len(probs)), probs


class MultiLabelModel:
    """The posteriors of all labels as a model; its methods take prepared rows (N, D)."""

    def __init__(
        self, gaussian: MultiLabelPosterior, prior_description: str, n_samples: int, seed: int
    ) -> None:
        self.gaussian = gaussian
        self.sample_weights = np.full(n_samples, 1.0 / n_samples)
        self._n_samples = n_samples
        self._seed = seed
        problems = [
            sentence for posterior in gaussian.posteriors for sentence in posterior.problems()
        ]
        self.diagnostics_ = Diagnostics(
            "ep",
            n_samples,
            n_samples,
            prior=prior_description,
            problems=tuple(dict.fromkeys(problems)),
        )

    def predict_proba(self, rows: np.ndarray) -> np.ndarray:
        """Return the probability (N, L) of each label."""
        return self.gaussian.predict_proba(add_bias(rows))

    def sample_proba(self, rows: np.ndarray) -> np.ndarray:
        """Return probabilities (N·L, K, 2) of every pair of a row and a label, row by row."""
        design = add_bias(rows)
        posteriors = self.gaussian.posteriors
        probs = np.empty((len(rows), len(posteriors), self._n_samples, 2), np.float32)
        for index, posterior in enumerate(posteriors):
            generator = derive_generator(self._seed, "labels", index)
            logits = design @ posterior.latents.draw(generator, self._n_samples)[:, 0]
            probs[:, index, :, 1] = 0.5 + 0.5 * np.tanh(0.5 * logits)
        probs[..., 0] = 1.0 - probs[..., 1]
        return probs.reshape(-1, self._n_samples, 2)


class MultiLabel(Task):
    """Any number of the declared labels per item.

    >>> task = MultiLabel(["cat", "dog", "bird"])
    >>> task.encode(["cat", "bird"], "label")
    5
    >>> task.decode(5)
    ('cat', 'bird')
    """

    name = "many-labels"
    min_classes = 1
    metrics = ("hamming", "micro-f1", "macro-f1", "subset")
    uncertainty_strategies = ("confidence", "margin", "entropy")
    audit_loss = "hamming"
    has_samples = False

    def __init__(self, classes: Any) -> None:
        super().__init__(classes)
        if len(self.classes) > _MAX_LABELS:
            raise LabelError(f"classes has {len(self.classes)} labels; pass at most {_MAX_LABELS}.")
        self.n_models = len(self.classes)

    # -- labels

    def as_list(self, labels: Any) -> list[Any]:
        if not isinstance(labels, np.ndarray) or labels.ndim != 2:
            return super().as_list(labels)
        if labels.shape[1] != len(self.classes) or not np.isin(labels, (0, 1)).all():
            raise ShapeError(
                f"labels is an array of shape {labels.shape}; pass 0 or 1 for each item and each "
                f"of the {len(self.classes)} classes, or lists of names."
            )
        return [self.decode(encoded) for encoded in self.from_bits(labels.astype(bool)).tolist()]

    def encode(self, label: Any, name: str) -> int:
        if not isinstance(label, list | tuple | set | frozenset):
            raise LabelError(
                f"{name} is {label!r}; give every item a list of its labels, which may be empty; "
                "nothing was recorded."
            )
        indices = {self.class_number(class_name, name) for class_name in label}
        return sum(1 << index for index in indices)

    def decode(self, encoded: Any) -> tuple[Any, ...]:
        return tuple(name for index, name in enumerate(self.classes) if encoded >> index & 1)

    def to_bits(self, labels: np.ndarray) -> np.ndarray:
        """Return the binary indicator matrix (n, L) of encoded labels (n,)."""
        return (labels[:, None] >> np.arange(len(self.classes)) & 1).astype(bool)

    def from_bits(self, bits: np.ndarray) -> np.ndarray:
        """Return the encoded labels (n,) of a binary indicator matrix (n, L)."""
        return bits @ (1 << np.arange(len(self.classes)))

    def contains(self, labels: np.ndarray, class_number: int) -> np.ndarray:
        return self.to_bits(labels)[:, class_number]

    def class_counts(self, labels: np.ndarray) -> dict[Any, int]:
        counts = self.to_bits(labels).sum(axis=0)
        return dict(zip(self.classes, counts.tolist(), strict=True))

    # -- the model

    def loss(self, metric: str) -> Loss:
        return "error"

    def fit(self, rows: np.ndarray, labels: np.ndarray, settings: FitSettings) -> MultiLabelModel:
        rows = rows.astype(np.float64)
        bits = self.to_bits(labels)
        prior = make_prior(settings.prior_scale, rows, bits, 2, settings.pool_moments)
        whitening = prior.whitening.times(np.sqrt(2.0))  # a logit is a difference of two classes
        design = add_bias(rows)
        posteriors = tuple(
            fit_gaussian(design, column, whitening, prior.sites)
            for column in bits.T.astype(np.int64)
        )
        posterior = MultiLabelPosterior(posteriors)
        return MultiLabelModel(posterior, prior.description, settings.n_samples, settings.seed)

    def class_weights(self, metric: str, probs: np.ndarray) -> tuple[ClassWeights, ...] | None:
        """Return the class weights of each label, given probabilities (M, L) at the targets."""
        if metric not in ("micro-f1", "macro-f1"):
            return None
        columns = list(probs.T)  # macro: each label has its own F1
        if metric == "micro-f1":
            columns = [probs.ravel()] * probs.shape[1]  # one F1 of all pairs of item and label
        weights = []
        for column in columns:
            best, n_decided = best_f1(column)
            size = (column.sum() + n_decided) / len(column)
            weights.append(ClassWeights(np.array([best, 2.0 - best]) / size))
        return tuple(weights)

    def decide(self, probs: np.ndarray, metric: str, class_weights: DecisionWeights) -> np.ndarray:
        thresholds = np.array(0.5)
        if class_weights is not None:
            weights = [weights.values for weights in class_weights]
            thresholds = np.array([weight[0] / weight.sum() for weight in weights])
        return self.from_bits(probs > thresholds)

    def output_labels(self, decisions: np.ndarray) -> np.ndarray:
        return self.to_bits(decisions)

    # -- evaluation

    def flatten(self, probs: np.ndarray, labels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        positive = probs.reshape(-1)
        pairs = np.stack([1.0 - positive, positive], axis=1)
        return pairs, self.to_bits(labels).ravel().astype(np.int64)

    def decide_flattened(
        self, probs: np.ndarray, metric: str, class_weights: DecisionWeights
    ) -> np.ndarray:
        by_item = probs[:, 1].reshape(-1, len(self.classes))
        decisions = self.decide(by_item, metric, class_weights)
        return self.to_bits(decisions).ravel().astype(np.int64)

    def losses(self, decisions: np.ndarray, labels: np.ndarray) -> np.ndarray:
        return self.to_bits(decisions ^ labels).mean(axis=1)

    def expected_losses(self, probs: np.ndarray, decisions: np.ndarray) -> np.ndarray:
        return np.abs(self.to_bits(decisions) - probs).mean(axis=1)

    def metric_values(self, metric: str, decisions: np.ndarray, labels: np.ndarray) -> np.ndarray:
        decided = decisions.reshape(-1, len(self.classes))  # (n, L)
        labelled = labels.reshape(len(labels), -1, len(self.classes))  # (K, n, L)
        if metric == "subset":
            return (decided == labelled).all(axis=2).mean(axis=1)
        hits = (decided & labelled).sum(axis=1)
        sizes = decided.sum(axis=0) + labelled.sum(axis=1)
        if metric == "micro-f1":
            hits = hits.sum(axis=1, keepdims=True)
            sizes = sizes.sum(axis=1, keepdims=True)
        return np.where(sizes > 0, 2.0 * hits / np.maximum(sizes, 1), 1.0).mean(axis=1)
