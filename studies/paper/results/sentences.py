"""Print the numbers that explanation/results*.md and howto/which-strategy.md quote.

    python studies paper.results.sentences                # from the published records alone
    python studies paper.results.sentences --data ~/data  # and those that need the data

Differences are in points of accuracy: mean ± standard error over settings, or over seeds where a
line says so. "p" is of a paired t-test, "Holm" the same with Holm's correction for those beside it.
"""

import argparse
import os
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from itertools import combinations
from pathlib import Path

import numpy as np
from lib.folders import DOCS
from lib.paired import paired
from paper.results.run import LEARNT, MAIN, OURS, curve, final, labels_share, of_task
from parbals.posterior.closed.whitening import PoolMoments
from parbals.posterior.estimator import LogisticModel
from parbals.randomness import derive_generator
from parbals_bench.report.paper import paper_cells
from parbals_bench.report.stats import holm, mean_interval, welch
from parbals_bench.report.tasks import Line, Task, collect
from parbals_bench.run import single
from parbals_bench.run.folder import ResultsFiles
from parbals_bench.run.loading import load_data
from parbals_bench.run.records import RunRecord
from parbals_bench.run.spec import ALL_CLASSES, PAPER

OF_PAPER = ("airline", "credit-card", "ag-news", "cifar10")
PARBALS = Line("parbals-epig")
CONFIDENCE = Line("confidence")
FALLS = 2.5
"""Points by which an accuracy falls and rises again, or falls at the end, to be called a fall."""


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, help="folder that holds airline/, credit_card/, ...")
    options = parser.parse_args()
    names = ("records", "closed-form", "learnt", "one-vs-all")
    records = {x: ResultsFiles(DOCS / "results" / f"{x}.tar.xz").records() for x in names}
    tasks = [x for x in collect(records["records"]) if x.is_default and x.budget.batch > 1]
    learnt = collect(records["learnt"], LEARNT)
    print("Labels saved against Random: median, lowest, highest, settings")
    for title, group in (("scale 1, particles", tasks), ("learnt prior", learnt)):
        for line in (CONFIDENCE, Line("parbals-map-epig"), PARBALS, OURS):
            shares = [labels_share(x, line) for x in group if line in x.records]
            if shares:
                low, median, high = np.percentile(shares, (0, 50, 100))
                span = f"{median:.0%}, {low:.0%}, {high:.0%}, {len(shares)}"
                print(f"  {title}, {line.title}: {span}")
    of_the_papers_cells()
    of_the_paper(tasks)
    of_the_learnt_prior(learnt)
    of_each_setting(learnt)
    universes(records["closed-form"] + records["one-vs-all"])
    seconds(records)
    fallen = falls(learnt)
    if options.data:
        os.environ["PARBALS_DATA"] = str(options.data)
        with_data(records, fallen)


def of_the_papers_cells() -> None:
    """What the cells of the paper's tables say about its own sentences."""
    cells = paper_cells()
    print("The paper's main tables with heuristics: among the top, of 8 datasets for each budget")
    for strategy in ("parbals-epig", "confidence"):
        top = Counter(
            cell.budget.spelt
            for cell in cells
            if (cell.kind, cell.strategy) == ("main", strategy)
            and "heuristic" in cell.table
            and cell.is_top
        )
        print(f"  {Line(strategy).title}: {dict(top)}, together {top.total()}")
    intervals = defaultdict(list)
    for cell in cells:
        intervals[cell.subject].append(cell.interval)
    twice = [values for values in intervals.values() if len(values) == 2]
    print(f"Printed twice: {len(twice)}, with two values: {sum(a != b for a, b in twice)}")
    main = {
        (cell.reference, cell.budget, cell.strategy): cell.interval.mean
        for cell in cells
        if cell.kind == "main"
    }
    first_classes: dict[str, str] = {}
    differences: dict[tuple[str, str], dict[str, float]] = defaultdict(dict)
    for cell in (cell for cell in cells if cell.kind == "one-vs-all"):
        dataset = cell.reference.partition(":")[0]
        if cell.reference == first_classes.setdefault(dataset, cell.reference):
            usual = main[dataset, cell.budget, cell.strategy]
            gaps = differences[dataset, cell.budget.spelt]
            gaps.setdefault(cell.strategy, cell.interval.mean - usual)
    print("Class 0 of the one-vs-all tables less the main tables: mean, cells that differ")
    for (dataset, budget), gaps in differences.items():
        n_other = sum(abs(gap) > 1e-9 for gap in gaps.values())
        mean = np.mean(list(gaps.values()))
        print(f"  {dataset}, {budget}: {mean:+.2f}, {n_other} of {len(gaps)}")


