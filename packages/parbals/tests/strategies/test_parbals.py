"""ParBaLS against enumeration, its symmetries, and what it does that top-B cannot."""

import re

import numpy as np
import parbals
import pytest
from brute_force import expected_epig, linear_probs, random_probs
from parbals.errors import SampleCollapseWarning
from parbals.strategies import parbals as module
from parbals.strategies.parbals import _distinct, _mean_scores
from parbals.strategies.universes.samples import PseudoLabels, ReweightedUniverses


@pytest.fixture
def samples():
    """Predictive samples of a linear model: 60 candidates, 25 targets, 80 posterior samples."""
    probs = linear_probs(1, 85, 80, 2, scale=1.0)
    return probs[:60], probs[60:]


@pytest.mark.parametrize("strategy", ["parbals-epig", "parbals-map-epig"])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_a_batch_of_one_is_epig(strategy, n_classes):
    probs = linear_probs(1, 85, 80, n_classes, scale=1.0)
    pool = probs[:60]
    target = probs[60:]
    scores = parbals.epig(pool, target)
    batch = parbals.select_batch(pool, target, batch_size=1, strategy=strategy, random_state=0)
    assert batch.indices[0] == scores.argmax()
    assert batch.scores[0] == pytest.approx(scores.max(), rel=1e-9)
    assert batch.scores[0] == pytest.approx(batch.initial_scores[0], rel=1e-9)


@pytest.mark.parametrize(
    ("n_classes", "chosen"), [(2, [0]), (2, [0, 3]), (3, [1, 2]), (2, [4, 1, 0])]
)
def test_the_universe_average_converges_to_the_exact_expectation(n_classes, chosen):
    """On a model of 12 parameter values every labelling of S can be enumerated (Prop. 2)."""
    pool = random_probs(5, 8, 12, n_classes, 2.0)
    target = random_probs(6, 5, 12, n_classes, 2.0)
    exact = expected_epig(pool, target, chosen)
    n_universes = 4000
    universes = ReweightedUniverses(pool, target, np.full(12, 1 / 12), n_universes, seed=0)
    labels = PseudoLabels(seed=0)
    for index in chosen:
        universes.observe(index, labels.label(index, universes))
    groups, shares = _distinct(universes.members)
    scores = np.stack([u.score_pool("log") for u in groups])
    mean = shares @ scores
    error = np.sqrt((shares @ scores**2 - mean**2) / n_universes)
    z = (mean - exact) / error
    assert np.abs(z).max() < 4.0
    assert np.sqrt(np.mean(z**2)) < 2.0


def test_sub_optimality_stays_below_the_bound_and_shrinks_with_universes():
    """Prop. 3: with chance 1-δ the cost is within 2 ln|Y| √((ln|D| + ln 1/δ) / 2m) of optimal."""
    pool = random_probs(5, 10, 12, 2, 2.0)
    target = random_probs(6, 5, 12, 2, 2.0)
    first = int(parbals.epig(pool, target).argmax())
    exact = expected_epig(pool, target, [first])
    exact[first] = -np.inf
    loss = {}
    for m in (2, 40):
        picked = [
            parbals.select_batch(pool, target, 2, n_universes=m, random_state=seed).indices
            for seed in range(40)
        ]
        assert all(p[0] == first for p in picked)
        loss[m] = np.array([exact.max() - exact[p[1]] for p in picked])
        bound = 2 * np.log(2) * np.sqrt((np.log(10) + np.log(1 / 0.05)) / (2 * m))
        assert np.mean(loss[m] > bound) <= 0.05
    assert loss[40].mean() < loss[2].mean()


def test_pseudo_labels_carry_the_joint_dependence():
    """Near-duplicates agree as often as one parameter draw makes them, not as two coins would."""
    pool = random_probs(5, 2, 50, 2, 4.0)
    pool[1] = 0.999 * pool[0] + 0.001 * pool[1]
    universes = ReweightedUniverses(pool, pool, np.full(50, 1 / 50), 20_000, seed=0)
    labels = PseudoLabels(seed=0)
    first, second = (labels.label(i, universes) for i in (0, 1))
    correlation = np.corrcoef(first, second)[0, 1]
    p = pool[0, :, 1]
    q = pool[1, :, 1]
    joint = np.mean(p * q) - p.mean() * q.mean()
    expected = joint / np.sqrt(p.mean() * (1 - p.mean()) * q.mean() * (1 - q.mean()))
    assert expected > 0.3
    assert correlation == pytest.approx(expected, abs=4 / np.sqrt(20_000))
    assert first.mean() == pytest.approx(p.mean(), abs=4 * 0.5 / np.sqrt(20_000))


