"""What does the fallback queue cost when people are quicker than the strategy?

    python studies asynchronous.fallback --data FOLDER  # run what is missing, write README.md
    python studies asynchronous.fallback --only airline --seeds 1  # a quick check
    python studies asynchronous.fallback --tables  # write README.md from the records

A real project and its queue, ten people who hold four items each and answer in turn; time alone is
made up: it is counted in answers. A batch is begun when fewer than half of one wait, knows the
answers and the items that were out then, and is there so many answers later, in the place of what
the fallback chose and nobody has; meanwhile whoever finds the queue empty gets items from
:mod:`parbals_label.project.quick`, by predictions up to twenty answers old. The pace decides how
many items the strategy chooses in the end. At 100 and at 250 labels a row notes what the report
expects, and what 4,000 other items say.
"""

import tempfile
from argparse import Namespace
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from lib.records import Record, Todo, study
from lib.rows import load

FOLDER = Path(__file__).parent
DATA = ["airline", "sms-spam", "credit-card", "ag-news:*", "digits:*", "cifar10"]
PACES = {
    "strategy alone": (20, 0),
    "quick": (40, 20),
    "very quick": (20, 60),
    "never": (20, 10_000),
}
"""Items of a batch, and answers that come while it is chosen."""
SIZES = (100, 250)
N_POOL = 2_000
N_TEST = 4_000
FALLBACKS = ("k-means", "confidence", "random")
FIRST = 5
PEOPLE = 10
N_HELD = 4
LEARNT = 20


def main() -> int:
    options = {"only": ",".join(DATA), "paces": ",".join(PACES), "first": 0}
    records = FOLDER / "record.jsonl"
    page = FOLDER / "README.md"
    return study(__doc__, records, page, runs, lines, seeds=10, options=options)


def runs(options: Namespace) -> Iterator[Todo]:
    for name in options.only.split(","):
        if name not in DATA:
            raise ValueError(f"there is no dataset {name!r}; choose some of: {', '.join(DATA)}")
    seeds = range(options.first, options.first + options.seeds)
    for seed, name, pace in product(seeds, options.only.split(","), options.paces.split(",")):
        yield (name, pace, seed), partial(one_run, name, *PACES[pace], seed)


