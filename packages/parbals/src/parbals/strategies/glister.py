"""GLISTER: points whose predicted labels improve the held-out likelihood most.

Killamsetty et al., 2021.

Suppose that every candidate has the label the model predicts for it, ŷ = argmax p̄. One
gradient step on the log-likelihood of a set S moves the last layer by η Σ_{j∈S} (onehot(ŷ_j) -
p̄_j) ⊗ [x_j; 1], hence the logits of a validation point v, which start at ln p̄_v, by

    Δ_v(S) = η Σ_{j∈S} (onehot(ŷ_j) - p̄_j) (1 + x_j·x_v),

and the batch is built greedily by the gain in Σ_v ln softmax(ln p̄_v + Δ_v(S))[y_v]: computed
exactly, not by its first-order expansion. Pending points are in S from the start. η is the
reciprocal of the mean of ‖[x; 1]‖² over the pool, so that the scale of the features does not
matter.

The validation points are ``validation``: labelled points that the model was *not* fitted on, a
fifth of the initial labelled set in the paper's experiment. Without it a fifth of each class among
the labelled points is drawn (at least one of each). A model that was fitted on these points looks
better than it is on them, and the result says so.
"""

from types import ModuleType

import numpy as np

from parbals.randomness import derive_generator
from parbals.scores.rows import map_points, to_device
from parbals.shapes import Array, Float, Int
from parbals.strategies.greedy import Step, grow, stack_steps
from parbals.strategies.problem import Problem, batch_of
from parbals.types import Batch

__all__ = ["select_glister"]

_VALIDATION_SHARE = 0.2
_TRAINING_LABELS_NOTE = (
    "glister evaluated the candidates on labels that the model may have been fitted on; name "
    "held-out ones with validation=..."
)


def select_glister(problem: Problem) -> Batch:
    """The score of a point is the gain in the validation points' mean log-likelihood, in nats."""
    labels, labelled_probs = problem.require_labels()
    labelled_features = problem.require_labelled_features()
    validation = problem.labelled.validation
    notes: tuple[str, ...] = ()
    if validation is None:
        validation = _draw_validation(labels, problem.seed)
        notes = (_TRAINING_LABELS_NOTE,)
    search = _Search(
        problem,
        labelled_features[validation],
        labelled_probs[validation],
        labels[validation],
    )
    steps = stack_steps(grow(search, problem.candidates(), problem.pending, problem.batch_size))
    return batch_of(
        problem,
        steps.indices,
        steps.scores,
        initial_scores=search.start[steps.indices],
        notes=notes,
    )


def _draw_validation(labels: np.ndarray, seed: int) -> np.ndarray:
    """Positions of a fifth of each class, at least one of each."""
    generator = derive_generator(seed, "glister validation")
    positions = []
    for label in np.unique(labels):
        members = np.flatnonzero(labels == label)
        size = max(1, round(_VALIDATION_SHARE * len(members)))
        positions.append(generator.permutation(members)[:size])
    return np.sort(np.concatenate(positions))


class _Search:
    """Logits of the validation points (V, C), for the greedy loop; chosen points change them."""

    def __init__(
        self,
        problem: Problem,
        validation_features: np.ndarray,
        validation_probs: np.ndarray,
        validation_labels: np.ndarray,
    ) -> None:
        self._problem = problem
        self._labels = validation_labels
        features = problem.require_features()
        sum_of_squares = float(np.einsum("nd,nd->", features, features, dtype=np.float64))
        learning_rate = 1.0 / (1.0 + sum_of_squares / len(features))  # η
        self._similarity = learning_rate * (1.0 + features @ validation_features.T)  # (N, V)
        self._gradient = -problem.mean_probs  # onehot(ŷ) - p̄
        self._gradient[np.arange(len(features)), self._gradient.argmin(axis=1)] += 1.0
        factors = np.concatenate([self._similarity, self._gradient], axis=1, dtype=np.float32)
        self._factors = to_device(factors)
        with np.errstate(divide="ignore"):
            self._logits = np.maximum(np.log(validation_probs), -1e3)
        self.start = np.empty(0)  # gains before the first choice

    def observe(self, index: int) -> None:
        """Take the gradient step of a pool point."""
        self._logits = self._logits + np.outer(self._similarity[index], self._gradient[index])

    def best(self, free: np.ndarray) -> Step:
        """The free point with the largest gain."""
        logits = self._logits.astype(np.float32)
        gain = map_points(_gains, self._factors, logits, self._labels, entries=logits.size)
        gain = gain.astype(np.float64)
        self.start = self.start if len(self.start) else gain
        self._problem.show(gain)
        index = int(np.where(free, gain, -np.inf).argmax())
        return Step(index, float(gain[index]), int(free.sum()))


def _gains(
    factors: Float[Array, "n VC"],
    logits: Float[Array, "V C"],
    labels: Int[Array, " V"],
    xp: ModuleType,
) -> Float[Array, " n"]:
    """Mean over v of ln softmax(logits_v + Δ_v)[y_v] - ln softmax(logits_v)[y_v].

    = Δ_v[y_v] - ln Σ_c softmax(logits_v)_c exp(Δ_v,c), which is accurate when Δ is small.
    ``factors`` are a candidate's similarities with the V points, followed by onehot(ŷ) - p̄.
    """
    n_validation = len(logits)
    similarity = factors[:, :n_validation]
    gradient = factors[:, n_validation:]
    probs = xp.exp(logits - logits.max(axis=1, keepdims=True))
    probs /= probs.sum(axis=1, keepdims=True)
    delta = similarity[:, :, None] * gradient[:, None, :]
    largest = delta.max(axis=2)
    log_sum = largest + xp.log((probs * xp.exp(delta - largest[:, :, None])).sum(axis=2))
    return (similarity * gradient[:, labels] - log_sum).mean(axis=1)
