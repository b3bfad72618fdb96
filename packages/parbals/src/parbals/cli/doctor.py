"""`parbals doctor`: what is installed, what computes, and how fast the two heavy steps are here."""

import os
import platform
from collections.abc import Callable
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, version
from time import perf_counter
from typing import TYPE_CHECKING, Any

import click

from parbals import __version__
from parbals.cli.options import JSON
from parbals.cli.output import progress, say

if TYPE_CHECKING:
    import numpy as np

__all__ = ["Checkup", "Speed", "Workload", "as_record", "as_text", "doctor", "examine"]

_REQUIRED = [
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
]
_OPTIONAL = {"numpyro": "bench", "pymc": "bench", "jax-cuda13-plugin": "cuda"}


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
    say(as_json, as_record(checkup), "" if as_json else as_text(checkup))


@dataclass(frozen=True)
class Workload:
    """The quick measurement: a fit of n rows, D features, K samples; scores of N × M pairs."""

    n_rows: int = 200
    n_features: int = 300
    n_samples: int = 400
    n_pool: int = 10_000
    n_target: int = 1_000


@dataclass(frozen=True)
class Speed:
    """Seconds after compilation, best of a few; the product is scoring's bare one, in NumPy."""

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
    """Look around, and measure speed if asked."""
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
    """Time a fit and a scoring pass on made-up data; the first call of each only compiles."""
    import numpy as np

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


def as_record(checkup: Checkup) -> dict[str, Any]:
    """The checkup for programs."""
    record = asdict(checkup)
    if checkup.speed is not None:
        record["speed"]["epig_over_product"] = checkup.speed.epig_over_product
    return record


def as_text(checkup: Checkup) -> str:
    """The checkup for people: tables."""
    from rich.console import Console
    from rich.table import Table

    memory = "unknown" if checkup.memory_gib is None else f"{checkup.memory_gib:.1f} GiB"
    reinstall = "[red]missing[/]: pip install --force-reinstall parbals"
    get = "[dim]not installed (optional): pip install 'parbals\\[{}]'[/]".format
    optional = {name: found or get(_OPTIONAL[name]) for name, found in checkup.optional.items()}
    required = {name: found or reinstall for name, found in checkup.packages.items()}
    sections: dict[str, list[tuple[str, ...]]] = {
        "This machine": [
            ("Python", f"{checkup.python} on {checkup.platform}"),
            ("JAX computes on", ", ".join(checkup.devices)),
            ("Processor cores", str(checkup.n_cores)),
            ("Memory", memory),
        ],
        "Packages": [("parbals", checkup.parbals), *required.items(), *optional.items()],
    }
    if checkup.speed is not None:
        sections["Speed (after compilation)"] = _speed_rows(checkup.speed)
    console = Console(highlight=False)
    with console.capture() as text:
        for title, rows in sections.items():
            table = Table(title=title, title_justify="left", show_header=False, box=None)
            for row in rows:
                table.add_row(*row)
            console.print(table, "")
    return text.get()


def _speed_rows(speed: Speed) -> list[tuple[str, ...]]:
    size = speed.workload
    seconds = speed.fit_seconds, speed.epig_seconds, speed.product_seconds
    fit, epig, product = (f"{value:.3f} s" for value in seconds)
    rows = f"{size.n_rows} labels, {size.n_features} features, {size.n_samples} samples"
    pairs = f"{size.n_pool:,} points × {size.n_target:,} targets × {size.n_samples} samples"
    ratio = f"in NumPy; scoring takes {speed.epig_over_product:.1f} times that"
    return [
        ("Draw a posterior", fit, rows),
        ("Score a pool with EPIG", epig, pairs),
        ("The bare matrix product", product, ratio),
    ]


def _best_of(action: Callable[[], object], repeats: int) -> float:
    """The shortest of ``repeats`` runs, after one uncounted: what else runs here only adds time."""
    action()
    seconds = []
    for _ in range(repeats):
        begun = perf_counter()
        action()
        seconds.append(perf_counter() - begun)
    return min(seconds)


def _two_class_samples(rng: "np.random.Generator", n_points: int, n_samples: int) -> "np.ndarray":
    """(n_points, n_samples, 2) float32 probabilities."""
    import numpy as np

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