def of_the_paper(tasks: list[Task]) -> None:
    print("ParBaLS EPIG less EPIG, mean of the four sets, and each")
    for budget in dict.fromkeys(x.budget for x in tasks):
        group = [x for x in tasks if x.budget == budget]
        gaps = [_mean(x, PARBALS) - _mean(x, Line("epig")) for x in group]
        print(f"  {budget.spelt}: {np.mean(gaps):+.2f}", np.round(gaps, 2))
    print("Confidence less ParBaLS EPIG, Welch's test")
    for task in tasks:
        a, b = (mean_interval(100.0 * task.final(x)) for x in (CONFIDENCE, PARBALS))
        gap = f"{a.mean - b.mean:+.2f}, p {welch(a, b):.4f}"
        print(f"  {task.title}, {task.budget.spelt}: {gap}")
    print(f"What the tenth batch adds, {MAIN.spelt}, mean of strategies")
    for task in (x for x in tasks if x.budget == MAIN):
        last = [100.0 * np.diff(task.values(x)[:, -2:]).mean() for x in task.lines()]
        print(f"  {task.title}: {np.mean(last):+.2f}")


def of_the_learnt_prior(tasks: list[Task]) -> None:
    print("ParBaLS with loss=error less another, the learnt prior; settings, ahead in")
    for name in (PARBALS, CONFIDENCE, Line("margin"), Line("bald"), Line("epig")):
        for title, group in (
            ("two classes", [x for x in tasks if x.positive != ALL_CLASSES]),
            ("all classes", [x for x in tasks if x.positive == ALL_CLASSES]),
            ("both", tasks),
        ):
            texts = []
            for summary in (final, curve):
                gaps = np.array(list(_gaps(group, name, summary)))
                if len(gaps) > 1:
                    _, error, _ = paired(gaps)
                    ahead = f"{int((gaps > 0).sum())} of {len(gaps)}"
                    span = f"{gaps.min():+.2f} to {gaps.max():+.2f}"
                    texts.append(f"{gaps.mean():+.2f} ± {error:.2f} ({span}; {ahead})")
            if texts:
                print(f"  {name.title}, {title}: final {'; curve '.join(texts)}")


def _gaps(tasks: Iterable[Task], line: Line, summary: Callable) -> Iterable[float]:
    for values in (of_task(task, summary) for task in tasks):
        if line in values and OURS in values:
            yield float(values[OURS].mean() - values[line].mean())


def of_each_setting(tasks: list[Task]) -> None:
    print("The same for each setting, paired by seed: final; curve")
    for name in (Line("margin"), CONFIDENCE):
        for task in tasks:
            texts = []
            for summary in (final, curve):
                values = of_task(task, summary)
                if name in values:
                    mean, error, p = paired(values[OURS] - values[name])
                    texts.append(f"{mean:+.2f} ± {error:.2f}, p {p:.3f}")
            if texts:
                print(f"  {name.title}, {task.title}, {task.budget.spelt}: {'; '.join(texts)}")


def universes(records: list[RunRecord]) -> None:
    """By dataset: final accuracies in %, and differences paired by seed."""
    print("How many universes, over seeds")
    finals: dict[str, dict[int, dict[int, float]]] = defaultdict(lambda: defaultdict(dict))
    for run, record in ((x.run, x) for x in records):
        if (run.budget, run.strategy, run.settings.inference) == (MAIN, "parbals-epig", "ep"):
            by_number = finals[run.reference][run.settings.n_universes]
            by_number[run.seed] = 100.0 * record.metrics["accuracy"][-1]
    for reference, by_number in finals.items():
        if len(by_number) > 1:
            _universes_of(reference, by_number)


