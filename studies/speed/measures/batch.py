"""A batch of a fitted model from arrays in memory."""

from collections.abc import Iterator
from typing import Any

import parbals
from speed.clock import Measure, measured
from speed.problems import batch_problem


def measures(sizes: dict[str, Any]) -> Iterator[Measure]:
    problem = batch_problem(sizes)
    model = parbals.BayesianLogisticRegression(random_state=0).fit(problem.X, problem.y)

    def choose(batch_size: int) -> parbals.Batch:
        return parbals.select_batch_from_model(
            model,
            problem.X_pool,
            problem.X_target,
            batch_size,
            loss=sizes["loss"],
            n_universes=sizes["U"],
            random_state=0,
        )

    choose(1)  # loads what is loaded on first use
    measure, batch = measured("", lambda: choose(sizes["B"]), sizes["repeats"])
    yield measure | {"score": float(batch.scores.sum()), "indices": batch.indices.tolist()}
