"""`parbals doctor`: what is installed, what computes, and how fast a fit and a batch are here."""

import os
import platform
from collections.abc import Callable
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, version
from time import perf_counter

import click

from parbals import __version__
from parbals.cli.options import JSON
from parbals.cli.output import progress, say, table

__all__ = ["Checkup", "Speed", "Workload", "as_text", "doctor", "examine"]

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
    say(as_json, asdict(checkup), as_text(checkup))


@dataclass(frozen=True)
class Workload:
    """The quick measurement: a fit of n labels with D features; a batch from N items, M targets."""

    n_labels: int = 200
    n_features: int = 300
    n_pool: int = 10_000
    n_target: int = 1_000
    batch_size: int = 20


@dataclass(frozen=True)
class Speed:
    """Seconds, best of a few after one run that is not counted.

    ``product`` is the bare matrix product (N, D)(D, M) in NumPy, a measure of the machine itself.
    """

    fit: float
    batch: float
    product: float
    workload: Workload


@dataclass(frozen=True)
class Checkup:
    """Everything the doctor found; ``None`` stands for missing or unknown."""

    python: str
    platform: str
    parbals: str
    packages: dict[str, str | None]
    optional: dict[str, str | None]
    devices: tuple[str, ...]
    n_cores: int
    memory_gib: float | None
    speed: Speed | None


def examine(workload: Workload | None = None, *, with_speed: bool = True) -> Checkup:
    """Look around, and measure speed if asked."""
    return Checkup(
        python=platform.python_version(),
        platform=platform.platform(terse=True),
        parbals=__version__,
        packages={name: _version_of(name) for name in _REQUIRED},
        optional={name: _version_of(name) for name in _OPTIONAL},
        devices=_devices(),
        n_cores=_usable_cores(),
        memory_gib=_memory_gib(),
        speed=measure_speed(workload or Workload()) if with_speed else None,
    )


def measure_speed(workload: Workload, repeats: int = 3) -> Speed:
    """Time the default engine, a fit and a batch in closed form, on made-up data."""
    import numpy as np

    from parbals import BayesianLogisticRegression, select_batch_from_model

    size, rng = workload, np.random.default_rng(0)
    labelled, pool, target = (
        rng.standard_normal((n, size.n_features)) / np.sqrt(size.n_features)
        for n in (size.n_labels, size.n_pool, size.n_target)
    )
    y = (labelled @ rng.standard_normal(size.n_features) > 0).astype(int)
    y[:2] = 0, 1
    model = BayesianLogisticRegression(inference="ep", random_state=0).fit(labelled, y)
    return Speed(
        fit=_best_of(lambda: model.fit(labelled, y), repeats),
        batch=_best_of(
            lambda: select_batch_from_model(model, pool, target, size.batch_size, random_state=0),
            repeats,
        ),
        product=_best_of(lambda: pool @ target.T, repeats),
        workload=workload,
    )


def as_text(checkup: Checkup) -> str:
    """The checkup for people: tables."""
    memory = "unknown" if checkup.memory_gib is None else f"{checkup.memory_gib:.1f} GiB"
    reinstall = "missing: pip install --force-reinstall parbals"
    get = "not installed (optional): pip install 'parbals[{}]'".format
    optional = [(name, found or get(_OPTIONAL[name])) for name, found in checkup.optional.items()]
    required = [(name, found or reinstall) for name, found in checkup.packages.items()]
    sections: dict[str, list[tuple[str, ...]]] = {
        "This machine": [
            ("Python", f"{checkup.python} on {checkup.platform}"),
            ("Computes on", ", ".join(checkup.devices)),
            ("Processor cores", str(checkup.n_cores)),
            ("Memory", memory),
        ],
        "Packages": [("parbals", checkup.parbals), *required, *optional],
    }
    if checkup.speed is not None:
        sections["Speed"] = _speed_rows(checkup.speed)
    return "\n\n".join(f"{title}\n{table(rows)}" for title, rows in sections.items())


def _speed_rows(speed: Speed) -> list[tuple[str, ...]]:
    size = speed.workload
    pairs = f"{size.n_pool:,} items × {size.n_target:,} targets"
    return [
        (
            "Fit the model",
            f"{speed.fit:.3f} s",
            f"{size.n_labels} labels, {size.n_features} features",
        ),
        ("Choose a batch", f"{speed.batch:.3f} s", f"{size.batch_size} of {pairs}, parbals-epig"),
        ("The bare matrix product", f"{speed.product:.3f} s", f"{pairs}, in NumPy"),
    ]


def _devices() -> tuple[str, ...]:
    """What JAX computes on; without it, the processor."""
    if _version_of("jax") is None:
        return ("the processor, by NumPy (parbals[jax] brings accelerators)",)
    import jax

    return tuple(f"{device.platform}: {device.device_kind}" for device in jax.devices())


def _best_of(action: Callable[[], object], repeats: int) -> float:
    """The shortest of ``repeats`` runs, after one uncounted: what else runs here only adds time."""
    action()
    seconds = []
    for _ in range(repeats):
        begun = perf_counter()
        action()
        seconds.append(perf_counter() - begun)
    return min(seconds)


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
