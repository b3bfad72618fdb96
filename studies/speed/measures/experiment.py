"""One run of the paper's experiment by the learner: fit, test and choose, round after round."""

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
import parbals
from speed.clock import Measure, measured
from speed.problems import labels_of, pool_and_labels


def measures(sizes: dict[str, Any]) -> Iterator[Measure]:
    X = pool_and_labels(sizes)[0]
    _, y = labels_of(X, sizes, len(X))
    test = X[-len(X) // 10 :]
    learner = parbals.ActiveLearner(
        X, list(range(sizes["C"])), random_state=0, n_targets=sizes["M"], checked=True
    )
    learner.tell(np.arange(sizes["n"]), y[: sizes["n"]])
    stages: dict[str, list[Measure]] = {"fit": [], "predict the test set": [], "choose": []}
    for round_number in range(sizes["rounds"] + 1):
        stages["fit"].append(measured("", learner.fitted)[0])
        predict = learner.predict_proba
        stages["predict the test set"].append(measured("", partial(predict, test))[0])
        if round_number < sizes["rounds"]:
            cost, batch = measured("", lambda: learner.choose(sizes["B"]))
            stages["choose"].append(cost)
            learner.tell(batch.indices, y[batch.indices])
    for name, costs in stages.items():
        yield {
            "measure": f"{name}, {len(costs)} times",
            "seconds": sum(cost["seconds"] for cost in costs),
            "cpu_seconds": sum(cost["cpu_seconds"] for cost in costs),
            "peak_bytes": max(cost["peak_bytes"] for cost in costs),
        }
