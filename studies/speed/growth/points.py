"""One point of the growth study, measured in a fresh process.

Prints JSON lines; each holds all that is known so far, so that a point which is cut off still tells
what it had measured.
"""

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from lib.folders import STUDIES
from lib.isolate import memory_peak, reset_memory_peak, timed

BLOCK = 100_000
START = "import parbals_label.project.engine"


def main() -> int:
    kind, *arguments = sys.argv[1:]
    if kind == "step":
        result = worker_steps(Path(arguments[0]), Path(arguments[1]), int(arguments[2]))
        print(json.dumps(result))
        return 0
    measure = {"batch": measure_batch, "project": measure_project}[kind]
    measure(json.loads(arguments[0]), lambda result: print(json.dumps(result), flush=True))
    return 0


def make_pool(sizes: dict[str, int]) -> tuple[np.ndarray, np.ndarray]:
    """Unit-norm rows (N, D) float32 with a falling spectrum; classes (N,) of a softmax model."""
    generator = np.random.default_rng(0)
    n_items = sizes["N"]
    n_features = sizes["D"]
    weights = 6.0 * generator.standard_normal((n_features, sizes["C"]), np.float32)
    scale = 1.0 / np.sqrt(1.0 + np.arange(n_features, dtype=np.float32))
    X = np.empty((n_items, n_features), np.float32)
    y = np.empty(n_items, np.int32)
    for start in range(0, n_items, BLOCK):
        rows = X[start : start + BLOCK]
        rows[:] = generator.standard_normal(rows.shape, np.float32) * scale
        rows /= np.linalg.norm(rows, axis=1, keepdims=True)
        noise = generator.gumbel(size=(len(rows), sizes["C"]))
        y[start : start + BLOCK] = (rows @ weights + noise).argmax(axis=1)
    return X, y


def measure_batch(sizes: dict[str, int], say: Callable[[dict[str, Any]], None]) -> None:
    """A fit and a batch of the learner over the whole pool: compiling first, and once more."""
    import jax
    import parbals

    X, y = make_pool(sizes)
    labelled = np.random.default_rng(1).choice(len(X), sizes["n"], replace=False)

    def learner() -> Any:
        new_learner = parbals.ActiveLearner(
            X,
            list(range(sizes["C"])),
            random_state=0,
            n_samples=sizes["K"],
            n_universes=sizes["U"],
            n_candidates=len(X),
            n_targets=sizes["M"],
            checked=True,
        )
        new_learner.tell(labelled, y[labelled])
        return new_learner

    times: dict[str, Any] = {}
    learner()  # loads the modules before the baseline is taken
    before = reset_memory_peak()
    for suffix in ("_first", ""):
        reset_memory_peak()
        fresh = learner()
        times[f"fit{suffix}"] = timed(fresh.fitted)[0]
        times[f"batch{suffix}"], batch = timed(lambda fresh=fresh: fresh.choose(sizes["B"]))
        times["peak"] = memory_peak() - before
        stats = jax.devices()[0].memory_stats() or {}
        times["device_peak"] = stats.get("peak_bytes_in_use")
        times["notes"] = list(batch.notes)
        say(times)


def measure_project(sizes: dict[str, int], say: Callable[[dict[str, Any]], None]) -> None:
    """The commands in fresh processes on a project of this size, and the page's worker."""
    X, y = make_pool(sizes)
    classes = [f"class{c}" for c in range(sizes["C"])]
    times: dict[str, Any] = {"start": _seconds_to_start()}
    with tempfile.TemporaryDirectory(prefix="parbals-growth-") as temporary:
        folder = Path(temporary)
        project = str(Path(temporary) / "project")
        os.environ["PARBALS_CACHE_DIR"] = str(folder / "cache")
        np.save(folder / "X.npy", X)
        np.save(folder / "y.npy", y)
        del X
        run("init", project, str(folder / "X.npy"), "--classes", ",".join(classes))
        os.unlink(folder / "X.npy")
        labelled = np.random.default_rng(1).choice(len(y), sizes["n"], replace=False)
        _write_labels(folder / "known.csv", labelled, y)
        run("tell", project, str(folder / "known.csv"), "--no-report")
        for name in ("next_first", "next"):  # before and after its programs are compiled
            times[name], times[f"{name}_cpu"], times["peak"] = run(
                "next", project, "-n", str(sizes["B"]), "--json"
            )
            batch = _given_back(project)
            say(times)
        _write_labels(folder / "batch.csv", batch, y)
        times["tell_first"], _, _ = run("tell", project, str(folder / "batch.csv"), "--json")
        say(times)
        _write_labels(folder / "more.csv", _free(project, len(y), sizes["B"]), y)
        for name, arguments in (("tell", [str(folder / "more.csv")]), ("status", [])):
            times[name], times[f"{name}_cpu"], _ = run(name, project, *arguments, "--json")
        say(times)
        times |= _worker(project, folder / "y.npy", sizes["B"])
        say(times)


