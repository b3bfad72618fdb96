"""CPU seconds of commands, each in a fresh process on a copy of one project.

The first tree of a run makes the project, all work on copies of it: so ``next`` has to choose the
same items. The least of several repeats counts, because other programs only add time.
"""

import csv
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from speed.clock import Measure
from speed.problems import labels_of, pool_and_labels

CLASSES = ("world", "sports", "business", "science")
WORDS = 4_000
LENGTH = 30
# Not ru_maxrss, which a process inherits from the one that started it.
PROGRAM = """
import sys
from pathlib import Path
from parbals.cli import program
code = 0
try:
    program()
except SystemExit as end:
    code = end.code
status = Path("/proc/self/status")
lines = status.read_text().splitlines() if status.exists() else []
peak = [int(line.split()[1]) for line in lines if line.startswith("VmHWM")]
print("PEAK", 1024 * sum(peak))
sys.exit(code)
"""


def measures(sizes: dict[str, Any]) -> Iterator[Measure]:
    project = Path(sizes["folder"]) / f"project-{sizes['N']}"
    if not project.exists():
        _make_project(project, sizes)
    with tempfile.TemporaryDirectory() as temporary:
        copy = Path(temporary) / "copy"
        commands = {
            "--version": ["--version"],
            "status": ["status", str(copy), "--json"],
            "tell": ["tell", str(copy), str(project / "batch.csv"), "--json"],
            "next": ["next", str(copy), "-n", str(sizes["B"]), "--json"],
        }
        for name, arguments in commands.items():
            runs = []
            for _ in range(sizes["repeats"]):
                shutil.copytree(project, copy)
                runs.append(run(arguments))
                shutil.rmtree(copy)
            measure = {
                "measure": name,
                "seconds": min(cost["seconds"] for cost, _ in runs),
                "cpu_seconds": min(cost["cpu_seconds"] for cost, _ in runs),
                "peak_bytes": max(cost["peak_bytes"] for cost, _ in runs),
            }
            if name == "next":
                measure["indices"] = json.loads(runs[0][1])["ids"]
            yield measure


def _make_project(project: Path, sizes: dict[str, Any]) -> None:
    """A project with labels and a report, and a file of a batch's labels in it.

    Its items are texts, or vectors where D is given.
    """
    data = project.with_suffix(".npy" if "D" in sizes else ".csv")
    if "D" in sizes:
        X = pool_and_labels(sizes)[0]
        np.save(data, X)
        numbers = labels_of(X, sizes, len(X))[1]
        options = []
    else:
        texts, numbers = made_up_texts(sizes["N"])
        write(data, ["id", "text"], enumerate(texts, 1))
        options = ["--text", "text", "--encoder", "words"]
    run(["init", str(project), str(data), *options, "--classes", ",".join(CLASSES)])
    data.unlink()
    order = np.random.default_rng(1).permutation(sizes["N"])
    n_labels = sizes["n"]
    for name, chosen in (
        ("known", order[:n_labels]),
        ("batch", order[n_labels:][: sizes["B"]]),
    ):
        labels = ((i + 1, CLASSES[numbers[i]]) for i in chosen)
        write(project / f"{name}.csv", ["id", "label"], labels)
    run(["tell", str(project), str(project / "known.csv")])


def made_up_texts(n_texts: int) -> tuple[list[str], np.ndarray]:
    """Texts whose words are common or rare as in a language, and differ by class."""
    generator = np.random.default_rng(0)
    common = 1.0 / np.arange(1, WORDS + 1)
    by_class = common * generator.gamma(1.0, size=(len(CLASSES), WORDS))
    by_class /= by_class.sum(axis=1, keepdims=True)
    numbers = generator.integers(len(CLASSES), size=n_texts)
    texts = [
        " ".join(f"word{word}" for word in generator.choice(WORDS, LENGTH, p=by_class[number]))
        for number in numbers
    ]
    return texts, numbers


def write(path: Path, header: list[str], rows: Iterable[Any]) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(header)
        writer.writerows(rows)


def run(arguments: list[str]) -> tuple[Measure, str]:
    """A command's cost, and what it printed."""
    environment = dict(os.environ)
    environment.pop("PYTHONDONTWRITEBYTECODE", None)  # files are compiled once, as on a user's disk
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    start = time.perf_counter()
    process = subprocess.run(
        [sys.executable, "-c", PROGRAM, *arguments],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    seconds = time.perf_counter() - start
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if process.returncode != 0:
        raise SystemExit(f"parbals {' '.join(arguments)} failed: {process.stderr}")
    output, _, peak = process.stdout.rpartition("PEAK")
    measure = {
        "seconds": seconds,
        "cpu_seconds": after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime,
        "peak_bytes": int(peak),
    }
    return measure, output
