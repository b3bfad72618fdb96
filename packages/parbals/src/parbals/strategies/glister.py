"""GLISTER: points whose predicted labels would help most on held-out labels.

Killamsetty et al., 2021.

Hypothesise that every candidate has the label the model predicts for it, ŷ = argmax p̄. One
gradient step on the log-likelihood of a set S moves the last layer by η Σ_{j∈S} (onehot(ŷ_j) -
p̄_j) ⊗ [x_j; 1], hence the logits of a validation point v, which start at ln p̄_v, by

    Δ_v(S) = η Σ_{j∈S} (onehot(ŷ_j) - p̄_j) (1 + x_j·x_v),

and the batch is built greedily by the gain in Σ_v ln softmax(ln p̄_v + Δ_v(S))[y_v]: computed
exactly, not by its first-order expansion. Pending points are in S from the start. η is the
reciprocal of the mean of ‖[x; 1]‖² over the pool, so that the scale of the features does not
matter.

The validation points are ``validation``: labelled points that the model was *not* fitted on, a
fifth of the initial labelled set in the paper's experiment. If none are named, a fifth of each
class among the labelled points is drawn (at least one of each); a model that was fitted on them is
flattered by them, and the result says so.
"""

from types import ModuleType

import numpy as np

from parbals.randomness import derive_generator
from parbals.scores.rows import map_points, placed
from parbals.shapes import Array, Float, Int
from parbals.strategies.greedy import Step, columns, grow
from parbals.strategies.problem import Problem, batch_of
from parbals.types import Batch

__all__ = ["select_glister"]

_SHARE = 0.2
_BORROWED = (
    "glister judged the candidates by labels that the model may have been fitted on; name held-out "
    "ones with validation=..."
)


def select_glister(problem: Problem) -> Batch:
    """The score of a point is the gain in the validation points' mean log-likelihood, in nats."""
    labels, labelled_probs = problem.require_labels()
    what = "labelled_features: the features (L, D) of the labelled points"
    labelled = problem.given(problem.labelled.features, what)
    validation = problem.labelled.validation
    notes: tuple[str, ...] = ()
    if validation is None:  # a fifth of each class, at least one of each
        generator = derive_generator(problem.seed, "glister validation")
        members = [np.flatnonzero(labels == c) for c in np.unique(labels)]
        drawn = [generator.permutation(m)[: max(1, round(_SHARE * len(m)))] for m in members]
        validation, notes = np.sort(np.concatenate(drawn)), (_BORROWED,)
    search = _Search(problem, labelled[validation], labelled_probs[validation], labels[validation])
    steps = grow(search, problem.candidates(), problem.pending, problem.batch_size)
    chosen, scores, *_ = columns(steps)
    return batch_of(problem, chosen, scores, initial_scores=search.start[chosen], notes=notes)


class _Search:
    """Logits of the validation points (V, C) for the greedy loop; chosen points move them."""

    def __init__(
        self, problem: Problem, points: np.ndarray, probs: np.ndarray, truth: np.ndarray
    ) -> None:
        features = problem.require_features()
        squares = float(np.einsum("nd,nd->", features, features, dtype=np.float64))
        step = 1.0 / (1.0 + squares / len(features))
        self._similarity = step * (1.0 + features @ points.T)  # (N, V)
        self._toward = -problem.mean_probs  # onehot(ŷ) - p̄
        self._toward[np.arange(len(features)), self._toward.argmin(axis=1)] += 1.0
        moves = np.concatenate([self._similarity, self._toward], axis=1, dtype=np.float32)
        self._problem, self._moves, self._truth = problem, placed(moves), truth
        with np.errstate(divide="ignore"):
            self._logits = np.maximum(np.log(probs), -1e3)
        self.start = np.empty(0)  # gains before the first choice

    def observe(self, index: int) -> None:
        self._logits = self._logits + np.outer(self._similarity[index], self._toward[index])

    def best(self, free: np.ndarray) -> Step:
        now = self._logits.astype(np.float32)
        gain = map_points(_gains, self._moves, now, self._truth, entries=now.size)
        gain = gain.astype(np.float64)
        self.start = self.start if len(self.start) else gain
        self._problem.show(gain)
        index = int(np.where(free, gain, -np.inf).argmax())
        return Step(index, float(gain[index]), int(free.sum()))


def _gains(
    moves: Float[Array, "n VC"],
    logits: Float[Array, "V C"],
    truth: Int[Array, " V"],
    xp: ModuleType,
) -> Float[Array, " n"]:
    """Mean over v of ln softmax(logits_v + Δ_v)[y_v] - ln softmax(logits_v)[y_v].

    = Δ_v[y_v] - ln Σ_c softmax(logits_v)_c exp(Δ_v,c), which keeps its digits when Δ is small.
    ``moves`` are a candidate's similarities with the V points, and its onehot(ŷ) - p̄.
    """
    similarity, toward = moves[:, : len(logits)], moves[:, len(logits) :]
    before = xp.exp(logits - logits.max(axis=1, keepdims=True))
    before /= before.sum(axis=1, keepdims=True)
    change = similarity[:, :, None] * toward[:, None, :]
    largest = change.max(axis=2)
    normaliser = largest + xp.log((before * xp.exp(change - largest[:, :, None])).sum(axis=2))
    return (similarity * toward[:, truth] - normaliser).mean(axis=1)
