"""How many labels find a rare class, and is the estimated recall accurate?

    python studies imbalance.rare_class --data FOLDER  # run what is missing, write README.md
    python studies imbalance.rare_class --tables       # write README.md from the records

Pools of 2,000 with 20 positives, made by leaving positives out; 20 random labels, then batches of
20, until 400 labels. Each run is a line of record.jsonl, so an interrupted study goes on.
"""

from argparse import Namespace
from collections.abc import Iterator
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from lib.rare import N_POOL, RARE, load, rare_pool
from lib.records import Record, Todo, study

FOLDER = Path(__file__).parent
PAGE = FOLDER / "README.md"
SETS = ("sms-spam", "ag-news")
FINDERS = ("Random", "Confidence", "find")
BATCH = 20
MAX_LABELS = 400
N_POSITIVES = 18


def main() -> int:
    return study(
        *(__doc__, FOLDER / "record.jsonl", PAGE, runs, page),
        seeds=10,
        options={"sets": ",".join(SETS)},
    )


def runs(options: Namespace) -> Iterator[Todo]:
    for seed, data, finder in product(range(options.seeds), options.sets.split(","), FINDERS):
        yield (data, finder, seed), partial(search, data, finder, seed)


def search(data: str, finder: str, seed: int) -> dict[str, Any]:
    """Labels until the first, the tenth and the 18th; for ``find`` its report after each batch."""
    from parbals import ActiveLearner

    X, y, _ = load(data)
    pool = rare_pool(y, seed)
    truth = np.where(y[pool] == 1, "rare", "other")
    options = {"strategy": "confidence"} if finder == "Confidence" else {"find": "rare"}
    learner = ActiveLearner(X[pool], ["other", "rare"], random_state=seed, **options)
    labelled = list(range(N_POOL if finder == "Random" else BATCH))  # the pool is shuffled
    looks = []
    while len(labelled) < MAX_LABELS:
        learner.tell(labelled[-BATCH:], truth[labelled[-BATCH:]])
        if finder == "find":
            from parbals.learner.evaluation.find import estimate_recall

            estimate = estimate_recall(learner.state)
            assert estimate is not None
            recall = [estimate.recall.mean, estimate.recall.low, estimate.recall.high]
            recall += [estimate.next_finds]
            looks.append(
                [len(labelled), estimate.found, *(round(x, 4) for x in recall), estimate.stop]
            )
        labelled += learner.ask(BATCH).tolist()
    places = np.flatnonzero(truth[labelled] == "rare") + 1
    needed = [int(places[n - 1]) if len(places) >= n else None for n in (1, 10, N_POSITIVES)]
    return {"needed": needed, "looks": looks}


def page(records: list[Record]) -> Iterator[str]:
    """How soon, and how honest."""
    values = {tuple(record["run"]): record for record in records}
    yield "# How many labels find a rare class?"
    yield ""
    yield "Written by `python studies imbalance.rare_class`; do not edit."
    yield ""
    yield (
        f"Pools of {N_POOL:,} with {RARE} positives; the first {BATCH} labels are random, then "
        f"batches of {BATCH} until {MAX_LABELS} labels. Medians over the seeds; a search that is "
        f"not done by then counts as more than {MAX_LABELS}. Random goes on to the end of the "
        "pool; its searches are the same on both sets."
    )
    yield ""
    yield "| | seeds | chosen by | labels to the 1st | to the 10th | to the 18th (90 %) |"
    yield "| --- | ---: | --- | ---: | ---: | ---: |"
    for data in dict.fromkeys(run[0] for run in values):
        for finder in FINDERS:
            of = [r["needed"] for run, r in values.items() if run[:2] == (data, finder)]
            cells = [_median([row[n] for row in of], finder) for n in range(3)]
            yield f"| {data} | {len(of)} | {finder} | " + " | ".join(cells) + " |"
    yield ""
    yield "## Is the estimated recall accurate?"
    yield ""
    yield (
        f"The report's recall after every batch once one positive is found, beside the truth, "
        f"found of {RARE}. *Covered*: the truth is within the 90 % interval. *Not below*: it is at "
        "least the lower end, which is what stopping relies on. *Advised*: searches in which the "
        f"report advised to stop by {MAX_LABELS} labels, how many labels that took (median), and "
        "the least true recall when it did."
    )
    yield ""
    yield (
        "| | looks | covered | not below | expected − true recall | advised | labels then | "
        "least recall then |"
    )
    yield "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |"
    for data in dict.fromkeys(run[0] for run in values):
        of = [r["looks"] for run, r in values.items() if run[:2] == (data, "find") and r["looks"]]
        looks = np.array([look for search in of for look in search if look[1]], float)
        if not len(looks):  # its looks were at an interval that is reported no more
            continue
        true = looks[:, 1] / RARE
        mean = looks[:, 2]
        low = looks[:, 3]
        high = looks[:, 4]
        stops = [next((look for look in search if look[6]), None) for search in of]
        then = [look[1] / RARE for look in stops if look]
        least_recall = f"{min(then):.0%}" if then else "–"
        labels = f"{np.median([look[0] for look in stops if look]):.0f}" if then else "–"
        # A recall is found / all, and all is a whole number: the ends are met, not crossed.
        covered = (low <= true + 1e-3) & (true <= high + 1e-3)
        yield (
            f"| {data} | {len(looks)} | {covered.mean():.0%} | {(low <= true + 1e-3).mean():.0%} | "
            f"{100 * (mean - true).mean():+.0f} points | {len(then)} of {len(of)} | "
            f"{labels} | {least_recall} |"
        )


def _median(needed: list[int | None], finder: str) -> str:
    value = float(np.median([np.inf if n is None else n for n in needed]))
    limit = N_POOL if finder == "Random" else MAX_LABELS
    return f"{value:.0f}" if np.isfinite(value) else f"> {limit}"
