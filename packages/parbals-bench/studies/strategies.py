"""Every strategy: seconds, ratio to one pass over the pool, peak memory; and the versions people
use today.

    python benchmarks/strategies.py             all of it, about ten minutes; writes STRATEGIES.md
    and strategies.json python benchmarks/strategies.py --smoke     tiny sizes: does every part run?
    The times mean nothing python benchmarks/strategies.py --only badge,coreset

N = 50,000 candidates, D = 384, K = 400, B = 20, two classes. The pass is
``model.sample_proba(X_pool)``, what every strategy needs beforehand. BatchBALD and ParBaLS are
measured at N = 10,000. Every strategy has a process of its own.
"""

import argparse
import sys
import time
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

from isolate import WorkerError, memory_peak, pin_cores, reset_memory_peak, timed

_GB = 1e9
_GOAL_RATIO, _GOAL_MEMORY, _GOAL_BATCHBALD = 10.0, 2.0, 120.0
_SLOW = ("batchbald", "parbals-map-epig", "parbals-epig")


class Measured(NamedTuple):
    """Seconds of the pass, of the first call and of a later one; peak bytes over the inputs."""

    pass_seconds: float
    first_seconds: float
    seconds: float
    peak_bytes: int


def main(arguments: list[str] | None = None) -> int:
    """Measure what was asked for; 0 if all ran, 1 if something failed, 130 after Ctrl-C."""
    options = _parser().parse_args(arguments)
    for warning in pin_cores(options.cores):
        print(f"Warning: {warning}", file=sys.stderr)
    # Only now: these load NumPy, which reads the number of threads once.
    import report
    from bench import Bench
    from rich.console import Console
    from workload import PRESETS

    full = replace(PRESETS["full"], n_pool=50_000, n_features=384)
    sizes = PRESETS["smoke"] if options.smoke else full
    facts = report.machine(options.cores) | {"sizes": "smoke" if options.smoke else "full"}
    bench, status, start = Bench(sizes, []), 0, time.perf_counter()
    sections = []
    try:
        with bench.progress():
            sections = [_own(bench, options.only), _against_others(bench, options.only, sizes)]
    except WorkerError as error:
        status = 1
        print(error, file=sys.stderr)
    except KeyboardInterrupt:
        status = 130
        print("Interrupted; nothing is written.", file=sys.stderr)
    finally:
        bench.close()
    facts["minutes"] = round((time.perf_counter() - start) / 60, 1)
    if sections:
        console = Console() if sys.stdout.isatty() else Console(width=140)
        report.print_report(sections, facts, console)
    folder = options.out or (None if options.smoke or options.only else Path(__file__).parent)
    if folder is not None and status == 0:
        names = ("STRATEGIES.md", "strategies.json", "benchmarks/strategies.py")
        for path in report.write_report(sections, facts, folder, *names):
            print(f"wrote {path}")
    return status


