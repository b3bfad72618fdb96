"""The library's own commands: `parbals doctor` and `parbals strategies`."""

import os
import platform
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from timeit import repeat
from typing import Any

import click

from parbals import __version__
from parbals.cli.output import JSON, progress, say, table

__all__ = ["doctor", "strategies"]

_PACKAGES = {
    **dict.fromkeys(("numpy", "scipy", "scikit-learn", "threadpoolctl", "click"), ""),
    "parbals-label": "label",
    "parbals-bench": "bench",
    "jax": "jax",
    "blackjax": "jax",
    "jaxtyping": "jax",
    "jax-cuda13-plugin": "cuda",
    "matplotlib": "plot",
    "scikit-activeml": "skactiveml",
    "dask": "cluster",
}
"""What there is or may be, and the extra that brings it; none brings what is always needed."""
_WORKLOAD = {
    "n_labels": 200, "n_features": 300, "n_pool": 10_000, "n_target": 1_000, "batch_size": 20,
}  # fmt: skip
_MARKS = ("needs_target", "needs_features", "needs_labels", "batch_aware")
_HEADINGS = ("strategy", "target?", "features?", "labels?", "batch-aware?", "cost", "reference")
_LETTERS = """\
N pool points, M target points, K posterior samples, C classes, D features, B batch, U universes,
L labelled points, S sampled label configurations."""


@click.command()
@click.argument("folder", metavar="[DIR]", required=False)
@JSON
@click.option("--no-speed", is_flag=True, help="Leave out the measurement of a few seconds.")
@click.pass_context
def doctor(context: click.Context, folder: str | None, as_json: bool, no_speed: bool) -> None:
    """What is installed, which device is used, and how fast it is here; of a project DIR, what is
    wrong with it, as `parbals check` says.

    \b
    Examples:
      parbals doctor
      parbals doctor spam
      parbals doctor --json > machine.json
    """
    if folder is not None:
        root = context.find_root()
        check = root.command.get_command(root, "check")  # type: ignore[attr-defined]
        context.invoke(check, path=Path(folder), as_json=as_json)
        return
    with progress("measuring"):
        checkup = examine(with_speed=not no_speed)
    say(as_json, checkup, as_text(checkup))


def examine(*, with_speed: bool = True) -> dict[str, Any]:
    """Look around, and measure speed if asked; ``None`` stands for what is missing."""
    # In a container a process may often use fewer cores than the machine has.
    mine = getattr(os, "sched_getaffinity", lambda _: range(os.cpu_count() or 1))
    return {
        "python": platform.python_version(),
        "platform": platform.platform(terse=True),
        "parbals": __version__,
        "packages": {name: _version_of(name) for name in _PACKAGES},
        "devices": _devices(),
        "n_cores": len(mine(0)),
        "speed": measure_speed(**_WORKLOAD) if with_speed else None,
    }


def measure_speed(
    n_labels: int, n_features: int, n_pool: int, n_target: int, batch_size: int
) -> dict[str, Any]:
    """Seconds of the default engine, a fit and a batch in closed form, on made-up data.

    ``product`` is the bare matrix product (N, D)(D, M) in NumPy, a measure of the machine itself.
    """
    workload = dict(locals())
    import numpy as np

    from parbals import BayesianLogisticRegression, select_batch_from_model

    rng = np.random.default_rng(0)
    labelled, pool, target = (
        rng.standard_normal((n, n_features)) / np.sqrt(n_features)
        for n in (n_labels, n_pool, n_target)
    )
    y = (labelled @ rng.standard_normal(n_features) > 0).astype(int)
    y[:2] = 0, 1
    model = BayesianLogisticRegression(inference="ep", random_state=0).fit(labelled, y)
    return {
        "fit": _best(lambda: model.fit(labelled, y)),
        "batch": _best(
            lambda: select_batch_from_model(model, pool, target, batch_size, random_state=0)
        ),
        "product": _best(lambda: pool @ target.T),
        "workload": workload,
    }


def _best(action: Callable[[], object]) -> float:
    """The shortest of three runs, after one uncounted: what else runs here only adds time."""
    return min(repeat(action, number=1, repeat=4)[1:])


def as_text(checkup: dict[str, Any]) -> str:
    """The checkup for people: tables."""
    rows = [
        ("Python", f"{checkup['python']} on {checkup['platform']}"),
        ("Computes on", f"{', '.join(checkup['devices'])}; {checkup['n_cores']} cores"),
        ("parbals", checkup["parbals"]),
    ]
    for name, found in checkup["packages"].items():
        missing = "missing: pip install --force-reinstall parbals"
        if _PACKAGES[name]:
            missing = f"not installed (optional): pip install 'parbals[{_PACKAGES[name]}]'"
        rows.append((name, found or missing))
    if checkup["speed"] is None:
        return table(rows)
    seconds = {name: f"{checkup['speed'][name]:.3f} s" for name in ("fit", "batch", "product")}
    size = checkup["speed"]["workload"]
    pairs = f"{size['n_pool']:,} items × {size['n_target']:,} targets"
    labels = f"{size['n_labels']} labels, {size['n_features']} features"
    speed = [
        ("Fit the model", seconds["fit"], labels),
        ("Choose a batch", seconds["batch"], f"{size['batch_size']} of {pairs}, parbals-epig"),
        ("The bare matrix product", seconds["product"], f"{pairs}, in NumPy"),
    ]
    return f"{table(rows)}\n\n{table(speed)}"


def _devices() -> tuple[str, ...]:
    """What JAX computes on; without it, the processor."""
    if _version_of("jax") is None:
        return ("the processor, by NumPy (parbals[jax] brings accelerators)",)
    import jax

    return tuple(f"{device.platform}: {device.device_kind}" for device in jax.devices())


def _version_of(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


@click.command()
@JSON
def strategies(as_json: bool) -> None:
    """All strategies, what each needs, and what it costs; those of installed packages included.

    \b
    Examples:
      parbals strategies
      parbals strategies --json
    """
    from parbals.strategies.table import STRATEGIES, all_strategies

    records = [
        {
            "name": name,
            **{mark: getattr(strategy, mark) for mark in _MARKS},
            "stochastic": strategy.stochastic,
            "cost": strategy.cost,
            "reference": strategy.reference,
            "options": list(strategy.options),
            "built_in": name in STRATEGIES,
        }
        for name, strategy in all_strategies().items()
    ]
    rows = [_HEADINGS]
    for record in records:
        marks = ("yes" if record[mark] else "" for mark in _MARKS)
        rows.append((record["name"], *marks, record["cost"], record["reference"]))
    say(as_json, records, f"{table(rows)}\n\n{_LETTERS}")
