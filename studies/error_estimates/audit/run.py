"""Does the interval of an audit hold the true error, however often one looks?

    python studies error_estimates.audit --data FOLDER  # run what is missing, write README.md
    python studies error_estimates.audit --only sms-spam,digits:* --seeds 5 --strategies random
    python studies error_estimates.audit --data FOLDER --workers 14 --platform cpu
    python studies error_estimates.audit --tables  # write README.md from the records

For every seed the rows are divided into a pool and a test set, and the pool is labelled twenty at a
time. The looks of the session's audit are then played with audits drawn from the test set.
Each run is a line of record.jsonl.xz, so an interrupted study resumes; remove the file to start
over.
FOLDER holds the datasets, or what ``studies lib.rows`` wrote; then no package beyond parbals' own
is needed.
"""

import math
from argparse import Namespace
from collections.abc import Iterable, Iterator
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from lib.records import Record, Todo, study
from lib.rows import load

HERE = Path(__file__).parent
PAGE = HERE / "README.md"
MOST, AUDITS = 500, (60,)
N_POOL, N_TEST, BATCH, DRAWS = 2_000, 10_000, 20, 100
DATA = {
    "sms-spam": "SMS spam",
    "breast-cancer": "breast cancer",
    "digits:*": "digits, ten classes",
    "ag-news": "AG News, World against the rest",
    "ag-news:*": "AG News, four classes",
    "cifar10": "CIFAR-10, airplanes against the rest",
    "cifar10:*": "CIFAR-10, ten classes",
    "airline": "airline",
    "credit-card": "credit card",
}


def main() -> int:
    options = {"only": ",".join(DATA), "strategies": "random,confidence,parbals-epig"}
    options |= {"audits": ",".join(map(str, AUDITS)), "most": MOST}
    return study(
        *(__doc__, HERE / "record.jsonl.xz", PAGE, runs, page),
        seeds=20,
        options=options,
    )


def runs(given: Namespace) -> Iterator[Todo]:
    names = given.only.split(",")
    for name in names:
        if name not in DATA:
            raise ValueError(f"there is no dataset {name!r}; choose some of: {', '.join(DATA)}")
    strategies, audits = given.strategies.split(","), map(int, given.audits.split(","))
    for seed, *rest in product(range(given.seeds), names, strategies, audits):
        yield (*rest, seed), partial(one_run, *rest, seed, given.most)


def page(records: list[Record]) -> Iterable[str]:
    """README.md."""
    return [*_title(), *_looks(records), *_costs()]


