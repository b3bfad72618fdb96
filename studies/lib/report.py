"""Benchmark results as records, as Markdown and as JSON."""

import datetime
import json
import os
import platform
import subprocess
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from statistics import quantiles
from typing import Any

__all__ = [
    "Detail",
    "Ratio",
    "Section",
    "machine",
    "markdown",
    "seconds",
    "spread",
    "write_report",
]

_VERSIONS = (
    *("parbals", "jax", "jaxlib", "numpy", "scipy", "blackjax", "numpyro", "pymc", "pytensor"),
    *("scikit-activeml", "batchbald_redux", "torch"),
)
COMMAND = "python studies"
RATIO_COLUMNS = ("what", "ours", "theirs", "ratio", "goal")


@dataclass(frozen=True)
class Ratio:
    """One line of the table of ratios. ``goal`` is met when ratio ≥ goal (≤ for an upper limit)."""

    what: str
    ours: str
    theirs: str
    ratio: float
    goal: float | None = None
    upper_limit: bool = False
    unit: str = "×"

    @property
    def met(self) -> bool | None:
        if self.goal is None:
            return None
        return self.ratio <= self.goal if self.upper_limit else self.ratio >= self.goal

    def cells(self) -> tuple[str, ...]:
        ratio_text = f"{self.ratio:.2f}" if self.ratio < 10 else f"{self.ratio:,.0f}"
        sign = "≤" if self.upper_limit else "≥"
        goal = (
            ""
            if self.goal is None
            else f"{sign} {self.goal:g}{self.unit} {'met' if self.met else 'MISSED'}"
        )
        return self.what, self.ours, self.theirs, ratio_text + self.unit, goal


@dataclass(frozen=True)
class Detail:
    """A table of measurements behind the ratios."""

    title: str
    columns: tuple[str, ...]
    rows: list[tuple[str, ...]]


@dataclass
class Section:
    """Everything one part of the benchmark found."""

    name: str
    title: str
    ratios: list[Ratio] = field(default_factory=list)
    details: list[Detail] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    data: dict[str, Any] = field(default_factory=dict)


def seconds(value: float) -> str:
    """A duration for people, in three digits."""
    if value < 1e-3:
        return f"{value * 1e6:.3g} µs"
    if value < 0.9995:
        return f"{value * 1e3:.3g} ms"
    return f"{value:.3g} s" if value < 600 else f"{value / 60:,.0f} min"


def spread(values: Sequence[float]) -> str:
    """Median and quartiles of durations."""
    low, middle, high = quartiles(values)
    return (
        seconds(middle)
        if len(values) < 3
        else f"{seconds(middle)} ({seconds(low)} to {seconds(high)})"
    )


def quartiles(values: Sequence[float]) -> tuple[float, float, float]:
    """Lower quartile, median, upper quartile; also of a single value."""
    if len(values) == 1:
        return values[0], values[0], values[0]
    low, middle, high = quantiles(values, n=4, method="inclusive")
    return low, middle, high


def machine(n_cores: int) -> dict[str, Any]:
    """Where and with what the numbers were measured."""
    versions = {}
    for package in _VERSIONS:
        try:
            versions[package] = version(package)
        except PackageNotFoundError:
            continue
    return {
        "date": datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "processor": _processor(),
        "cores_used": n_cores,
        "cores_present": os.cpu_count(),
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "commit": _commit(),
        "load_before": [round(value, 2) for value in os.getloadavg()],
        "versions": versions,
    }


def markdown(sections: Iterable[Section], facts: dict[str, Any]) -> list[str]:
    """The lines of a page: what ran where, the ratios, then every section."""
    sections = list(sections)
    text = ["# How fast is it compared with PyMC, NumPyro and BlackJAX?", "", _heading(facts), ""]
    text += [f"Written by `{COMMAND} {facts['options']}`; do not edit.", "", "## Ratios", ""]
    text += _markdown_table(RATIO_COLUMNS, _ratio_rows(sections))
    for section in sections:
        text += ["", f"## ({section.name}) {section.title}"]
        for detail in section.details:
            text += ["", f"### {detail.title}", "", *_markdown_table(detail.columns, detail.rows)]
        text += ["", *(f"* {note}" for note in section.notes)] if section.notes else []
    versions = ", ".join(f"{name} {number}" for name, number in facts["versions"].items())
    text += [
        "",
        "## Machine",
        "",
        f"* {facts['processor']}, {facts['cores_used']} of {facts['cores_present']} cores",
    ]
    text += [f"* {facts['system']}, Python {facts['python']}, {versions}"]
    return [*text, f"* commit {facts['commit']}, load before the run {facts['load_before']}", ""]


def write_report(sections: Iterable[Section], facts: dict[str, Any], folder: Path) -> list[Path]:
    """The results in ``folder``, for people and for programs."""
    sections = list(sections)
    folder.mkdir(parents=True, exist_ok=True)
    page = folder / "README.md"
    numbers = folder / "record.json"
    page.write_text("\n".join(markdown(sections, facts)), encoding="utf-8")
    record = {"machine": facts, "sections": [asdict(section) for section in sections]}
    numbers.write_text(json.dumps(record, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    return [page, numbers]


def _heading(facts: dict[str, Any]) -> str:
    cores = f"{facts['cores_used']} cores of {facts['processor']}"
    return f"{facts['date']}, {cores}, sizes: {facts['sizes']}"


def _ratio_rows(sections: Iterable[Section]) -> list[tuple[str, ...]]:
    return [
        (f"({s.name}) {comparison}", *cells)
        for s in sections
        for comparison, *cells in (ratio.cells() for ratio in s.ratios)
    ]


def _markdown_table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    lines = [columns, ["---"] + ["---:"] * (len(columns) - 1), *rows]
    return ["| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines]


def _processor() -> str:
    info = Path("/proc/cpuinfo")
    if info.exists():
        for line in info.read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()


def _commit() -> str:
    command = ["git", "describe", "--always", "--dirty", "--exclude=*"]
    try:
        return subprocess.run(
            command, cwd=Path(__file__).parent, capture_output=True, text=True, check=True
        ).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