def one_run(data: str, size: int, delay: int, seed: int) -> dict[str, Any]:
    """A row for each number of labels."""
    X, y, n_classes = load(data)
    order = np.random.default_rng(seed).permutation(len(X))
    n_pool = min(N_POOL, 7 * len(X) // 10)
    pool = order[:n_pool]
    test = order[n_pool:][:N_TEST]
    rows: list[Record] = []
    with tempfile.TemporaryDirectory() as temporary:
        store = _project(Path(temporary) / "project", X[pool], n_classes, seed)
        choosing = _Choosing(store, size, delay)
        for n_answers in range(SIZES[-1]):
            choosing.look(n_answers)
            _answer(store, f"p{n_answers % PEOPLE}", y[pool])
            if delay and (n_answers + 1) % LEARNT == LEARNT // 2:
                _predict(store)
            if n_answers + 1 in SIZES:
                rows.append({"labels": n_answers + 1} | _row(store, X[test], y[test]))
        store.close()
    return {"rows": rows}


def _project(folder: Path, X: np.ndarray, n_classes: int, seed: int) -> Any:
    """Its store; the first items wait."""
    from parbals_label.project.features import store_features
    from parbals_label.project.quick import quick_batch
    from parbals_label.store.store import Store

    settings = {"columns": ["text"], "encoded_columns": ["text"], "encoder": "words"}
    settings |= {"prior_scale": "auto", "loss": "error", "seed": seed}
    store = Store.create(folder, classes=[str(n) for n in range(n_classes)], settings=settings)
    store.add_items((f"m{n}", {"text": str(n)}) for n in range(len(X)))
    store.update_settings(features=store_features(folder, X.astype(np.float32)))
    quick_batch(store)
    return store


def _answer(store: Any, name: str, y: np.ndarray) -> None:
    """The first item that somebody holds, as the page's routes hand them out."""
    from parbals_label.project.quick import quick_batch
    from parbals_label.store.records import Submission

    leases = store.take(name, N_HELD, 3600.0)
    if len(leases) < N_HELD and quick_batch(store) is not None:
        leases = store.take(name, N_HELD, 3600.0)
    position = leases[0].position
    store.submit([Submission(position, store.classes[y[position]])], annotator=name)


class _Choosing:
    """The worker: a batch that is begun, and the moment at which it is there."""

    def __init__(self, store: Any, size: int, delay: int) -> None:
        self.store = store
        self.size = size
        self.delay = delay
        self.batch: Any = None
        self.due = 0

    def look(self, n_answers: int) -> None:
        """After so many answers: hand over what is due, and begin the next."""
        self._hand_over(n_answers)
        n_queued = len(self.store.unopened().get(self.store.settings.strategy, ()))
        if self.batch is None and n_answers >= FIRST and 2 * n_queued < self.size:
            self._begin(n_answers)
            self._hand_over(n_answers)

    def _begin(self, n_answers: int) -> None:
        from parbals_label.project.engine import learner_of
        from parbals_label.web.queue_planner import EFFORTS

        changes = dict(EFFORTS[-1])
        models_annotators = bool(changes.pop("models_annotators"))
        self.due = n_answers + self.delay
        if self.due < SIZES[-1]:  # nobody would see it
            learner = learner_of(
                self.store,
                n_candidates=2_000,
                replaces=FALLBACKS,
                models_annotators=models_annotators,
                changes=changes,
            )
            self.batch = learner.choose(self.size)

    def _hand_over(self, n_answers: int) -> None:
        from parbals_label.store.batches import ItemsUnavailableError

        if self.batch is None or n_answers < self.due:
            return
        batch = self.batch
        self.batch = None
        items = zip(batch.indices.tolist(), batch.scores, batch.initial_scores, strict=True)
        try:
            self.store.record_batch(
                batch.strategy, 0, list(items), {}, queued=True, replaces=FALLBACKS
            )
        except ItemsUnavailableError:  # people got all of them meanwhile
            return


def _predict(store: Any) -> None:
    """Predictions that the fallback queue uses, updated when a report is."""
    from parbals_label.project.engine import learner_of
    from parbals_label.project.features import store_features
    from parbals_label.store.settings import PredictionsFile

    # Nobody errs here, and fitting annotators takes three fits.
    learner = learner_of(store, with_pending=False, models_annotators=False)
    probs = learner.predict_proba(np.asarray(learner.pool.rows(np.arange(learner.pool.n_rows))))
    written = store_features(store.folder, probs.astype(np.float32), name="predictions")
    file = PredictionsFile(**asdict(written), answers=store.revision()[0])
    store.update_settings(predictions=file)


def _row(store: Any, X_test: np.ndarray, y_test: np.ndarray) -> dict[str, Any]:
    """What the report expects of the error, what it is, and who chose the items."""
    from parbals_label.project.engine import learner_of

    learner = learner_of(store, with_pending=False, models_annotators=False)
    expected = learner.report().expected_error
    probs = learner.predict_proba(X_test)
    n_by_strategy = store.chosen_by()
    share = n_by_strategy.get(store.settings.strategy, 0) / sum(n_by_strategy.values())
    estimate = (expected.mean, expected.low, expected.high)
    real = float(np.mean(probs.argmax(axis=1) != y_test))
    return {"real": round(real, 5), "expected": np.round(estimate, 5).tolist(), "share": share}


# -- the page


def lines(records: list[Record]) -> Iterable[str]:
    cells = _cells(records)
    counts = Counter(record["run"][0] for record in records if record["run"][1] == "never")
    least_n = min(counts.values())
    most_n = max(counts.values())
    seeds = f"{least_n} seeds" if least_n == most_n else f"{least_n} to {most_n} seeds"
    yield "# What does the fallback queue cost?"
    yield ""
    yield (
        "Written by `python studies asynchronous.fallback --data FOLDER`; do not edit. "
        "Nobody waits for the model on the page: where people are quicker than the project's "
        "strategy, ParBaLS EPIG, they get the items of which the last report's predictions are "
        f"least sure (Confidence). {len(counts)} sets, {seeds} of each, a pool of 2,000 items, ten "
        "people who hold four items each. Queue, fallback and strategy are the page's own, the "
        "strategy as it is in haste (two universes, 250 targets); time is counted in answers, so "
        "no machine matters. Everybody is right."
    )
    yield ""
    yield (
        "*Strategy alone*: a batch is there at once. *Quick*: forty items, there after twenty more "
        "answers. *Very quick*: twenty items, after sixty. *Never*: the fallback alone, as nearly "
        "with fifty people on a small machine. *Share*: of the labelled items, chosen by the "
        "strategy; the first twenty are always k-means's, and those that people got before there "
        "was a prediction are random. *More error*: than by the strategy alone, same set and seed, "
        "in points, with its 95 % interval over the pairs. *Held*: how often the report's 90 % "
        "interval held the error on other items, *width* that of the interval in points. *Bias* "
        "and *apart*: expected less real error, and the mean of its absolute value, in points. No "
        "audit anywhere."
    )
    yield ""
    yield "| pace | labels | share | error % | more error | bias | apart | held | width |"
    yield "| --- " + "| ---: " * 8 + "|"
    for pace, size in product(PACES, SIZES):
        if runs_by_set := [cells[key] for key in cells if key[1:] == (pace, size)]:
            yield _line(pace, size, np.concatenate(runs_by_set))
    yield ""
    yield "Error % of each set at 250 labels, and how often the interval held it:"
    yield ""
    yield "| set | " + " | ".join(PACES) + " |"
    yield "| --- " + "| ---: " * len(PACES) + "|"
    for name in DATA:
        runs_by_set = [cells.get((name, pace, SIZES[-1])) for pace in PACES]
        texts = [
            "" if v is None else f"{v[:, 1].mean():.1f} ({v[:, 4].mean():.2f})" for v in runs_by_set
        ]
        yield f"| {name} | " + " | ".join(texts) + " |"
    yield ""
    yield from _conclusions(cells)


def _cells(records: list[Record]) -> dict[tuple[str, str, int], np.ndarray]:
    """(set, pace, labels) → (runs, 6): share, error, error of the strategy alone, all in percent;
    expected - real in points, held, width.
    """
    rows = {(*record["run"], row["labels"]): row for record in records for row in record["rows"]}
    values_by_cell: dict[tuple[str, str, int], list[list[float]]] = {}
    for (name, pace, seed, size), row in sorted(rows.items()):
        alone = rows.get((name, "strategy alone", seed, size))
        if alone is None:
            continue
        (mean, low, high) = row["expected"]
        real = row["real"]
        values = [100 * row["share"], 100 * real, 100 * alone["real"]]
        values += [100 * (mean - real), low <= real <= high, 100 * (high - low)]
        values_by_cell.setdefault((name, pace, size), []).append(values)
    return {key: np.array(values, float) for key, values in values_by_cell.items()}


def _added_error(values: np.ndarray) -> tuple[float, float]:
    """Points of error more than by the strategy alone, and half of the 95 % interval."""
    from scipy import stats

    differences = values[:, 1] - values[:, 2]
    half = (
        stats.t.ppf(0.975, len(differences) - 1)
        * differences.std(ddof=1)
        / np.sqrt(len(differences))
    )
    return float(differences.mean()), float(half)


def _line(pace: str, size: int, values: np.ndarray) -> str:
    share, error, _, bias, coverage, width = values.mean(axis=0)
    difference = (
        "" if pace == next(iter(PACES)) else "{:+.2f} ± {:.2f}".format(*_added_error(values))
    )
    apart = np.abs(values[:, 3]).mean()
    return (
        f"| {pace} | {size} | {share:.0f} % | {error:.1f} | {difference} | {bias:+.1f} | "
        f"{apart:.1f} | {coverage:.2f} | {width:.0f} |"
    )


def _conclusions(cells: dict[tuple[str, str, int], np.ndarray]) -> Iterable[str]:
    """What the table says, in words."""
    other_paces = [*PACES][1:]
    for size in SIZES:
        clear = []
        for pace in other_paces:
            difference, half = _added_error(
                np.concatenate([cells[k] for k in cells if k[1:] == (pace, size)])
            )
            if abs(difference) > half:
                side = "more" if difference > 0 else "less"
                clear.append(f"{pace} {abs(difference):.2f} points {side}")
        sentence = "; ".join(clear) or "no pace differs from the strategy alone beyond chance"
        yield f"At {size} labels, error beyond what chance would show: {sentence}."
    whole = {p: np.concatenate([cells[k] for k in cells if k[1] == p])[:, 4] for p in PACES}
    coverages = ", ".join(
        f"{pace} {is_covered.mean():.2f} of {len(is_covered)}" for pace, is_covered in whole.items()
    )
    yield f"The interval held, both sizes together: {coverages}."
    yield ""
    yield (
        "The paces differ in more than the share. The last item of a quick batch is labelled some "
        "eighty answers after it was chosen, forty items being out and forty in the batch; the "
        "fallback uses predictions that are at most twenty answers old. That is a reason why "
        "choosing far ahead may cost more than the fallback; it was not measured separately. The "
        "intervals are of single comparisons, and a set with many seeds weighs more."
    )
