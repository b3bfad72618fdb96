"""How fast is a batch on a GPU, stage by stage, and does it choose as a CPU does?

    python studies speed.gpu                 # every size; writes record.json
    python studies speed.gpu --only batches  # or limits, first_call, choices, stream
    python studies speed.gpu --report        # write README.md from the record

Times are wall-clock, the best of three after the first call, features in host memory as float32:
the copy to the device is part of every figure. It needs this source tree and what it depends on.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from lib.folders import STUDIES
from lib.report import machine
from parbals.posterior.estimator import LogisticModel
from parbals.strategies import backends, scoring
from parbals.strategies.choose import check_settings, choose_batch
from parbals.strategies.problem import GaussianView, Labelled
from parbals.strategies.universes.gaussian import SHORTLIST
from speed.gpu.report import page

FOLDER = Path(__file__).parent
SIZES = [
    (2, 10_000),
    (2, 100_000),
    (2, 1_000_000),
    (4, 10_000),
    (10, 10_000),
    (10, 100_000),
    (10, 1_000_000),
    (100, 10_000),
]
N_FEATURES = 300
N_TARGETS = 1_000
N_LABELS = 100
BATCH = 20
UNIVERSES = 10


def make_model(n_classes: int, n_pool: int, n_features: int = N_FEATURES) -> tuple:
    """A fitted model, a pool (N, D) and a target set; directions of falling variance."""
    generator = np.random.default_rng(0)
    scales = (2.0 / np.sqrt(np.arange(1, n_features + 1))).astype(np.float32)
    n_rows = n_pool + N_TARGETS + N_LABELS
    X = generator.standard_normal((n_rows, n_features), np.float32) * scales
    weights = generator.standard_normal((n_features, n_classes), np.float32)
    labelled = X[:N_LABELS]
    labels = np.argmax(labelled @ weights + generator.gumbel(size=(N_LABELS, n_classes)), axis=1)
    model = LogisticModel(400, 1.0, "ep", classes=np.arange(n_classes), random_state=0)
    model.fit(labelled, labels)
    return model, X[N_LABELS : N_LABELS + n_pool], X[N_LABELS + n_pool :]


def batch(
    model: LogisticModel, pool: np.ndarray, target: np.ndarray, seed: int = 0, n_pending: int = 0
):
    terms = check_settings(
        "parbals-epig",
        len(pool),
        BATCH,
        n_universes=UNIVERSES,
        random_state=seed,
        pending=np.arange(n_pending),
    )
    return choose_batch(terms, model, pool, target, Labelled())


def seconds(run, repeats: int = 3) -> float:
    best = np.inf
    for _ in range(repeats):
        begin = time.perf_counter()
        jax.block_until_ready(run())
        best = min(best, time.perf_counter() - begin)
    return best


def measure_batches() -> list[dict]:
    """Every size in a process of its own, which alone tells the peak of its memory."""
    rows = []
    for size in SIZES:
        output = in_fresh_process(
            f"import json, speed.gpu.run as gpu; print(json.dumps(gpu.measure_size(*{size})))"
        )
        rows.append(json.loads(output.splitlines()[-1]))
        print(output, end="", flush=True)
    return rows


def measure_size(n_classes: int, n_pool: int) -> dict:
    model, pool, target = make_model(n_classes, n_pool)
    begin = time.perf_counter()
    batch(model, pool, target)
    first = time.perf_counter() - begin
    view = GaussianView(model.gaussian, pool, target)
    context = scoring.build_context(view.latents, view.target)
    whole = seconds(lambda: batch(model, pool, target))
    start = seconds(lambda: backends.score_pool(context, pool))
    stats = jax.local_devices()[0].memory_stats() or {}
    n_scored = batch(model, pool, target).n_exact
    return {
        "classes": n_classes,
        "pool": n_pool,
        "first": first,
        "batch": whole,
        "start": start,
        "copy": seconds(lambda: jax.device_put(pool)),
        "walk_flop": walk_flop(context, n_pool),
        "step_flop": step_flop(context, n_scored),
        "peak_bytes": stats.get("peak_bytes_in_use", 0),
        "scored": int(n_scored.sum()),
    }


def in_fresh_process(program: str, **environment: str) -> str:
    """What a program that imports this file prints."""
    path = [str(STUDIES), os.environ.get("PYTHONPATH", "")]
    process = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, path)), **environment},
        capture_output=True,
        text=True,
    )
    if process.returncode:
        raise SystemExit(process.stderr[-2000:])
    return process.stdout


def walk_flop(context: scoring.ScoringContext, n_pool: int) -> float:
    """Operations of the walk over the pool: coordinates, factors, covariances, the screen."""
    d, r = context.basis.shape
    n_latents = context.roots.shape[0]
    n_targets = len(context.share)
    across = 0 if d == r else 2 * d * r + 2 * d * n_targets
    return n_pool * (2 * d * r + across + n_latents * (2 * r * r + (2 * r + 4) * n_targets))


def step_flop(context: scoring.ScoringContext, n_scored: np.ndarray) -> float:
    """Operations of all steps at least: covariances given the labels before, and the screen."""
    rows = n_scored + SHORTLIST
    n_labels = np.arange(len(n_scored))
    pairs = (
        UNIVERSES * context.targets.gains.size
    )  # a row with all targets, in all latents and universes
    return float(pairs * (rows * (2 * n_labels + 4)).sum())


def measure_limits() -> dict:
    """What the machine gives: float32 matrix products, copies to the device."""
    size = 8192
    matrix = jnp.asarray(np.random.default_rng(0).standard_normal((size, size), np.float32))
    product = jax.jit(lambda x: jnp.matmul(x, x, precision=jax.lax.Precision.HIGHEST))
    fast = jax.jit(lambda x: jnp.matmul(x, x, precision=jax.lax.Precision.DEFAULT))
    jax.block_until_ready((product(matrix), fast(matrix)))
    block = np.ones((1_000_000, 300), np.float32)
    return {
        "machine": machine(os.cpu_count() or 1),
        "sizes": {"B": BATCH, "U": UNIVERSES, "M": N_TARGETS, "D": N_FEATURES, "n": N_LABELS},
        "device": jax.devices()[0].device_kind,
        "jax": jax.__version__,
        "float32_tflops": 2e-12 * size**3 / seconds(lambda: product(matrix)),
        "default_tflops": 2e-12 * size**3 / seconds(lambda: fast(matrix)),
        "copy_gb_per_second": 1e-9 * block.nbytes / seconds(lambda: jax.device_put(block)),
    }


FIRST_CALL = """
import json, time
begin = time.perf_counter()
import jax
jax.block_until_ready(jax.numpy.ones(8) + 1.0)
started = time.perf_counter() - begin
import speed.gpu.run as gpu
parts = gpu.make_model({n_classes}, 10_000)
rows = dict(start=started)
for suffix, n_pending in (("", 0), ("_pending", 20)):
    for name, repeats in (("first", 1), ("warm", 5)):
        run = lambda: gpu.batch(*parts, n_pending=n_pending)
        rows[name + suffix] = gpu.seconds(run, repeats)
