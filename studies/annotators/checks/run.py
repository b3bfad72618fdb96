"""Does checking a program's labels ever make the model worse?

    python studies annotators.checks            # run what is missing, write README.md
    python studies annotators.checks --seeds 1  # fewer runs
    python studies annotators.checks --tables   # write README.md from the records

A program labels 150 items, then a person who is always right checks more and more of them.
"""

from argparse import Namespace
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import numpy as np
from lib.records import Record, Todo, study

HERE = Path(__file__).parent
N_ANSWERS = 150
CHECKS = (0, 1, 2, 3, 5, 10, 20, 40)
ORDERS = ("random", "agreeing", "contradicting")
LIMITS = {"random": 2.0, "agreeing": 2.0, "contradicting": 5.0}
"""By how many points the error may rise in any project, beside no checks."""
Generator = np.random.Generator


def main() -> int:
    records = HERE / "record.jsonl"
    return study(__doc__, records, HERE / "README.md", runs, page, seeds=3, options={})


def runs(arguments: Namespace) -> Iterator[Todo]:
    for seed in range(arguments.seeds):
        for name in SETS:
            yield ("alone", name, "no program", "random", seed), partial(alone, name, seed)
            for program in PROGRAMS:
                for order in ORDERS:
                    run = ("checks", name, program, order, seed)
                    yield run, partial(session, name, program, order, seed)


# Sets: rows and classes of a pool and of new items.


def clouds(n_classes: int, generator: Generator) -> tuple[np.ndarray, np.ndarray]:
    y = generator.integers(n_classes, size=1400)
    centres = 2.5 * np.eye(n_classes, 20)
    return centres[y] + generator.standard_normal((1400, 20)), y


def bundled(load: str, kept: tuple[int, ...], generator: Generator) -> tuple[np.ndarray, ...]:
    import sklearn.datasets
    from sklearn.preprocessing import StandardScaler

    X, y = getattr(sklearn.datasets, load)(return_X_y=True)
    is_kept = np.isin(y, kept)
    order = generator.permutation(np.flatnonzero(is_kept))
    return StandardScaler().fit_transform(X[order]), np.searchsorted(kept, y[order])


SETS: dict[str, Callable[[Generator], tuple[np.ndarray, ...]]] = {
    "clouds, 2 classes": partial(clouds, 2),
    "clouds, 6 classes": partial(clouds, 6),
    "digits 3, 8, 9": partial(bundled, "load_digits", (3, 8, 9)),
    "breast cancer": partial(bundled, "load_breast_cancer", (0, 1)),
}


# Programs: answers to all items, from rows, classes and their number.


def right_in(accuracy: float) -> Callable[..., np.ndarray]:
    def answers(X: np.ndarray, y: np.ndarray, n_classes: int, g: Generator) -> np.ndarray:
        wrong = (y + g.integers(1, n_classes, size=len(y))) % n_classes
        return np.where(g.random(len(y)) < accuracy, y, wrong)

    return answers


def wrong_in_a_region(X: np.ndarray, y: np.ndarray, n_classes: int, g: Generator) -> np.ndarray:
    value = (X - X.mean(axis=0)) @ g.standard_normal(X.shape[1])
    return np.where(value > np.quantile(value, 0.8), (y + 1) % n_classes, y)


def confuses_a_class(X: np.ndarray, y: np.ndarray, n_classes: int, g: Generator) -> np.ndarray:
    confused = g.integers(n_classes)
    is_confused = (y == confused) & (g.random(len(y)) < 0.8)
    return np.where(is_confused, (y + 1) % n_classes, y)


def weak_model(X: np.ndarray, y: np.ndarray, n_classes: int, g: Generator) -> np.ndarray:
    from sklearn.linear_model import LogisticRegression

    examples = [g.choice(np.flatnonzero(y == c), 2, replace=False) for c in range(n_classes)]
    rows = np.concatenate(examples)
    return LogisticRegression().fit(X[rows], y[rows]).predict(X)


PROGRAMS: dict[str, Callable[..., np.ndarray]] = {
    "right in 55 %": right_in(0.55),
    "right in 75 %": right_in(0.75),
    "right in 90 %": right_in(0.90),
    "right in 97 %": right_in(0.97),
    "wrong in a region": wrong_in_a_region,
    "confuses a class": confuses_a_class,
    "a weak model": weak_model,
    "two copies, right in 75 %": right_in(0.75),
    "guesses": lambda X, y, n, g: g.integers(n, size=len(y)),
    "always the same class": lambda X, y, n, g: np.full(len(y), np.bincount(y).argmax()),
}
USELESS = ("guesses", "always the same class")


def prepared(name: str, seed: int) -> tuple[np.ndarray, np.ndarray, int, Generator]:
    generator = np.random.default_rng([seed, list(SETS).index(name)])
    X, y = SETS[name](generator)
    return X, y, int(y.max()) + 1, generator


def alone(name: str, seed: int) -> Record:
    """Test errors with the person's labels alone, in the random order."""
    from parbals import ActiveLearner

    X, y, n_classes, _ = prepared(name, seed)
    n_pool = len(X) // 2
    order = np.random.default_rng([seed, 9]).permutation(N_ANSWERS)
    errors = {}
    for n_checks in CHECKS[4:]:
        learner = ActiveLearner(X[:n_pool], list(range(n_classes)), random_state=seed)
        learner.tell(order[:n_checks], y[order[:n_checks]].tolist())
        errors[n_checks] = _error(learner, X[n_pool:], y[n_pool:])
    return {"errors": errors}


