"""What is installed, what the arithmetic runs on, and how fast the two heavy steps are on this
machine."""

import json
import os
import platform
from collections.abc import Callable
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, version
from time import perf_counter
from typing import TYPE_CHECKING

import numpy as np

from parbals import __version__

if TYPE_CHECKING:
    from rich.console import RenderableType

__all__ = ["Checkup", "Speed", "Workload", "as_json", "examine", "measure_speed", "tables"]

_REQUIRED = (
    "jax",
    "jaxlib",
    "numpy",
    "scipy",
    "scikit-learn",
    "blackjax",
    "jaxtyping",
    "matplotlib",
    "click",
    "rich",
)
_OPTIONAL = {"numpyro": "bench", "pymc": "bench", "jax-cuda13-plugin": "cuda"}


@dataclass(frozen=True)
class Workload:
    """The size of the quick measurement: a fit of n rows, D features, K samples; scores of N × M
    pairs."""

    n_rows: int = 200
    n_features: int = 300
    n_samples: int = 400
    n_pool: int = 10_000
    n_target: int = 1_000


@dataclass(frozen=True)
class Speed:
    """Seconds after compilation, best of a few; the ratio compares scoring with its bare matrix
    product in NumPy."""

    fit_seconds: float
    epig_seconds: float
    product_seconds: float
    workload: Workload

    @property
    def epig_over_product(self) -> float:
        return self.epig_seconds / self.product_seconds


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
    """Look around, and measure unless told not to."""
    import jax

    return Checkup(
        python=platform.python_version(),
        platform=platform.platform(terse=True),
        parbals=__version__,
        packages={name: _version_of(name) for name in _REQUIRED},
        optional={name: _version_of(name) for name in _OPTIONAL},
        devices=tuple(f"{device.platform}: {device.device_kind}" for device in jax.devices()),
        n_cores=_usable_cores(),
        memory_gib=_memory_gib(),
        speed=measure_speed(workload or Workload()) if with_speed else None,
    )


def measure_speed(workload: Workload, repeats: int = 3) -> Speed:
    """Time a fit and a scoring pass on made-up data; the first call of each compiles and is not
    counted."""
    from parbals import BayesianLogisticRegression, epig

    size, rng = workload, np.random.default_rng(0)
    X = rng.standard_normal((size.n_rows, size.n_features)) / np.sqrt(size.n_features)
    y = (X @ rng.standard_normal(size.n_features) > 0).astype(int)
    y[:2] = 0, 1
    model = BayesianLogisticRegression(size.n_samples, random_state=0)
    pool = _two_class_samples(rng, size.n_pool, size.n_samples)
    target = _two_class_samples(rng, size.n_target, size.n_samples)
    left, right = np.ascontiguousarray(pool[:, :, 1]), np.ascontiguousarray(target[:, :, 1].T)
    return Speed(
        fit_seconds=_best_of(lambda: model.fit(X, y), repeats),
        epig_seconds=_best_of(lambda: epig(pool, target), repeats),
        product_seconds=_best_of(lambda: left @ right, repeats),
        workload=workload,
    )


def tables(checkup: Checkup) -> list["RenderableType"]:
    """The same for people: tables to print with rich."""
    from rich.table import Table

    here = Table(title="This machine", title_justify="left", show_header=False, box=None)
    here.add_row("Python", f"{checkup.python} on {checkup.platform}")
    here.add_row("JAX computes on", ", ".join(checkup.devices))
    here.add_row("Processor cores", str(checkup.n_cores))
    here.add_row(
        "Memory", "unknown" if checkup.memory_gib is None else f"{checkup.memory_gib:.1f} GiB"
    )
    installed = Table(title="Packages", title_justify="left", show_header=False, box=None)
    installed.add_row("parbals", checkup.parbals)
    for name, found in checkup.packages.items():
        installed.add_row(name, found or "[red]missing[/]: pip install --force-reinstall parbals")
    for name, found in checkup.optional.items():
        missing = f"[dim]not installed (optional): pip install 'parbals\\[{_OPTIONAL[name]}]'[/]"
        installed.add_row(name, found or missing)
    return (
        [here, installed]
        if checkup.speed is None
        else [here, installed, _speed_table(checkup.speed)]
    )


def as_json(checkup: Checkup) -> str:
    """The same for programs."""
    found = asdict(checkup)
    if checkup.speed is not None:
        found["speed"]["epig_over_product"] = checkup.speed.epig_over_product
    return json.dumps(found, indent=2)


def _speed_table(speed: Speed) -> "RenderableType":
    from rich.table import Table

    size = speed.workload
    table = Table(
        title="Speed (after compilation)", title_justify="left", show_header=False, box=None
    )
    table.add_row(
        "Draw a posterior",
        f"{speed.fit_seconds:.3f} s",
        f"{size.n_rows} labels, {size.n_features} features, {size.n_samples} samples",
    )
    table.add_row(
        "Score a pool with EPIG",
        f"{speed.epig_seconds:.3f} s",
        f"{size.n_pool:,} points × {size.n_target:,} targets × {size.n_samples} samples",
    )
    table.add_row(
        "The bare matrix product",
        f"{speed.product_seconds:.3f} s",
        f"in NumPy; scoring takes {speed.epig_over_product:.1f} times that",
    )
    return table


def _best_of(action: Callable[[], object], repeats: int) -> float:
    """The shortest of ``repeats`` runs after one that is not counted: what else the machine does
    only adds time."""
    action()
    seconds = []
    for _ in range(repeats):
        begun = perf_counter()
        action()
        seconds.append(perf_counter() - begun)
    return min(seconds)


def _two_class_samples(rng: np.random.Generator, n_points: int, n_samples: int) -> np.ndarray:
    """(n_points, n_samples, 2) float32 probabilities."""
    first = rng.random((n_points, n_samples), np.float32)
    return np.stack([1.0 - first, first], axis=2)


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
