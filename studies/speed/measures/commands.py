"""Commands of a project, each in a fresh process; CPU seconds of all its threads."""

import csv
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from speed.clock import Measure
from speed.problems import labels_of, pool_and_labels

# Not ru_maxrss, which a process inherits from the one that started it.
PROGRAM = """
import sys
from pathlib import Path
from parbals.cli.main import main
code = 0
try:
    code = main(sys.argv[1:])
except SystemExit as end:
    code = end.code
status = Path("/proc/self/status")
lines = status.read_text().splitlines() if status.exists() else []
peak = [int(line.split()[1]) for line in lines if line.startswith("VmHWM")]
print("PEAK", 1024 * sum(peak))
sys.exit(code)
"""


def measures(sizes: dict[str, Any]) -> Iterator[Measure]:
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        os.environ["PARBALS_CACHE_DIR"] = str(folder / "cache")
        project = str(folder / "project")
        classes = [f"class{c}" for c in range(sizes["C"])]
        y = _create(folder, project, sizes, classes)
        labels = folder / "labels.csv"
        _write_labels(labels, range(sizes["n"]), y, classes)
        run("", "tell", project, str(labels), "--no-report")
        yield run("next", "next", project, "-n", str(sizes["B"]))[0]
        _write_labels(labels, range(sizes["n"], sizes["n"] + sizes["B"]), y, classes)
        yield run("tell", "tell", project, str(labels))[0]
        yield run("status", "status", project)[0]


def _create(folder: Path, project: str, sizes: dict[str, Any], classes: list[str]) -> np.ndarray:
    """A project of texts, or of vectors if D is given; returns the class of every item."""
    joined = ",".join(classes)
    if "D" not in sizes:
        texts, y = _texts(sizes)
        with (folder / "texts.csv").open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            writer.writerow(["id", "text"])
            writer.writerows(enumerate(texts, 1))
        data = [str(folder / "texts.csv"), "--text", "text", "--encoder", "words"]
        run("", "init", project, *data, "--classes", joined)
        return y
    X = pool_and_labels(sizes)[0]
    np.save(folder / "X.npy", X)
    run("", "init", project, str(folder / "X.npy"), "--classes", joined)
    (folder / "X.npy").unlink()
    _, y = labels_of(X, sizes, len(X))
    return y


def _texts(sizes: dict[str, Any]) -> tuple[list[str], np.ndarray]:
    """Texts of twelve words, half of which tell the class."""
    generator = np.random.default_rng(0)
    y = generator.integers(sizes["C"], size=sizes["N"])
    common = generator.zipf(1.3, size=(sizes["N"], 6)) % 5_000
    telling = generator.integers(100, size=(sizes["N"], 6))
    texts = [
        " ".join([*(f"word{word}" for word in a), *(f"topic{label}x{word}" for word in b)])
        for a, b, label in zip(common, telling, y, strict=True)
    ]
    return texts, y


def _write_labels(path: Path, positions: range, y: np.ndarray, classes: list[str]) -> None:
    rows = [f"{position + 1},{classes[y[position]]}" for position in positions]
    path.write_text("\n".join(["id,label", *rows, ""]), encoding="utf-8")


def run(name: str, *arguments: str) -> tuple[Measure, str]:
    """A command's cost, and what it printed."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    start = time.perf_counter()
    process = subprocess.run(
        [sys.executable, "-c", PROGRAM, *arguments], capture_output=True, text=True, check=False
    )
    seconds = time.perf_counter() - start
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if process.returncode != 0:
        raise SystemExit(f"parbals {' '.join(arguments)} failed: {process.stderr}")
    output, _, peak = process.stdout.rpartition("PEAK")
    measure = {
        "measure": name,
        "seconds": seconds,
        "cpu_seconds": after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime,
        "peak_bytes": json.loads(peak),
    }
    return measure, output
