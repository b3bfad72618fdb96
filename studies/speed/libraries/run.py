"""How fast are EPIG, BALD and BatchBALD compared with other libraries, on equal samples?

    make bench-ecosystem  # or: studies speed.libraries, where they are installed

Every engine scores in a process of its own, on two cores: the first call with its peak of memory
over its inputs, then rounds in which each engine has its turn. Ratios are those within a round, so
that a machine that slows down for a while slows all of them. Results go to README.md. What is
not installed is left out, and named.
"""

import argparse
import importlib.util
import os
import platform
import sys
from importlib.metadata import version
from pathlib import Path
from statistics import median

from lib.isolate import Worker, WorkerError, memory_peak, pin_cores, reset_memory_peak, timed

FULL = {"N": 10_000, "M": 500, "K": 100, "C": 10, "B": 4, "S": 1_000}
SMOKE = {"N": 200, "M": 50, "K": 20, "C": 3, "B": 3, "S": 500}
ROUNDS = 3
PACKAGES = {
    "parbals": "parbals",
    "baal": "baal",
    "batchbald_redux": "batchbald-redux",
    "skactiveml": "scikit-activeml",
}


def samples(n, sizes, seed):
    """(n, K, C) float32: a softmax of normal logits, part of which the samples share."""
    import numpy as np

    generator = np.random.default_rng(seed)
    logits = generator.standard_normal((n, sizes["K"], sizes["C"]), np.float32)
    logits += 2 * generator.standard_normal((n, 1, sizes["C"]), np.float32)
    probs = np.exp(logits)
    return probs / probs.sum(axis=2, keepdims=True)


def epig_parbals(sizes):
    import parbals

    pool = samples(sizes["N"], sizes, 0)
    target = samples(sizes["M"], sizes, 1)
    return lambda: parbals.epig(pool, target)


def epig_baal(sizes):
    from baal.active.heuristics import EPIG

    pool, target = (
        samples(sizes[n], sizes, s).swapaxes(1, 2).copy() for n, s in (("N", 0), ("M", 1))
    )
    return lambda: EPIG().compute_score(pool, target)


def bald_parbals(sizes):
    import parbals

    pool = samples(sizes["N"], sizes, 0)
    return lambda: parbals.bald(pool)


def bald_baal(sizes):
    from baal.active.heuristics import BALD

    pool = samples(sizes["N"], sizes, 0).swapaxes(1, 2).copy()
    return lambda: BALD().compute_score(pool)


def bald_batchbald_redux(sizes):
    import numpy as np
    import torch
    from batchbald_redux.batchbald import compute_conditional_entropy, compute_entropy

    pool = torch.as_tensor(np.log(samples(sizes["N"], sizes, 0)))
    return lambda: (compute_entropy(pool) - compute_conditional_entropy(pool)).numpy()


def bald_skactiveml(sizes):
    from skactiveml.pool._bald import batch_bald

    pool = samples(sizes["N"], sizes, 0).swapaxes(0, 1).copy()
    return lambda: batch_bald(pool, 1)[0]


def batchbald_parbals(sizes):
    import numpy as np
    import parbals

    pool = samples(sizes["N"], sizes, 0)
    options = {"n_configurations": sizes["S"], "random_state": 0}
    return lambda: np.cumsum(
        parbals.select_batch(pool, None, sizes["B"], "batchbald", **options).scores
    )


def batchbald_batchbald_redux(sizes):
    import numpy as np
    import torch
    from batchbald_redux.batchbald import get_batchbald_batch

    pool = torch.as_tensor(np.log(samples(sizes["N"], sizes, 0)))
    return lambda: np.array(get_batchbald_batch(pool, sizes["B"], num_samples=sizes["S"]).scores)


def batchbald_skactiveml(sizes):
    import numpy as np
    from skactiveml.pool._bald import batch_bald

    pool = samples(sizes["N"], sizes, 0).swapaxes(0, 1).copy()
    return lambda: np.nanmax(batch_bald(pool, sizes["B"], n_MC_samples=sizes["S"]), axis=1)


SCORES = {
    "EPIG": {"parbals": epig_parbals, "baal": epig_baal},
    "BALD": {
        "parbals": bald_parbals,
        "baal": bald_baal,
        "batchbald_redux": bald_batchbald_redux,
        "skactiveml": bald_skactiveml,
    },
    "BatchBALD": {
        "parbals": batchbald_parbals,
        "batchbald_redux": batchbald_batchbald_redux,
        "skactiveml": batchbald_skactiveml,
    },
}


_ready = {}  # in an engine's own process: what it is asked to do, round after round


