"""The whole demo as one call: run, draw, write."""

import json
import os
import tempfile
from collections.abc import Callable
from pathlib import Path

from parbals.demo.plots import learning_curve_png, pool_map, pool_map_png
from parbals.demo.report import build_report
from parbals.demo.run import METRICS, DemoResult, Settings, run_demo
from parbals.demo.summary import worth_of
from parbals.errors import ParbalsError

__all__ = ["make_demo", "prepare_folder"]


def make_demo(
    out: Path,
    settings: Settings | None = None,
    on_batch: Callable[[str], None] = lambda strategy: None,
    on_stage: Callable[[str], None] = lambda stage: None,
) -> DemoResult:
    """Write report.html, learning_curve.png, pool_map.png and results.json into ``out``."""
    prepare_folder(out)
    on_stage("labelling and learning")
    result = run_demo(settings, on_batch)
    on_stage("drawing the pictures")
    places = pool_map(result)
    files = {
        "learning_curve.png": learning_curve_png(result),
        "pool_map.png": pool_map_png(result, places),
        "results.json": json.dumps(_as_json(result), indent=1).encode(),
        "report.html": build_report(result, places).encode(),
    }
    for name, content in files.items():
        _write(out / name, content)
    return result


def prepare_folder(out: Path) -> None:
    """Refuse a folder that cannot be written now, rather than after a minute of work."""
    try:
        out.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=out):
            pass
    except OSError as error:
        raise _cannot_write(out, error) from error


def _cannot_write(out: Path, error: OSError) -> ParbalsError:
    return ParbalsError(
        f"Cannot write into {out} ({error.strerror}); choose another folder with --out."
    )


def _write(path: Path, content: bytes) -> None:
    """Put the whole file in place at once: an interrupted run leaves the old one or none, never
    half of one."""
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        # mkstemp makes files private; a report is for sharing.
        os.chmod(temporary, 0o644)
        os.replace(temporary, path)
    except BaseException as error:
        Path(temporary).unlink(missing_ok=True)
        if isinstance(error, OSError):
            raise _cannot_write(path.parent, error) from error
        raise


def _as_json(result: DemoResult) -> dict[str, object]:
    settings = result.settings
    return {
        "n_labels": settings.n_labels.tolist(),
        "n_seeds": settings.n_seeds,
        "metrics": {
            s: {m: result.metric(m, s).tolist() for m in METRICS} for s in settings.strategies
        },
        "chosen": {
            s: [t.chosen.tolist() for t in result.traces if t.strategy == s]
            for s in settings.strategies
        },
        "first_batch": {
            s: {
                "alone_mnat": worth.alone,
                "joint_mnat": worth.joint,
                "redundancy": worth.redundancy,
                "mean_similarity": worth.similarity,
                "near_duplicates": worth.n_near_duplicates,
            }
            for s in settings.strategies
            for worth in [worth_of(result.first, s)]
        },
        "notes": list(result.notes),
    }