def session(name: str, program: str, order: str, seed: int) -> Record:
    """Test errors, and whether the interval of the expected error holds, after each check."""
    from parbals import ActiveLearner

    X, y, n_classes, generator = prepared(name, seed)
    n_pool = len(X) // 2
    answers = PROGRAMS[program](X, y, n_classes, generator)
    items = np.random.default_rng([seed, 9]).permutation(N_ANSWERS)
    is_right = answers[items] == y[items]
    checked = {"random": items, "agreeing": items[is_right], "contradicting": items[~is_right]}
    learner = ActiveLearner(X[:n_pool], list(range(n_classes)), random_state=seed)
    n_programs = 2 if program.startswith("two") else 1
    for number in range(n_programs):
        learner.tell(items, answers[items].tolist(), annotator=f"machine:{number}")
    gold = ActiveLearner(X[:n_pool], list(range(n_classes)), random_state=seed)
    gold.tell(items, answers[items].tolist())
    errors = {}
    is_held = {}
    n_checked = 0
    for n_checks in CHECKS:
        new = checked[order][n_checked:n_checks]
        if len(new) < n_checks - n_checked:
            break
        learner.tell(new, y[new].tolist(), annotator="ada")
        n_checked = n_checks
        errors[n_checks] = _error(learner, X[n_pool:], y[n_pool:])
        expected = learner.report().expected_error
        pool_error = _error(learner, X[:n_pool], y[:n_pool]) / 100.0
        is_held[n_checks] = bool(expected.low <= pool_error <= expected.high)
    return {"errors": errors, "held": is_held, "gold": _error(gold, X[n_pool:], y[n_pool:])}


def _error(learner: object, X: np.ndarray, y: np.ndarray) -> float:
    """The error in per cent."""
    return round(100.0 * float((np.asarray(learner.predict(X)) != y).mean()), 2)


# The page.


def _rises(records: list[Record], order: str) -> list[tuple[float, str]]:
    """By how much each error after a check exceeds that before the first one, and where."""
    return [
        (error - record["errors"]["0"], f"{record['run'][1]}, {record['run'][2]}, {n_checks}")
        for record in records
        if record["run"][3] == order and record["run"][2] not in USELESS
        for n_checks, error in record["errors"].items()
        if n_checks != "0"
    ]


def page(records: list[Record]) -> Iterator[str]:
    sessions = [record for record in records if record["run"][0] == "checks"]
    persons = {
        (record["run"][1], record["run"][4]): record["errors"]
        for record in records
        if record["run"][0] == "alone"
    }
    helpful = [record for record in sessions if record["run"][2] not in USELESS]
    n_seeds = len({record["run"][4] for record in sessions})
    yield "# Does checking a program's labels ever make the model worse?\n"
    worst = max(rise for order in ORDERS for rise, _ in _rises(sessions, order))
    mean = np.mean([rise for order in ORDERS for rise, _ in _rises(sessions, order)])
    yield (
        f"**On average checks lower the error, by {-mean:.1f} points; the largest rise in "
        f"{len(helpful)} projects is {worst:.1f}.** A program labels {N_ANSWERS} items; a person "
        f"who is always right checks more and more of them. {len(sessions)} sessions, with "
        f"{'one seed' if n_seeds == 1 else f'{n_seeds} seeds'}; one error is measured on about "
        "300 to 700 new items. Written by `python studies "
        "annotators.checks`; do not edit.\n"
    )
    yield "## By how many points the error rises beside no checks\n"
    yield "| checks are | mean | largest | allowed | above it | where the largest is |"
    yield "| --- | ---: | ---: | ---: | ---: | --- |"
    for order in ORDERS:
        rises = _rises(sessions, order)
        values = np.array([rise for rise, _ in rises])
        limit = LIMITS[order]
        yield (
            f"| {order} | {values.mean():.2f} | {values.max():.1f} | {limit:g} | "
            f"{(values > limit).sum()} of {len(values)} | {max(rises)[1]} checks |"
        )
    losses = np.array([record["errors"]["0"] - record["gold"] for record in helpful])
    yield (
        f"\nBefore any check, the error beside that of a model which takes the program's answers "
        f"as gold labels: {losses.mean():.2f} points on average, at most {losses.max():.1f}.\n"
    )
    yield "## Error by the number of checks, random ones, %\n"
    yield f"| the program | as gold | {' | '.join(map(str, CHECKS))} |"
    yield "| --- | ---: |" + " ---: |" * len(CHECKS)
    for program in PROGRAMS:
        same = [r for r in sessions if r["run"][2] == program and r["run"][3] == "random"]
        if not same:
            continue
        cells = [f"{np.mean([r['gold'] for r in same]):.1f}"]
        for n_checks in CHECKS:
            errors = [r["errors"][str(n_checks)] for r in same if str(n_checks) in r["errors"]]
            cells.append(f"{np.mean(errors):.1f}" if errors else "–")
        yield f"| {program} | {' | '.join(cells)} |"
    cells = [
        f"{np.mean([errors[str(n)] for errors in persons.values()]):.1f}" if n >= 5 else "–"
        for n in CHECKS
    ]
    yield f"| none: the person's labels alone | – | {' | '.join(cells)} |"
    yield "\n## How often the interval of the expected error holds, %\n"
    yield f"| checks are | {' | '.join(map(str, CHECKS))} |"
    yield "| --- |" + " ---: |" * len(CHECKS)
    for order in ORDERS:
        cells = []
        for n_checks in CHECKS:
            held = [
                r["held"][str(n_checks)]
                for r in sessions
                if r["run"][3] == order and str(n_checks) in r["held"]
            ]
            cells.append(f"{100 * np.mean(held):.0f}" if held else "–")
        yield f"| {order} | {' | '.join(cells)} |"
    yield (
        "\nChecks that all agree, or all contradict, are no random sample: an interval that is "
        "computed from them may miss the error.\n"
    )
