"""The whole demo as one call: run, draw, write."""

import json
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from parbals.errors import ParbalsError
from parbals.files import whole_file

from parbals_bench.demo.plots import curves, map_figure, pool_map
from parbals_bench.demo.report import build_report
from parbals_bench.demo.run import SIMILAR, STRATEGIES, Demo, run_demo
from parbals_bench.report.plots import to_png
from parbals_bench.run.metrics import METRICS
from parbals_bench.run.spec import Budget

__all__ = ["make_demo"]


def make_demo(
    out: Path,
    n_seeds: int = 5,
    budget: Budget | str = "20+4x10",
    progress: Callable[..., None] = lambda *stage: None,
) -> Demo:
    """Write report.html, learning_curve.png, pool_map.png and results.json into ``out``."""
    _check_folder(out)
    demo = run_demo(n_seeds, budget, progress=progress)
    progress("drawing the pictures")
    places = pool_map(demo)
    files = {
        "learning_curve.png": to_png(curves(demo, "accuracy")),
        "pool_map.png": to_png(map_figure(demo, places)),
        "results.json": json.dumps(_as_record(demo), indent=1).encode(),
        "report.html": build_report(demo, places).encode(),
    }
    for name, content in files.items():
        with whole_file(out / name) as file:
            file.write(content)
    return demo


def _check_folder(out: Path) -> None:
    """Refuse a folder that cannot be written now, rather than after a minute of work."""
    try:
        out.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=out):
            pass
    except OSError as error:
        raise ParbalsError(
            f"Cannot write into {out} ({error.strerror}); choose another folder with --out."
        ) from error


def _as_record(demo: Demo) -> dict[str, Any]:
    of_seed = demo.records
    return {
        "n_labels": list(demo.budget.n_labels),
        "n_seeds": demo.n_seeds,
        "metrics": {
            name: {metric: [run.metrics[metric] for run in of_seed[name]] for metric in METRICS}
            for name in STRATEGIES
        },
        "chosen": {name: [run.chosen for run in of_seed[name]] for name in STRATEGIES},
        "first_batch": {
            name: {
                "alone_nats": batch.alone,
                "joint_nats": batch.joint,
                "redundancy": batch.redundancy,
                "mean_similarity": float(batch.pairs.mean()) if len(batch.pairs) else 0.0,
                "near_duplicates": int((batch.pairs >= SIMILAR).sum()),
            }
            for name, batch in demo.first.items()
        },
        "notes": list(demo.notes),
    }
