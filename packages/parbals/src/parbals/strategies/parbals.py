"""ParBaLS: build the batch one point at a time, averaging over labels its earlier points might get.

    S ← pending;   M_u ← posterior given the labels so far and universe u's labels of S
    repeat B times:   x̂ ← argmax_{x ∉ S} Σ_u EPIG_{M_u}(x);   S ← S ∪ {x̂};   M_u ← M_u given y⁽ᵘ⁾_x̂

Pending points already form a partial batch, so they enter S first. ParBaLS-MAP has one universe
with the most probable labels. The loop is :func:`parbals.strategies.greedy.grow`. Its universes are
rank-one updates of a Gaussian posterior (:mod:`parbals.strategies.universes.gaussian`) or, for
models with samples only, weights of the samples (:mod:`parbals.strategies.universes.samples`).
"""

import warnings
from functools import reduce

import numpy as np

from parbals.errors import SampleCollapseWarning
from parbals.scores.bound import CertifiedArgmax, argmax_certified
from parbals.scores.losses import Loss
from parbals.scores.rows import compute_context
from parbals.strategies.backends import choose_backend, score_pool
from parbals.strategies.backends import numpy as numpy_backend
from parbals.strategies.greedy import Step, grow, stack_steps
from parbals.strategies.problem import GaussianView, Problem, batch_of
from parbals.strategies.regression import select_regression
from parbals.strategies.scoring import batch_operations
from parbals.strategies.top import closed_form_gain, label_contexts, score_for_loss
from parbals.strategies.universes.gaussian import MAX_SCREENED, gaussian_universes
from parbals.strategies.universes.labels import DrawnLabels, Labels, MostProbableLabels
from parbals.strategies.universes.samples import (
    ParticleUniverses,
    PseudoLabels,
    ReweightedUniverses,
    Universe,
)
from parbals.types import Batch
from parbals.wording import counted

__all__ = ["greedy_batch", "select_parbals_epig", "select_parbals_map_epig"]

_MIN_ESS_SHARE = 0.05
"""A mean effective sample size below this share of K is reported."""
_N_LEADERS = 128
"""Points scored in every universe before upper bounds rule out others."""
_MIN_BOUNDED_POOL = 1024
"""In smaller pools computing bounds takes as long as exact scores."""
Members = tuple[Universe, ...]
AnyUniverses = ReweightedUniverses | ParticleUniverses


def select_parbals_epig(problem: Problem) -> Batch:
    """ParBaLS: ``n_universes`` joint labellings of the pool, drawn from the posterior."""
    return greedy_batch(problem, problem.n_universes, most_probable=False)


def select_parbals_map_epig(problem: Problem) -> Batch:
    """ParBaLS-MAP: one universe; U times cheaper, but ignores the pseudo-labels' uncertainty."""
    return greedy_batch(problem, 1, most_probable=True)


def greedy_batch(problem: Problem, n_universes: int, *, most_probable: bool) -> Batch:
    """Choose every point given the pseudo-labels of the points before it.

    Args:
        problem: the pool and what is known of it.
        n_universes: U, the number of labellings to average over.
        most_probable: use the most probable classes (MAP) as labels, not joint draws from the
            posterior.
    """
    view = problem.gaussian
    if view is None:
        return _sampled_batch(problem, n_universes, most_probable)
    if view.has_numeric_labels:
        return select_regression(problem, view)
    return _closed_form_batch(problem, view, n_universes, most_probable)


def _closed_form_batch(
    problem: Problem, view: GaussianView, n_universes: int, most_probable: bool
) -> Batch:
    """A batch without samples, from a Gaussian posterior.

    Every point is screened once under the posterior before the batch, and the highest again while
    the batch grows. Initial scores are those before any label, so the batch's redundancy includes
    what pending points explain.
    """
    pool = view.label_views[0].pool
    score = score_for_loss(problem.loss, view.n_classes)
    operations = batch_operations(
        view.label_views[0].latents,
        problem.n_pool,
        len(view.label_views[0].target),
        problem.batch_size,
        n_universes,
    )
    backend = choose_backend(operations)
    is_padded = backend is not numpy_backend
    contexts = label_contexts(view, problem.class_weights, is_padded=is_padded)
    start = reduce(np.add, [score_pool(context, pool, backend=backend) for context in contexts])
    problem.show(lambda: closed_form_gain(view, problem.loss, problem.class_weights))
    labels: list[Labels] = []
    for number, (label_view, context) in enumerate(zip(view.label_views, contexts, strict=True)):
        if most_probable:
            labels.append(MostProbableLabels(context))
        else:
            labels.append(DrawnLabels(label_view.latents, n_universes, problem.seed + number))
    free = problem.candidates()
    with gaussian_universes(
        list(zip(contexts, labels, strict=True)),
        pool,
        start,
        free,
        problem.pending,
        problem.batch_size,
        score,
        backend,
    ) as universes:
        steps = stack_steps(grow(universes, free, problem.pending, problem.batch_size))
    chosen_rows = pool[steps.indices]
    # NumPy: for so few rows compiling a program is not worth it.
    initial_scores = reduce(
        np.add,
        [numpy_backend.score_pool(context, chosen_rows, score=score) for context in contexts],
    )
    return batch_of(
        problem,
        steps.indices,
        steps.scores,
        initial_scores=initial_scores,
        n_exact=steps.n_scored,
        notes=_cut_notes(universes.n_cut, problem.batch_size),
    )


