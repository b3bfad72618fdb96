"""A fit of the closed-form posterior, and one more label."""

from collections.abc import Iterator
from typing import Any

import parbals
from speed.clock import Measure, measured
from speed.problems import batch_problem


def measures(sizes: dict[str, Any]) -> Iterator[Measure]:
    X, y, X_pool, _ = batch_problem(sizes)

    def fit() -> parbals.BayesianLogisticRegression:
        return parbals.BayesianLogisticRegression(random_state=0).fit(X, y)

    model = fit()  # loads what is loaded on first use
    yield measured("fit", fit, sizes["repeats"])[0]
    more = X_pool[:1], y[:1]
    yield measured("one more label", lambda: model.condition(*more), sizes["repeats"])[0]
