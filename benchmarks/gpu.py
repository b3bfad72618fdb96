"""A batch on an accelerator, stage by stage, beside the same batch on the CPU.

    python benchmarks/gpu.py                      every size; writes benchmarks/gpu.json
    python benchmarks/gpu.py --only batches       or limits, compile, choices, stream
    python benchmarks/gpu.py --report             benchmarks/gpu.md from the JSON

Times are wall-clock, the best of three after the first call, features in host memory as float32:
the copy to the device is part of every figure. It needs NumPy, SciPy, JAX and this source tree.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "src"))

import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402

from parbals.posterior.estimator import LogisticModel  # noqa: E402
from parbals.strategies import closed_form, surface  # noqa: E402
from parbals.strategies.choose import check_terms, choose_batch  # noqa: E402
from parbals.strategies.problem import GaussianView, Labelled  # noqa: E402

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
N_FEATURES, N_TARGETS, N_LABELS, BATCH, UNIVERSES = 300, 1_000, 100, 20, 10


def made(n_classes: int, n_pool: int, n_features: int = N_FEATURES) -> tuple:
    """A fitted model, a pool (N, D) and a target set; directions of falling variance."""
    generator = np.random.default_rng(0)
    scales = (2.0 / np.sqrt(np.arange(1, n_features + 1))).astype(np.float32)
    n_rows = n_pool + N_TARGETS + N_LABELS
    X = generator.standard_normal((n_rows, n_features), np.float32) * scales
    weights = generator.standard_normal((n_features, n_classes), np.float32)
    known = X[:N_LABELS]
    labels = np.argmax(known @ weights + generator.gumbel(size=(N_LABELS, n_classes)), axis=1)
    model = LogisticModel(400, 1.0, "ep", classes=np.arange(n_classes), random_state=0)
    model.fit(known, labels)
    return model, X[N_LABELS : N_LABELS + n_pool], X[N_LABELS + n_pool :]


def batch(model: LogisticModel, pool: np.ndarray, target: np.ndarray, seed: int = 0):
    terms = check_terms("parbals-epig", len(pool), BATCH, n_universes=UNIVERSES, random_state=seed)
    return choose_batch(terms, model, pool, target, Labelled())


def seconds(run, repeats: int = 3) -> float:
    best = np.inf
    for _ in range(repeats):
        begin = time.perf_counter()
        jax.block_until_ready(run())
        best = min(best, time.perf_counter() - begin)
    return best


def measure_batches() -> list[dict]:
    rows = []
    for n_classes, n_pool in SIZES:
        model, pool, target = made(n_classes, n_pool)
        begin = time.perf_counter()
        batch(model, pool, target)
        first = time.perf_counter() - begin
        view = GaussianView(model.gaussian, pool, target)
        seen = surface.surface_of(view.channels, view.target)
        whole = seconds(lambda: batch(model, pool, target))  # noqa: B023
        start = seconds(lambda: closed_form.start_scores(seen, pool))  # noqa: B023
        copied = seconds(lambda: jax.device_put(pool[:2_000_000]))  # noqa: B023
        stats = jax.local_devices()[0].memory_stats() or {}
        rows.append(
            {
                "classes": n_classes,
                "pool": n_pool,
                "first": first,
                "batch": whole,
                "start": start,
                "copy": copied,
                "walk_flop": walk_flop(seen, n_pool),
                "peak_bytes": stats.get("peak_bytes_in_use", 0),
                "scored": int(batch(model, pool, target).n_exact.sum()),
            }
        )
        print(json.dumps(rows[-1]), flush=True)
    return rows


def walk_flop(seen: surface.Surface, n_pool: int) -> float:
    """Operations of the walk over the pool: coordinates, factors, covariances, the form."""
    d, r = seen.basis.shape
    n_channels, n_targets = seen.roots.shape[0], len(seen.share)
    across = 0 if d == r else 2 * d * r + 2 * d * n_targets
    return n_pool * (2 * d * r + across + n_channels * (2 * r * r + (2 * r + 7) * n_targets))


def measure_limits() -> dict:
    """What the machine gives: float32 matrix products, copies to the device."""
    size = 8192
    matrix = jnp.asarray(np.random.default_rng(0).standard_normal((size, size), np.float32))
    product = jax.jit(lambda x: jnp.matmul(x, x, precision=jax.lax.Precision.HIGHEST))
    fast = jax.jit(lambda x: jnp.matmul(x, x, precision=jax.lax.Precision.DEFAULT))
    jax.block_until_ready((product(matrix), fast(matrix)))
    block = np.ones((1_000_000, 300), np.float32)
    return {
        "device": jax.devices()[0].device_kind,
        "jax": jax.__version__,
        "float32_tflops": 2e-12 * size**3 / seconds(lambda: product(matrix)),
        "default_tflops": 2e-12 * size**3 / seconds(lambda: fast(matrix)),
        "copy_gb_per_second": 1e-9 * block.nbytes / seconds(lambda: jax.device_put(block)),
    }


def measure_compiling() -> list[dict]:
    """The first batch of a fresh process: with an empty cache, and with a filled one."""
    rows = []
    for n_classes in (2, 10):
        with tempfile.TemporaryDirectory() as folder:
            for state in ("empty", "filled"):
                program = (
                    f"import sys; sys.path.insert(0, {str(ROOT / 'benchmarks')!r})\n"
                    "import time, gpu, jax\n"
                    "jax.config.update('jax_persistent_cache_min_compile_time_secs', 0.0)\n"
                    "jax.config.update('jax_persistent_cache_min_entry_size_bytes', -1)\n"
                    f"parts = gpu.made({n_classes}, 10_000)\n"
                    "jax.block_until_ready(jax.numpy.ones(8) @ jax.numpy.ones(8))\n"
                    "begin = time.perf_counter(); gpu.batch(*parts)\n"
                    "first = time.perf_counter() - begin\n"
                    "begin = time.perf_counter(); gpu.batch(*parts)\n"
                    "print(first - (time.perf_counter() - begin))\n"
                )
                setting = {**os.environ, "JAX_COMPILATION_CACHE_DIR": folder}
                done = subprocess.run(
                    [sys.executable, "-c", program], env=setting, capture_output=True, text=True
                )
                if done.returncode:
                    raise SystemExit(done.stderr[-2000:])
                row = {"classes": n_classes, "cache": state}
                rows.append({**row, "seconds": float(done.stdout.split()[-1])})
                print(json.dumps(rows[-1]), flush=True)
    return rows


def measure_choices() -> list[dict]:
    """The same batches on the CPU and on the accelerator."""
    rows = []
    for n_classes in (2, 4, 10):
        model, pool, target = made(n_classes, 10_000)
        for seed in range(5):
            there = batch(model, pool, target, seed)
            with jax.default_device(jax.devices("cpu")[0]):
                here = batch(model, pool, target, seed)
            same = int((here.indices == there.indices).cumprod().sum())
            shared = same if same == BATCH else same + 1
            apart = np.abs(there.scores[:shared] / here.scores[:shared] - 1.0).max()
            rows.append({"classes": n_classes, "seed": seed, "same": same, "apart": float(apart)})
            print(json.dumps(rows[-1]), flush=True)
    return rows


def measure_stream(n_pool: int, folder: Path) -> dict:
    """A mapped file of float16 features, larger than one would hold on a device."""
    n_features, part = 384, 200_000
    model, pool, target = made(2, 1_000, n_features)
    path = folder / "pool.npy"
    mapped = np.lib.format.open_memmap(path, "w+", np.float16, (n_pool, n_features))
    scales = jnp.asarray(pool.std(axis=0), jnp.float16)
    for k, begin in enumerate(range(0, n_pool, part)):
        rows = jax.random.normal(jax.random.key(k), (part, n_features), jnp.float16) * scales
        mapped[begin : begin + part] = np.asarray(rows)[: n_pool - begin]
    mapped.flush()
    mapped = np.load(path, mmap_mode="r")
    batch(model, mapped[:400_000], target)
    seen = surface.surface_of(model.gaussian.channels, target)
    begin = time.perf_counter()
    closed_form.start_scores(seen, mapped)
    walk = time.perf_counter() - begin
    begin = time.perf_counter()
    chosen = batch(model, mapped, target)
    wall = time.perf_counter() - begin
    stats = jax.local_devices()[0].memory_stats() or {}
    path.unlink()
    return {
        "pool": n_pool,
        "gigabytes": 2e-9 * n_pool * n_features,
        "seconds": wall,
        "walk_seconds": walk,
        "scored": int(chosen.n_exact.sum()),
        "chosen": chosen.indices[:5].tolist(),
        "peak_bytes": stats.get("peak_bytes_in_use", 0),
    }


def report(results: dict) -> str:
    """The JSON as a page."""
    limits = results["limits"]
    lines = [
        "# A batch on a GPU",
        "",
        f"{limits['device']}, JAX {limits['jax']}; written by `python benchmarks/gpu.py --report` "
        f"from `gpu.json`. ParBaLS, B = {BATCH}, U = {UNIVERSES}, M = {N_TARGETS:,}, "
        f"D = {N_FEATURES}, {N_LABELS} labels. Features begin in host memory as float32, so every "
        "figure holds the copy to the device. A batch walks the pool once and then runs one "
        "compiled program; the fit before it is not counted.",
        "",
        "| classes | pool | whole batch, s | walk over the pool, s | copy alone, s | "
        "walk: TFLOP/s | share of float32 limit | scored anew in 20 steps | peak on device, GB |",
        "| ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    peak = 0
    for row in results["batches"]:
        rate = 1e-12 * row["walk_flop"] / max(row["start"] - row["copy"], 1e-9)
        grown, peak = row["peak_bytes"] > peak, max(peak, row["peak_bytes"])
        memory = f"{1e-9 * row['peak_bytes']:.1f}" if grown else "below the last"
        lines.append(
            f"| {row['classes']} | {row['pool']:,} | {row['batch']:.3f} | {row['start']:.3f} | "
            f"{row['copy']:.3f} | {rate:.1f} | {rate / limits['float32_tflops']:.0%} | "
            f"{row['scored']:,} | {memory} |"
        )
    lines += [
        "",
        f"The limits, measured on the same device: float32 products {limits['float32_tflops']:.0f} "
        f"TFLOP/s, with tensor cores (the precision of the programs' own products, where what is "
        f"multiplied has been centred) {limits['default_tflops']:.0f}; copies from unpinned host "
        f"memory {limits['copy_gb_per_second']:.1f} GB/s.",
        "",
        "## Compiling",
        "",
        "| classes | cache of compiled programs | added to the first batch, s |",
        "| ---: | --- | ---: |",
    ]
    lines += [
        f"| {row['classes']} | {row['cache']} | {row['seconds']:.1f} |"
        for row in results["compile"]
    ]
    same = [row for row in results["choices"] if row["same"] == BATCH]
    apart = max(row["apart"] for row in results["choices"])
    stream = results["stream"]
    lines += [
        "",
        "## The same choices as on the CPU",
        "",
        f"Of {len(results['choices'])} batches (2, 4 and 10 classes, several seeds each) "
        f"{len(same)} are the same {BATCH} points in the same order; scores differ by at most "
        f"{apart:.1e} of themselves, and a batch that parts ways does so at a tie within that.",
        "",
        "## A pool in a mapped file",
        "",
        f"{stream['pool']:,} × 384 in float16, {stream['gigabytes']:.1f} GB on disk: one batch in "
        f"{stream['seconds']:.1f} s, {stream['walk_seconds']:.1f} s of it the walk (blocks "
        "are read and copied while earlier ones are scored); peak on the device "
        f"{1e-9 * stream['peak_bytes']:.1f} GB, {stream['scored']:,} scores computed anew.",
        "",
    ]
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="")
    parser.add_argument("--out", type=Path, default=ROOT / "benchmarks" / "gpu.json")
    parser.add_argument("--stream", type=int, default=10_000_000, help="rows of the mapped file")
    parser.add_argument("--report", action="store_true", help="write gpu.md from the JSON")
    options = parser.parse_args()
    results = json.loads(options.out.read_text()) if options.out.exists() else {}
    if options.report:
        (ROOT / "benchmarks" / "gpu.md").write_text(report(results))
        return
    stages = {
        "limits": measure_limits,
        "compile": measure_compiling,
        "batches": measure_batches,
        "choices": measure_choices,
        "stream": lambda: measure_stream(options.stream, Path(tempfile.gettempdir())),
    }
    for name, stage in stages.items():
        if options.only in ("", name):
            results[name] = stage()
            options.out.write_text(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
