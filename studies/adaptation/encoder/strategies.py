"""Which strategy chooses best on the rows of a fine-tuned encoder?

    python studies adaptation.encoder.strategies --folder FOLDER --workers 16 --platform cpu
    python studies adaptation.encoder.strategies --tables  # write STRATEGIES.md from the records

FOLDER holds what `studies error_estimates.promises.texts` collects; `--platform cpu` leaves the GPU
to PyTorch. A run labels 250 texts in batches of 25: on frozen rows up to 100 labels, then on rows
of MiniLM, fine-tuned at 100, 150 and 200 labels as `parbals adapt` does. K-means chooses the first
batch. Errors are those of the closed-form model on fine-tuned rows, on 1,500 texts (or a third of
the set) that no strategy sees. *Frozen* is what happens without fine-tuning: ParBaLS EPIG chooses
on frozen rows, and the model stands on them. All share pool and test texts of a seed, so
differences are paired. The page shows only runs whose fine-tuning was that of the last record.
"""

from argparse import Namespace
from collections.abc import Iterator
from functools import cache, partial
from hashlib import blake2b
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from error_estimates.promises.texts import AdaptedTexts, load_texts
from lib.paired import paired, shown
from lib.records import Record, Todo, study
from parbals_label.encoders.adapt import SETTINGS

FOLDER = Path(__file__).parent
SETS = ("films-2", "tweets-3", "places-4", "shop-5", "editorials-3", "fortunes-6")
"""Sets on which no strategy and no prior was chosen; the steps of fine-tuning were (LEVERS.md)."""
STRATEGIES = ("margin", "badge", "epig", "parbals-epig")
TITLES = {"margin": "Margin", "badge": "BADGE", "epig": "EPIG", "parbals-epig": "ParBaLS EPIG"}
RIVALS = STRATEGIES[:-1]
FROZEN = "frozen"
N_SEEDS = 10
N_POOL = 3_000
N_TEST = 1_500
BATCH = 25
BUDGETS = (100, 150, 200, 250)
"""Labels at which the encoder is fine-tuned, and the error measured."""


def main() -> int:
    files = FOLDER / "strategies.jsonl", FOLDER / "STRATEGIES.md"
    options = {"folder": "", "sets": ",".join(SETS), "budget": BUDGETS[-1]}
    return study(__doc__ or "", *files, runs, page, seeds=N_SEEDS, options=options)


def runs(options: Namespace) -> Iterator[Todo]:
    folder = Path(options.folder).resolve()
    if not (folder / "texts.json.xz").is_file():
        raise ValueError("--folder names what `studies error_estimates.promises.texts` has written")
    fine_tuning = blake2b(SETTINGS.encode(), digest_size=4).hexdigest()
    names = product(range(options.seeds), options.sets.split(","), (FROZEN, *STRATEGIES))
    for seed, name, strategy in names:
        todo = partial(measured, folder, name, strategy, seed, options.budget)
        yield (name, strategy, seed, fine_tuning), todo


@cache
def _encoded(folder: Path, name: str) -> tuple[AdaptedTexts, np.ndarray]:
    """A set's texts, and their rows (N, D) before any fine-tuning."""
    texts, labels = load_texts(folder, name)
    encoded = AdaptedTexts(folder, texts, labels)
    return encoded, encoded.frozen()