def _seconds_to_start() -> float:
    """Importing what `next` and `tell` need; the first time only fills the system's file cache."""
    command = [sys.executable, "-c", START]
    return [timed(lambda: subprocess.run(command, check=True))[0] for _ in range(2)][1]


def _write_labels(path: Path, positions: np.ndarray, y: np.ndarray) -> None:
    rows = [f"{position + 1},class{y[position]}" for position in positions]
    path.write_text("\n".join(["id,label", *rows, ""]), encoding="utf-8")


def _given_back(project: str) -> np.ndarray:
    """The items of the latest batch, which are free again."""
    from parbals_label.store.store import Store

    with Store.open(Path(project)) as store:
        positions = [item.position for item in store.batches()[-1].items]
        store.end_leases(positions)
    return np.array(positions)


def _free(project: str, n_items: int, n: int) -> np.ndarray:
    from parbals_label.store.store import Store

    with Store.open(Path(project), read_only=True) as store:
        labelled = np.fromiter(store.votes(), np.int64)
    free = np.setdiff1d(np.arange(n_items), labelled)
    return np.random.default_rng(2).choice(free, n, replace=False)


def _worker(project: str, truth: Path, n: int) -> dict[str, Any]:
    from parbals_label.web.supervisor import worker_environment

    command = [
        sys.executable,
        str(STUDIES),
        "speed.growth.points",
        "step",
        project,
        str(truth),
        str(n),
    ]
    process = subprocess.run(command, env=worker_environment(), check=True, capture_output=True)
    return json.loads(process.stdout.splitlines()[-1])


def worker_steps(project: Path, truth: Path, n: int) -> dict[str, Any]:
    """Seconds of a batch and of a report, as the page's worker makes them on its one core.

    The first batch loads and compiles; the second one follows when the first is labelled.
    """
    from parbals_label.store.records import Submission
    from parbals_label.store.store import Store
    from parbals_label.web.worker import Chooser, Reporter

    y = np.load(truth)
    times = {}
    with Store.open(project) as store:
        chooser, reporter = (step(store, lambda **words: None) for step in (Chooser, Reporter))
        for suffix in ("_first", ""):
            times[f"step{suffix}"] = timed(lambda: chooser.step(n))[0]
            latest = store.batches()[-1]
            times["step_strategy"] = latest.strategy
            answers = [Submission(i.position, f"class{y[i.position]}") for i in latest.items]
            store.submit(answers, annotator="growth")
        times["step_report"] = timed(reporter.step)[0]
    return times


def run(*arguments: str) -> tuple[float, float, int]:
    """Seconds, CPU seconds of all threads, and peak memory of one command in its own process."""
    code = (
        "import sys\nfrom parbals.cli.main import main\n"
        "try: main(sys.argv[1:])\nexcept SystemExit as end: code = end.code\n"
        # Not ru_maxrss, which a process inherits from the one that started it.
        "peak = [line.split()[1] for line in open('/proc/self/status') if "
        "line.startswith('VmHWM')][0]\nprint('PEAK', 1024 * int(peak))\nsys.exit(code)\n"
    )
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    start = time.perf_counter()
    process = subprocess.run(
        [sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=False
    )
    seconds = time.perf_counter() - start
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu_seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    if process.returncode != 0:
        raise SystemExit(f"parbals {' '.join(arguments)} failed:\n{process.stderr}")
    spent = f"{seconds:.1f} s, {cpu_seconds:.2f} CPU-s"
    print(f"parbals {arguments[0]}: {spent}", file=sys.stderr, flush=True)
    return seconds, cpu_seconds, int(process.stdout.split("PEAK")[1])