def _own(bench: Any, only: list[str]) -> Any:
    from parbals.strategies import STRATEGIES
    from report import Detail, Ratio, Section, seconds

    sizes = bench.sizes
    section = Section(
        "s", f"Every strategy, D={sizes.n_features}, K={sizes.n_samples}, two classes"
    )
    rows = []
    for name in STRATEGIES:
        if only and name not in only:
            continue
        slow = name in _SLOW
        here = replace(sizes, n_pool=min(10_000, sizes.n_pool)) if slow else sizes
        batch_sizes = (
            (10, here.batch_size)
            if name == "batchbald" and here.batch_size > 10
            else (here.batch_size,)
        )
        for batch_size in batch_sizes:
            label = f"{name}, N={here.n_pool:,}, B={batch_size}"
            found = bench.call_fresh(label, measure, name, replace(here, batch_size=batch_size))
            ratio = found.seconds / found.pass_seconds
            if not slow:
                section.ratios.append(
                    Ratio(
                        f"{name}, in passes over the pool",
                        seconds(found.seconds),
                        seconds(found.pass_seconds),
                        ratio,
                        _GOAL_RATIO,
                        upper_limit=True,
                    )
                )
            elif name == "batchbald":
                section.ratios.append(
                    Ratio(
                        label,
                        seconds(found.seconds),
                        "",
                        found.seconds,
                        _GOAL_BATCHBALD,
                        True,
                        " s",
                    )
                )
            memory = found.peak_bytes / _GB
            mark = "" if memory <= _GOAL_MEMORY else " (goal 2 GB MISSED)"
            rows.append(
                (
                    name,
                    f"{here.n_pool:,}",
                    str(batch_size),
                    seconds(found.first_seconds),
                    seconds(found.seconds),
                    f"{ratio:.2f}",
                    f"{found.peak_bytes / 1e6:,.0f} MB{mark}",
                )
            )
            section.data[label] = found._asdict()
    columns = (
        "strategy",
        "N",
        "B",
        "first call",
        "later call",
        "passes",
        "peak memory over inputs",
    )
    section.details.append(Detail(section.title, columns, rows))
    section.notes.append(
        "The first call includes compiling. Memory: peak resident during both calls less what was "
        "resident before them, when features and predictive samples were in memory."
    )
    return section


def measure(name: str, sizes: Any) -> Measured:
    """One strategy in this fresh process."""
    import warnings

    import parbals
    from parbals.strategies import strategy_named
    from workload import make_problem

    problem = make_problem("unit", sizes, 2)
    model = parbals.BayesianLogisticRegression(n_samples=sizes.n_samples, random_state=0).fit(
        problem.X, problem.y
    )
    pool = model.sample_proba(problem.X_pool)
    pass_seconds = min(timed(lambda: model.sample_proba(problem.X_pool))[0] for _ in range(3))
    strategy = strategy_named(name)
    inputs = {"sample_weights": model.sample_weights}
    if strategy.needs_target:
        inputs["target_probs"] = model.sample_proba(problem.X_target)
    if strategy.needs_features:
        inputs |= {"pool_features": problem.X_pool, "labelled_features": problem.X}
    if strategy.needs_labels:
        inputs |= {"labelled_probs": model.sample_proba(problem.X), "labels": problem.y}

    def choose(seed: int) -> Any:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            if strategy.conditions_model:
                return parbals.select_batch_from_model(
                    model,
                    problem.X_pool,
                    problem.X_target,
                    sizes.batch_size,
                    name,
                    random_state=seed,
                )
            return parbals.select_batch(
                pool, batch_size=sizes.batch_size, strategy=name, random_state=seed, **inputs
            )

    before = reset_memory_peak()
    first = timed(lambda: choose(0))[0]
    later = min(timed(lambda: choose(1))[0] for _ in range(1 if name in _SLOW else 3))
    return Measured(pass_seconds, first, later, memory_peak() - before)


def _against_others(bench: Any, only: list[str], sizes: Any) -> Any:
    from report import Detail, Ratio, Section, seconds

    section = Section("r", "The same inputs, side by side with scikit-activeml and batchbald_redux")
    rows = []
    small = replace(sizes, n_pool=min(10_000, sizes.n_pool), batch_size=min(10, sizes.batch_size))
    for name, package, here in (
        ("badge", "skactiveml", sizes),
        ("coreset", "skactiveml", sizes),
        ("batchbald", "batchbald_redux", small),
    ):
        if only and name not in only:
            continue
        if find_spec(package) is None:
            pip = {"skactiveml": "scikit-activeml"}.get(package, package)
            section.notes.append(
                f"{package} is not installed, so {name} is not compared: pip install {pip}"
            )
            continue
        label = f"{name} of {package}, N={here.n_pool:,}, B={here.batch_size}"
        ours, theirs, same, their_peak = bench.call_fresh(label, compare, name, here)
        section.ratios.append(Ratio(label, seconds(ours), seconds(theirs), theirs / ours))
        rows.append((label, seconds(ours), seconds(theirs), f"{their_peak / 1e6:,.0f} MB", same))
        section.data[label] = {
            "ours": ours,
            "theirs": theirs,
            "their_peak_bytes": their_peak,
            "same": same,
        }
    section.details.append(
        Detail(section.title, ("what", "ours", "theirs", "their peak memory", "batches"), rows)
    )
    return section


