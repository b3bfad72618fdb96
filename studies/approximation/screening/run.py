"""What does the screen of a batch's steps miss, compared with a full search?

    python studies approximation.screening  # digits, which scikit-learn brings
    python studies approximation.screening --data FOLDER          # AG News and CIFAR-10 too
    python studies approximation.screening --data FOLDER --large  # also large pools; half an hour
    python studies approximation.screening --quick                # a quick check

FOLDER is the datasets' folder, or one made by rows.py. Writes README.md; two minutes.
"""

import argparse
import os
from collections.abc import Iterator
from pathlib import Path
from unittest.mock import patch

import numpy as np
from lib.report import machine
from lib.rows import load
from parbals import ActiveLearner
from parbals.posterior.closed.latents import Latents
from parbals.strategies.backends import numpy as numpy_backend
from parbals.strategies.backends import score_pool
from parbals.strategies.greedy import Step, grow
from parbals.strategies.scoring import ScoreName, ScoringContext, build_context
from parbals.strategies.universes import gaussian
from parbals.strategies.universes.labels import DrawnLabels
from parbals_bench.datasets.table import load_dataset
from scipy.stats import spearmanr

FOLDER = Path(__file__).parent
SETS = ("digits:*", "ag-news:*", "cifar10:*")
LABELS = (30, 100, 400)
LIMITS = ("SHORTLIST", "DECISION_SHORTLIST", "MAX_SCREENED")
SCORES: tuple[ScoreName, ...] = ("quadratic", "decision")
BATCH = 10
UNIVERSES = 10
LEADERS = 20
TEXT = """# What does the screen of a batch's steps miss?

{n_pool} candidates, {n_targets} targets, random labels. *rank*: rank correlation of the screen with
the quadratic form over the pool. *best*: where the form's best point stands by the screen.
*leaders*: where its best {leaders} stand in the median ({middle} would be the same order). A step
screens at most {most} points, of which the best {short} are compared by the form, or the best
{decisions} by the gain in accuracy. *batch*: the sum of the scores of {batch} points, each given
the ones before, as a share of that of a search which compares all candidates in every step, and how
many points both have; above 1 a later step was luckier. By accuracy they differ by intention: of
what tells most, what changes decisions is taken.

"""
LARGE = ("airline", "credit-card", "cifar10", "made")
LIMITS_TRIED = (512, 1_024, 2_048, 8_192)
LARGE_TEXT = """
## Large pools

The sum of the scores of {batch} points as a share of that of a search which screens every candidate
in every step, where a step screens at most so many ({n_large_labels} random labels, {n_large}
targets; *made* are draws of a model with four classes and 40 columns). *level*: candidates whose
first value lies within a tenth of the best.

"""
LARGE_LABELS = 100
LARGE_TARGETS = 400
LEVEL = 0.9  # candidates above this share of the best are level


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, help="the datasets' folder")
    parser.add_argument("--out", type=Path, default=FOLDER)
    parser.add_argument("--large", action="store_true", help="large pools, too")
    parser.add_argument("--quick", action="store_true", help="tiny sizes, to see that it runs")
    options = parser.parse_args()
    if options.data is not None:
        os.environ["PARBALS_DATA"] = str(options.data)
    n_pool, n_targets = (80, 20) if options.quick else (1_400, 400)
    words = {"n_pool": f"{n_pool:,}", "n_targets": n_targets, "batch": BATCH, "leaders": LEADERS}
    words |= {
        "short": gaussian.SHORTLIST,
        "decisions": gaussian.DECISION_SHORTLIST,
        "most": gaussian.MAX_SCREENED,
        "middle": LEADERS // 2,
        "n_large": LARGE_TARGETS,
        "n_large_labels": LARGE_LABELS,
    }
    text = TEXT.format(**words)
    for line in table(SETS if options.data else SETS[:1], n_pool, n_targets):
        print(line, flush=True)
        text += line + "\n"
    if options.large:
        text += LARGE_TEXT.format(**words)
        for line in large_table(LARGE if options.data else LARGE[-1:], options.quick):
            print(line, flush=True)
            text += line + "\n"
    on = machine(1)
    command = "python studies approximation.screening"
    text += f"\n{on['system']}, {on['date']}, `{command}`; do not edit.\n"
    (options.out / "README.md").write_text(text, encoding="utf-8")
    return 0


