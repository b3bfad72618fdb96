"""What does one ParBaLS run cost, stage by stage, in time and memory?

    python studies speed.stages  # made-up data of the paper's sizes; README.md
    python studies speed.stages --dataset airline --data ~/data
    python studies speed.stages --smoke                          # tiny sizes, a quick check

A run is what `parbals bench run` computes: 100 labels, then 10 batches of 20 chosen by ParBaLS EPIG
with 10 universes and 400 samples from 10,000 candidates for 1,000 targets. Every run has a fresh
process, which has compiled nothing.
"""

import argparse
import sys
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from lib.isolate import Worker, WorkerError, memory_peak, pin_cores, reset_memory_peak

# Pool, target source, test, features (after PCA, or about as many one-hot columns).
SIZES = {
    "airline": (103_904, 12_988, 12_988, 120),
    "ag-news": (120_000, 3_800, 3_800, 210),
    "cifar10": (50_000, 5_000, 5_000, 348),
}
SMOKE = (300, 60, 60, 5)
STAGES = {
    "load": "load the data",
    "fit": "fit the model",
    "predict": "predict the test set",
    "candidates": "draw candidates and targets",
    "bound": "select: bound on every candidate",
    "exact": "select: exact EPIG",
    "moves": "select: move particles",
    "rows": "select: predictive rows of moved particles",
    "select": "select: everything else",
    "other": "everything else",
}
# Tracing is not counted: functions traced inside others report their time twice.
_COMPILING = ("jaxpr_to_mlir_module_duration", "backend_compile_duration")


class Cost(NamedTuple):
    """Of one run, by stage: (seconds in all, seconds of them that went into compiling, calls)."""

    name: str
    shape: tuple[int, int, int, int]
    stages: dict[str, tuple[float, float, int]]
    loaded_bytes: int  # resident when the data were there
    peak_bytes: int  # the most while the run lasted
    accuracy: tuple[float, float]


class Stopwatch:
    """Seconds and compile seconds of nested stages; each second counts for the innermost alone."""

    def __init__(self) -> None:
        import jax

        self.seconds: dict[str, float] = defaultdict(float)
        self.compiling: dict[str, float] = defaultdict(float)
        self.calls: dict[str, int] = defaultdict(int)
        self._stack: list[str] = ["other"]
        self._since = time.perf_counter()
        jax.monitoring.register_event_duration_secs_listener(self._listen)

    def wrap(self, owner: Any, name: str, stage: str) -> None:
        """Time every call of ``owner.name``, until its arrays are really there."""
        import jax

        function: Callable[..., Any] = getattr(owner, name)

        def timed(*arguments: Any, **keywords: Any) -> Any:
            self._turn()
            self._stack.append(stage)
            self.calls[stage] += 1
            try:
                return jax.block_until_ready(function(*arguments, **keywords))
            finally:
                self._turn()
                self._stack.pop()

        setattr(owner, name, timed)

    def done(self) -> dict[str, tuple[float, float, int]]:
        self._turn()
        return {
            stage: (self.seconds[stage], self.compiling[stage], self.calls[stage])
            for stage in STAGES
        }

    def _turn(self) -> None:
        now = time.perf_counter()
        self.seconds[self._stack[-1]] += now - self._since
        self._since = now

    def _listen(self, event: str, seconds: float, **_: Any) -> None:
        if event.endswith(_COMPILING):
            self.compiling[self._stack[-1]] += seconds


def measure(name: str, folder: str | None, made_up: bool, smoke: bool) -> Cost:
    """One run in this fresh process, through the very functions that `parbals bench` uses."""
    import parbals.select as select
    import parbals_bench.run.single as protocol
    from parbals.posterior.estimator import LogisticModel
    from parbals.strategies.universes import samples
    from parbals_bench.run.loading import load_data
    from parbals_bench.run.spec import Settings

    clock = Stopwatch()
    for owner, function, stage in (
        (LogisticModel, "fit", "fit"),
        (LogisticModel, "predict_proba", "predict"),
        (protocol, "draw_candidates", "candidates"),
        (protocol, "draw_targets", "candidates"),
        (select, "select_batch_from_model", "select"),
        (samples.Universe, "bound_pool", "bound"),
        (samples.Universe, "score_pool", "exact"),
        (samples.Universe, "score_points", "exact"),
        (samples, "condition_population", "moves"),
        (samples.ParticleUniverses, "_cloud", "rows"),
    ):
        clock.wrap(owner, function, stage)
    loaders = argparse.Namespace(
        load=lambda: made_up_data(name, smoke) if made_up else load_data(name, _path(folder))
    )
    clock.wrap(loaders, "load", "load")
    data = loaders.load()
    loaded = reset_memory_peak()
    budget = "20+2x3" if smoke else "100+10x20"
    settings = Settings(100, 40, 32, 2) if smoke else Settings()
    record = protocol.run_one(data, budget, "parbals-epig", settings=settings)
    accuracy = record.metrics["accuracy"]
    shape = (len(data.X_pool), len(data.X_target_source), len(data.X_test), data.X_pool.shape[1])
    return Cost(name, shape, clock.done(), loaded, memory_peak(), (accuracy[0], accuracy[-1]))


