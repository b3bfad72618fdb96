"""Commands of the library: `parbals doctor` and `parbals strategies`."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from parbals import __version__
from parbals.cli.base import Command
from parbals.cli.output import JSON, print_result, progress, table
from parbals.installing import install_command

__all__ = ["doctor", "strategies"]

_PACKAGES = {
    "numpy": "",
    "scipy": "",
    "scikit-learn": "",
    "threadpoolctl": "",
    "click": "",
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
"""Packages and the extra that installs each; required packages have none."""
_WORKLOAD = {
    "n_labels": 200,
    "n_features": 300,
    "n_pool": 10_000,
    "n_target": 1_000,
    "batch_size": 20,
}
_PROPERTIES = ("needs_target", "needs_features", "needs_labels", "batch_aware")
_HEADINGS = ("strategy", "target?", "features?", "labels?", "batch-aware?", "cost", "reference")
_LETTERS = """\
N pool points, M target points, K posterior samples, C classes, D features, B batch, U universes,
L labelled points, S sampled label configurations."""


@click.command(cls=Command)
@click.argument("path", metavar="[DIR|FILE]", required=False)
@JSON
@click.option("--no-speed", is_flag=True, help="Skip the speed test, which takes some seconds.")
@click.pass_context
def doctor(context: click.Context, path: str | None, as_json: bool, no_speed: bool) -> None:
    """Check the installation, a project or a backup.

    Without an argument, show installed packages, devices and the speed of this machine. Of a
    project DIR or a backup FILE, read every byte and print what is wrong. Exit codes: 3 for a
    damaged project, 2 for a damaged backup.

    \b
    Examples:
      parbals doctor
      parbals doctor spam
      parbals doctor spam-monday.zip
      parbals doctor --json > machine.json
    """
    if path is not None:
        root = context.find_root()
        check = root.command.get_command(root, "check")  # type: ignore[attr-defined]
        context.invoke(check, path=Path(path), as_json=as_json)
        return
    with progress("measuring"):
        checkup = examine(with_speed=not no_speed)
    print_result(as_json, checkup, as_text(checkup))


def examine(*, with_speed: bool = True) -> dict[str, Any]:
    """Versions, devices, cores and speed; ``None`` for a package that is missing."""
    import platform

    # In a container a process may often use fewer cores than the machine has.
    usable_cores = getattr(os, "sched_getaffinity", lambda _: range(os.cpu_count() or 1))
    return {
        "python": platform.python_version(),
        "platform": platform.platform(terse=True),
        "parbals": __version__,
        "packages": {name: _version_of(name) for name in _PACKAGES},
        "devices": _devices(),
        "n_cores": len(usable_cores(0)),
        "speed": measure_speed(**_WORKLOAD) if with_speed else None,
    }


def measure_speed(
    n_labels: int, n_features: int, n_pool: int, n_target: int, batch_size: int
) -> dict[str, Any]:
    """Seconds to fit the default model and to choose a batch, on random data.

    ``product`` times the matrix product (N, D)(D, M) in NumPy: the speed of the machine itself.
    """
    workload = dict(locals())
    import numpy as np

    from parbals import BayesianLogisticRegression, select_batch_from_model

    rng = np.random.default_rng(0)

    def random_rows(n_rows: int) -> np.ndarray:
        return rng.standard_normal((n_rows, n_features)) / np.sqrt(n_features)

    labelled = random_rows(n_labels)
    pool = random_rows(n_pool)
    target = random_rows(n_target)
    y = (labelled @ rng.standard_normal(n_features) > 0).astype(int)
    y[:2] = (0, 1)  # both classes occur
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
    """Seconds of the fastest of three runs after a warm-up: other programs only add time."""
    from timeit import repeat

    return min(repeat(action, number=1, repeat=4)[1:])


def as_text(checkup: dict[str, Any]) -> str:
    """The checkup as tables for people."""
    rows = [
        ("Python", f"{checkup['python']} on {checkup['platform']}"),
        ("Computes on", f"{', '.join(checkup['devices'])}; {checkup['n_cores']} cores"),
        ("parbals", checkup["parbals"]),
    ]
    for name, version_number in checkup["packages"].items():
        rows.append((name, version_number or _missing(_PACKAGES[name])))
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


def _missing(extra: str) -> str:
    """How to install a package that is missing; required packages have no extra."""
    if not extra:
        return f"missing: {install_command('parbals', upgrade=True)}"
    return f"not installed (optional): {install_command(f'parbals[{extra}]')}"


def _devices() -> tuple[str, ...]:
    """The devices of JAX; without JAX, the processor."""
    if _version_of("jax") is None:
        return ("the processor, by NumPy (parbals[jax] adds accelerators)",)
    import jax

    return tuple(f"{device.platform}: {device.device_kind}" for device in jax.devices())


def _version_of(name: str) -> str | None:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version(name)
    except PackageNotFoundError:
        return None


@click.command(cls=Command)
@JSON
def strategies(as_json: bool) -> None:
    """List the query strategies.

    Shows what each needs and costs; strategies of installed packages are included.

    \b
    Examples:
      parbals strategies
      parbals strategies --json
    """
    from parbals.strategies.table import STRATEGIES, all_strategies

    records = [
        {
            "name": name,
            **{key: getattr(strategy, key) for key in _PROPERTIES},
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
        marks = ["yes" if record[property_name] else "" for property_name in _PROPERTIES]
        rows.append((record["name"], *marks, record["cost"], record["reference"]))
    print_result(as_json, records, f"{table(rows)}\n\n{_LETTERS}")
