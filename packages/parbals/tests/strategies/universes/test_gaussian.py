"""Batches by decisions against their definition, by NumPy and by JAX.

Log loss is compared with its definition in test_closed_form.py.
"""

import numpy as np
import pytest
from brute_force import covariance_with
from parbals.mixture import label_evidence, sigmoid_means
from parbals.posterior.closed.latents import Latents
from parbals.posterior.closed.whitening import Whitening
from parbals.race import class_evidence, class_slopes, curvatures_from_diagonal
from parbals.strategies import backends, conditioning
from parbals.strategies.backends import jax as jax_backend
from parbals.strategies.backends import score_pool
from parbals.strategies.greedy import grow
from parbals.strategies.scoring import build_context
from parbals.strategies.universes import posterior
from parbals.strategies.universes.gaussian import gaussian_universes
from parbals.strategies.universes.labels import DrawnLabels
from scipy.stats import norm

N_POOL = 40
N_TARGETS = 12
N_UNIVERSES = 3
SIZE = 5
PENDING = np.array([3])


def design(X):
    return np.concatenate([X, np.ones((len(X), 1))], axis=1)


@pytest.fixture(params=[1, 4], ids=["two classes", "four classes"])
def parts(request):
    """Latents of five columns that all are labelled, a pool with two equal rows, targets."""
    generator = np.random.default_rng(request.param)
    roots = 0.2 * generator.standard_normal((request.param, 5, 5)) + 0.7 * np.eye(5)
    location = generator.standard_normal((5, request.param))
    latents = Latents(Whitening.diagonal(np.ones(5)), np.eye(5), location, roots)
    X = generator.standard_normal((N_POOL + N_TARGETS, 4))
    X[7] = X[20]
    return latents, X[:N_POOL], X[N_POOL:]


def moments(rows, mean, covariance):
    """Mean and variance (n, A) of rows under weights of this mean (A, d) and covariance."""
    return rows @ mean.T, np.einsum("nd,ade,ne->na", rows, covariance, rows)


def decision_gains(rows, targets, mean, covariance):
    """(n,) expected gain in accuracy, every pair and every matrix written out."""
    (m, v), (m_there, v_there) = (moments(R, mean, covariance) for R in (rows, targets))
    c = rows @ covariance @ targets.T  # (A, n, M)
    if len(mean) == 1:
        p, slope = sigmoid_means(m[:, 0], v[:, 0], 1)
        shift = np.abs(c[0]) * np.sqrt(slope**2 / (p * (1.0 - p)))[:, None]
        margin = np.abs(m_there[:, 0])
        spread = v_there[:, 0]
        weight = 1.0
    else:
        p, slope = (part.T for part in class_slopes(m.T, v.T))
        gains = curvatures_from_diagonal(slope**2 / (p * (1.0 - p)), np)
        outer = gains[:, :, None] * gains[:, None] / gains.sum(axis=1)[:, None, None]
        M = gains[:, :, None] * np.eye(gains.shape[1]) - outer
        q = class_slopes(m_there.T, v_there.T)[0].T
        at = np.arange(len(targets))
        second, first = np.argsort(q, axis=1)[:, -2:].T
        contrast = np.zeros(q.shape)
        contrast[at, first] = 1.0
        contrast[at, second] = -1.0
        pulled = contrast.T[:, None] * c  # (A, n, M)
        shift = np.sqrt(np.einsum("anm,bnm,nab->nm", pulled, pulled, M))
        margin = np.abs((contrast * m_there).sum(axis=1))
        spread = (np.abs(contrast) * v_there).sum(axis=1)
        weight = (np.abs(contrast) * q).sum(axis=1)
    z = margin / shift
    worth = 2.0 * weight * sigmoid_means(np.zeros_like(spread), spread, 1)[1]
    return ((shift * norm.pdf(z) - margin * norm.sf(z)) * worth).mean(axis=1)


def by_definition(latents, X, X_target):
    """Every row is scored in every universe, in every step."""
    rows = design(X)
    targets = design(X_target)
    start = latents.mean.T, covariance_with(latents, np.eye(5))
    states = [start] * N_UNIVERSES
    free = np.ones(len(X), bool)
    labels = DrawnLabels(latents, N_UNIVERSES, 0)

    def condition(index):
        free[index] = False
        x = rows[index]
        for u, label in enumerate(labels.label(x.astype(np.float32)).tolist()):
            mean, covariance = states[u]
            column = covariance @ x
            at_row = mean @ x, column @ x
            if len(mean) == 1:
                _, slope, curvature = label_evidence(*at_row, 2.0 * label - 1.0)
            else:
                given = at_row[0][None], at_row[1][None], np.array([label])
                _, slope, curvature = (part[0] for part in class_evidence(*given))
            update = curvature[:, None, None] * column[:, :, None] * column[:, None]
            states[u] = mean + slope[:, None] * column, covariance - update

    for index in PENDING:
        condition(index)
    indices = []
    scores = []
    for _ in range(SIZE):
        gains = np.mean([decision_gains(rows, targets, *state) for state in states], axis=0)
        indices.append(int(np.where(free, gains, -np.inf).argmax()))
        scores.append(gains[indices[-1]])
        condition(indices[-1])
    return indices, scores


@pytest.fixture(params=["NumPy", "linear models", pytest.param("JAX", marks=pytest.mark.full)])
def backend(request, monkeypatch):
    monkeypatch.setattr(backends, "uses_numpy", lambda operations: request.param != "JAX")
    if request.param == "linear models":
        monkeypatch.setattr(posterior, "MAX_TABLE_LABELS", 0)


def grown(latents, X, X_target, pending, score):
    """The steps, and in how many of them points were left out."""
    context = build_context(latents, X_target)
    labels = DrawnLabels(latents, N_UNIVERSES, 0)
    free = np.ones(len(X), bool)
    free[pending] = False
    given = [(context, labels)], X, score_pool(context, X), free, pending, SIZE, score
    given = *given, backends.choose_backend(0)
    with gaussian_universes(*given) as universes:
        steps = grow(universes, free, pending, SIZE)
    return steps, universes.n_cut


def test_decisions_are_what_their_definition_gives(parts, backend, monkeypatch):
    monkeypatch.setattr(conditioning, "_STALE_AFTER", 0.0)  # else targets may move a little unseen
    steps, n_cut = grown(*parts, PENDING, "decision")
    indices, scores = by_definition(*parts)
    assert [step.index for step in steps] == indices
    results = [step.score for step in steps]
    np.testing.assert_allclose(results, scores, rtol=1e-3)
    assert n_cut == 0


@pytest.mark.parametrize(
    ("parts", "score"),
    [
        (1, "epig"),
        *(
            pytest.param(*more, marks=pytest.mark.full)
            for more in ((1, "decision"), (4, "quadratic"), (4, "decision"))
        ),
    ],
    indirect=["parts"],
)
def test_both_backends_take_the_same_steps(parts, score, monkeypatch):
    latents, _, X_target = parts
    X = np.random.default_rng(0).standard_normal((600, 4)).astype(np.float32)
    monkeypatch.setattr(jax_backend, "platform", lambda: "gpu")  # sizes of an accelerator
    results = []
    for is_host in (True, False):
        monkeypatch.setattr(backends, "uses_numpy", lambda operations, is_host=is_host: is_host)
        results.append(grown(latents, X, X_target, PENDING[:0], score)[0])
    ours, theirs = results
    for one, other in zip(ours, theirs, strict=True):
        assert (one.index, one.n_scored) == (other.index, other.n_scored)
        assert one.score == pytest.approx(other.score, rel=1e-5)
    assert min(step.n_scored for step in ours) < 512
