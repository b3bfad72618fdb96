"""Draw the learning curves of the study: python studies targets.figure writes curves.png."""

import argparse
import json
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from targets.page import OURS, TITLES, WEIGHTED, WITHOUT, Arm, common_runs
from targets.shifts import SHIFTS

FOLDER = Path(__file__).parent
N_LABELS = np.arange(50, 211, 20)
N_COLUMNS = 5
STYLES: dict[Arm, tuple[str, str, str]] = {
    OURS: ("ParBaLS, target", "#0072b2", "-"),
    WEIGHTED: ("weighted Margin", "#d55e00", "--"),
    WITHOUT: ("ParBaLS, no target", "#56b4e9", "-."),
    ("margin", 0): ("Margin", "#e69f00", "--"),
    ("random", 0): ("Random", "#000000", ":"),
}
"""Title, colour of Okabe and Ito's palette, and dashes of a line."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--record", type=Path, default=FOLDER / "record.jsonl")
    parser.add_argument("--out", type=Path, default=FOLDER / "curves.png")
    options = parser.parse_args()
    lines = options.record.read_text("utf-8").splitlines()
    records = [json.loads(line) for line in lines]
    runs = {name: common_runs(records, name, TITLES) for name in SHIFTS}
    runs = {name: arms for name, arms in runs.items() if arms}
    n_rows = -(-len(runs) // N_COLUMNS)
    figure = Figure(figsize=(13.0, 2.9 * n_rows + 0.6), layout="constrained")
    axes = figure.subplots(n_rows, N_COLUMNS, squeeze=False, sharex=True)
    for ax in axes.flat[len(runs) :]:
        ax.set_axis_off()
    for ax, (name, arms) in zip(axes.flat, runs.items(), strict=False):
        draw(ax, SHIFTS[name].title, arms)
    handles, titles = axes.flat[0].get_legend_handles_labels()
    figure.legend(handles, titles, loc="outside lower center", ncols=len(STYLES), frameon=False)
    figure.supylabel("accuracy on the target, %", fontsize=9)
    for ax in axes[-1]:
        ax.set_xlabel("labels", fontsize=9)
    figure.savefig(options.out, dpi=90, metadata={"Software": None})
    return 0


def draw(ax: Axes, title: str, arms: dict[Arm, np.ndarray]) -> None:
    """Mean over seeds of each line, with a band of one standard error."""
    for arm, (label, colour, dashes) in STYLES.items():
        curves = arms[arm]
        mean = curves.mean(axis=0)
        error = curves.std(axis=0, ddof=1) / np.sqrt(len(curves))
        ax.plot(N_LABELS, mean, dashes, color=colour, label=label, linewidth=1.6)
        ax.fill_between(N_LABELS, mean - error, mean + error, color=colour, alpha=0.15, linewidth=0)
    kind, _, data = title.partition("; ")
    ax.set_title(f"{kind}\n{data}", fontsize=8.5)
    ax.set_xticks([50, 130, 210])
    ax.tick_params(labelsize=8)
    ax.grid(color="#d9d9d9", linewidth=0.6)