def compare(name: str, sizes: Any) -> tuple[float, float, str, int]:
    """Seconds of ours and of theirs on the same inputs, what their batches share, and their peak
    memory."""
    import numpy as np
    from workload import make_problem

    problem = make_problem("unit", sizes, 2)
    ours, theirs = (_batchbald if name == "batchbald" else _on_features)(name, problem, sizes)
    ours()
    our_seconds, our_batch = timed(ours)
    before = reset_memory_peak()
    their_seconds, their_batch = timed(theirs)
    if their_seconds < 60:  # warm as well, unless that takes too long
        their_seconds, their_batch = timed(theirs)
    shared = len(set(our_batch.tolist()) & set(np.asarray(their_batch).tolist()))
    same = "random by design" if name == "badge" else f"{shared} of {sizes.batch_size} equal"
    return our_seconds, their_seconds, same, memory_peak() - before


def _batchbald(name: str, problem: Any, sizes: Any) -> tuple[Any, Any]:
    """Both exact while 4,096 configurations suffice, in double precision."""
    import numpy as np
    import parbals
    import torch
    from batchbald_redux.batchbald import get_batchbald_batch

    model = parbals.BayesianLogisticRegression(n_samples=sizes.n_samples, random_state=0).fit(
        problem.X, problem.y
    )
    pool = model.sample_proba(problem.X_pool).astype(np.float64)
    log_probs = torch.from_numpy(np.log(pool))

    def ours() -> Any:
        return parbals.select_batch(
            pool, batch_size=sizes.batch_size, strategy=name, random_state=0
        ).indices

    def theirs() -> Any:
        return get_batchbald_batch(log_probs, sizes.batch_size, 4096, dtype=torch.double).indices

    return ours, theirs


def _on_features(name: str, problem: Any, sizes: Any) -> tuple[Any, Any]:
    """BADGE and CoreSet on the same features and the same fitted classifier."""
    import numpy as np
    import parbals
    from skactiveml.classifier import SklearnClassifier
    from skactiveml.pool import Badge, CoreSet
    from sklearn.linear_model import LogisticRegression

    X = np.concatenate([problem.X_pool, problem.X])
    y = np.concatenate([np.full(sizes.n_pool, np.nan), problem.y])
    classifier = SklearnClassifier(LogisticRegression(), classes=[0, 1]).fit(X, y)
    pool = classifier.predict_proba(problem.X_pool)[:, None, :]
    features = {"pool_features": problem.X_pool, "labelled_features": problem.X}

    def ours() -> Any:
        return parbals.select_batch(
            pool, None, sizes.batch_size, name, random_state=0, **features
        ).indices

    def theirs() -> Any:
        if name == "badge":
            return Badge(random_state=0).query(
                X, y, classifier, fit_clf=False, batch_size=sizes.batch_size
            )
        return CoreSet(random_state=0).query(X, y, batch_size=sizes.batch_size)

    return ours, theirs


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--smoke", action="store_true", help="tiny sizes: does every part run?")
    parser.add_argument(
        "--only",
        type=lambda text: text.split(","),
        default=[],
        metavar="NAMES",
        help="some strategies",
    )
    parser.add_argument("--cores", type=int, default=2, help="cores to use (2)")
    parser.add_argument("--out", type=Path, help="folder for STRATEGIES.md and strategies.json")
    return parser


if __name__ == "__main__":
    sys.exit(main())