def measured(folder: Path, name: str, strategy: str, seed: int, budget: int) -> Record:
    """Errors and log losses after each number of labels."""
    texts, frozen = _encoded(folder, name)
    order = np.random.default_rng(seed).permutation(len(frozen))[: N_POOL + N_TEST]
    n_pool = min(N_POOL, 2 * len(order) // 3)
    labels = texts.labels[order]
    n_classes = int(texts.labels.max()) + 1
    rows = frozen[order]
    chooser = "parbals-epig" if strategy == FROZEN else strategy
    learner = _learner(rows[:n_pool], n_classes, chooser, seed, "auto")
    record: Record = {"n_pool": n_pool}
    for n_labels in (n for n in BUDGETS if n <= budget):
        while len(learner.labelled) < n_labels:
            batch = learner.ask(BATCH)
            learner.tell(batch, labels[batch].tolist())
        if strategy != FROZEN:
            labelled = learner.labelled
            rows = texts.adapted(order[labelled], order, seed)
            learner = _learner(rows[:n_pool], n_classes, chooser, seed, "even")
            learner.tell(labelled, labels[labelled].tolist())
        probs = learner.predict_proba(rows[n_pool:])
        record[str(n_labels)] = _scores(probs, labels[n_pool:])
    return record


def _learner(rows: np.ndarray, n_classes: int, strategy: str, seed: int, prior: str) -> Any:
    from parbals import ActiveLearner

    classes = list(range(n_classes))
    return ActiveLearner(rows, classes, strategy=strategy, random_state=seed, prior_scale=prior)


def _scores(probs: np.ndarray, labels: np.ndarray) -> Record:
    true_probs = np.maximum(probs[np.arange(len(labels)), labels], 1e-12)
    error = float((probs.argmax(axis=1) != labels).mean())
    return {"error": round(error, 6), "log_loss": round(float(-np.log(true_probs).mean()), 6)}


Errors = dict[tuple[str, str, int], Record]
"""Records by set, strategy and seed."""


def page(records: list[Record]) -> Iterator[str]:
    last = [record["run"][3:] for record in records][-1:]
    by_run: Errors = {tuple(r["run"][:3]): r for r in records if r["run"][3:] in last}
    yield "# Which strategy chooses best on the rows of a fine-tuned encoder?"
    yield from ("", "Written by `python studies adaptation.encoder.strategies`; do not edit.", "")
    yield from _answer(by_run)
    yield ""
    yield (
        "Up to 100 labels strategies choose on frozen rows, then on rows of MiniLM that is "
        "fine-tuned at 100, 150 and 200 labels. Errors in % of the closed-form model on fine-tuned "
        "rows, means over seeds; then ParBaLS EPIG less each rival, in points, paired by seed ± "
        "standard error, bold where p < 0.05 for the cell alone. *Seeds*: those that every "
        f"strategy has been run with, at most {N_SEEDS}; of all sets together, runs. No strategy "
        "and no prior was chosen by looking at these sets; the steps of fine-tuning with up to 125 "
        "labels [were](LEVERS.md)."
    )
    for budget in BUDGETS[1:]:
        yield from ("", f"## {budget} labels", "")
        yield from _table(by_run, str(budget))
    yield from ("", "## What fine-tuning gains", "")
    yield from _gains(by_run, str(BUDGETS[-1]))


def _answer(by_run: Errors) -> Iterator[str]:
    """The pooled differences at the last budget."""
    cells = []
    budget = str(BUDGETS[-1])
    errors = _errors(by_run, SETS, budget, STRATEGIES)
    for rival in RIVALS:
        gaps = errors[STRATEGIES[-1]] - errors[rival]
        if len(gaps) > 1:
            cells.append(f"{TITLES[rival]} {shown(gaps, paired(gaps)[2])}")
    n_seeds = {len(_seeds(by_run, name, budget)) for name in SETS}
    seeds = " to ".join(map(str, sorted({min(n_seeds), max(n_seeds)})))
    yield (
        f"**{budget} labels, {len(SETS)} sets, {seeds} seeds: error of ParBaLS EPIG "
        f"less that of** {', '.join(cells)} points (± standard error over runs)."
    )


def _table(by_run: Errors, budget: str) -> Iterator[str]:
    titles = [TITLES[strategy] for strategy in STRATEGIES]
    yield f"| | seeds | {' | '.join(titles)} | less {' | less '.join(titles[:-1])} |"
    yield "| --- |" + " ---: |" * (1 + len(STRATEGIES) + len(RIVALS))
    for name in SETS:
        yield _row(by_run, name, (name,), budget)
    yield _row(by_run, "**all**", SETS, budget)


def _row(by_run: Errors, title: str, names: tuple[str, ...], budget: str) -> str:
    """Mean errors over seeds that every strategy has, and paired differences."""
    errors = _errors(by_run, names, budget, STRATEGIES)
    ours = errors[STRATEGIES[-1]]
    cells = [f"{values.mean():.2f}" if len(values) else "" for values in errors.values()]
    for rival in RIVALS:
        gaps = ours - errors[rival]
        cells.append(shown(gaps, paired(gaps)[2]) if len(gaps) > 1 else "")
    return f"| {title} | {len(ours)} | {' | '.join(cells)} |"


def _gains(by_run: Errors, budget: str) -> Iterator[str]:
    """Errors with ParBaLS EPIG's labels on frozen rows, and on fine-tuned ones."""
    yield (
        f"Errors in % with {budget} labels chosen by ParBaLS EPIG: chosen and learnt on frozen "
        "rows, or on fine-tuned ones as above; then the difference in points."
    )
    yield from ("", "| | seeds | frozen | fine-tuned | fine-tuned less frozen |")
    yield "| --- | ---: | ---: | ---: | ---: |"
    both = (FROZEN, STRATEGIES[-1])
    for name in SETS:
        yield _gain(name, *_errors(by_run, (name,), budget, both).values())
    yield _gain("**all**", *_errors(by_run, SETS, budget, both).values())


def _gain(title: str, frozen: np.ndarray, tuned: np.ndarray) -> str:
    if len(frozen) < 2:
        return f"| {title} | {len(frozen)} | | | |"
    gaps = tuned - frozen
    cells = f"{frozen.mean():.2f} | {tuned.mean():.2f} | {shown(gaps, paired(gaps)[2])}"
    return f"| {title} | {len(gaps)} | {cells} |"


def _seeds(by_run: Errors, name: str, budget: str, arms: tuple[str, ...] = STRATEGIES) -> list[int]:
    """Seeds for which every arm has been run."""
    return [
        seed
        for seed in range(N_SEEDS)
        if all(budget in by_run.get((name, arm, seed), {}) for arm in arms)
    ]


def _errors(
    by_run: Errors, names: tuple[str, ...], budget: str, arms: tuple[str, ...]
) -> dict[str, np.ndarray]:
    """Each arm's errors (n,) in %, by set and seed, for the seeds that all of them have."""
    runs = [(name, seed) for name in names for seed in _seeds(by_run, name, budget, arms)]
    return {
        arm: np.array([100.0 * by_run[name, arm, seed][budget]["error"] for name, seed in runs])
        for arm in arms
    }