def one_run(data: str, strategy: str, audit: int, seed: int, most: int) -> dict[str, Any]:
    """A session of ``most`` labels, and its looks."""
    import parbals

    X, y, n_classes = load(data)
    order = np.random.default_rng(seed).permutation(len(X))
    n_pool = min(N_POOL, 2 * len(X) // 3)
    pool, test = order[:n_pool], order[n_pool:][:N_TEST]
    learner = parbals.ActiveLearner(
        X[pool], range(n_classes), strategy=strategy, random_state=seed, audit=audit
    )
    while len(learner.labelled) < min(most, n_pool // 2):
        out = learner.ask(min(BATCH, most - len(learner.labelled)))
        learner.tell(out, y[pool[out]])
    return looks_of(learner, X[test], y[test], X[pool], seed)


def looks_of(
    learner: Any, X_test: np.ndarray, y_test: np.ndarray, X_pool: np.ndarray, seed: int
) -> dict[str, Any]:
    """The session's looks at its changing models, played with audits drawn from the test set.

    Those are as good as its own, and there can be many. Widths are means over them; ``held`` is the
    share of them in which the intervals of all looks held together, ``former`` those of three looks
    in every doubling, each with Clopper and Pearson's limits.
    """
    from parbals.learner.evaluation.looks import clopper_pearson_limits, latest_look, ppi_limits
    from parbals.learner.state import mean_proba

    state, audit = learner.state, learner.audit
    order = np.array(list(state.labels))
    is_audit, sizes = np.isin(order, audit), range(1, len(order) + 1)
    looks = sorted({latest_look(is_audit[:n], len(audit)) for n in sizes} - {None})
    others, seen = np.setdiff1d(np.arange(len(X_pool)), audit), []
    for look in looks:
        first = order[: look.n_labels]
        model = state.model_of(np.sort(first[~is_audit[: look.n_labels]]))
        rows = (X_test, X_pool[others])
        probs, around = (mean_proba(model, learner.setup.preparation(X)) for X in rows)
        wrong = (probs.argmax(axis=1) != y_test).astype(float)
        n_former, risk = _former_look(look.n_labels)
        counts = [int(is_audit[:n].sum()) for n in (look.n_labels, n_former)]
        doubts = (1.0 - p.max(axis=1) for p in (probs, around))
        seen.append((look, wrong, *doubts, counts, risk))
    generator = np.random.default_rng(seed)
    drawn = [generator.choice(len(y_test), len(audit), replace=False) for _ in range(DRAWS)]
    widths, held = np.zeros((3, len(looks))), np.ones((2, DRAWS), bool)
    for k, (look, wrong, doubt, around, (n, n_former), risk) in enumerate(seen):
        for draw, items in enumerate(drawn):
            given = wrong[items]
            limits = (
                ppi_limits(given[:n], doubt[items[:n]], around, look.delta)[1:],
                clopper_pearson_limits(given[:n].sum(), n, look.delta),
                clopper_pearson_limits(given[:n_former].sum(), n_former, risk),
            )
            widths[:, k] += [high - low for low, high in limits]
            for which, (low, high) in enumerate((limits[0], limits[2])):
                held[which, draw] &= low <= wrong.mean() <= high
    widths /= DRAWS
    return {
        "looks": [
            {
                "labels": look.n_labels,
                "n": n,
                "real": float(wrong.mean()),
                **dict(zip(("width", "plain", "former"), widths[:, k].tolist(), strict=True)),
            }
            for k, (look, wrong, _, _, (n, _), _) in enumerate(seen)
        ],
        "held": held[0].mean().item(),
        "held_former": held[1].mean().item(),
    }


def _former_look(n_labels: int) -> tuple[int, float]:
    """Labels and risk of the latest of three looks in every doubling, weights (1 + (k/4)²)⁻¹."""
    k = math.floor(3.0 * math.log2(n_labels / 200.0) + 1e-9)
    total = 4.0 * math.pi / math.tanh(4.0 * math.pi)
    return math.ceil(200.0 * 2.0 ** (k / 3.0) - 1e-6), 0.05 / (total * (1.0 + (k / 4.0) ** 2))


def _title() -> Iterable[str]:
    yield "# Is the error that an audit measures the real one, however often one looks?"
    yield ""
    yield (
        "Written by `python studies error_estimates.audit`; do not edit. "
        "[docs/howto/measure.md](../../../docs/howto/measure.md) says what an audit is; "
        "`record.jsonl.xz` has a "
        "line for each run."
    )
    yield ""


def _looks(records: list[dict[str, Any]]) -> Iterable[str]:
    """How wide an audit's intervals are, beside what they were, and whether all hold together."""
    groups: dict[tuple[str, int], list[dict[str, Any]]] = {}
    for record in records:
        if record.get("looks"):
            groups.setdefault((record["run"][0], record["run"][2]), []).append(record)
    if not groups:
        return
    yield "## The looks of an audit"
    yield ""
    yield (
        f"Sessions whose models change, {DRAWS} audits drawn for each. *Width*: of the interval at "
        "each look (half of the audit, all of it, twice the labels), beside that of three looks in "
        "every doubling with Clopper and Pearson's limits, the *former* one. *Exact*: the same "
        "without the model's predictions. *All held*: the share of audits in which every look's "
        "interval held."
    )
    yield ""
    yield (
        "| data | audit | runs | labels at a look | width | of the former | exact, of the former | "
        "all held | formerly |"
    )
    yield "| --- | ---: | ---: | --- | --- | --- | --- | ---: | ---: |"
    for (data, audit), runs in sorted(
        groups.items(), key=lambda pair: list(DATA).index(pair[0][0])
    ):
        n_looks = min(len(run["looks"]) for run in runs)
        mean = {
            name: [np.mean([run["looks"][k][name] for run in runs]) for k in range(n_looks)]
            for name in ("labels", "width", "plain", "former")
        }
        cells = [
            [f"{n:.0f}" for n in mean["labels"]],
            [f"{width:.1%}" for width in mean["width"]],
            *(
                [f"{a / b:.2f}" for a, b in zip(mean[name], mean["former"], strict=True)]
                for name in ("width", "plain")
            ),
        ]
        held, former = (np.mean([run[name] for run in runs]) for name in ("held", "held_former"))
        yield (
            f"| {DATA[data]} | {audit} | {len(runs)} | {' | '.join(map(', '.join, cells))} | "
            f"{held:.0%} | {former:.0%} |"
        )
    yield ""


def _costs() -> Iterable[str]:
    """The interval by the audit's size and the share that it finds wrong."""
    from parbals.learner.evaluation.looks import DELTA, clopper_pearson_limits, latest_look

    yield "## What an audit of n labels buys"
    yield ""
    yield (
        "The 90 % interval of the full audit, whose upper end holds with 95 % by itself, where it "
        "finds this share wrong; the model's predictions make it narrower. In brackets the upper "
        "end for one who looks just once, at a time fixed beforehand: the difference is the price "
        "of looking as often as one likes."
    )
    yield ""
    shares = (0.0, 0.02, 0.05, 0.1, 0.2, 0.3)
    yield "| n | " + " | ".join(f"{share:.0%} wrong" for share in shares) + " |"
    yield "| ---: |" + " --- |" * len(shares)
    for n in (25, 50, 100, 200):
        look = latest_look(np.ones(n, bool), n)
        assert look is not None
        cells = []
        for share in shares:
            n_wrong = round(share * n)
            low, high = clopper_pearson_limits(n_wrong, n, look.delta)
            once = clopper_pearson_limits(n_wrong, n, DELTA)[1]
            cells.append(f"{low:.1%} to {high:.1%} ({once:.1%})")
        yield f"| {n} | " + " | ".join(cells) + " |"
