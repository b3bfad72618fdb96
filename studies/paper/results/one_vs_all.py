"""One class against the others: every strategy on every class of CIFAR-10 and AG News.

    parbals bench run --suite studies/paper/results/one_vs_all.toml --data ~/data --out mine
    python studies paper.results.one_vs_all [mine]  # default: the published records

Means of the final accuracy over classes and the seeds that are complete; and how many universes, on
one class. All runs of a seed start from the same rows, so a difference is one number a seed, the
mean over classes; standard errors and paired t-tests are over seeds, with Holm's correction for the
strategies of a column.
"""

import sys
from collections import defaultdict
from pathlib import Path

import numpy as np
from lib.folders import DOCS
from lib.paired import paired, shown
from parbals_bench.report.stats import holm, mean_interval
from parbals_bench.report.tasks import Line
from parbals_bench.run.folder import ResultsFiles
from parbals_bench.run.records import RunRecord
from parbals_bench.run.spec import PAPER, Budget

PUBLISHED = DOCS / "results" / "one-vs-all.tar.xz"
TITLES = {"cifar10": "CIFAR-10", "ag-news": "AG News"}
OURS = "parbals-epig"
COMPARED = ("epig", "parbals-map-epig", OURS)
UNIVERSES = "cifar10:airplane", Budget(100, 10, 20)
Finals = dict[int, dict[tuple[str, str], tuple[float, float]]]
"""By seed, then by class and strategy: accuracy and balanced accuracy."""


def main() -> None:
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else PUBLISHED
    finals: dict[tuple[str, str], Finals] = defaultdict(lambda: defaultdict(dict))
    universes: dict[str, list[float]] = defaultdict(list)
    for record in ResultsFiles(folder).records():
        run = record.run
        dataset, _, positive = run.reference.partition(":")
        if run.settings.n_universes == PAPER.n_universes:
            finals[dataset, run.budget.spelt][run.seed][positive, run.strategy] = judged(record)
        if (run.reference, run.budget) == UNIVERSES and run.strategy in COMPARED:
            m = f", m = {run.settings.n_universes}" if run.strategy == OURS else ""
            universes[f"{Line(run.strategy).title}{m}"].append(judged(record)[0])
    for (dataset, budget), accuracies in sorted(finals.items()):
        print("\n".join(table(f"{TITLES[dataset]}, {budget}", accuracies)), end="\n\n")
    print(
        f"{UNIVERSES[0]}, {UNIVERSES[1].spelt}, seeds, final accuracy ± half of its 95 % interval"
    )
    for name in sorted(universes):
        interval = mean_interval(universes[name])
        print(f"{name}: {interval.n}, {interval.mean:.2f} ± {interval.half_width:.2f}")


def judged(record: RunRecord) -> tuple[float, float]:
    return tuple(100 * record.metrics[name][-1] for name in ("accuracy", "balanced_accuracy"))


def table(title: str, finals: Finals) -> list[str]:
    cells = set.union(*(set(of_seed) for of_seed in finals.values()))
    classes, names = (sorted({cell[i] for cell in cells}) for i in (0, 1))
    whole = [of_seed for of_seed in finals.values() if len(of_seed) == len(cells)]
    # (seeds, classes, metrics) of every strategy.
    values = {n: np.array([[x[c, n] for c in classes] for x in whole]) for n in names}
    gaps = {n: (values[OURS] - values[n])[:, :, 0].mean(1) for n in names if n != OURS}
    doubt = holm({name: paired(gap)[2] for name, gap in gaps.items()})
    of_class = {name: x[:, :, 0].mean(axis=0) for name, x in values.items()}
    best = [max(names, key=lambda name, i=i: of_class[name][i]) for i in range(len(classes))]
    lines = [
        f"| {title}, {len(classes)} classes, {len(whole)} seeds | accuracy | balanced | "
        "ParBaLS EPIG less it | best for |",
        "| --- | ---: | ---: | ---: | ---: |",
    ]
    for name in sorted(names, key=lambda n: -values[n][:, :, 0].mean()):
        plain, balanced = values[name].mean(axis=(0, 1))
        difference = "–" if name == OURS else shown(gaps[name], doubt[name])
        cells = f"{plain:.2f} | {balanced:.2f} | {difference} | {best.count(name)}"
        lines.append(f"| {Line(name).title} | {cells} |")
    return lines


if __name__ == "__main__":
    main()
