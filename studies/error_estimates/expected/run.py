"""Which constants of the report's expected error suit datasets that they were not learnt on?

    python studies error_estimates.expected --data FOLDER --seeds 3  # run what is missing
    python studies error_estimates.expected --only digits:*,made-seven --seeds 2 --strategies random
    python studies error_estimates.expected --tables  # write learnt.txt from the record

For every seed the rows are divided into a pool and a test set; 50 labels begin, 20 at a time
follow. At each number of labels a line notes the temperature by left-out labels, ln T with its
deviation ς, and the one at which the expected error of the test set is its real one. How they
differ beyond ς and the test set's own noise are the constants of
:mod:`parbals.learner.evaluation.expectation`: learnt on some sets, compared on those held out. Each
run is a line of learnt.jsonl; FOLDER holds the datasets, or what ``studies lib.rows`` wrote.
"""

from argparse import Namespace
from collections.abc import Iterable, Iterator
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from lib.records import Record, Todo, study
from lib.rows import load, made

HERE = Path(__file__).parent
SIZES = (110, 150, 250)
FIRST = 50
BATCH = 20
N_POOL = 2_000
N_TEST = 4_000
LOG_T_BOUND = 3.0
STRATEGIES = ("random", "confidence", "badge", "parbals-epig")
LEARNT_ON = "sms-spam ag-news:* airline airline-boarding:* airline-kind:* credit-card digits:* "
LEARNT_ON += "made-seven made-twenty made-product"
HELD_OUT = "breast-cancer ag-news cifar10 cifar10:* airline-class:* airline-age:* digits-ink:* "
HELD_OUT += "digits-odd made-clusters made-softmax"
"""The constants of :mod:`parbals.learner.evaluation.expectation` were learnt without these."""
DATA = LEARNT_ON.split() + HELD_OUT.split()


def main() -> int:
    options = {"only": ",".join(DATA), "strategies": ",".join(STRATEGIES), "first": 0}
    records = HERE / "learnt.jsonl"
    return study(__doc__, records, HERE / "learnt.txt", runs, constants, seeds=3, options=options)


def runs(given: Namespace) -> Iterator[Todo]:
    names = given.only.split(",")
    for name in names:
        if name not in DATA:
            raise ValueError(f"there is no dataset {name!r}; choose some of: {', '.join(DATA)}")
    seeds = range(given.first, given.first + given.seeds)
    for seed, name, strategy in product(seeds, names, given.strategies.split(",")):
        yield (name, strategy, seed), partial(one_run, name, strategy, seed)


def one_run(data: str, strategy: str, seed: int) -> dict[str, Any]:
    """A row for each number of labels."""
    import parbals

    X, y, n_classes = made(data) if data.startswith("made-") else load(data)
    order = np.random.default_rng(seed).permutation(len(X))
    n_pool = min(N_POOL, 7 * len(X) // 10)
    pool = order[:n_pool]
    test = order[n_pool:][:N_TEST]
    learner = parbals.ActiveLearner(X[pool], range(n_classes), strategy=strategy, random_state=seed)
    rows = []
    for size in range(FIRST, min(SIZES[-1], n_pool // 2) + 1, BATCH):
        batch = learner.ask(size - len(learner.labelled))
        learner.tell(batch, y[pool[batch]])
        if size in SIZES:
            rows.append({"labels": size} | _temperatures(learner, X[test], y[test]))
    return {"rows": rows}


def _temperatures(learner: Any, X_test: np.ndarray, y_test: np.ndarray) -> dict[str, Any]:
    """ln T by left-out labels and its deviation; ln T of the real error and its deviation."""
    from parbals.learner.evaluation import expectation
    from scipy.optimize import brentq

    model = learner.fitted()
    fitted = expectation._solve_temperature(
        *learner.state.cross_validated_predictions(model),
        expectation.Temperature(1.0, 0.7),
        expectation._ERROR_WEIGHT,
    )
    probs = learner.predict_proba(X_test)
    decisions = np.arange(len(probs)), probs.argmax(axis=1)
    real = float(np.mean(decisions[1] != y_test))

    def excess(log_temperature: float) -> float:
        scaled = expectation.temperature_scaled(probs, np.exp(log_temperature))
        return float(1.0 - scaled[decisions].mean()) - real

    best = -LOG_T_BOUND
    if excess(LOG_T_BOUND) <= 0.0:
        best = LOG_T_BOUND
    elif excess(-LOG_T_BOUND) < 0.0:
        best = brentq(excess, -LOG_T_BOUND, LOG_T_BOUND, xtol=1e-3)
    slope = max((excess(best + 0.1) - excess(best - 0.1)) / 0.2, 1e-6)
    noise = np.sqrt(max(real * (1.0 - real), 1e-4) / len(y_test)) / slope
    values = [np.log(fitted.value), fitted.log_sd, best, noise]
    return {"heat": np.round(values, 4).tolist()}


def constants(records: list[Record]) -> Iterable[str]:
    """learnt.txt: what the sets that are learnt on say, and the same of those held out."""
    yield "# The constants of the report"
    yield ""
    yield (
        "Written by `python studies error_estimates.expected`; do not edit. "
        f"{len(records)} runs. *Chosen*: what a strategy's choice adds to the deviation."
    )
    yield ""
    yield "| sets | shift | misfit | chosen |"
    yield "| --- | ---: | ---: | ---: |"
    groups = {"learnt on": LEARNT_ON.split(), "held out": HELD_OUT.split(), "all": DATA}
    for name, sets in groups.items():
        apart = {kind: _apart(records, sets, kind) for kind in (False, True)}
        if not all(map(len, apart.values())):
            continue
        shift = np.mean([np.mean(d) for part in apart.values() for d, _ in part])
        beyond = [
            np.mean([np.mean(np.square(d - shift) - known) for d, known in apart[kind]])
            for kind in (False, True)
        ]
        misfit = max(beyond[0], 0.0)
        selection = max(beyond[1] - misfit, 0.0)
        yield f"| {name} | {shift:.2f} | {misfit**0.5:.2f} | {selection**0.5:.2f} |"


def _apart(
    records: list[Record], sets: list[str], chosen: bool
) -> list[tuple[np.ndarray, np.ndarray]]:
    """For every set: differences of ln T, and the variance of each that is understood."""
    found = []
    for data in sets:
        own = [r for r in records if r["run"][0] == data and (r["run"][1] != "random") == chosen]
        if own:
            rows = np.array([row["heat"] for record in own for row in record["rows"]])
            found.append((rows[:, 2] - rows[:, 0], np.square(rows[:, [1, 3]]).sum(axis=1)))
    return found
