"""Write the tables of docs/explanation/results-prior.md.

    python studies paper.results  # rewrite them and the picture
    python studies paper.results --learnt my-results  # a folder of `parbals bench run`

Runs are paired by seed: those of one seed start from the same labels. Differences are means of
pairs ± their standard errors, in bold where a paired t-test gives p < 0.05; a strategy is within
noise of the best where that test does not tell them apart, and surely behind it where p < 0.05 with
Holm's correction for all tests of the setting.
"""

import argparse
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
from lib.folders import DOCS, EXPLANATION
from matplotlib.figure import Figure
from parbals_bench.datasets.table import DATASETS
from parbals_bench.report.plots import to_png
from parbals_bench.report.stats import holm, labels_saved
from parbals_bench.report.tasks import Line, Task, collect
from parbals_bench.run.folder import ResultsFiles
from parbals_bench.run.spec import ALL_CLASSES, Budget, Settings
from scipy import stats

BEGIN = "<!-- python studies paper.results: begin -->"
END = "<!-- python studies paper.results: end -->"
MAIN = Budget(100, 10, 20)
LEARNT = Settings(inference="auto", prior_scale="auto")
ERROR = "loss = error"
SCALE_1 = "prior scale = 1.0"
EP = "inference = ep"
FEWEST = 3
MISSING = "–"
COLUMNS = {
    Line("random"): "Random",
    Line("confidence"): "Confidence",
    Line("margin"): "Margin",
    Line("badge"): "BADGE",
    Line("bald"): "BALD",
    Line("epig"): "EPIG",
    Line("epig", ERROR): "EPIG, error",
    Line("parbals-epig"): "ParBaLS",
    Line("parbals-epig", ERROR): "ParBaLS, error",
}
RANDOM = Line("random")
OURS = Line("parbals-epig", ERROR)
Summary = Callable[[np.ndarray], np.ndarray]
"""From (seeds, rounds + 1) to (seeds,)."""


def final(values: np.ndarray) -> np.ndarray:
    return values[:, -1]


def curve(values: np.ndarray) -> np.ndarray:
    return values.mean(axis=1)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    for name in ("records", "closed-form", "learnt"):
        where = DOCS / "results" / f"{name}.tar.xz"
        parser.add_argument(f"--{name}", type=Path, default=where)
    parser.add_argument("--page", type=Path, default=EXPLANATION / "results-prior.md")
    parser.add_argument("--picture", type=Path, default=DOCS / "results" / "learnt-prior.png")
    options = parser.parse_args()
    published = ResultsFiles(options.records).records()
    both = in_order(collect([*published, *ResultsFiles(options.closed_form).records()]))
    learnt = in_order(collect(ResultsFiles(options.learnt).records(), LEARNT))
    before, _, remainder = options.page.read_text("utf-8").partition(BEGIN)
    _, mark, after = remainder.partition(END)
    if not mark:
        parser.error(f"{options.page} has no lines {BEGIN} and {END}")
    text = "\n".join(tables(both, learnt))
    options.page.write_text(f"{before}{BEGIN}\n{text}\n{END}{after}", encoding="utf-8")
    options.picture.write_bytes(to_png(picture(both, learnt)))


def in_order(tasks: list[Task]) -> list[Task]:
    """Two classes first, in the order of the table of datasets."""
    names = list(DATASETS)
    return sorted(
        tasks, key=lambda x: (x.positive is not None, names.index(x.dataset), -x.budget.batch)
    )


def tables(both: list[Task], learnt: list[Task]) -> Iterator[str]:
    names = ("random", "bald", "epig", "parbals-map-epig", "parbals-epig")
    yield "## Expectation propagation in the place of particles"
    yield "Prior scale 1: final accuracy in %, difference; then that of the mean over the curve.\n"
    twice = [task for task in both if task.budget == MAIN and Line("random", EP) in task.records]
    yield _row(MAIN.spelt, [*(task.title for task in twice), "mean of the sets"])
    yield _rule(1 + len(twice))
    for line in map(Line, names):
        sides = [((task, line), (task, Line(line.strategy, EP))) for task in twice]
        mean = np.mean([np.subtract(*accuracies(*side)[::-1]) for side in sides], axis=0)
        yield _row(line.title, [*(gaps(*side) for side in sides), both_gaps(mean)])
    yield "\n## The learnt prior: strategies and losses"
    yield (
        "Final accuracy in % ± standard error. Bold: the highest mean; \\*: within noise of it. "
        '*error*: `loss="error"`. With two classes Margin is Confidence.\n'
    )
    yield from standings([task for task in learnt if task.budget == MAIN], COLUMNS)
    other_tasks = [task for task in learnt if task.budget != MAIN]
    few = {x: name for x, name in COLUMNS.items() if any(x in task.records for task in other_tasks)}
    yield ""
    yield from standings(other_tasks, few)
    yield ""
    yield from places(learnt)
    yield "\n## The whole pool, and particles"
    yield (
        "The learnt prior: final accuracy in %, difference; that of the mean over the curve. "
        "10,000 candidates and the closed form against what the row says, same seeds.\n"
    )
    yield from settings(learnt)
    yield "\n## The learnt prior against scale 1"
    yield (
        "Final accuracy in %, difference; that of the mean over the curve; change of the final "
        "log loss. Two classes: particles at scale 1, as the paper; all classes: "
        "expectation propagation in both.\n"
    )
    lines = (RANDOM, Line("confidence"), Line("parbals-epig"))
    yield _row(MAIN.spelt, ["seeds", *(COLUMNS[line] for line in lines)])
    yield _rule(1 + len(lines))
    for task in learnt:
        sides = [(at_scale_1(task, line, both), (task, line)) for line in lines]
        if task.budget == MAIN and all(old[1] in old[0].records for old, _ in sides):
            cells = [gaps(old, new, with_log_loss=True) for old, new in sides]
            seeds = {len(shared(*side)) for side in sides}
            yield _row(task.title, [" to ".join(map(str, sorted(seeds))), *cells])


