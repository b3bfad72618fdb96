"""Batches on all local devices of a process, and how the walk over the pool was spread over them.

Run as a program it prints the same as JSON: the number of devices is fixed when JAX starts.
"""

import json
import re
from unittest.mock import patch

import jax
import numpy as np
import parbals
from parbals.strategies import backends
from parbals.strategies.backends import jax as backend

_COLLECTIVE = r"all-gather|all-reduce|all-to-all|reduce-scatter|collective-permute"


def batch_of(n_classes, n_pool, strategy="parbals-epig", pending=()):
    """Eight of a pool of normal rows."""
    generator = np.random.default_rng(n_classes)
    X = generator.standard_normal((n_pool + 160, 5)) * [3.0, 2.0, 1.0, 0.5, 0.2]
    noise = generator.gumbel(size=(60, n_classes))
    labels = np.argmax(X[:60] @ generator.standard_normal((5, n_classes)) + noise, axis=1)
    model = parbals.BayesianLogisticRegression(
        inference="ep", classes=range(n_classes), random_state=0
    ).fit(X[:60], labels)
    with patch.object(backends, "uses_numpy", lambda operations: False):  # one CPU would be NumPy's
        batch = parbals.select_batch_from_model(
            model, X[160:], X[60:160], 8, strategy, random_state=1, pending=pending
        )
    return batch.indices.tolist()


def walk(n_classes, n_pool):
    """Chosen rows, rows of a block on each device, collective operations of the program."""
    calls = []
    score = backend._score_block

    def recorded(*arguments, **options):
        calls.append((arguments, options))
        return score(*arguments, **options)

    backend._score_block = recorded
    chosen = batch_of(n_classes, n_pool, "epig")
    backend._score_block = score
    arguments, options = calls[0]
    program = score.lower(*arguments, **options).compile().as_text()
    rows = [shard.data.shape[0] for shard in arguments[1].addressable_shards]
    return {"chosen": chosen, "rows": rows, "collectives": re.findall(_COLLECTIVE, program)}


def findings():
    results = {"batch": batch_of(2, 6_001), "two": walk(2, 77), "four": walk(4, 1_001)}
    with jax.default_device(jax.local_devices()[-1]):
        return {**results, "told": walk(2, 77)}


if __name__ == "__main__":
    print(json.dumps(findings()))  # noqa: T201
