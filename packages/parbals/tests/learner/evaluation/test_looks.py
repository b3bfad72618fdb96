"""An audit's interval holds at every look of a session, whenever one chooses to stop."""

import math

import numpy as np
import pytest
from dose import full_count
from parbals.learner.evaluation.limits import clopper_pearson_limits, stratified_limits
from parbals.learner.evaluation.looks import DELTA, latest_look
from scipy.stats import norm


def audit_labels(n, size):
    """Whether each of the first n labels is an audit label: every third one until it is full."""
    is_audit = np.arange(n) % 3 == 1
    return is_audit & (is_audit.cumsum() <= size)


def test_there_is_no_look_before_twenty_labels_of_the_audit():
    assert latest_look(audit_labels(0, 60), 60) is None
    assert latest_look(audit_labels(500, 0), 0) is None
    assert latest_look(audit_labels(86, 60), 60) is None, "29: half is 30, a quarter below 20"
    assert latest_look(audit_labels(60, 100), 100) is None


def test_a_small_audit_is_looked_at_when_it_is_full():
    assert latest_look(audit_labels(26, 10), 10) is None
    assert latest_look(audit_labels(30, 10), 10).n_labels == 29


@pytest.mark.parametrize(
    ("size", "counts"), [(50, [25, 48]), (60, [30, 57]), (100, [25, 50, 95]), (200, [25, 50, 100])]
)
def test_halves_of_the_audit_then_doublings_of_the_labels(size, counts):
    all_looks = [latest_look(audit_labels(n, size), size) for n in range(1_201)]
    looks = sorted({look for look in all_looks if look is not None})
    labels = [look.n_labels for look in looks]
    assert [int(audit_labels(n, size).sum()) for n in labels[: len(counts)]] == counts
    full = next(look.n_labels for look in looks if look.delta == max(look.delta for look in looks))
    after = [n for n in labels if n >= full]
    assert after == [full * 2**k for k in range(len(after))]
    assert all(latest_look(audit_labels(n, size), size).n_labels == n for n in labels), (
        "its own latest"
    )


def test_labels_from_before_the_audit_do_not_delay_it():
    is_audit = np.r_[np.zeros(1_000, bool), np.ones(60, bool)]
    assert latest_look(is_audit[:1_030], 60).n_labels == 1_030
    assert latest_look(is_audit, 60).n_labels == 1_057


@pytest.mark.parametrize("size", [5, 40, 100, 1_000])
def test_the_risks_of_all_looks_add_up_to_five_percent(size):
    counts = np.unique(np.geomspace(1, 1e6, 400).astype(np.int64))
    is_audit = audit_labels(10**6, size)
    looks = {latest_look(is_audit[:n], size) for n in counts} - {None}
    assert 0.03 < sum(look.delta for look in looks) < DELTA


def models(generator, n_items, errors):
    """Yield errors (n,) and expected errors (n,) of models that improve, with these error rates.

    Each model knows the difficulty of an item up to noise of its own, and is overconfident or
    underconfident. About half of the variance of its errors is shared with the model before.
    """
    difficulty, shared_noise = generator.standard_normal((2, n_items))
    for error in errors:
        model_noise = generator.standard_normal(n_items)
        score = 0.7 * difficulty + 0.5 * shared_noise + math.sqrt(0.26) * model_noise
        sharpness = generator.uniform(0.5, 2.0)
        expected = norm.sf(sharpness * (norm.isf(error) - 0.7 * difficulty))
        yield (score > norm.isf(error)).astype(float), expected


@pytest.mark.parametrize("n_runs", [150, pytest.param(full_count(2_000), marks=pytest.mark.slow)])
@pytest.mark.parametrize(("first", "last"), [(0.3, 0.1), (0.08, 0.02)])
def test_all_looks_hold_together_while_the_models_change(first, last, n_runs):
    """Half of the audit, all of it, twice and four times as many labels.

    The intervals are narrower than with a fixed risk of 0.4 % for each limit of every look.
    """
    generator = np.random.default_rng(3)
    size = 60
    n_pool = 2_000
    errors = np.geomspace(first, last, 4)
    looks = [latest_look(audit_labels(n, size), size) for n in (90, 180, 400, 800)]
    covered = np.ones(n_runs, bool)
    n_failures_at_stop = 0
    widths = []
    fixed_risk_widths = []
    for run in range(n_runs):
        stopped = False
        for look, error, (wrong, expected) in zip(
            looks, errors, models(generator, n_pool, errors), strict=True
        ):
            n = int(audit_labels(look.n_labels, size).sum())
            _, low, high = stratified_limits(wrong[:n], expected[:n], expected[n:], look.delta)
            covered[run] &= low <= error <= high
            widths.append(high - low)
            limits = clopper_pearson_limits(wrong[:n].sum(), n, 0.004)
            fixed_risk_widths.append(limits[1] - limits[0])
            if not stopped and high < 1.5 * last:  # false at the first looks
                stopped = True
                n_failures_at_stop += error > high
    assert covered.mean() > 0.9 - 3 * math.sqrt(0.09 / n_runs)
    assert n_failures_at_stop / n_runs < 0.05 + 3 * math.sqrt(0.05 * 0.95 / n_runs)
    assert np.mean(np.reshape(widths, (-1, 4))[:, 1]) < 0.75 * np.mean(
        np.reshape(fixed_risk_widths, (-1, 4))[:, 1]
    )


def test_limits_without_a_share_of_the_risk_would_break_it():
    """Fresh draws at each of 40 looks with 5 % each: a look fails in far more runs than that."""
    generator = np.random.default_rng(0)
    wrong = generator.binomial(60, 0.1, (500, 40))
    limit = np.array([clopper_pearson_limits(count, 60, 0.05)[1] for count in range(61)])
    assert (limit[wrong] < 0.1).any(axis=1).mean() > 0.25
