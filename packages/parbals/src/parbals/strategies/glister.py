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
    features = problem.require_features()
    labels, labelled_probs = problem.require_labels()
    labelled = problem.require_labelled_features()
    validation = problem.labelled.validation
    notes: tuple[str, ...] = ()
    if validation is None:
        validation, notes = _drawn_validation(labels, problem.seed), (_BORROWED,)

    squares = float(np.einsum("nd,nd->", features, features, dtype=np.float64))
    step = 1.0 / (1.0 + squares / len(features))
    similarity = step * (1.0 + features @ labelled[validation].T)  # (N, V)
    toward = -problem.mean_probs
    toward[np.arange(len(toward)), toward.argmin(axis=1)] += 1.0  # onehot(ŷ) - p̄
    with np.errstate(divide="ignore"):
        logits = np.maximum(np.log(labelled_probs[validation]), -1e3)
    truth = labels[validation]

    for index in problem.pending:
        logits = logits + np.outer(similarity[index], toward[index])
    moves = placed(np.concatenate([similarity, toward], axis=1, dtype=np.float32))

    def gains() -> np.ndarray:
        now = logits.astype(np.float32)
        return map_points(_gains, moves, now, truth, entries=now.size).astype(np.float64)

    free = problem.candidates()
    chosen: list[int] = []
    scores: list[float] = []
    start = gain = gains()
    for _ in range(problem.batch_size):
        problem.show(gain)
        index = int(np.where(free, gain, -np.inf).argmax())
        chosen.append(index)
        scores.append(float(gain[index]))
        free[index] = False
        logits = logits + np.outer(similarity[index], toward[index])
        gain = gains()
    return batch_of(
        problem, np.array(chosen), np.array(scores), initial_scores=start[chosen], notes=notes
    )


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


def _drawn_validation(labels: np.ndarray, seed: int) -> np.ndarray:
    """A fifth of each class, at least one of each."""
    generator = derive_generator(seed, "glister validation")
    members = [np.flatnonzero(labels == c) for c in np.unique(labels)]
    drawn = [generator.permutation(m)[: max(1, round(_SHARE * len(m)))] for m in members]
    return np.sort(np.concatenate(drawn))
