"""The rows of the table of speed, by group.

Axis letters as in the package: N pool points, M target points, K posterior samples, C classes, D
features, B batch, U universes; n labelled points.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from lib.rivals import LABELS

__all__ = ["DEFAULT_GROUPS", "GROUPS", "QUICK_SIZES", "ROWS", "Goal", "Row", "wanted_rows"]

Sizes = dict[str, Any]

BASE: Sizes = {"N": 10_000, "M": 1_000, "D": 300, "C": 4, "n": 200, "B": 20, "U": 10}
GROWTH = BASE | {"D": 64}
QUICK_SIZES = {
    **{"N": 300, "M": 20, "D": 5, "C": 3, "n": 30, "B": 3, "U": 2, "K": 16},
    **{"repeats": 1, "rounds": 1},
}
"""The largest sizes of a quick check."""
GROUPS = {
    "batches": "batches of 20, 100 and 500",
    "fits": "fits of the posterior",
    "scores": "scores and predictions of a pool",
    "commands": "commands of a project",
    "run": "one run of the paper's experiment",
    "growth": "growth with each size",
    "limits": "the largest sizes of each series",
    "gpu": "batches on an accelerator",
    "refits": "a batch beside refits of other libraries",
}
DEFAULT_GROUPS = ("batches", "fits", "scores", "commands", "run", "growth")


class Goal(NamedTuple):
    """At most so many products or seconds; with so many threads, or any number of them."""

    limit: float
    unit: str  # "products" or "s"
    threads: int | None = None


class Row(NamedTuple):
    """A measurement in a process of its own; it may give several lines of the table."""

    name: str
    group: str
    kind: str  # a module of speed.measures
    sizes: Sizes
    axis: str = ""  # the size that a series varies
    goals: Mapping[str, Goal] = MappingProxyType({})  # by the name of the measure
    rounds: int = 1  # processes of each tree


def _batches() -> list[Row]:
    rows = []
    products = {(2, "log"): 4.0, (4, "log"): 10.0, (10, "log"): 20.0}
    for loss, title in (("log", "EPIG"), ("error", "0-1 loss")):
        for n_classes in (2, 4, 10):
            goal = products.get((n_classes, loss))
            rows.append(
                Row(
                    f"batch of 20, {n_classes} classes, {title}",
                    "batches",
                    "batch",
                    BASE | {"C": n_classes, "loss": loss, "repeats": 2},
                    goals={"": Goal(goal, "products", 1)} if goal else {},
                    rounds=2,
                )
            )
    for size, loss, title, goal in (
        (100, "log", "EPIG", 5.0),
        (100, "error", "0-1 loss", 5.0),
        (500, "log", "EPIG", 20.0),
    ):
        rows.append(
            Row(
                f"batch of {size}, 4 classes, {title}",
                "batches",
                "batch",
                BASE | {"B": size, "loss": loss, "repeats": 1},
                goals={"": Goal(goal, "s", 2)},
            )
        )
    return rows


def _series() -> list[Row]:
    """The learner's fit and batch, for growing sizes; the largest are rows of ``limits``."""
    series = {
        "N": ((10_000, 100_000, 1_000_000), (10_000_000,)),
        "D": ((64, 256, 1_024), (4_096, 16_384)),
        "C": ((2, 10, 100), (1_000, 3_000)),
        "n": ((200, 2_000), (20_000, 100_000)),
        "B": ((1, 20, 100), (500,)),
    }
    rows = []
    for axis, (small, large) in series.items():
        for value in (*small, *large):
            sizes = GROWTH | {axis: value}
            if axis == "C":
                sizes["M"] = 500  # with a hundred classes a thousand would be many
            if axis == "n":
                sizes["N"] = max(sizes["N"], value + 10_000)
            group = "growth" if value in small else "limits"
            rows.append(Row(f"{axis} = {value:,}", group, "learner", sizes, axis))
    return rows


def _commands() -> list[Row]:
    goals = {"next": Goal(1.0, "s"), "tell": Goal(1.0, "s"), "status": Goal(0.3, "s")}
    texts = {"N": 2_000, "C": 4, "n": 280, "B": 20, "repeats": 5}
    vectors = {"N": 1_000_000, "D": 64, "C": 4, "n": 100, "B": 20, "repeats": 1}
    return [
        Row("2,000 texts, 4 classes", "commands", "commands", texts, goals=goals),
        Row("1,000,000 vectors, 4 classes", "limits", "commands", vectors),
    ]


def _gpu() -> list[Row]:
    base = BASE | {"n": 100, "M": 1_000}
    goals = {"no programs kept, all three": Goal(3.0, "s")}
    first = [
        Row(f"10,000 items, {c} classes", "gpu", "first_call", base | {"C": c}, goals=goals)
        for c in (2, 4, 10)
    ]
    sizes = ((100_000, 2), (1_000_000, 2), (100_000, 10), (1_000_000, 10), (10_000, 100))
    return [
        *first,
        *(
            Row(f"{n:,} items, {c} classes", "gpu", "gpu", base | {"N": n, "C": c})
            for n, c in sizes
        ),
        Row(
            "10,000,000 items of a mapped file, 2 classes",
            "gpu",
            "gpu",
            base | {"N": 10_000_000, "C": 2, "D": 64, "mapped": True},
        ),
    ]


def _refits() -> list[Row]:
    names = {
        "closed": "ParBaLS in closed form",
        "particles": "ParBaLS with particles",
        "plain": "plain NumPy",
        **LABELS,
    }
    return [Row(name, "refits", "refits", {"method": method}) for method, name in names.items()]


ROWS: tuple[Row, ...] = (
    *_batches(),
    *(Row(f"{c} classes", "fits", "fit", BASE | {"C": c, "repeats": 3}) for c in (2, 4, 10)),
    Row("a pool of 10,000", "scores", "scores", BASE | {"C": 2, "K": 400, "repeats": 3}),
    *_commands(),
    Row(
        "100 + 10×20 labels from 100,000 rows",
        "run",
        "experiment",
        {"N": 100_000, "M": 1_000, "D": 120, "C": 2, "n": 100, "B": 20, "rounds": 10},
    ),
    *_series(),
    *_gpu(),
    *_refits(),
)


def wanted_rows(names: list[str]) -> list[Row]:
    """Rows of the groups, or with the texts in their names; ValueError where there are none."""
    listed = []
    for name in names:
        matching = [row for row in ROWS if name == row.group or name == "all"]
        matching = matching or [row for row in ROWS if name in row.name]
        if not matching:
            raise ValueError(f"no row is called {name!r}; the groups are {', '.join(GROUPS)}, all.")
        listed += [row for row in matching if row not in listed]
    return listed
