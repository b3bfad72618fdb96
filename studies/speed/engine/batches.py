"""(b) A whole ParBaLS batch: ours measured; refit-and-score measured by the piece and multiplied
out."""

import warnings
from functools import partial
from statistics import median
from typing import Any, NamedTuple

import numpy as np
from lib.isolate import compile_counter, timed
from lib.report import Detail, Ratio, Section, quartiles, seconds, spread
from lib.rivals import LABELS, fit
from lib.workload import DESIGNS, Sizes, make_problem, plain_epig, plain_predict
from speed.engine.bench import Bench

__all__ = ["run"]

GOAL = 500.0
_OURS = {
    "parbals-epig": "ParBaLS in closed form, the default",
    "parbals-map-epig": "ParBaLS-MAP",
    "epig": "top-B EPIG (redundant batches)",
    "particles": 'ParBaLS with particles, inference="smc"',
    "arrays": "ParBaLS from arrays alone (reweighting only)",
}
_CLOSED = ("parbals-epig", "parbals-map-epig", "epig")


class OwnTimes(NamedTuple):
    """Seconds of our batches in one process that had compiled nothing for them before."""

    first: dict[str, float]
    warm: dict[str, list[float]]
    compiled: tuple[int, float]  # programs and seconds, during the first ParBaLS batch
    compiled_again: int  # programs, during all warm batches
    share_scored: float
    warnings: list[str]


def run(bench: Bench) -> Section:
    """Ours and the pieces of theirs, on every design."""
    sizes = bench.sizes
    section = Section(
        "b",
        f"A ParBaLS batch, N={sizes.n_pool:,}, M={sizes.n_target:,}, K={sizes.n_samples}, "
        f"D={sizes.n_features}, C=2, U={sizes.n_universes}, B={sizes.batch_size}",
    )
    n_refits = sizes.n_universes * (sizes.batch_size - 1)
    # Before the first point all universes are the same posterior, so it needs one scoring, not U.
    n_scorings = n_refits + 1
    for design in sizes.designs:
        fresh = partial(bench.call_fresh, f"(b) {design}: our batches", measure_own)
        own_times = OwnTimes(*bench.kept(f"{design} own", partial(fresh, design, sizes)))
        fresh = partial(bench.call_fresh, f"(b) {design}: plain NumPy scoring", measure_plain)
        plain = bench.kept(f"{design} plain", partial(fresh, design, sizes))
        refits = {
            method: bench.kept(f"{design} {method}", partial(_refits, bench, method, design))
            for method in bench.methods
            if method != "parbals"
        }
        _report(section, design, own_times, plain, refits, n_refits, n_scorings)
    section.notes += [
        f"Theirs = {n_refits} refits (U × (B - 1)) + {n_scorings} times predicting and scoring the "
        f"pool; {sizes.refit_repeats} refits are timed, the total is multiplied out. The fit "
        "before the batch is not counted on either side.",
        "Like beside like: refits of an approximation in closed form beside our closed form, which "
        "is the default; refits of a sampler beside our particles. Unlike: the default beside a "
        "sampler's refits, which people write today.",
        "Inside one jax.jit: the labelled rows would have to be padded by hand, or every added "
        "label compiles again.",
    ]
    return section


def _refits(bench: Bench, method: str, design: str) -> list[float]:
    label = f"(b) {design}: refits by {LABELS[method]}"
    sizes = bench.sizes
    if not bench.has_started(method):
        bench.call(method, f"{label}, compiling", measure_refit, method, design, 0, sizes)
    return [
        bench.call(method, label, measure_refit, method, design, seed, sizes)
        for seed in range(1, sizes.refit_repeats + 1)
    ]


def measure_own(design: str, sizes: Sizes) -> OwnTimes:
    """All of our ways to choose a batch, first and warm, in a fresh process."""
    import parbals

    problem = make_problem(design, sizes)
    closed, particles = (
        parbals.BayesianLogisticRegression(sizes.n_samples, 1.0, inference, random_state=0)
        for inference in ("auto", "smc")
    )
    for model in (closed, particles):
        model.fit(problem.X, problem.y)
    options: dict[str, Any] = {"batch_size": sizes.batch_size, "n_universes": sizes.n_universes}
    first: dict[str, float] = {}
    ways = [name for name in _OURS if sizes.name != "quick" or name != "arrays"]
    warm: dict[str, list[float]] = {name: [] for name in ways}

    def choose(name: str, seed: int) -> Any:
        rows = problem.X_pool, problem.X_target
        if name == "arrays":
            samples = (particles.sample_proba(X) for X in rows)
            return parbals.select_batch(*samples, random_state=seed, **options)
        model, strategy = (closed, name) if name != "particles" else (particles, "parbals-epig")
        return parbals.select_batch_from_model(
            model, *rows, strategy=strategy, random_state=seed, **options
        )

    count = compile_counter()
    compiled = (0, 0.0)
    batch = None
    with warnings.catch_warnings(record=True) as caught:
        for name in ways:
            first[name], first_batch = timed(lambda name=name: choose(name, 0))
            if name == "parbals-epig":
                compiled = count()
                batch = first_batch
        before = count()[0]
        for seed in range(1, sizes.batch_repeats + 1):
            for name in ways if seed <= sizes.sampled_repeats else _CLOSED:
                warm[name].append(timed(lambda name=name, seed=seed: choose(name, seed))[0])
    return OwnTimes(
        first,
        warm,
        compiled,
        count()[0] - before,
        float(np.mean(batch.n_exact) / sizes.n_pool),
        sorted({str(warning.message) for warning in caught}),
    )


