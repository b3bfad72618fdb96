"""The whole demo as one call: run, draw, write."""

import tempfile
from collections.abc import Callable
from pathlib import Path

from parbals.errors import ParbalsError
from parbals_label.files import whole_file

from parbals_bench.demo.report import build_report, curves
from parbals_bench.demo.run import Demo, run_demo
from parbals_bench.report.plots import to_png

__all__ = ["make_demo"]


def make_demo(
    out: Path, n_seeds: int = 5, progress: Callable[..., None] = lambda *stage: None
) -> Demo:
    """Write report.html and learning_curve.png into ``out``."""
    _check_folder(out)
    demo = run_demo(n_seeds, progress=progress)
    progress("drawing the pictures")
    files = {
        "learning_curve.png": to_png(curves(demo, "accuracy")),
        "report.html": build_report(demo).encode(),
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
