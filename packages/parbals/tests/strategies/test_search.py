"""The greedy search by decisions against its definition, on a CPU and as a device's program.

Log loss is compared with its definition in test_closed_form.py.
"""

import numpy as np
import pytest
from parbals.mixture import label_evidence, sigmoid_means
from parbals.posterior.closed.channels import Channels
from parbals.posterior.closed.whitening import Whitening
from parbals.race import balanced, class_evidence, class_slopes
from parbals.strategies import search as program
from parbals.strategies.closed_form import start_scores
from parbals.strategies.device import search_on_device
from parbals.strategies.growing import highest
from parbals.strategies.host import search_on_host
from parbals.strategies.labeller import drawn_labels, open_labeller, row_key
from parbals.strategies.surface import surface_of
from scipy.stats import norm

N_POOL, N_TARGETS, N_UNIVERSES, SIZE = 40, 12, 3, 5
PENDING = np.array([3])


def design(X):
    return np.concatenate([X, np.ones((len(X), 1))], axis=1)


@pytest.fixture(params=[1, 4], ids=["two classes", "four classes"])
def parts(request):
    """Channels of five columns that all are labelled, a pool with two equal rows, targets."""
    generator = np.random.default_rng(request.param)
    roots = 0.2 * generator.standard_normal((request.param, 5, 5)) + 0.7 * np.eye(5)
    location = generator.standard_normal((5, request.param))
    channels = Channels(Whitening.diagonal(np.ones(5)), np.eye(5), location, roots)
    X = generator.standard_normal((N_POOL + N_TARGETS, 4))
    X[7] = X[20]
    return channels, X[:N_POOL], X[N_POOL:]


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
        margin, spread, weight = np.abs(m_there[:, 0]), v_there[:, 0], 1.0
    else:
        p, slope = (part.T for part in class_slopes(m.T, v.T))
        gains = balanced(slope**2 / (p * (1.0 - p)), np)
        outer = gains[:, :, None] * gains[:, None] / gains.sum(axis=1)[:, None, None]
        M = gains[:, :, None] * np.eye(gains.shape[1]) - outer
        q, at = class_slopes(m_there.T, v_there.T)[0].T, np.arange(len(targets))
        second, first = np.argsort(q, axis=1)[:, -2:].T
        contrast = np.zeros(q.shape)
        contrast[at, first], contrast[at, second] = 1.0, -1.0
        pulled = contrast.T[:, None] * c  # (A, n, M)
        shift = np.sqrt(np.einsum("anm,bnm,nab->nm", pulled, pulled, M))
        margin = np.abs((contrast * m_there).sum(axis=1))
        spread = (np.abs(contrast) * v_there).sum(axis=1)
        weight = (np.abs(contrast) * q).sum(axis=1)
    z = margin / shift
    worth = 2.0 * weight * sigmoid_means(np.zeros_like(spread), spread, 1)[1]
    return ((shift * norm.pdf(z) - margin * norm.sf(z)) * worth).mean(axis=1)


def by_definition(channels, X, X_target, labeller):
    """Every row is scored in every universe, in every step."""
    rows, targets = design(X), design(X_target)
    start = channels.mean.T, channels.covariance_with(np.eye(5))
    states, free, keys = [start] * N_UNIVERSES, np.ones(len(X), bool), []

    def condition(index):
        free[index], x = False, rows[index]
        key = row_key(x.astype(np.float32))
        labels = drawn_labels(labeller, x.astype(np.float32), key, keys.count(key.tobytes()))
        keys.append(key.tobytes())
        for u, label in enumerate(labels.tolist()):
            mean, covariance = states[u]
            column = covariance @ x
            here = mean @ x, column @ x
            if len(mean) == 1:
                _, slope, curvature = label_evidence(*here, 2.0 * label - 1.0)
            else:
                given = here[0][None], here[1][None], np.array([label])
                _, slope, curvature = (part[0] for part in class_evidence(*given))
            taken = curvature[:, None, None] * column[:, :, None] * column[:, None]
            states[u] = mean + slope[:, None] * column, covariance - taken

    for index in PENDING:
        condition(index)
    chosen, scores = [], []
    for _ in range(SIZE):
        gains = np.mean([decision_gains(rows, targets, *state) for state in states], axis=0)
        chosen.append(int(np.where(free, gains, -np.inf).argmax()))
        scores.append(gains[chosen[-1]])
        condition(chosen[-1])
    return chosen, scores


@pytest.mark.parametrize(
    "search", [search_on_host, pytest.param(search_on_device, marks=pytest.mark.full)]
)
def test_decisions_are_what_their_definition_gives(parts, search):
    channels, X, X_target = parts
    labeller = open_labeller(channels, N_UNIVERSES, 0)
    surface = surface_of(channels, X_target)
    is_free = np.ones(N_POOL, bool)
    is_free[PENDING] = False
    given = surface, labeller, X, start_scores(surface, X), is_free, PENDING
    found = search(*given, SIZE, score="decision")
    chosen, scores = by_definition(channels, X, X_target, labeller)
    assert found.chosen.tolist() == chosen
    np.testing.assert_allclose(found.scores, scores, rtol=1e-2)  # targets may move a little unseen
    assert is_free.sum() == N_POOL - 1  # what was given is left as it was
    assert found.n_cut == 0


def test_the_highest_come_in_their_order_and_equals_in_that_of_the_pool():
    last, is_free = np.array([1.0, 5.0, 3.0, 5.0, 9.0, 3.0]), np.ones(6, bool)
    is_free[4] = False
    assert highest(last, is_free, 3).tolist() == [1, 3, 2]
    assert highest(last, is_free, 9).tolist() == [1, 3, 2, 5, 0]


@pytest.mark.full
def test_chunks_computed_together_are_used_as_one_by_one(parts, monkeypatch):
    channels, _, X_target = parts
    X = np.random.default_rng(0).standard_normal((600, 4)).astype(np.float32)
    surface, labeller = surface_of(channels, X_target), open_labeller(channels, N_UNIVERSES, 0)
    score = "epig" if len(channels.roots) == 1 else "form"
    given = surface, labeller, X, start_scores(surface, X), np.ones(600, bool), PENDING[:0], SIZE
    here = search_on_host(*given, score=score)
    monkeypatch.setitem(program._CHUNKS, "cpu", 4)
    program.greedy_search.clear_cache()
    there = search_on_device(*given, score=score)
    program.greedy_search.clear_cache()
    np.testing.assert_array_equal(there.chosen, here.chosen)
    np.testing.assert_array_equal(there.n_scored, here.n_scored)
    assert here.n_scored.min() < 512
