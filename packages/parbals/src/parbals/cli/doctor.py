"""`parbals doctor`: what is installed, what computes, and how fast a fit and a batch are here."""

import os
import platform
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from timeit import repeat
from typing import Any

import click

from parbals import __version__
from parbals.cli.options import JSON
from parbals.cli.output import progress, say, table

__all__ = ["as_text", "doctor", "examine"]

_REQUIRED = ("numpy", "scipy", "scikit-learn", "threadpoolctl", "click")
_OPTIONAL = {
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
"""What else there may be, and the extra that brings it."""


@click.command()
@JSON
@click.option("--no-speed", is_flag=True, help="Leave out the measurement of a few seconds.")
def doctor(as_json: bool, no_speed: bool) -> None:
    """What is installed, which device is used, and how fast it is here.

    \b
    Examples:
      parbals doctor
      parbals doctor --json > machine.json
    """
    with progress() as show:
        show("measuring")
        checkup = examine(with_speed=not no_speed)
    say(as_json, checkup, as_text(checkup))


def examine(*, with_speed: bool = True) -> dict[str, Any]:
    """Look around, and measure speed if asked; ``None`` stands for missing or unknown."""
    return {
        "python": platform.python_version(),
        "platform": platform.platform(terse=True),
        "parbals": __version__,
        "packages": {name: _version_of(name) for name in _REQUIRED},
        "optional": {name: _version_of(name) for name in _OPTIONAL},
        "devices": _devices(),
        "n_cores": _usable_cores(),
        "memory_gib": _memory_gib(),
        "speed": measure_speed() if with_speed else None,
    }


def measure_speed(
    n_labels: int = 200,
    n_features: int = 300,
    n_pool: int = 10_000,
    n_target: int = 1_000,
    batch_size: int = 20,
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
    memory, speed = checkup["memory_gib"], checkup["speed"]
    reinstall = "missing: pip install --force-reinstall parbals"
    get = "not installed (optional): pip install 'parbals[{}]'".format
    required = [(name, found or reinstall) for name, found in checkup["packages"].items()]
    optional = [
        (name, found or get(_OPTIONAL[name])) for name, found in checkup["optional"].items()
    ]
    sections: dict[str, list[tuple[str, ...]]] = {
        "This machine": [
            ("Python", f"{checkup['python']} on {checkup['platform']}"),
            ("Computes on", ", ".join(checkup["devices"])),
            ("Processor cores", str(checkup["n_cores"])),
            ("Memory", "unknown" if memory is None else f"{memory:.1f} GiB"),
        ],
        "Packages": [("parbals", checkup["parbals"]), *required, *optional],
    }
    if speed is not None:
        size = speed["workload"]
        labels = f"{size['n_labels']} labels, {size['n_features']} features"
        pairs = f"{size['n_pool']:,} items × {size['n_target']:,} targets"
        batch = f"{size['batch_size']} of {pairs}, parbals-epig"
        sections["Speed"] = [
            ("Fit the model", f"{speed['fit']:.3f} s", labels),
            ("Choose a batch", f"{speed['batch']:.3f} s", batch),
            ("The bare matrix product", f"{speed['product']:.3f} s", f"{pairs}, in NumPy"),
        ]
    return "\n\n".join(f"{title}\n{table(rows)}" for title, rows in sections.items())


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


def _usable_cores() -> int:
    """Cores this process may use: in a container that is often fewer than the machine has."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _memory_gib() -> float | None:
    """Memory of the machine, where the operating system says."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    except (AttributeError, OSError, ValueError):
        return None