def test_exact_duplicates_have_labels_of_their_own():
    """Given the parameters, two copies of one point are two draws."""
    pool = np.full((2, 3, 2), 0.5)
    universes = ReweightedUniverses(pool, pool, np.full(3, 1 / 3), 5000, seed=0)
    labels = PseudoLabels(seed=0)
    first, second = (labels.label(i, universes) for i in (0, 1))
    assert np.mean(first == second) == pytest.approx(0.5, abs=4 * 0.5 / np.sqrt(5000))
    assert first.mean() == pytest.approx(0.5, abs=4 * 0.5 / np.sqrt(5000))


def test_pseudo_labels_stay_fixed_during_a_batch(samples, monkeypatch):
    """A universe's labelling belongs to the pool: the order of asking does not change it."""
    pool, target = samples
    universes = ReweightedUniverses(pool, target, np.full(80, 1 / 80), 10, seed=3)
    forwards = PseudoLabels(seed=3)
    backwards = PseudoLabels(seed=3)
    seen = {i: forwards.label(i, universes) for i in range(20)}
    again = {i: backwards.label(i, universes) for i in reversed(range(20))}
    assert all((seen[i] == again[i]).all() for i in range(20))


def test_map_observes_the_most_probable_labels(samples, monkeypatch):
    pool, target = samples
    observed = []
    original = ReweightedUniverses.observe
    monkeypatch.setattr(
        ReweightedUniverses,
        "observe",
        lambda self, index, labels: (
            observed.append((index, labels)),
            original(self, index, labels),
        )[1],
    )
    parbals.select_batch(pool, target, 4, "parbals-map-epig", random_state=0)
    assert len(observed) == 3
    for index, labels in observed:
        assert labels.tolist() == [pool[index].mean(axis=0).argmax()]


@pytest.mark.parametrize("strategy", ["parbals-epig", "parbals-map-epig"])
def test_pending_points_are_the_partial_batch(samples, strategy):
    """Asking again for two while three are out continues the batch of five exactly."""
    pool, target = samples
    whole = parbals.select_batch(pool, target, 5, strategy, random_state=7)
    remaining = parbals.select_batch(
        pool, target, 2, strategy, pending=whole.indices[:3], random_state=7
    )
    assert remaining.indices.tolist() == whole.indices[3:].tolist()
    np.testing.assert_allclose(remaining.scores, whole.scores[3:], rtol=1e-9)


@pytest.mark.parametrize("strategy", ["epig", "parbals-epig", "parbals-map-epig"])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_reordering_the_pool_or_the_classes_reorders_the_batch(strategy, n_classes):
    probs = linear_probs(1, 85, 80, n_classes, scale=1.0)
    pool = probs[:60]
    target = probs[60:]
    batch = parbals.select_batch(pool, target, 5, strategy, random_state=3)
    rng = np.random.default_rng(0)
    rows = rng.permutation(60)
    classes = rng.permutation(n_classes)
    moved = parbals.select_batch(pool[rows], target, 5, strategy, random_state=3)
    assert rows[moved.indices].tolist() == batch.indices.tolist()
    renamed = parbals.select_batch(
        pool[:, :, classes], target[:, :, classes], 5, strategy, random_state=3
    )
    assert renamed.indices.tolist() == batch.indices.tolist()


@pytest.mark.filterwarnings("ignore::parbals.errors.SampleCollapseWarning")
@pytest.mark.parametrize("strategy", ["epig", "parbals-epig", "parbals-map-epig"])
def test_repeated_rows_never_give_repeated_indices(strategy):
    pool = np.repeat(linear_probs(1, 3, 80, 2, scale=1.0), 10, axis=0)
    batch = parbals.select_batch(pool, pool, 30, strategy, random_state=0)
    assert sorted(batch.indices.tolist()) == list(range(30))


def test_top_b_takes_copies_and_parbals_does_not():
    """A pool of near-copies of a very informative point, and a few others."""
    rng = np.random.default_rng(0)
    theta = rng.standard_normal((200, 3))
    x = np.concatenate(
        [
            np.tile([2.0, 0, 0], (10, 1)),
            np.tile([0, 1.8, 0], (10, 1)),
            np.tile([0, 0, 1.6], (10, 1)),
        ]
    )
    p = 1 / (1 + np.exp(-(x + 1e-3 * rng.standard_normal(x.shape)) @ theta.T))
    pool = np.stack([1 - p, p], axis=2)
    groups = np.repeat([0, 1, 2], 10)
    target = pool[::5]
    top = parbals.select_batch(pool, target, 3, "epig")
    ours = parbals.select_batch(pool, target, 3, "parbals-epig", random_state=0)
    assert len(set(groups[top.indices])) == 1
    assert len(set(groups[ours.indices])) == 3
    assert (ours.redundancy < 0.5).all()


