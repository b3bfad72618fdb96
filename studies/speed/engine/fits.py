"""(a) One posterior fit: how long it takes, and how many independent draws it is worth."""

from statistics import median
from typing import Any, NamedTuple

import numpy as np
from lib.report import Detail, Ratio, Section, quartiles, seconds, spread
from lib.rivals import LABELS, fit, long_run
from lib.workload import DESIGNS, Sizes, make_problem
from speed.engine.bench import Bench

__all__ = ["run"]

GOAL = 30.0


class Fit(NamedTuple):
    """Seconds of one fit; mean and deviation of p(y=1) over its draws at the target points."""

    seconds: float
    sampling_seconds: float | None
    mean: np.ndarray
    deviation: np.ndarray


def run(bench: Bench) -> Section:
    """Every method on every design, in turns, so that a slow minute of the machine hits all of
    them."""
    sizes = bench.sizes
    size = f"n={sizes.n_labelled}, D={sizes.n_features}, K={sizes.n_samples}"
    section = Section("a", f"A posterior fit, {size}")
    cold: dict[str, float] = {}
    for design in sizes.designs:
        reference = bench.call(
            "reference", f"(a) {design}: long reference run", measure_reference, design, sizes
        )
        fits: dict[str, list[Fit]] = {method: [] for method in bench.methods}
        for method in bench.methods:
            first = bench.call(
                method,
                f"(a) {design}: {LABELS[method]}, first fit",
                measure_fit,
                method,
                design,
                0,
                sizes,
            )
            cold.setdefault(method, first.seconds)
        for turn in range(sizes.refit_repeats):
            for method in bench.methods:
                repeats = -(-sizes.fit_repeats // sizes.refit_repeats) if method == "parbals" else 1
                for repeat in range(repeats):
                    seed = 1 + turn * repeats + repeat
                    label = f"(a) {design}: {LABELS[method]}, fit {len(fits[method]) + 1}"
                    fits[method].append(
                        bench.call(method, label, measure_fit, method, design, seed, sizes)
                    )
        _report(section, design, fits, cold, reference)
    section.notes += [
        f"NUTS in each library: {sizes.n_chains} chains × ({sizes.tune} tuning + {sizes.draws} "
        "draws); "
        'inference="nuts" tunes for 400. First fit: in a fresh process, modules loaded, nothing '
        "compiled.",
        "RMS errors are those of the predictive mean and of the posterior deviation of p(y=1) at "
        f"{sizes.n_target:,} fresh points, against {sizes.n_chains} × {sizes.reference[1]:,} draws "
        "of BlackJAX in double precision. Worth: the number of independent draws whose mean would "
        "have that error.",
    ]
    return section


def measure_fit(method: str, design: str, seed: int, sizes: Sizes) -> Fit:
    """One fit, in the worker of that method."""
    problem = make_problem(design, sizes)
    _import_before_the_clock(method)
    draws = fit(method, problem.X, problem.y, seed, sizes)
    return Fit(draws.seconds, draws.sampling_seconds, *_predictive(draws.weights, problem.X_target))


def measure_reference(design: str, sizes: Sizes) -> tuple[np.ndarray, np.ndarray]:
    """Predictive mean and deviation of the long run."""
    problem = make_problem(design, sizes)
    if (
        sizes.reference[1] == 0
    ):  # compiling the long run takes longer than everything else at the smoke sizes
        return np.full(sizes.n_target, np.nan), np.full(sizes.n_target, np.nan)
    return _predictive(long_run(problem.X, problem.y, 1, sizes), problem.X_target)


def _import_before_the_clock(method: str) -> None:
    import importlib

    library = method.split("-")[0]
    importlib.import_module("parbals.posterior.estimator" if library == "parbals" else library)


def _predictive(weights: np.ndarray, X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    positive = 1.0 / (1.0 + np.exp(-(X @ weights[:, :-1].T + weights[:, -1])))
    return positive.mean(axis=1), positive.std(axis=1)


def _report(
    section: Section,
    design: str,
    fits: dict[str, list[Fit]],
    cold: dict[str, float],
    reference: tuple[np.ndarray, np.ndarray],
) -> None:
    mean, deviation = reference
    rows = []
    data = {}
    for method, runs in fits.items():
        times = [run.seconds for run in runs]
        error = float(np.mean([np.square(run.mean - mean).mean() for run in runs]))
        deviation_error = float(
            np.mean([np.square(run.deviation - deviation).mean() for run in runs])
        )
        worth = float(np.square(deviation).mean() / error)
        rows.append(
            (
                LABELS[method],
                spread(times),
                seconds(cold[method]),
                f"{np.sqrt(error):.4f}",
                f"{np.sqrt(deviation_error):.4f}",
                f"{worth:,.0f}",
                f"{worth / median(times):,.0f}",
            )
        )
        sampling = [run.sampling_seconds for run in runs if run.sampling_seconds is not None]
        data[method] = {
            "seconds": quartiles(times),
            "cold_seconds": cold[method],
            "sampling_seconds": quartiles(sampling) if sampling else None,
            "rms_error_mean": float(np.sqrt(error)),
            "rms_error_deviation": float(np.sqrt(deviation_error)),
            "worth_independent_draws": worth,
        }
    columns = (
        "method",
        "fit (quartiles)",
        "first fit",
        "RMS error",
        "of deviation",
        "worth",
        "worth per second",
    )
    section.details.append(Detail(f"{section.title}: {DESIGNS[design]}", columns, rows))
    section.data[design] = data
    section.ratios += list(_ratios(design, fits))


def _ratios(design: str, fits: dict[str, list[Fit]]) -> Any:
    ours = median([run.seconds for run in fits["parbals"]])
    for method, runs in fits.items():
        if method == "parbals":
            continue
        goal = GOAL if method.startswith("pymc") else None
        whole = median([run.seconds for run in runs])
        title = f"fit, {design} design, against {LABELS[method]}"
        yield Ratio(title, seconds(ours), seconds(whole), whole / ours, goal)
        sampling = [run.sampling_seconds for run in runs if run.sampling_seconds is not None]
        if sampling:
            alone = median(sampling)
            yield Ratio(
                f"{title}, its sampling alone", seconds(ours), seconds(alone), alone / ours, goal
            )