def table(sets: tuple[str, ...], n_pool: int, n_targets: int) -> Iterator[str]:
    yield "| set | classes | labels | rank | best | leaders | batch, form | batch, accuracy |"
    yield "|---|---|---|---|---|---|---|---|"
    for reference in sets:
        X, y, n_classes = load(reference)
        for n_labels in LABELS[:1] if n_pool < 100 else LABELS:
            labelled, pool, target = np.split(
                np.random.default_rng(0).permutation(len(X))[: n_labels + n_pool + n_targets],
                [n_labels, -n_targets],
            )
            learner = ActiveLearner(*(X, list(range(n_classes))), random_state=0, checked=True)
            learner.tell(labelled, y[labelled])
            latents = learner.fitted().gaussian.latents
            context = build_context(latents, X[target])
            numbers = [*standing(context, X[pool]), *batches(latents, context, X[pool])]
            name = reference.partition(":")[0]
            yield f"| {name} | {n_classes} | {n_labels} | " + " | ".join(numbers) + " |"


def standing(context: ScoringContext, pool: np.ndarray) -> list[str]:
    """How the screen orders the pool (N, D) before the batch."""
    screen, form = (score_pool(context, pool, score) for score in ("screen", "quadratic"))
    rank_of = np.argsort(np.argsort(-screen)) + 1
    leaders = np.argsort(-form)[:LEADERS]
    rank = spearmanr(screen, form).statistic
    median = np.median(rank_of[leaders])
    return [f"{rank:.3f}", str(rank_of[leaders[0]]), f"{median:.0f}"]


def batches(latents: Latents, context: ScoringContext, pool: np.ndarray) -> Iterator[str]:
    """Batches by the form and by the gain in accuracy, beside those of a full search."""
    start = score_pool(context, pool)
    for score in SCORES:
        steps = search(latents, context, pool, start, score)
        with patch.multiple(
            gaussian, **dict.fromkeys(LIMITS, len(pool)), MARGIN=0.0, SCORE_MARGIN=0.0
        ):
            full = search(latents, context, pool, start, score)
        common = len({step.index for step in steps} & {step.index for step in full})
        share = sum(step.score for step in steps) / sum(step.score for step in full)
        yield f"{share:.3f}, {common} of {BATCH}"


def search(
    latents: Latents, context: ScoringContext, pool: np.ndarray, start: np.ndarray, score: ScoreName
) -> list[Step]:
    """A batch of a pool (N, D) that was screened before, (N,)."""
    labels = DrawnLabels(latents, UNIVERSES, 0)
    nothing = np.array([], int)
    free = start > -np.inf
    arguments = [(context, labels)], pool, start, free, nothing, BATCH, score, numpy_backend
    with gaussian.gaussian_universes(*arguments) as universes:
        return grow(universes, free, nothing, BATCH)


def large_table(sets: tuple[str, ...], quick: bool) -> Iterator[str]:
    yield (
        "| set | rows | classes | score | level | "
        + " | ".join(f"{n:,}" for n in LIMITS_TRIED)
        + " |"
    )
    yield "|---" * (5 + len(LIMITS_TRIED)) + "|"
    for name in sets:
        for X, y, n_classes in large_pools(name, quick):
            labelled, target, candidates = np.split(
                np.random.default_rng(1).permutation(len(X)),
                [LARGE_LABELS, LARGE_LABELS + LARGE_TARGETS],
            )
            learner = ActiveLearner(*(X, list(range(n_classes))), random_state=0, checked=True)
            learner.tell(labelled, y[labelled])
            latents = learner.fitted().gaussian.latents
            context = build_context(latents, X[target])
            pool = X[candidates]
            start = score_pool(context, pool)
            level = int((start > LEVEL * start.max()).sum())
            for score in SCORES:
                sums = []
                for limit in (*LIMITS_TRIED, len(pool)):
                    margin = 0.0 if limit == len(pool) else gaussian.MARGIN
                    with patch.multiple(gaussian, MAX_SCREENED=limit, MARGIN=margin):
                        steps = search(latents, context, pool, start, score)
                    sums.append(sum(step.score for step in steps))
                shares = " | ".join(f"{total / sums[-1]:.3f}" for total in sums[:-1])
                yield f"| {name} | {len(pool):,} | {n_classes} | {score} | {level:,} | {shares} |"


def large_pools(name: str, quick: bool) -> Iterator[tuple[np.ndarray, np.ndarray, int]]:
    """Rows (N, D), class numbers (N,) and how many classes."""
    if name != "made":
        data = load_dataset(name)
        yield data.X_pool.astype(np.float32), data.y_pool, int(data.y_pool.max()) + 1
        return
    for n_rows in (2_000,) if quick else (100_000, 1_000_000):
        generator = np.random.default_rng(2)
        X = generator.standard_normal((n_rows, 40), dtype=np.float32)
        logits = X @ (0.5 * generator.standard_normal((40, 4)))
        yield X, np.argmax(logits + generator.gumbel(size=logits.shape), axis=1), 4