def test_the_certified_search_gives_what_exhaustive_search_gives(monkeypatch):
    """1,100 candidates go through the bound; with the bound switched off nothing changes."""
    probs = linear_probs(2, 1300, 40, 2, d=6, scale=0.5)
    pool = probs[:1100]
    target = probs[1100:]
    certified = parbals.select_batch(pool, target, 5, n_universes=8, random_state=1)
    assert certified.n_exact[0] == 1100
    assert (certified.n_exact[1:] < 800).all()
    monkeypatch.setattr(module, "_MIN_BOUNDED_POOL", 10_000)
    exhaustive = parbals.select_batch(pool, target, 5, n_universes=8, random_state=1)
    assert exhaustive.n_exact.tolist() == [1100, 1099, 1098, 1097, 1096]
    assert certified.indices.tolist() == exhaustive.indices.tolist()
    np.testing.assert_allclose(certified.scores, exhaustive.scores, rtol=1e-9)


def test_the_result_explains_itself(samples):
    pool, target = samples
    batch = parbals.select_batch(pool, target, 6, random_state=0)
    np.testing.assert_allclose(
        batch.initial_scores, parbals.epig(pool, target)[batch.indices], rtol=1e-9
    )
    assert batch.effective_sample_size[0] == pytest.approx(80)
    assert (np.diff(batch.effective_sample_size) < 0).all()
    np.testing.assert_allclose(batch.redundancy, 1 - batch.scores / batch.initial_scores)
    text = batch.explain()
    assert all(str(i) in text for i in batch.indices)


def test_a_collapsed_sample_size_is_reported():
    pool = linear_probs(1, 60, 30, 2, scale=6.0)
    with pytest.warns(SampleCollapseWarning, match="effective sample size fell to") as caught:
        batch = parbals.select_batch(pool, pool, 12, random_state=0)
    assert batch.notes
    assert caught[0].filename == __file__  # the line that asked, not one of ours


def test_the_advised_batch_size_keeps_enough_samples():
    pool = linear_probs(1, 60, 30, 2, scale=6.0)
    with pytest.warns(SampleCollapseWarning) as caught:
        whole = parbals.select_batch(pool, pool, 12, random_state=0)
    advised = int(re.search(r"at most (\d+) items? at a time", str(caught[0].message))[1])
    assert 1 <= advised < 12
    assert (
        whole.effective_sample_size[:advised].min()
        >= 0.05 * 30
        > whole.effective_sample_size[advised]
    )
    smaller = parbals.select_batch(pool, pool, advised, random_state=0)  # a warning is an error
    assert smaller.indices.tolist() == whole.indices[:advised].tolist()


def test_identical_universes_are_scored_once(samples):
    pool, target = samples
    universes = ReweightedUniverses(pool, target, np.full(80, 1 / 80), 10, seed=0)
    assert len({id(u) for u in universes.members}) == 1
    universes.observe(0, np.array([0, 1] * 5))
    assert len({id(u) for u in universes.members}) == 2
    universes.observe(1, np.array([0, 0, 1, 1, 0, 0, 1, 1, 0, 0]))
    assert len({id(u) for u in universes.members}) == 4
    assert _mean_scores(universes.members, np.array([2, 3]), "log").shape == (2,)


@pytest.mark.parametrize(
    ("n_classes", "n_pool"), [pytest.param(2, 200, marks=pytest.mark.full), (3, 60)]
)
def test_an_accelerator_chooses_the_same(n_classes, n_pool, monkeypatch):
    """There JAX computes what NumPy does here: bounds of 200 points, exact scores of a few."""
    monkeypatch.setattr("parbals.strategies.parbals._MIN_BOUNDED_POOL", 100)
    probs = linear_probs(2, n_pool + 100, 40, n_classes, d=6, scale=0.5)
    pool = probs[:n_pool]
    target = probs[n_pool:]
    here = parbals.select_batch(pool, target, 4, n_universes=4, pending=[3], random_state=1)
    for module_name in ("scores.rows", "strategies.universes.samples"):
        monkeypatch.setattr(f"parbals.{module_name}.on_host", lambda: False)
    there = parbals.select_batch(pool, target, 4, n_universes=4, pending=[3], random_state=1)
    assert there.indices.tolist() == here.indices.tolist()
    np.testing.assert_allclose(there.scores, here.scores, rtol=1e-9)
