"""How well are label errors ranked, compared with cleanlab?

    python studies annotators.label_errors --data FOLDER  # run what is missing, write README.md
    python studies annotators.label_errors --seeds 1      # fewer runs
    python studies annotators.label_errors --tables       # write README.md from the records

Of 200 labels a share is flipped to another class at random. *doubts* ranks them by the surprise
-ln p(label | all other labels), as `parbals labels review` does, *cleanlab* by the label quality of
`CleanLearning` around a logistic regression (its default, five folds) on the same rows. Chosen
labels are those of `confidence`, twenty at a time, which has seen the flipped ones.
Needs `pip install cleanlab==2.9.0`.
"""

from argparse import Namespace
from collections.abc import Iterator
from functools import partial
from itertools import product
from pathlib import Path

import numpy as np
from lib.records import Record, Todo, study
from lib.rows import load

HERE = Path(__file__).parent
SETS = ("sms-spam", "airline", "ag-news:*")
SHARES = (0.05, 0.10, 0.15)
WAYS = ("random", "chosen")
N_POOL, N_LABELS, BATCH = 1_500, 200, 20


def main() -> int:
    return study(
        *(__doc__, HERE / "record.jsonl", HERE / "README.md", runs, page), seeds=10, options={}
    )


def runs(given: Namespace) -> Iterator[Todo]:
    for seed, way, share, name in product(range(given.seeds), WAYS, SHARES, SETS):
        yield (name, way, share, seed), partial(measured, name, way, share, seed)


def measured(name: str, way: str, share: float, seed: int) -> Record:
    """AUC of flipped labels against others, and how many are among the first as many."""
    from cleanlab.classification import CleanLearning
    from parbals import ActiveLearner
    from sklearn.linear_model import LogisticRegression
    from sklearn.metrics import roc_auc_score

    X, y, n_classes = load(name)
    generator = np.random.default_rng(seed)
    drawn = generator.permutation(len(X))[:N_POOL]
    X, y = X[drawn], y[drawn]
    is_flipped = generator.random(N_POOL) < share
    given = np.where(is_flipped, (y + generator.integers(1, n_classes, N_POOL)) % n_classes, y)
    learner = ActiveLearner(X, range(n_classes), strategy="confidence", random_state=seed)
    if way == "random":
        learner.tell(np.arange(N_LABELS), given[:N_LABELS])
    else:
        learner.tell(np.arange(BATCH), given[:BATCH])
        while len(learner.labelled) < N_LABELS:
            chosen = learner.ask(BATCH)
            learner.tell(chosen, given[chosen])
    positions, numbers = learner.state.training_labels
    scores = {}
    if (gaussian := learner.fitted().gaussian) is not None:
        places, probs = gaussian.leave_one_out(all_labels=True)
        assert sorted(places) == list(range(N_LABELS))
        scores["doubts"] = np.empty(N_LABELS)
        scores["doubts"][places] = -np.log(probs[np.arange(N_LABELS), numbers[places]])
    rows = learner.setup.pool_rows(positions)
    found = CleanLearning(LogisticRegression(max_iter=5_000), seed=seed).find_label_issues(
        np.asarray(rows, np.float64), np.asarray(numbers)
    )
    scores["cleanlab"] = -found["label_quality"].to_numpy()
    truth = is_flipped[positions]
    record: Record = {"flipped": int(truth.sum())}
    for who, score in scores.items():
        first = np.argsort(-score, kind="stable")[: truth.sum()]
        record[who] = [round(float(roc_auc_score(truth, score)), 4), float(truth[first].mean())]
    return record


def page(records: list[Record]) -> Iterator[str]:
    yield "# How well are label errors ranked, compared with cleanlab?"
    yield ""
    yield "Written by `python studies annotators.label_errors`; do not edit."
    yield ""
    yield (
        f"{N_LABELS} labels, a share of them flipped to another class; random ones, or chosen by "
        "`confidence`. AUC: how often a flipped label is ranked before one that is not. First k: "
        "how many of the k first are flipped, where k are. *doubts*: −ln p of a label by all "
        "others, as `parbals labels review` ranks; *cleanlab* 2.9: label quality of "
        "`CleanLearning` around a logistic regression, five folds, the same rows. Means over seeds."
    )
    whole = [r for r in records if "doubts" in r]
    if len(whole) < len(records):
        yield ""
        yield (
            f"In {len(records) - len(whole)} of {len(records)} runs the closed form was not "
            "trusted: `parbals labels review` then names nothing, and they are left out."
        )
    records = whole
    yield ""
    yield (
        "| data | labels | flipped | seeds | doubts AUC | cleanlab AUC | doubts first k | cleanlab "
        "first k |"
    )
    yield "| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: |"
    ahead = 0
    for name, way, share in product(SETS, WAYS, SHARES):
        some = [r for r in records if r["run"][:3] == [name, way, share]]
        if not some:
            continue
        (ours, first), (theirs, their_first) = (
            np.mean([r[who] for r in some], axis=0) for who in ("doubts", "cleanlab")
        )
        ahead += sum(r["doubts"][0] > r["cleanlab"][0] for r in some)
        yield (
            f"| {name.removesuffix(':*')} | {way} | {100 * share:.0f} % | {len(some)} | {ours:.3f} "
            f"| {theirs:.3f} | {100 * first:.0f} % | {100 * their_first:.0f} % |"
        )
    yield ""
    yield f"The AUC of doubts is the higher one in {ahead} of {len(records)} runs."
    yield ""
    for way in WAYS:
        some = [r for r in records if r["run"][1] == way]
        ours, theirs = (np.array([r[who][0] for r in some]) for who in ("doubts", "cleanlab"))
        less = ours - theirs
        yield (
            f"Of {way} labels the mean AUC is {ours.mean():.3f}, cleanlab's {theirs.mean():.3f}: "
            f"{less.mean():+.3f} ± {less.std(ddof=1) / len(less) ** 0.5:.3f} (standard error)."
        )
