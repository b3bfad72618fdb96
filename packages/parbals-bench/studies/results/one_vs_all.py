"""Each class against the others: every strategy on every class of CIFAR-10 and AG News.

    parbals bench run --suite studies/results/one_vs_all.toml --data ~/data --out mine
    studies results.one_vs_all [mine]        # by default the published records; prints the table

Means over classes and seeds of the final accuracy; and how many universes, on one class. Runs of
one seed and class start from the same labels, so that differences are of pairs; their standard
errors are over classes and seeds. Holm's correction is over the strategies of a column.
"""

import sys
from collections import defaultdict
from pathlib import Path

import numpy as np
from lib.places import DOCS
from parbals_bench.report.stats import holm, mean_interval
from parbals_bench.report.tasks import Line
from parbals_bench.run.folder import ResultsFiles
from parbals_bench.run.records import RunRecord
from parbals_bench.run.spec import PAPER, Budget
from scipy import stats

PUBLISHED = DOCS / "results" / "one-vs-all.tar.xz"
TITLES = {"cifar10": "CIFAR-10", "ag-news": "AG News"}
OURS = "parbals-epig"
SHOWN = ("epig", "parbals-map-epig", OURS)
UNIVERSES = "cifar10:airplane", Budget(100, 10, 20)
Finals = dict[tuple[str, int], dict[str, tuple[float, float]]]
"""By class and seed: accuracy and balanced accuracy of each strategy."""


def main() -> None:
    place = Path(sys.argv[1]) if len(sys.argv) > 1 else PUBLISHED
    finals: dict[tuple[str, str], Finals] = defaultdict(lambda: defaultdict(dict))
    universes: dict[str, list[float]] = defaultdict(list)
    for record in ResultsFiles(place).records():
        run = record.run
        dataset, _, positive = run.reference.partition(":")
        if run.settings.n_universes == PAPER.n_universes:
            finals[dataset, run.budget.spelt][positive, run.seed][run.strategy] = judged(record)
        if (run.reference, run.budget) == UNIVERSES and run.strategy in SHOWN:
            m = f", m = {run.settings.n_universes}" if run.strategy == OURS else ""
            universes[f"{Line(run.strategy).title}{m}"].append(judged(record)[0])
    for (dataset, budget), found in finals.items():
        print("\n".join(table(f"{TITLES[dataset]}, {budget}", found)), end="\n\n")
    print(
        f"{UNIVERSES[0]}, {UNIVERSES[1].spelt}, seeds, final accuracy ± half of its 95 % interval"
    )
    for name in sorted(universes):
        found = mean_interval(universes[name])
        print(f"{name}: {found.n}, {found.mean:.2f} ± {found.half_width:.2f}")


def judged(record: RunRecord) -> tuple[float, float]:
    return tuple(100 * record.metrics[name][-1] for name in ("accuracy", "balanced_accuracy"))


def table(title: str, finals: Finals) -> list[str]:
    names = sorted(set.union(*(set(each) for each in finals.values())))
    whole = {key: each for key, each in finals.items() if set(each) == set(names)}
    classes = sorted({positive for positive, _ in whole})
    values = {name: np.array([each[name] for each in whole.values()]) for name in names}
    tests = {n: paired(values[OURS][:, 0] - values[n][:, 0]) for n in names if n != OURS}
    doubt = holm({name: p for name, (*_, p) in tests.items()})
    best = {
        c: max(names, key=lambda n: np.mean([e[n][0] for (k, _), e in whole.items() if k == c]))
        for c in classes
    }
    lines = [
        f"| {title}, {len(classes)} classes, {len(whole)} runs each | accuracy | balanced | "
        "ParBaLS EPIG less it | best for |",
        "| --- | ---: | ---: | ---: | ---: |",
    ]
    for name in sorted(names, key=lambda n: -values[n][:, 0].mean()):
        plain, balanced = values[name].mean(axis=0)
        less = "–"
        if name != OURS:
            mean, error, _ = tests[name]
            star = "**" if doubt[name] < 0.05 else ""
            less = f"{star}{mean:+.2f} ± {error:.2f}{star}"
        n_best = sum(best[c] == name for c in classes)
        lines.append(f"| {Line(name).title} | {plain:.2f} | {balanced:.2f} | {less} | {n_best} |")
    return lines


def paired(differences: np.ndarray) -> tuple[float, float, float]:
    """Mean, its standard error, and the p of a paired t-test."""
    error = differences.std(ddof=1) / np.sqrt(len(differences))
    return differences.mean(), error, float(stats.ttest_1samp(differences, 0.0).pvalue)


if __name__ == "__main__":
    main()