def measure_plain(design: str, sizes: Sizes) -> tuple[list[float], list[float]]:
    """Seconds of predicting pool and target, and of scoring, in plain NumPy."""
    problem = make_problem(design, sizes)
    # Any plausible weights will do: the time does not depend on them.
    weights = np.random.default_rng(0).standard_normal((sizes.n_samples, sizes.n_features + 1))
    weights /= max(1.0, float(np.linalg.norm(problem.X_pool, axis=1).mean()))
    predicting = []
    scoring = []
    for _ in range(sizes.plain_repeats):
        elapsed, (pool, target) = timed(
            lambda: (
                plain_predict(weights, problem.X_pool),
                plain_predict(weights, problem.X_target),
            )
        )
        predicting.append(elapsed)
        scoring.append(timed(lambda pool=pool, target=target: plain_epig(pool, target))[0])
    return predicting, scoring


def measure_refit(method: str, design: str, seed: int, sizes: Sizes) -> float:
    """Seconds of one refit, with the labels at the start of the batch (later ones are a little
    slower)."""
    problem = make_problem(design, sizes)
    return fit(method, problem.X, problem.y, seed, sizes).seconds


def _report(
    section: Section,
    design: str,
    own_times: OwnTimes,
    plain: tuple[list[float], list[float]],
    refits: dict[str, list[float]],
    n_refits: int,
    n_scorings: int,
) -> None:
    rows = [
        (_OURS[name], seconds(own_times.first[name]), spread(times), "")
        for name, times in own_times.warm.items()
    ]
    predicting = median(plain[0])
    scoring = median(plain[1])
    piece = predicting + scoring
    rows.append(
        (
            "plain NumPy: predict pool and target, score",
            "",
            f"{seconds(predicting)} + {seconds(scoring)}",
            "",
        )
    )
    data: dict[str, Any] = {
        "ours_first": own_times.first,
        "ours": {name: quartiles(times) for name, times in own_times.warm.items()},
        "programs_compiled_first": own_times.compiled[0],
        "compile_seconds_first": own_times.compiled[1],
        "programs_compiled_warm": own_times.compiled_again,
        "plain_predict": quartiles(plain[0]),
        "plain_score": quartiles(plain[1]),
        "refits": {},
        "extrapolated": {},
    }
    for method, times in refits.items():
        refit = median(times)
        total = n_refits * refit + n_scorings * piece
        rows.append((f"{LABELS[method]}: one refit", "", spread(times), seconds(total)))
        sampled = method not in ("laplace", "parbals-ep")
        for like in ("particles", "parbals-epig") if sampled else ("parbals-epig",):
            ours = median(own_times.warm[like])
            goal = GOAL if method.startswith("pymc") and like == "parbals-epig" else None
            title = f"batch, {design} design: {_OURS[like]}, against refits by {LABELS[method]}"
            title += " (unlike)" if sampled and like == "parbals-epig" else ""
            section.ratios.append(Ratio(title, seconds(ours), seconds(total), total / ours, goal))
        data["refits"][method] = quartiles(times)
        data["extrapolated"][method] = total
    first = own_times.first["parbals-epig"]
    columns = ("what", "first call", "time (quartiles)", "whole batch, multiplied out")
    section.details.append(Detail(f"{section.title}: {DESIGNS[design]}", columns, rows))
    section.notes.append(
        f"{design} design: the first ParBaLS batch took {seconds(first)}, "
        f"{seconds(own_times.compiled[1])} of it for {own_times.compiled[0]} compiled programs; "
        f"later batches compiled {own_times.compiled_again}. Every candidate was scored once "
        f"before the batch, and {own_times.share_scored:.1%} of them anew in a step."
    )
    section.notes += [
        f"{design} design, said by our own batches: {warning}" for warning in own_times.warnings
    ]
    section.data[design] = data