def made_up_data(name: str, smoke: bool) -> Any:
    """Rows as embeddings have them: a decaying spectrum, norm 1; labels from a logistic model."""
    import numpy as np
    from parbals_bench.datasets.base import Data

    n_pool, n_source, n_test, n_features = SMOKE if smoke else SIZES[name]
    generator = np.random.default_rng(0)
    X = generator.standard_normal((n_pool + n_source + n_test, n_features), np.float32)
    X /= np.sqrt(1.0 + np.arange(n_features, dtype=np.float32))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    logits = X @ (6.0 * generator.standard_normal(n_features)) + generator.logistic(size=len(X))
    y = (logits > 0).astype(np.int64)
    pool, source, test = np.split(np.arange(len(X)), [n_pool, n_pool + n_source])
    return Data(name, X[pool], y[pool], X[source], X[test], y[test], ("no", "yes"))


def _path(folder: str | None) -> Path | None:
    return None if folder is None else Path(folder)


def table(cost: Cost, made_up: bool) -> str:
    """Markdown."""
    n_pool, n_source, n_test, n_features = cost.shape
    kind = "made-up data with the sizes of" if made_up else "the data of"
    total = sum(seconds for seconds, _, _ in cost.stages.values())
    compiling = sum(compile_seconds for _, compile_seconds, _ in cost.stages.values())
    running = total - compiling
    lines = [
        f"## {cost.name}",
        "",
        f"A run on {kind} {cost.name}: pool {n_pool:,} × {n_features}, target source {n_source:,}, "
        f"test {n_test:,}; test accuracy {100 * cost.accuracy[0]:.1f} % at the start, "
        f"{100 * cost.accuracy[1]:.1f} % at the end.",
        "",
        "| stage | calls | compiling | computing | share of computing |",
        "| --- | ---: | ---: | ---: | ---: |",
    ]
    for stage, (seconds, compiled, calls) in cost.stages.items():
        run_seconds = max(0.0, seconds - compiled)
        lines.append(
            f"| {STAGES[stage]} | {calls or ''} | {compiled:.2f} s | {run_seconds:.2f} s | "
            f"{run_seconds / running:.0%} |"
        )
    lines += [
        f"| **whole run** | | **{compiling:.1f} s** | **{running:.1f} s** | |",
        "",
        f"Peak memory {cost.peak_bytes / 1e6:,.0f} MB, of which {cost.loaded_bytes / 1e6:,.0f} MB "
        "were resident when the data were loaded.",
        "",
    ]
    return "\n".join(lines)


def main(arguments: list[str] | None = None) -> int:
    parser = _parser()
    options = parser.parse_args(arguments)
    if unknown := set(options.sizes) - set(SIZES):
        parser.error(f"no sizes of {', '.join(sorted(unknown))}; there are {', '.join(SIZES)}")
    if options.cores < 1:
        parser.error("--cores must be at least 1")
    for warning in pin_cores(options.cores):
        print(f"Warning: {warning}", file=sys.stderr)
    from lib import report  # only now: it loads NumPy, which reads the number of threads once

    facts = report.machine(options.cores)
    names = options.sizes
    if options.dataset:
        names = [options.dataset]
    elif options.smoke:
        names = ["smoke"]
    made_up = options.dataset is None
    parts = []
    for name in names:
        print(f"{name} ...", file=sys.stderr, flush=True)
        worker = Worker()
        try:
            cost = worker.call(measure, name, options.data, made_up, options.smoke)
        except WorkerError as error:
            print(error, file=sys.stderr)
            return 1
        finally:
            worker.close()
        parts.append(table(cost, made_up))
        print(parts[-1])
    folder = options.out or (None if options.smoke or options.dataset else Path(__file__).parent)
    if folder is not None:
        load = ", ".join(str(value) for value in facts["load_before"])
        head = f"""# What does one ParBaLS run cost?

{options.cores} cores of {facts["processor"]}, load average before the run {load};
commit {facts["commit"]}. One run is 100 + 10×20 labels with 10,000 candidates, 1,000 targets, 400
samples and 10 universes. Compiling is counted apart, in the stage that needed it; a process that
finds its programs in the cache of `parbals bench` does not pay for most of it. Every call waits for
its arrays, which a plain run does not.

Written by `python studies speed.stages`; do not edit.

"""
        (folder / "README.md").write_text(head + "\n".join(parts), encoding="utf-8")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--dataset", metavar="NAME", help="real data instead, as in `parbals bench run --datasets`"
    )
    parser.add_argument("--data", metavar="DIR", help="folder that holds the real data")
    parser.add_argument(
        "--sizes",
        type=lambda text: text.split(","),
        default=["airline", "cifar10"],
        metavar="A,B,..",
        help=f"whose sizes the made-up data have: {', '.join(SIZES)} (airline,cifar10)",
    )
    parser.add_argument("--smoke", action="store_true", help="tiny sizes: does it work?")
    parser.add_argument("--cores", type=int, default=2, help="cores to use (2)")
    parser.add_argument("--out", type=Path, help="folder for README.md")
    return parser
