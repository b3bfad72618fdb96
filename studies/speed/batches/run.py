"""How long do batches of 20 to 500 take, and what do they lose against an exact search?

    python studies speed.batches                # made-up rows, and digits of scikit-learn
    python studies speed.batches --data FOLDER  # real sets too
    python studies speed.batches --quick        # a quick check

Times are CPU seconds of one thread, and multiples of a bare product of 10,000 × 400 × 1,000 numbers
in the same run. The exact search screens and scores every candidate in every step. Writes
README.md; ten minutes.
"""

import argparse
import os
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import NamedTuple
from unittest.mock import patch

import numpy as np
from lib.report import machine
from lib.rows import load
from lib.workload import FULL, SMOKE, make_problem
from parbals import ActiveLearner
from parbals.machine import several_threads
from parbals.posterior.closed.latents import Latents
from parbals.strategies.backends import numpy as numpy_backend
from parbals.strategies.greedy import Step, grow
from parbals.strategies.scoring import ScoreName, build_context
from parbals.strategies.universes import gaussian
from parbals.strategies.universes.labels import DrawnLabels

FOLDER = Path(__file__).parent
BATCHES = ((2, 20), (4, 20), (10, 20), (4, 100), (4, 500))
SETS = (
    ("digits:*", 40),
    ("ag-news:*", 100),
    ("cifar10:*", 40),
    ("airline", 100),
    ("ag-news:1", 100),
)
UNIVERSES = 10
LABELS = 200
POOL = 1_400
TARGETS = 200
REPEATS = 5
TEXT = """# What does a batch cost, and what does it lose?

Ten universes, 200 labels. *products*: multiples of a bare product of 10,000 × 400 × 1,000 numbers
in the same run, in CPU seconds of one thread. *screened*, *scored*: rows a step. *renewed*: how
often the values of the whole pool were renewed.

"""
SHARES = """
Joint EPIG (the sum of the scores of all points, each given the ones before) as a share of that of
an exact search, from {pool:,} candidates with {targets} targets.

"""


class Result(NamedTuple):
    """A batch, the search that chose it, and its CPU seconds."""

    steps: list[Step]
    universes: gaussian.GaussianUniverses
    seconds: float


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, help="the datasets' folder")
    parser.add_argument("--out", type=Path, default=FOLDER)
    parser.add_argument("--quick", action="store_true", help="tiny sizes, to see that it runs")
    options = parser.parse_args()
    if options.data is not None:
        os.environ["PARBALS_DATA"] = str(options.data)
    text = TEXT
    for line in times(options.quick):
        print(line, flush=True)
        text += line + "\n"
    text += SHARES.format(pool=POOL, targets=TARGETS)
    for line in shares(SETS if options.data else SETS[:1], options.quick):
        print(line, flush=True)
        text += line + "\n"
    facts = machine(1)
    text += f"\n{facts['processor']}, {facts['date']}, commit {facts['commit']},"
    text += " `python studies speed.batches`; do not edit.\n"
    (options.out / "README.md").write_text(text, encoding="utf-8")
    return 0


def times(quick: bool) -> Iterator[str]:
    yield "| classes | batch | CPU s | products | ms an item | screened | scored | renewed |"
    yield "|---|---|---|---|---|---|---|---|"
    for n_classes, batch_size in BATCHES[:2] if quick else BATCHES:
        problem = make_problem(SMOKE if quick else FULL, n_classes)
        latents = fitted(np.concatenate([problem.X, problem.X_pool]), problem.y, n_classes)
        size = min(batch_size, len(problem.X_pool) // 2)
        with several_threads(1):
            result = search(latents, problem.X_pool, problem.X_target, size)
            products = result.seconds / median(bare_product() for _ in range(REPEATS))
        screened = sum(step.n_scored for step in result.steps) / size
        scored = result.universes.n_final / size
        yield (
            f"| {n_classes} | {size} | {result.seconds:.2f} | {products:.1f} | "
            f"{1e3 * result.seconds / size:.0f} | {screened:.0f} | {scored:.0f} | "
            f"{result.universes.n_renewed} |"
        )


def shares(sets: tuple[tuple[str, int], ...], quick: bool) -> Iterator[str]:
    yield "| set | classes | score | batch | share | common | CPU s, exact | CPU s |"
    yield "|---|---|---|---|---|---|---|---|"
    for reference, batch_size in sets:
        X, y, n_classes = load(reference)
        X = X[np.random.default_rng(0).permutation(len(X))]
        y = y[np.random.default_rng(0).permutation(len(y))]
        n_pool = 60 if quick else POOL
        size = 4 if quick else batch_size
        latents = fitted(X, y[:LABELS], n_classes)
        pool = X[LABELS : LABELS + n_pool]
        target = X[-TARGETS:]
        scores: tuple[ScoreName, ...] = ("epig" if n_classes == 2 else "quadratic", "decision")
        for score in scores:
            ours = search(latents, pool, target, size, score)
            limits = ["MAX_SCREENED"] if score == "decision" else ["MAX_SCREENED", "SHORTLIST"]
            with patch.multiple(
                gaussian,
                **dict.fromkeys(limits, n_pool),
                MARGIN=0.0,
                SCORE_MARGIN=0.0,
                DECISION_MARGIN=0.0,
            ):
                exact = search(latents, pool, target, size, score)
            sums = [sum(step.score for step in found.steps) for found in (ours, exact)]
            common = {step.index for step in ours.steps} & {step.index for step in exact.steps}
            yield (
                f"| {reference} | {n_classes} | {score} | {size} | {sums[0] / sums[1]:.4f} | "
                f"{len(common)} | {exact.seconds:.1f} | {ours.seconds:.1f} |"
            )


def fitted(X: np.ndarray, y: np.ndarray, n_classes: int) -> Latents:
    """The posterior given the labels y (n,) of the first rows of X (N, D)."""
    learner = ActiveLearner(
        X.astype(np.float32),
        list(range(n_classes)),
        random_state=0,
        checked=True,
    )
    learner.tell(np.arange(len(y)), y)
    return learner.fitted().gaussian.latents


def search(
    latents: Latents,
    pool: np.ndarray,
    target: np.ndarray,
    batch_size: int,
    score: ScoreName | None = None,
) -> Result:
    """A batch of a pool (N, D), and its CPU seconds."""
    began = time.process_time()
    context = build_context(latents, target, is_padded=False)
    start = numpy_backend.score_pool(context, pool, score="screen")
    if score is None:
        score = "epig" if len(latents.roots) == 1 else "quadratic"
    labels = DrawnLabels(latents, UNIVERSES, 0)
    nothing = np.array([], int)
    free = np.ones(len(pool), bool)
    arguments = [(context, labels)], pool, start, free, nothing, batch_size, score, numpy_backend
    with gaussian.gaussian_universes(*arguments) as universes:
        steps = grow(universes, free, nothing, batch_size)
    return Result(steps, universes, time.process_time() - began)


def bare_product() -> float:
    """CPU seconds of a matrix product."""
    left = np.ones((10_000, 400), np.float32)
    right = np.ones((400, 1_000), np.float32)
    began = time.process_time()
    left @ right
    return time.process_time() - began
