"""The learner's fit and batch over a whole pool, which is a mapped file where N varies."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import parbals
from speed.clock import Measure, measured
from speed.problems import labels_of, mapped_pool, pool_and_labels


def measures(sizes: dict[str, Any]) -> Iterator[Measure]:
    _load_modules()
    is_mapped = sizes["axis"] == "N"
    X: Any
    if is_mapped:
        X = str(mapped_pool(sizes))
        positions, y = labels_of(np.load(X, mmap_mode="r"), sizes)
    else:
        X, positions, y = pool_and_labels(sizes)
    learner = parbals.ActiveLearner(
        X,
        list(range(sizes["C"])),
        random_state=0,
        n_universes=sizes["U"],
        n_candidates=sizes["N"],
        n_targets=sizes["M"],
        checked=True,
    )
    learner.tell(positions, y)
    yield measured("fit", learner.fitted, has_peak=not is_mapped)[0]
    measure, batch = measured("batch", lambda: learner.choose(sizes["B"]), has_peak=not is_mapped)
    yield measure | {"score": float(np.sum(batch.scores)), "indices": batch.indices.tolist()}


def _load_modules() -> None:
    """A tiny batch, which loads what is loaded on first use."""
    learner = parbals.ActiveLearner(np.eye(8), [0, 1], random_state=0)
    learner.tell([0, 1, 2, 3], [0, 1, 0, 1])
    learner.choose(1)