def first_call(build, sizes):
    """Wall and CPU seconds of the first call, peak bytes over the inputs, and the scores."""
    _ready["call"] = build(sizes)
    before = reset_memory_peak()
    seconds, scores = with_cpu()
    return {"first": seconds, "peak": memory_peak() - before}, scores


def next_call():
    """Wall and CPU seconds."""
    return with_cpu()[0]


def with_cpu():
    """((wall seconds, CPU seconds, user and system), result) of one call."""
    used = os.times()
    seconds, result = timed(_ready["call"])
    return (seconds, sum(os.times()[:2]) - sum(used[:2])), result


def compare(name, engines, sizes):
    """What was measured of every engine that is installed, ours first, and sentences about the
    others."""
    workers = {}
    results = {}
    notes = []

    def ask(engine, *call):
        """The answer of an engine's process; None, and no more questions, where it failed."""
        try:
            answer = workers[engine].call(*call)
        except WorkerError as error:
            notes.append(f"{name} by {PACKAGES[engine]} failed: {str(error).splitlines()[-1]}")
            workers.pop(engine).close()
            results.pop(engine, None)
            return None
        print(f"{name} by {engine}: {call[0].__name__}", file=sys.stderr, flush=True)
        return answer

    for engine, build in engines.items():
        if importlib.util.find_spec(engine) is None:
            notes.append(f"{PACKAGES[engine]} is not installed: pip install {PACKAGES[engine]}")
            continue
        workers[engine] = Worker({"TQDM_DISABLE": "1"})  # no bars of theirs between our lines
        if (answer := ask(engine, first_call, build, sizes)) is not None:
            results[engine] = answer[0] | {"scores": answer[1], "rounds": []}
    for _ in range(ROUNDS):
        for engine in list(workers):
            if (answer := ask(engine, next_call)) is not None:
                results[engine]["rounds"].append(answer)
    for worker in workers.values():
        worker.close()
    return results, notes


def as_rows(name, results):
    """Lines of the table; ratios are to ours."""
    ours = results["parbals"]
    for engine, result in results.items():
        pairs = zip(result["rounds"], ours["rounds"], strict=True)
        slower = median(theirs[0] / own_times[0] for theirs, own_times in pairs)
        seconds, cpu = (median(values) for values in zip(*result["rounds"], strict=True))
        apart = abs(result["scores"] - ours["scores"]).max()
        yield (
            f"| {name} | {PACKAGES[engine]} {version(PACKAGES[engine])} | {slower:.3g} "
            f"| {result['peak'] / ours['peak']:.3g} | {result['first'][0]:.2f} "
            f"| {result['first'][1]:.2f} | {seconds:.3f} | {cpu:.2f} "
            f"| {result['peak'] / 1e6:,.0f} | {apart:.1e} |"
        )


def as_markdown(rows, notes, sizes):
    shape = ", ".join(f"{letter} = {size:,}" for letter, size in sizes.items())
    lines = [
        "# How fast is it compared with other libraries?",
        "",
        f"{shape} (N pool, M targets, K samples, C classes, B batch, S label configurations), "
        "float32 samples, two cores, one process for each row. `make bench-ecosystem` writes this "
        "file.",
        "",
        f"{platform.machine()}, Python {platform.python_version()}.",
        "",
        "| score | library | time / parbals | memory / parbals | first call, s | its CPU s "
        "| later calls, s | CPU s | peak over inputs, MB | largest difference, nats |",
        "| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |",
        *rows,
        "",
        f"Times are medians of {ROUNDS} rounds in which every library had its turn, ratios those "
        "within a round. The first call, of which the memory is, loads what is needed, and for "
        "EPIG in parbals compiles; where its CPU seconds lie far below its seconds, the machine "
        "was busy with other work. "
        "No library has to draw configurations of labels for BatchBALD here: B - 1 earlier labels "
        "have at most S.",
    ]
    return "\n".join([*lines, *(f"\n{note}." for note in notes)]) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--smoke", action="store_true", help="tiny sizes, to see that it runs")
    parser.add_argument("--only", choices=SCORES, help="one of the scores")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent)
    arguments = parser.parse_args()
    sizes = SMOKE if arguments.smoke else FULL
    notes = pin_cores(2)
    rows = []
    for name, engines in SCORES.items():
        if arguments.only not in (None, name):
            continue
        results, more_notes = compare(name, engines, sizes)
        rows += as_rows(name, results)
        notes += [note for note in more_notes if note not in notes]
    text = as_markdown(rows, notes, sizes)
    arguments.out.mkdir(parents=True, exist_ok=True)
    (arguments.out / "README.md").write_text(text, encoding="utf-8")
    print(text)
