"""Do intervals of annotators' errors hold the truth, and does a bad annotator do harm?

    python studies annotators.errors            # run what is missing, write README.md
    python studies annotators.errors --seeds 2  # fewer runs
    python studies annotators.errors --tables   # write README.md from the records

Clouds of two or three classes; people and programs are simulated.
"""

from argparse import Namespace
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import numpy as np
from lib.records import Record, Todo, study

HERE = Path(__file__).parent
N_ITEMS = 400
N_POOL = 600
N_TEST = 2_000
N_PERSON = 37
N_PROGRAM = 300
N_CHECKED = 10
"""Answers of the program to items that the person answered, too."""
N_CHANGING = 200
LEVEL = 0.01
Generator = np.random.Generator
Votes = dict[str, tuple[np.ndarray, np.ndarray]]
"""Annotator → items and answers."""


def main() -> int:
    records = HERE / "record.jsonl"
    return study(__doc__, records, HERE / "README.md", runs, page, seeds=10, options={})


def runs(arguments: Namespace) -> Iterator[Todo]:
    for n_classes in (2, 3):
        for name in SCENARIOS:
            for seed in range(arguments.seeds):
                yield ("cover", name, n_classes, seed), partial(cover, name, n_classes, seed)
    for n_classes in (2, 3):
        for name in PROGRAMS:
            for seed in range(arguments.seeds):
                yield ("harm", name, n_classes, seed), partial(harm, name, n_classes, seed)
    for name in CHANGES:
        for seed in range(6 * arguments.seeds):
            yield ("change", name, 2, seed), partial(change, name, 2, seed)