def _universes_of(reference: str, by_number: dict[int, dict[int, float]]) -> None:
    numbers = sorted(by_number)
    means = [f"m = {m}: {np.mean(list(by_number[m].values())):.2f}" for m in numbers]
    print(f"  {reference}: {', '.join(means)}; {len(by_number[numbers[0]])} seeds")
    gaps = {}
    for a, b in combinations(numbers, 2):
        seeds = by_number[a].keys() & by_number[b].keys()
        gaps[a, b] = np.array([by_number[b][seed] - by_number[a][seed] for seed in sorted(seeds)])
    ps = {pair: paired(gap)[2] for pair, gap in gaps.items()}
    for (a, b), p in holm(ps).items():
        print(f"    m = {b} less {a}: {gaps[a, b].mean():+.2f}, p {ps[a, b]:.3f}, Holm {p:.3f}")


def seconds(records: dict[str, list[RunRecord]]) -> None:
    """By the clock, with as many runs at a time as the machine had cores."""
    print(f"Seconds to choose a batch, {MAIN.spelt}, median; and all stages of all runs")
    for name, group in records.items():
        batches: dict[tuple[str, str], list[float]] = defaultdict(list)
        for run, record in ((x.run, x) for x in group):
            if run.budget == MAIN and run.settings.n_universes == PAPER.n_universes:
                batches[run.strategy, record.versions["device"]] += record.seconds["select"]
        for (strategy, device), took in batches.items():
            if strategy in ("confidence", "parbals-epig"):
                print(f"  {name}, {strategy}, {device}: {np.median(took):.2f}")
        total = sum(sum(map(sum, x.seconds.values())) for x in group)
        print(f"  {name}: {len(group)} runs, {total:.0f} s, {total / len(group):.1f} s each")


def falls(tasks: list[Task]) -> list[tuple[Task, int, int]]:
    """Rounds of Confidence with two classes in which its accuracy falls: task, seed, round."""
    print("Falls of Confidence, two classes, batches of 50: accuracy before, then, after")
    sentences = []
    for task in (x for x in tasks if x.budget.batch == 50 and x.positive != ALL_CLASSES):
        for seed, record in task.records[CONFIDENCE].items():
            values = 100.0 * np.array(record.metrics["accuracy"])
            for i in range(1, len(values)):
                after = values[i + 1 : i + 2]
                if values[i] < values[i - 1] - FALLS and np.all(values[i] < after - FALLS):
                    curve = ", ".join(f"{x:.1f}" for x in values[i - 1 : i + 2])
                    print(f"  {task.title}, seed {seed}, {task.budget.n_labels[i]} labels: {curve}")
                    sentences.append((task, seed, i))
    return sentences


def with_data(records: dict[str, list[RunRecord]], fallen: list[tuple[Task, int, int]]) -> None:
    for name in OF_PAPER:
        data = load_data(name)
        share = np.bincount(np.asarray(data.y_test, int)).max() / len(data.y_test)
        X = np.asarray(data.X_pool, np.float64)
        far = np.linalg.norm(X - X.mean(axis=0), axis=1)
        means = {}
        for strategy, of in (("bald", "closed-form"), ("bald", "records"), ("random", "records")):
            selected = [
                far[np.concatenate([*record.chosen]).astype(int)].mean()
                for run, record in ((x.run, x) for x in records[of])
                if (run.reference, run.strategy, run.budget) == (name, strategy, MAIN)
            ]
            means[f"{strategy}, {of}"] = round(float(np.mean(selected)), 2)
        print(f"{name}: the larger class {share:.1%}; distance from the pool's mean {means}")
    for task, seed, i in fallen:
        data = load_data(task.dataset)
        record = task.records[CONFIDENCE][seed]
        rows = np.concatenate([record.initial, *record.chosen[:i]]).astype(int)
        order = derive_generator(seed, "bench moments").permutation(len(data.y_pool))
        moments = PoolMoments.of(data.X_pool[np.sort(order[: single._MOMENTS_OF])])
        model = LogisticModel(
            PAPER.n_samples,
            prior_scale="auto",
            inference="auto",
            classes=np.arange(2),
            random_state=single._number(seed, "model", i),
        ).fit(data.X_pool[rows], np.asarray(data.y_pool, int)[rows], moments)
        right = model.predict_proba(data.X_test).argmax(axis=1) == np.asarray(data.y_test, int)
        print(f"  fitted again, {task.title}, seed {seed}: {right.mean():.1%}")


def _mean(task: Task, line: Line) -> float:
    return 100.0 * float(task.final(line).mean())


if __name__ == "__main__":
    main()
