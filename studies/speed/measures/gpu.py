"""Batches on an accelerator: the first of a process, with points pending, and later ones.

Features begin in host memory as float32, or in a mapped file, so the copy to the device is part of
every figure. *start*: to load JAX and to start its devices.
"""

import os
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
from lib.isolate import compile_counter
from speed.clock import Measure, measured
from speed.problems import labels_of, mapped_pool, pool_and_labels

REPEATS = 3
COMPARED = 10_000
"""Up to so many items the batch is chosen by the CPU, too."""


def measures(sizes: dict[str, Any]) -> Iterator[Measure]:
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    os.environ.setdefault("JAX_ENABLE_COMPILATION_CACHE", "false")
    start, jax = measured("start", _start_jax, has_peak=False)
    device = jax.devices()[0].device_kind
    yield start | {"device": device}
    import parbals

    pool, model, target = _problem(sizes)
    count = compile_counter()

    def choose(n_pending: int) -> parbals.Batch:
        return parbals.select_batch_from_model(
            model,
            pool,
            target,
            sizes["B"],
            n_universes=sizes["U"],
            random_state=0,
            pending=np.arange(n_pending),
        )

    total = start["seconds"]
    batch = None
    for suffix, n_pending in ((" batch", 0), (" pending", sizes["B"])):
        for name, repeats in (("first", 1), ("later", REPEATS)):
            before = count()[0]
            measure, chosen = measured(
                name + suffix, lambda n=n_pending: choose(n), repeats, has_peak=False
            )
            measure["compiled"] = count()[0] - before
            if name == "first":
                total += measure["seconds"]
                batch = batch or chosen
            measure |= {"score": float(chosen.scores.sum()), "indices": chosen.indices.tolist()}
            yield measure | _peak(jax)
            time.sleep(0.1)  # threads of whatever ran before stop spinning
    yield {"measure": "all three", "seconds": total, "cpu_seconds": time.process_time()}
    if sizes["N"] <= COMPARED and sizes["C"] <= 10 and batch is not None:
        with jax.default_device(jax.devices("cpu")[0]):
            measure, on_cpu = measured("by the CPU", lambda: choose(0), has_peak=False)
        yield measure | {"same": int((on_cpu.indices == batch.indices).cumprod().sum())}


def _start_jax() -> Any:
    import jax

    jax.block_until_ready(jax.numpy.ones(8) + 1.0)
    return jax


def _problem(sizes: dict[str, Any]) -> tuple[Any, Any, np.ndarray]:
    """A pool, a fitted model, and targets of the pool's kind."""
    import parbals

    pool: Any
    if sizes.get("mapped"):
        pool = np.load(mapped_pool(sizes), mmap_mode="r")
        positions, y = labels_of(pool, sizes)
    else:
        pool, positions, y = pool_and_labels(sizes)
    target = pool_and_labels(sizes | {"N": sizes["M"] + sizes["n"]})[0][-sizes["M"] :]
    model = parbals.BayesianLogisticRegression(classes=range(sizes["C"]), random_state=0)
    return pool, model.fit(pool[positions].astype(np.float32), y), target


def _peak(jax: Any) -> Measure:
    statistics = jax.local_devices()[0].memory_stats() or {}
    n_bytes = statistics.get("peak_bytes_in_use")
    return {} if n_bytes is None else {"peak_bytes": n_bytes}
