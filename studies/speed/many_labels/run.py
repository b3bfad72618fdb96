"""What do a fit and one more label cost with thousands of labels, and are both accurate?

Rows of 384 features with a falling spectrum, labels drawn from a softmax whose logits have
deviation 4. ``fit`` and ``one more`` are CPU seconds and seconds of the closed form under a learnt
prior; ``learner`` is ``tell`` of one label and the next ``fitted`` of an ``ActiveLearner``. The
differences are the largest of any probability over 2,000 other rows: of one more label to a fresh
fit, of the sweeps for many to the usual ones under the same prior, and of the prior that a part of
the labels gives to the one that all give (the last two up to 5,000 labels).

    python studies speed.many_labels [n ...]  # default: 1000 5000 20000
"""

import sys
import time

import numpy as np
import parbals
from parbals.posterior import inference
from parbals.posterior.closed import classes, ep, moments, prior
from parbals.posterior.closed.whitening import PoolMoments

N_FEATURES = 384
N_TEST = 2_000
AFFORDABLE = 5_000


def drawn(n_rows, n_classes, seed=0):
    """Rows (n, D) of unit norm and labels (n,)."""
    rng = np.random.default_rng(seed)
    rows = rng.standard_normal((n_rows, N_FEATURES)) * np.arange(1, N_FEATURES + 1) ** -0.5
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    logits = rows @ rng.standard_normal((N_FEATURES, n_classes))
    logits *= 4.0 / logits.std()
    return rows, (logits + rng.gumbel(size=logits.shape)).argmax(axis=1)


def timed(function):
    """What it returns, CPU seconds, seconds."""
    cpu = time.process_time()
    wall = time.perf_counter()
    result = function()
    return result, time.process_time() - cpu, time.perf_counter() - wall


def usual_sweeps(function, n_prior):
    """What the function returns where no number of labels is many; the prior is of ``n_prior``."""
    modules = (moments, ep, classes, inference)
    max_prior_labels = prior._MAX_LABELS
    many_labels = ep.MANY_LABELS
    try:
        for module in modules:
            module.MANY_LABELS = 10**9
        prior._MAX_LABELS = n_prior
        return function()
    finally:
        for module in modules:
            module.MANY_LABELS = many_labels
        prior._MAX_LABELS = max_prior_labels


def row(n, n_classes):
    rows, y = drawn(n + 1 + N_TEST, n_classes)
    test = rows[n + 1 :]
    pool = PoolMoments.of(rows)

    def fit(size):
        model = parbals.BayesianLogisticRegression(classes=range(n_classes), random_state=0)
        return model.fit(rows[:size], y[:size], pool)

    def apart(a, b):
        return f"{np.abs(a.predict_proba(test) - b.predict_proba(test)).max():.1e}"

    fitted, *fit_times = timed(lambda: fit(n))
    extended, *more_times = timed(lambda: fitted.condition(rows[n : n + 1], y[n : n + 1]))
    learner = parbals.ActiveLearner(rows, list(range(n_classes)), random_state=0)
    learner.tell(np.arange(n), y[:n].tolist())
    learner.fitted()
    learner.tell([n], y[n : n + 1].tolist())
    _, *learner_times = timed(learner.fitted)
    fresh = fit(n + 1)
    same_prior = prior.learn_prior(rows[: n + 1], y[: n + 1], n_classes, pool).scale
    assert same_prior == fresh.prior_scale_
    cells = [apart(extended, fresh) if fitted.prior_scale_ == fresh.prior_scale_ else "other prior"]
    if n <= AFFORDABLE:
        cells.append(apart(fitted, usual_sweeps(lambda: fit(n), prior._MAX_LABELS)))
        cells.append(apart(fitted, usual_sweeps(lambda: fit(n), 10**9)))
    seconds = [f"{t:.2f}" for t in (*fit_times, *more_times, *learner_times)]
    print(" | ".join([f"{n:,}", str(n_classes), *seconds, *cells, *["-"] * (3 - len(cells))]))


def main():
    sizes = [int(n) for n in sys.argv[1:]] or [1_000, 5_000, 20_000]
    print(
        "n | C | fit CPU s | fit s | one more CPU s | one more s | learner CPU s | learner s | "
        "one more - fresh | many - usual sweeps | part - all for the prior"
    )
    for n in sizes:
        for n_classes in (2, 4):
            row(n, n_classes)