def settings(tasks: list[Task]) -> Iterator[str]:
    """What other settings of the same strategy change."""
    yield _row(MAIN.spelt, ["seeds", "", "difference"])
    yield _rule(3)
    for task in tasks:
        for line in task.records:
            usual = OURS if ERROR in line.variant else Line(line.strategy)
            usual = usual if line.strategy == OURS.strategy else Line(line.strategy)
            if line.variant and line not in COLUMNS and SCALE_1 not in line.variant:
                pair = (task, usual), (task, line)
                name = f"{task.title}, {COLUMNS[usual]}"
                title = line.variant.replace(f", {ERROR}", "").replace("N = 1000000", "whole pool")
                title = title.replace("inference = smc", "particles")
                yield _row(name, [str(len(shared(*pair))), title, gaps(*pair)])


def at_scale_1(task: Task, line: Line, both: list[Task]) -> tuple[Task, Line]:
    """The same strategy under the paper's prior: published, or else in the learnt prior's suite."""
    key = (task.dataset, task.positive, task.budget)
    published = next((x for x in both if (x.dataset, x.positive, x.budget) == key), None)
    return (published, line) if published else (task, Line(line.strategy, SCALE_1))


def shared(old: tuple[Task, Line], new: tuple[Task, Line]) -> set[int]:
    """The seeds that both have."""
    return set(old[0].records[old[1]].keys() & new[0].records[new[1]].keys())


def accuracies(old: tuple[Task, Line], new: tuple[Task, Line]) -> tuple[np.ndarray, np.ndarray]:
    """(seeds, rounds + 1) of both in %, over the seeds that both have."""
    seeds = shared(old, new)
    return 100.0 * old[0].values(old[1], seeds=seeds), 100.0 * new[0].values(new[1], seeds=seeds)


def gaps(old: tuple[Task, Line], new: tuple[Task, Line], *, with_log_loss: bool = False) -> str:
    """ "old → new, difference; of the curve", and the change of the log loss if asked for."""
    a, b = accuracies(old, new)
    text = f"{final(a).mean():.1f} → {final(b).mean():.1f}, {both_gaps(b - a)}"
    if not with_log_loss:
        return text
    seeds = shared(old, new)
    before, after = (task.final(line, "log_loss", seeds).mean() for task, line in (old, new))
    return f"{text}; {after / before - 1.0:+.0%}"


def both_gaps(differences: np.ndarray) -> str:
    """Of (seeds, rounds + 1): at the end, then of the mean over the curve."""
    texts = []
    for gap in (final(differences), curve(differences)):
        text = f"{gap.mean():+.2f} ± {_error(gap):.2f}"
        texts.append(f"**{text}**" if stats.ttest_1samp(gap, 0.0).pvalue < 0.05 else text)
    return "; ".join(texts)


def standings(tasks: Sequence[Task], columns: dict[Line, str]) -> Iterator[str]:
    """Means ± standard errors of the final accuracy."""
    yield _row("", ["seeds", *columns.values()])
    yield _rule(1 + len(columns))
    for task in tasks:
        values = of_task(task, final)
        top = within_noise(values)
        best = max(values, key=lambda line: values[line].mean())
        cells = []
        for line in columns:
            if line not in values:
                cells.append(MISSING)
                continue
            mean = f"{values[line].mean():.2f}"
            if line == best:
                mean = f"**{mean}**"
            elif line in top:
                mean = f"{mean}\\*"
            cells.append(f"{mean} ± {_error(values[line]):.2f}")
        budget = "" if task.budget == MAIN else f", {task.budget.spelt}"
        yield _row(f"{task.title}{budget}", [str(len(values[best])), *cells])


