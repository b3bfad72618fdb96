"""What does a batch cost in bare products, beside another commit?

    python studies speed.comparison                # this tree
    python studies speed.comparison --before REF   # and another commit, measured in turn
    python studies speed.comparison --quick        # tiny sizes, to see that it runs

A batch of ParBaLS from 10,000 candidates with 300 features, 1,000 targets, 200 labels and ten
universes, as a multiple of a bare product of 10,000 × 400 × 1,000 numbers in the same process: CPU
seconds of one thread, and wall-clock seconds of all. Every measurement is a line of record.jsonl
and is not repeated; ``--again`` starts anew. Writes README.md; some eight minutes.
"""

import argparse
import io
import json
import os
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from lib.folders import STUDIES
from lib.report import machine

FOLDER = Path(__file__).parent
ROOT = STUDIES.parent
SOURCE = "packages/parbals/src"


class Row(NamedTuple):
    """A row of the table."""

    classes: int
    batch: int
    loss: str
    threads: int  # 0: all
    repeats: int
    goal: float | None  # in bare products, or in seconds with all threads


ROWS = (
    Row(2, 20, "log", 1, 3, 4.0),
    Row(4, 20, "log", 1, 3, 10.0),
    Row(10, 20, "log", 1, 3, 20.0),
    Row(2, 20, "log", 0, 3, None),
    Row(4, 20, "log", 0, 3, None),
    Row(10, 20, "log", 0, 3, None),
    Row(4, 100, "log", 0, 1, 5.0),
    Row(4, 100, "error", 0, 1, 5.0),
    Row(4, 500, "log", 0, 1, 20.0),
)
TITLE = """# What does a batch cost, in bare products?

One batch of ParBaLS from 10,000 candidates with 300 features, 1,000 targets, 200 labels and ten
universes. *products*: multiples of a matrix product of 10,000 × 400 × 1,000 numbers in the same
process; in CPU seconds with one thread, in wall-clock seconds with all. *score*: the sum of the
scores of the batch's points, each given the ones before, as a share of that of the other commit;
*common*: points in both batches.

| classes | batch | loss | threads | {before}products | s | memory, MB | goal |{columns}
"""


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--before", metavar="REF", help="a commit to compare with")
    parser.add_argument("--out", type=Path, default=FOLDER, help="folder of record and page")
    parser.add_argument("--quick", action="store_true", help="tiny sizes")
    parser.add_argument("--again", action="store_true", help="repeat what has been measured")
    options = parser.parse_args()
    preset = "smoke" if options.quick else "full"
    record = options.out / f"record{'-quick' if options.quick else ''}.jsonl"
    if options.again:
        record.unlink(missing_ok=True)
    results = read(record)
    with tempfile.TemporaryDirectory() as folder:
        trees = {"now": ROOT / SOURCE}
        if options.before:
            trees["before"] = checked_out(options.before, Path(folder))
        for row in ROWS[:2] if options.quick else ROWS:
            for tree, source in trees.items():
                key = f"{tree} {' '.join(map(str, row))}"
                if key not in results:
                    results[key] = measured(row, source, preset)
                    line = json.dumps({"key": key, **results[key]})
                    with record.open("a", encoding="utf-8") as file:
                        file.write(line + "\n")
                print(f"{key}: {results[key]['seconds']:.2f} s", file=sys.stderr, flush=True)
                text = page(results, options.before)
                (options.out / "README.md").write_text(text, encoding="utf-8")
    print(text)
    return 0


def read(record: Path) -> dict[str, dict[str, Any]]:
    """The measurements so far."""
    if not record.exists():
        return {}
    lines = map(json.loads, record.read_text("utf-8").splitlines())
    return {line["key"]: line for line in lines}


def checked_out(reference: str, folder: Path, source: str = SOURCE) -> Path:
    """A folder of the source at a commit, by default the library's."""
    command = ["git", "archive", reference, source]
    archive = subprocess.run(command, cwd=ROOT, check=True, capture_output=True).stdout
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        tar.extractall(folder, filter="data")
    return folder / source


def measured(row: Row, source: Path, preset: str) -> dict[str, Any]:
    """What the process of one point prints."""
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join([str(source), str(STUDIES)]),
        "JAX_PLATFORMS": "cpu",
    }
    if row.threads:
        environment |= dict.fromkeys(
            ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"), str(row.threads)
        )
    sizes = json.dumps({**row._asdict(), "preset": preset})
    command = [sys.executable, "-c", "import sys; from speed.comparison.point import main; main()"]
    process = subprocess.run(
        [*command, sizes], env=environment, cwd=STUDIES, stdout=subprocess.PIPE, check=True
    )
    result: dict[str, Any] = json.loads(process.stdout)
    return result


def page(results: dict[str, dict[str, Any]], before: str | None) -> str:
    """The table of all rows that have been measured."""
    compares = any(key.startswith("before ") for key in results)
    text = TITLE.format(
        before="products before | " if compares else "",
        columns=" ratio | score | common |" if compares else "",
    )
    text += "|" + " --- |" * (12 if compares else 8) + "\n"
    text += "".join(f"| {' | '.join(cells)} |\n" for cells in rows(results, compares))
    facts = machine(os.cpu_count() or 1)
    command = "python studies speed.comparison" + (f" --before {before}" if before else "")
    text += f"\n{facts['processor']}, {facts['cores_used']} cores, {facts['date']}, commit"
    return text + f" {facts['commit']}, `{command}`; do not edit.\n"


def rows(results: dict[str, dict[str, Any]], compares: bool) -> Iterator[list[str]]:
    """The cells of every row that has been measured."""
    for row in ROWS:
        key = " ".join(map(str, row))
        now = results.get(f"now {key}")
        if now is None:
            continue
        products = now["seconds"] / now["product"]
        before = results.get(f"before {key}")
        old_products = before["seconds"] / before["product"] if before else float("nan")
        is_in_seconds = row.goal is not None and row.threads == 0
        goal = "" if row.goal is None else f"≤ {row.goal:g}{' s' if is_in_seconds else ''}"
        yield [
            str(row.classes),
            str(len(now["indices"])),
            "0-1" if row.loss == "error" else row.loss,
            str(row.threads or "all"),
            *([f"{old_products:.1f}"] if compares else []),
            f"{products:.1f}",
            f"{now['seconds']:.2f}",
            f"{1e-6 * now['peak_bytes']:.0f}",
            goal,
            *(compared(now, before, products / old_products) if compares else []),
        ]


def compared(now: dict[str, Any], before: dict[str, Any] | None, ratio: float) -> list[str]:
    """Cells that compare a batch with that of the other commit."""
    if before is None:
        return ["", "", ""]
    common = set(now["indices"]) & set(before["indices"])
    return [f"{ratio:.2f}", f"{now['score'] / before['score']:.4f}", str(len(common))]