def _cut_notes(n_cut: int, batch_size: int) -> tuple[str, ...]:
    """A note if steps reached the limit of candidates that they screen."""
    if not n_cut:
        return ()
    return (
        f"In {n_cut} of {batch_size} steps more than {MAX_SCREENED:,} candidates might have been "
        "the best by the first, rough score; those that had stood highest before were compared.",
    )


def _sampled_batch(problem: Problem, n_universes: int, most_probable: bool) -> Batch:
    """A batch from predictive samples, which universes reweight, resample and move."""
    dtype = np.float32 if problem.model is not None else np.result_type(*problem.samples())
    with compute_context(dtype):
        universes = _sampled_universes(problem, n_universes)
        labels = PseudoLabels(problem.seed, problem.mean_probs if most_probable else None)
        search = _Search(problem, universes, labels)
        steps = stack_steps(grow(search, problem.candidates(), problem.pending, problem.batch_size))
        initial_scores = _mean_scores(search.start, steps.indices, problem.loss)
    return batch_of(
        problem,
        steps.indices,
        steps.scores,
        initial_scores=initial_scores,
        effective_sample_size=steps.sample_sizes,
        n_exact=steps.n_scored,
        notes=_collapse_notes(steps.sample_sizes, len(problem.weights)) + universes.notes,
    )


def _sampled_universes(problem: Problem, n_universes: int) -> AnyUniverses:
    """Universes of particles if the model has some, otherwise of predictive samples."""
    if problem.model is not None:
        return ParticleUniverses(problem.model, n_universes, problem.seed, problem.class_weights)
    pool_probs, target_probs = problem.samples()
    return ReweightedUniverses(
        pool_probs,
        target_probs,
        problem.weights,
        n_universes,
        problem.seed,
        problem.class_weights,
    )


class _Search:
    """Sampled universes and their pseudo-labels, for the greedy loop."""

    def __init__(self, problem: Problem, universes: AnyUniverses, labels: PseudoLabels) -> None:
        self._problem = problem
        self._universes = universes
        self._labels = labels
        self.start: Members = ()  # the universes before the first choice

    def observe(self, index: int) -> None:
        """Condition every universe on its own pseudo-label of a point."""
        self._universes.observe(index, self._labels.label(index, self._universes))

    def best(self, free: np.ndarray) -> Step:
        """The free point with the highest mean gain over the universes."""
        members = self._universes.members
        loss = self._problem.loss
        self.start = self.start or members
        best = _best(members, free, loss)
        self._problem.show(lambda: _pool_scores(*_distinct(members), loss))
        size = float(np.mean([member.effective_sample_size for member in members]))
        return Step(best.winner, best.score, best.n_scored, size)


def _best(members: Members, free: np.ndarray, loss: Loss) -> CertifiedArgmax:
    """The free point with the highest mean gain.

    Where no single label can lower the 0-1 loss, log loss decides.
    """
    groups, shares = _distinct(members)
    n_targets, n_rows, n_samples = members[0].cloud.target.shape
    # Bounds take N·A·K² operations, exact scores N·A·K·M·A.
    is_bound_cheaper = n_samples < n_targets * n_rows
    is_large_pool = len(free) > _MIN_BOUNDED_POOL
    if loss == "log" and len(groups) > 1 and is_large_pool and is_bound_cheaper:
        return argmax_certified(
            np.stack([universe.bound_pool() for universe in groups]),
            shares,
            free,
            lambda g, indices: groups[g].score_points(indices, "log"),
            _N_LEADERS,
        )
    scores = np.where(free, _pool_scores(groups, shares, loss), -np.inf)
    index = int(scores.argmax())
    if loss != "log" and scores[index] <= 0:
        return _best(members, free, "log")._replace(score=0.0)
    return CertifiedArgmax(index, float(scores[index]), int(free.sum()))


def _pool_scores(groups: list[Universe], shares: np.ndarray, loss: Loss) -> np.ndarray:
    """(N,) mean gain over universes of every pool point."""
    return shares @ np.stack([universe.score_pool(loss) for universe in groups])


def _mean_scores(members: Members, indices: np.ndarray, loss: Loss) -> np.ndarray:
    """Exact mean gain over universes of some pool points."""
    groups, shares = _distinct(members)
    return shares @ np.stack([universe.score_points(indices, loss) for universe in groups])


def _distinct(members: Members) -> tuple[list[Universe], np.ndarray]:
    """The distinct universes, and the share of all universes that each represents."""
    groups = list({id(member): member for member in members}.values())
    counts = np.array([sum(member is group for member in members) for group in groups])
    return groups, counts / len(members)


def _collapse_notes(sample_sizes: np.ndarray, n_samples: int) -> tuple[str, ...]:
    """A note and a warning if the effective sample size (B,) has collapsed, and after which item.

    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore")
    ...     (note,) = _collapse_notes(np.array([100.0, 40.0, 3.0]), 100)
    >>> "ask for at most 2 items" in note
    True
    """
    is_collapsed = sample_sizes < _MIN_ESS_SHARE * n_samples
    if not is_collapsed.any():
        return ()
    n_reliable = int(is_collapsed.argmax())
    smaller = f"ask for at most {counted(n_reliable, 'item')} at a time, " if n_reliable else ""
    note = (
        f"The effective sample size fell to {sample_sizes.min():.0f} of {n_samples} posterior "
        f"samples while the batch was built, so the choices after item {n_reliable} rest on very "
        f"few samples: {smaller}pass more samples (a forest: more trees), or use "
        "select_batch_from_model, which moves the samples of a BayesianLogisticRegression."
    )
    warnings.warn(note, SampleCollapseWarning, stacklevel=8)
    return (note,)