def of_task(task: Task, summary: Summary) -> dict[Line, np.ndarray]:
    """Accuracies in % over the seeds that all lines have; lines of fewer than three are left out.

    With two classes Margin chooses what Confidence chooses, and is left out.
    """
    skipped = None if task.positive == ALL_CLASSES else Line("margin")
    lines = [x for x in COLUMNS if len(task.records.get(x, {})) >= FEWEST and x != skipped]
    seeds = set.intersection(*(set(task.records[line]) for line in lines))
    return {line: 100.0 * summary(task.values(line, seeds=seeds)) for line in lines}


def within_noise(values: dict[Line, np.ndarray]) -> set[Line]:
    """Those that a paired t-test cannot tell from the best, and the best."""
    tests = against_best(values)
    return {line for line in values if tests.get(line, 1.0) >= 0.05}


def against_best(values: dict[Line, np.ndarray]) -> dict[Line, float]:
    """p of a paired t-test against the best mean, of all others."""
    best = max(values.values(), key=np.mean)
    rivals = {line: x for line, x in values.items() if not np.array_equal(x, best)}
    return {line: float(stats.ttest_rel(x, best).pvalue) for line, x in rivals.items()}


def surely_behind(values: dict[Line, np.ndarray]) -> set[Line]:
    """Those that are told from the best with Holm's correction for the tests of the setting."""
    return {line for line, p in holm(against_best(values)).items() if p < 0.05}


def places(tasks: Sequence[Task]) -> Iterator[str]:
    """Over settings: how often within noise of the best, and how far ParBaLS with error is off."""
    heading = "ParBaLS, error less it: final"
    top = "within noise, surely behind (Holm): final"
    yield _row("", [top, "curve", heading, "curve", "labels saved, median (lowest)"])
    yield _rule(5)
    for line, name in COLUMNS.items():
        counts = []
        means = []
        for summary in (final, curve):
            # Margin stands for itself only where there are more than two classes.
            settings = [of_task(task, summary) for task in tasks]
            settings = [values for values in settings if line in values]
            n_top = sum(line in within_noise(values) for values in settings)
            n_behind = sum(line in surely_behind(values) for values in settings)
            counts.append(f"{n_top} of {len(settings)}, {n_behind}")
            pairs = [(x[OURS], x[line]) for x in settings if OURS in x]
            gap = np.array([ours.mean() - theirs.mean() for ours, theirs in pairs])
            means.append(MISSING if line == OURS else f"{gap.mean():+.2f} ± {_error(gap):.2f}")
        shares = [labels_share(x, line) for x in tasks if line in of_task(x, final)]
        saved = f"{np.median(shares):.0%} ({min(shares):.0%})"
        yield _row(name, [*counts, *means, MISSING if line == RANDOM else saved])


def labels_share(task: Task, line: Line) -> float:
    """Share of Random's labels that a strategy needs fewer for what both reach."""
    random, ours = (curves.mean(axis=0) for curves in accuracies((task, RANDOM), (task, line)))
    return labels_saved(task.budget.n_labels, ours, random).share


def picture(both: list[Task], learnt: list[Task]) -> Figure:
    """Learning curves in four panels: the learnt prior (solid) beside scale 1 (dotted)."""
    figure = Figure(figsize=(9.0, 6.2), layout="constrained")
    pictured = [x for x in learnt if x.budget == MAIN and x.dataset in ("ag-news", "cifar10")]
    lines = {RANDOM: "#000000", Line("confidence"): "#e69f00", OURS: "#0072b2"}
    for ax, task in zip(figure.subplots(2, 2).flat, pictured, strict=True):
        pairs = [(at_scale_1(task, Line(x.strategy), both), (task, x)) for x in lines]
        seeds = set.intersection(*(shared(*pair) for pair in pairs))
        for pair, colour in zip(pairs, lines.values(), strict=True):
            for (of, line), dashes in zip(pair, (":", "-"), strict=True):
                means = 100.0 * of.values(line, seeds=seeds).mean(axis=0)
                ax.plot(MAIN.n_labels, means, dashes, color=colour, lw=1.8)
        ax.set_title(f"{task.title}{'' if task.positive else ', one class against the others'}")
        ax.spines[["top", "right"]].set_visible(False)
        ax.grid(axis="y", color="#d9d9d9", lw=0.6)
    for ax in figure.axes:
        ax.set_xlabel("labels")
        ax.set_ylabel("test accuracy, %")
    handles = [figure.axes[0].plot([], [], color=colour, lw=1.8)[0] for colour in lines.values()]
    handles += [figure.axes[0].plot([], [], x, color="#767676", lw=1.8)[0] for x in ("-", ":")]
    names = ["Random", "Confidence", "ParBaLS", "learnt prior", "prior scale 1"]
    figure.legend(handles, names, loc="outside lower center", ncols=5, frameon=False)
    return figure


def _error(numbers: np.ndarray) -> float:
    return float(numbers.std(ddof=1) / len(numbers) ** 0.5)


def _row(name: str, cells: Sequence[str]) -> str:
    return f"| {name} | {' | '.join(cells)} |"


def _rule(n: int) -> str:
    return "| --- |" + " ---: |" * n