def clouds(seed: int, n_classes: int, size: int, n_columns: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows (size, n_columns) around a centre for each class, and their classes."""
    generator = np.random.default_rng([seed, n_classes])
    y = generator.integers(n_classes, size=size)
    return 2.0 * np.eye(n_classes, n_columns)[y] + generator.standard_normal((size, n_columns)), y


def noisy(generator: Generator, true: np.ndarray, accuracy: float, n_classes: int) -> np.ndarray:
    """Answers that are right with this probability."""
    wrong = (true + generator.integers(1, n_classes, size=len(true))) % n_classes
    return np.where(generator.random(len(true)) < accuracy, true, wrong)


# Who answers what: functions of the items' rows and classes.


def crowd(accuracies: tuple[float, ...], n_each: int) -> Callable[..., Votes]:
    """Each of 160 items is answered by ``n_each`` of these people."""

    def votes(X: np.ndarray, y: np.ndarray, n_classes: int, generator: Generator) -> Votes:
        items = generator.choice(len(y), 160, replace=False)
        annotators = np.argsort(generator.random((160, len(accuracies))), axis=1)[:, :n_each]
        answers = {}
        for j, accuracy in enumerate(accuracies):
            positions = items[(annotators == j).any(axis=1)]
            answers[f"person {j}"] = positions, noisy(generator, y[positions], accuracy, n_classes)
        return answers

    return votes


def slices(**answered: tuple[float, int, int]) -> Callable[..., Votes]:
    """Annotators (accuracy, first item, last item) of a random order; m_ stands for machine:."""

    def votes(X: np.ndarray, y: np.ndarray, n_classes: int, generator: Generator) -> Votes:
        order = generator.permutation(len(y))
        answers = {}
        for name, (accuracy, first, last) in answered.items():
            positions = order[first:last]
            numbers = noisy(generator, y[positions], accuracy, n_classes)
            answers[name.replace("m_", "machine:")] = positions, numbers
        return answers

    return votes


def few_shared(X: np.ndarray, y: np.ndarray, n_classes: int, generator: Generator) -> Votes:
    order = generator.permutation(len(y))
    answers = {}
    for j, accuracy in enumerate((0.95, 0.8, 0.6)):
        positions = np.append(order[:12], order[20 + 60 * j : 80 + 60 * j])
        answers[f"person {j}"] = positions, noisy(generator, y[positions], accuracy, n_classes)
    return answers


def copies(X: np.ndarray, y: np.ndarray, n_classes: int, generator: Generator) -> Votes:
    positions = generator.permutation(len(y))[:160]
    copied = noisy(generator, y[positions], 0.6, n_classes)
    answers = {f"copy {j}": (positions, copied) for j in range(3)}
    for name, accuracy in (("ada", 0.9), ("bob", 0.8)):
        answers[name] = positions, noisy(generator, y[positions], accuracy, n_classes)
    return answers


def regional(X: np.ndarray, y: np.ndarray, n_classes: int, generator: Generator) -> Votes:
    order = generator.permutation(len(y))
    wrong = (y + 1) % n_classes
    program = np.where(X[:, -1] > 0.5, wrong, y)
    return {
        "ada": (order[:60], noisy(generator, y[order[:60]], 0.95, n_classes)),
        "machine:regional": (order[20:220], program[order[20:220]]),
    }


def drift(X: np.ndarray, y: np.ndarray, n_classes: int, generator: Generator) -> Votes:
    """The first hundred of the program's answers are good, the next hundred are not."""
    order = generator.permutation(len(y))
    first = noisy(generator, y[order[:100]], 0.9, n_classes)
    second = noisy(generator, y[order[100:200]], 0.5, n_classes)
    checks = generator.choice(order[:200], 40, replace=False)
    return {
        "ada": (checks, noisy(generator, y[checks], 0.95, n_classes)),
        "machine:drift": (order[:200], np.append(first, second)),
    }


def drift_checked_early(
    X: np.ndarray, y: np.ndarray, n_classes: int, generator: Generator
) -> Votes:
    """As ``drift``, but people checked the first half only."""
    answers = drift(X, y, n_classes, generator)
    checks = answers["machine:drift"][0][:40]
    return {**answers, "ada": (checks, noisy(generator, y[checks], 0.95, n_classes))}


SCENARIOS = {
    "three of 95, 80, 60 %, two answers an item": crowd((0.95, 0.8, 0.6), 2),
    "two of 80 %, all items shared": crowd((0.8, 0.8), 2),
    "ten of 70 %, three answers an item": crowd((0.7,) * 10, 3),
    "two of 90 %, two who click at random": crowd((0.9, 0.9, 0.5, 0.5), 3),
    "two of 90 %, one always wrong": crowd((0.9, 0.9, 0.0), 2),
    "three of 95, 80, 60 %, 12 shared items": few_shared,
    "a person and a program, none shared": slices(ada=(0.85, 0, 40), m_g=(0.5, 40, 200)),
    "two people with 23 shared items, two programs": slices(
        ada=(0.962, 0, 26), bob=(0.577, 3, 29), m_m=(0.7, 15, 175), m_n=(0.05, 15, 115)
    ),
    "a program, ten checks": slices(ada=(0.95, 0, 40), m_m=(0.75, 30, 230)),
    "a program that lies, 53 checks": slices(ada=(0.95, 0, 53), m_l=(0.0, 0, 160)),
    "three copies of a bad annotator, two good": copies,
    "a program with regional errors": regional,
    "a program that changes halfway, random checks": drift,
    "a program that changes halfway, checked before": drift_checked_early,
}


def cover(name: str, n_classes: int, seed: int) -> Record:
    """Whether each interval holds the share of wrong answers, its width; right labels."""
    from parbals import ActiveLearner

    X, y = clouds(seed, n_classes, N_ITEMS, n_columns=10)
    answers = SCENARIOS[name](X, y, n_classes, np.random.default_rng([seed, 1]))
    learner = ActiveLearner(X, list(range(n_classes)), random_state=seed)
    for annotator, (positions, numbers) in answers.items():
        learner.tell(positions, numbers.tolist(), annotator=annotator)
    coverage = []
    widths = []
    for annotator in learner.annotators():
        positions, numbers = answers[annotator.name]
        share = float((numbers != y[positions]).mean())
        if annotator.error.known:
            coverage.append(bool(annotator.error.low <= share <= annotator.error.high))
            widths.append(annotator.error.high - annotator.error.low)
    consensus = [probs.argmax() == y[p] for p, probs in learner.consensus().items()]
    majority = [label == y[p] for p, label in learner.state.majority_labels.items()]
    return {
        "held": coverage,
        "widths": widths,
        "n_unknown": len(answers) - len(coverage),
        "consensus": float(np.mean(consensus)),
        "majority": float(np.mean(majority)),
    }


PROGRAMS = {
    "always wrong": lambda X, y, n, g: (y + 1) % n,
    "always the first class": lambda X, y, n, g: np.zeros_like(y),
    "guesses": lambda X, y, n, g: noisy(g, y, 1.0 / n, n),
    "right in 50 %": lambda X, y, n, g: noisy(g, y, 0.5, n),
    "right in 70 %": lambda X, y, n, g: noisy(g, y, 0.7, n),
    "right in 95 %": lambda X, y, n, g: noisy(g, y, 0.95, n),
    "wrong in a region": lambda X, y, n, g: np.where(X[:, -1] > 0.5, (y + 1) % n, y),
    "changes halfway": lambda X, y, n, g: np.where(
        np.arange(len(y)) < N_PERSON - N_CHECKED + N_PROGRAM // 2,
        noisy(g, y, 0.9, n),
        noisy(g, y, 0.5, n),
    ),
}


def harm(name: str, n_classes: int, seed: int) -> Record:
    """Accuracy with 37 answers of a person of 95 %, alone and beside 300 of a program."""
    from parbals import ActiveLearner

    X, y = clouds(seed, n_classes, N_POOL + N_TEST, n_columns=20)
    generator = np.random.default_rng([seed, 2])
    person = noisy(generator, y, 0.95, n_classes)
    program = PROGRAMS[name](X, y, n_classes, generator)
    accuracies = []
    for n_program in (0, N_PROGRAM):
        learner = ActiveLearner(X[:N_POOL], list(range(n_classes)), random_state=seed)
        learner.tell(range(N_PERSON), person[:N_PERSON].tolist(), annotator="ada")
        items = range(N_PERSON - N_CHECKED, N_PERSON - N_CHECKED + n_program)
        learner.tell(items, program[items].tolist(), annotator="machine:program")
        predictions = np.asarray(learner.predict(X[N_POOL:]))
        accuracies.append(float((predictions == y[N_POOL:]).mean()))
    return {"alone": accuracies[0], "beside": accuracies[1]}


CHANGES = {
    "none, 80 % right": lambda k, is_near: 0.8,
    "none, 50 % right near the boundary": lambda k, is_near: 0.5 if is_near else 0.95,
    "90 %, then 70 %": lambda k, is_near: 0.9 if k < N_CHANGING // 2 else 0.7,
    "90 %, then 50 %": lambda k, is_near: 0.9 if k < N_CHANGING // 2 else 0.5,
    "90 %, in the last fifth 50 %": lambda k, is_near: 0.9 if k < 0.8 * N_CHANGING else 0.5,
}
"""Accuracy of a program's answer number k, to an item that may be near another class."""


def change(name: str, n_classes: int, seed: int) -> Record:
    """Both tests for a change in 200 answers to chosen items, 40 of them checked.

    The p-values are upper limits: ``LEVEL`` where a change is noticed, and otherwise 1.
    """
    from parbals import ActiveLearner
    from parbals_label.project.change_point import increase_in

    X, y = clouds(seed, n_classes, N_ITEMS, n_columns=10)
    generator = np.random.default_rng([seed, 3])
    nearest = np.sort(X[:, :n_classes], axis=1)
    is_near = nearest[:, -1] - nearest[:, -2] < 1.5
    learner = ActiveLearner(X, list(range(n_classes)), random_state=seed)
    learner.tell(range(10), y[:10].tolist(), annotator="ada")
    order: list[int] = []
    answers: list[int] = []
    while len(order) < N_CHANGING:
        items = learner.ask(40)
        batch = []
        for item in items:
            accuracy = CHANGES[name](len(order) + len(batch), is_near[item])
            batch.append(int(noisy(generator, y[[item]], accuracy, n_classes)[0]))
        learner.tell(items, batch, annotator="machine:program")
        order += [int(item) for item in items]
        answers += batch
    checks = np.sort(generator.choice(N_CHANGING, 40, replace=False))
    items = np.array(order)[checks]
    learner.tell(items, y[items].tolist(), annotator="ada")
    predictions = learner.predict_proba(X)[order].argmax(axis=1)
    values = ((np.array(answers) != y[order])[checks], predictions != answers)
    is_noticed = [increase_in(each, LEVEL, generator) is not None for each in values]
    return {"p_values": [LEVEL if noticed else 1.0 for noticed in is_noticed]}


def _with_error(values: np.ndarray) -> str:
    """The mean in per cent, with its standard error."""
    if len(values) < 2:
        return f"{100 * values.mean():.1f}"
    error = values.std(ddof=1) / np.sqrt(len(values))
    return f"{100 * values.mean():.1f} ± {100 * error:.1f}"


def _answer(records: list[Record]) -> str:
    """How many scenarios reach the goals."""
    coverage: dict[tuple[str, int], list[bool]] = {}
    differences: dict[tuple[str, int], list[float]] = {}
    for record in records:
        kind, name, n_classes, _ = record["run"]
        if kind == "cover":
            coverage.setdefault((name, n_classes), []).extend(record["held"])
        elif kind == "harm":
            difference = record["beside"] - record["alone"]
            differences.setdefault((name, n_classes), []).append(difference)
    shares = [np.mean(held) for held in coverage.values() if held]
    means = [np.mean(values) for values in differences.values()]
    return (
        f"Intervals hold in {sum(share >= 0.85 for share in shares)} of {len(shares)} settings; "
        f"a program costs at most a point of accuracy in "
        f"{sum(mean >= -0.01 for mean in means)} of {len(means)}."
    )


def page(records: list[Record]) -> Iterator[str]:
    yield "# Do error intervals hold the truth, and does a bad annotator do harm?\n"
    yield (
        f"**{_answer(records)}** The goals: 90 % intervals from checked answers hold the share of "
        "wrong answers in at least 85 % of cases, and a program costs at most a point of accuracy, "
        "whatever it answers. Simulated people and programs; clouds of two and three classes. "
        "Written by `python studies annotators.errors`; do not edit.\n"
    )
    yield "## Cover of the intervals, and right labels, %\n"
    columns = ("classes", "seeds", "intervals", "hold", "width", "not known")
    yield f"| who answers | {' | '.join(columns)} | majority | consensus |"
    yield "| --- |" + " ---: |" * 8
    for name in SCENARIOS:
        for n_classes in (2, 3):
            same_runs = [r for r in records if r["run"][:3] == ["cover", name, n_classes]]
            if not same_runs:
                continue
            coverage = np.array([is_held for record in same_runs for is_held in record["held"]])
            widths = [width for record in same_runs for width in record["widths"]]
            hold = f"{100 * coverage.mean():.0f}" if len(coverage) else "–"
            width = f"{100 * np.mean(widths):.0f}" if widths else "–"
            n_unknown = sum(record["n_unknown"] for record in same_runs)
            shares = [
                _with_error(np.array([record[way] for record in same_runs]))
                for way in ("majority", "consensus")
            ]
            yield (
                f"| {name} | {n_classes} | {len(same_runs)} | {len(coverage)} | {hold} | {width} | "
                f"{n_unknown} | {' | '.join(shares)} |"
            )
    yield (
        "\n*Hold*: intervals with the share of wrong answers in them. *Width*: their mean, in "
        "points. *Not known*: annotators without checked answers, for whom no figure is shown.\n"
    )
    yield "## Accuracy on new items beside a program, %\n"
    yield (
        f"A person of 95 % gives {N_PERSON} answers; the program {N_PROGRAM}, of which ten are to "
        "the same items. Alone, the person is taken to be always right; beside a program, as one "
        "who may err, which alone makes a difference where the program says nothing.\n"
    )
    yield "| the program | classes | seeds | person alone | with the program | difference |"
    yield "| --- | ---: | ---: | ---: | ---: | ---: |"
    for name in PROGRAMS:
        for n_classes in (2, 3):
            same_runs = [r for r in records if r["run"][:3] == ["harm", name, n_classes]]
            if not same_runs:
                continue
            alone = np.array([record["alone"] for record in same_runs])
            beside = np.array([record["beside"] for record in same_runs])
            yield (
                f"| {name} | {n_classes} | {len(same_runs)} | {_with_error(alone)} | "
                f"{_with_error(beside)} | {_with_error(beside - alone)} |"
            )
    yield "\n## How often a change of a program is noticed, %\n"
    yield (
        f"A program gives {N_CHANGING} answers to items that the strategy chooses; 40 random ones "
        f"are checked. Noticed: the p-value of a test is at most {LEVEL}, by people's checks or by "
        "the model's predictions. Without a change it is a false alarm. This is one look; the "
        "report shares the level among all its looks, so it notices a change later.\n"
    )
    yield "| accuracy of the program | classes | seeds | by checks | by the model | by either |"
    yield "| --- | ---: | ---: | ---: | ---: | ---: |"
    for name in CHANGES:
        for n_classes in (2, 3):
            same_runs = [r for r in records if r["run"][:3] == ["change", name, n_classes]]
            if not same_runs:
                continue
            is_noticed = np.array([record["p_values"] for record in same_runs]) <= LEVEL
            ways = [*is_noticed.T, is_noticed.any(axis=1)]
            shares = " | ".join(_with_error(way.astype(float)) for way in ways)
            yield f"| {name} | {n_classes} | {len(same_runs)} | {shares} |"


if __name__ == "__main__":
    raise SystemExit(main())