print(json.dumps(rows))
"""


def measure_first_call() -> list[dict]:
    """Batches of fresh processes, whose cache of compiled programs is empty at first."""
    rows = []
    for n_classes in (2, 4, 10):
        with tempfile.TemporaryDirectory() as folder:
            for state in ("empty", "filled"):
                output = in_fresh_process(
                    FIRST_CALL.format(n_classes=n_classes),
                    JAX_COMPILATION_CACHE_DIR=folder,
                    JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS="0",
                    XLA_PYTHON_CLIENT_PREALLOCATE="false",
                )
                measured = json.loads(output.splitlines()[-1])
                rows.append({"classes": n_classes, "cache": state, **measured})
                print(json.dumps(rows[-1]), flush=True)
    return rows


def measure_choices() -> list[dict]:
    """The same batches on the CPU and on the accelerator."""
    rows = []
    for n_classes in (2, 4, 10):
        model, pool, target = make_model(n_classes, 10_000)
        for seed in range(5):
            there = batch(model, pool, target, seed)
            with jax.default_device(jax.devices("cpu")[0]):
                own_batch = batch(model, pool, target, seed)
            n_equal = int((own_batch.indices == there.indices).cumprod().sum())
            shared = n_equal if n_equal == BATCH else n_equal + 1
            apart = np.abs(there.scores[:shared] / own_batch.scores[:shared] - 1.0).max()
            rows.append(
                {"classes": n_classes, "seed": seed, "same": n_equal, "apart": float(apart)}
            )
            print(json.dumps(rows[-1]), flush=True)
    return rows


def measure_stream(n_pool: int, folder: Path) -> dict:
    """A mapped file of float16 features, larger than one would hold on a device."""
    n_features = 384
    block_rows = 200_000
    model, pool, target = make_model(2, 1_000, n_features)
    path = folder / "pool.npy"
    mapped = np.lib.format.open_memmap(path, "w+", np.float16, (n_pool, n_features))
    scales = jnp.asarray(pool.std(axis=0), jnp.float16)
    for k, begin in enumerate(range(0, n_pool, block_rows)):
        rows = jax.random.normal(jax.random.key(k), (block_rows, n_features), jnp.float16) * scales
        mapped[begin : begin + block_rows] = np.asarray(rows)[: n_pool - begin]
    mapped.flush()
    mapped = np.load(path, mmap_mode="r")
    batch(model, mapped[:400_000], target)
    context = scoring.build_context(model.gaussian.latents, target)
    begin = time.perf_counter()
    backends.score_pool(context, mapped)
    walk = time.perf_counter() - begin
    begin = time.perf_counter()
    selected = batch(model, mapped, target)
    wall = time.perf_counter() - begin
    stats = jax.local_devices()[0].memory_stats() or {}
    path.unlink()
    return {
        "pool": n_pool,
        "gigabytes": 2e-9 * n_pool * n_features,
        "seconds": wall,
        "walk_seconds": walk,
        "scored": int(selected.n_exact.sum()),
        "chosen": selected.indices[:5].tolist(),
        "peak_bytes": stats.get("peak_bytes_in_use", 0),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="")
    parser.add_argument("--out", type=Path, default=FOLDER / "record.json")
    parser.add_argument("--stream", type=int, default=10_000_000, help="rows of the mapped file")
    parser.add_argument("--report", action="store_true", help="write README.md from the JSON")
    options = parser.parse_args()
    results = json.loads(options.out.read_text()) if options.out.exists() else {}
    if options.report:
        (FOLDER / "README.md").write_text(page(results), encoding="utf-8")
        return
    stages = {
        "limits": measure_limits,
        "first_call": measure_first_call,
        "batches": measure_batches,
        "choices": measure_choices,
        "stream": lambda: measure_stream(options.stream, Path(tempfile.gettempdir())),
    }
    for name, stage in stages.items():
        if options.only in ("", name):
            results[name] = stage()
            options.out.write_text(json.dumps(results, indent=1) + "\n")
