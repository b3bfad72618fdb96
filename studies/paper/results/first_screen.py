"""Print every figure of the first screen of explanation/results.md.

    python studies paper.results.first_screen

It also prints those of README's "Why parbals", except the forced kills, which a test counts.
All are read from records in the repository; nothing is run. The lines are those of the studies'
own pages, where what they mean is said.
"""

import json
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from adaptation.encoder import strategies as on_adapted_rows
from annotators.consensus import run as consensus
from lib.folders import DOCS, STUDIES
from paper.differences.together import together
from paper.results import one_at_a_time, one_vs_all, savings, sentences
from parbals_bench.report.page import read_results
from parbals_bench.report.paper import Agreement
from parbals_bench.run.folder import ResultsFiles
from strategies.auto import run as changes
from strategies.large_batches import run as large_batches
from targets import page as targets

Page = Callable[[list[dict[str, Any]]], Iterable[str]]


def main() -> None:
    print("Labels saved at equal accuracy")
    savings.main()
    print("\nFigures of the paper: ours, intervals overlap, Welch p ≥ 0.05")
    for archive in ("records", "one-vs-all"):
        print("\n".join(counts(DOCS / "results" / f"{archive}.tar.xz")))
    differences = STUDIES / "paper" / "differences"
    by_bench, in_step = (
        ResultsFiles(differences / f"{name}.tar.xz").records() for name in ("departures", "nuts")
    )
    by_nuts = [record for record in by_bench if record.run.settings.inference == "nuts"]
    print("\n".join(together(by_nuts, in_step)))
    adapted = STUDIES / "adaptation" / "encoder"
    shown = {
        "Fine-tuned rows": (
            adapted / "strategies.jsonl",
            on_adapted_rows.page,
            ("**250", "## ", "| "),
        ),
        "Large batches": (
            large_batches.FOLDER / "record.jsonl",
            large_batches.page,
            ("## Batches", "| copies", "| none", "| 5 %", "| 50 %"),
        ),
        "A change of strategy": (changes.FOLDER / "record.jsonl", changes.page, ("* ",)),
        "Targets": (STUDIES / "targets" / "record.jsonl", targets.page, ("| Margin | +",)),
        "Several annotators": (consensus.HERE / "record.jsonl", consensus.page, ("Ours are",)),
    }
    for title, (file, page, beginnings) in shown.items():
        print(f"\n{title}")
        print("\n".join(lines(file, page, beginnings)))
    print("\nBatches, classes, and what sentences say")
    for study in (one_at_a_time, one_vs_all, sentences):
        study.main()


def counts(archive: Path) -> Iterator[str]:
    """For each kind of table and dataset: figures we ran, and how many agree by either rule."""
    rows = [row for row in read_results(ResultsFiles(archive)).agreements if row.ours]
    groups = dict.fromkeys(map(_group, rows))
    for kind, name in groups:
        of_group = [row for row in rows if _group(row) == (kind, name)]
        n_same = sum(row.p is not None and row.p >= 0.05 for row in of_group)
        n_overlap = sum(bool(row.agrees) for row in of_group)
        yield f"  {kind}, {name}: {len(of_group)}, {n_overlap}, {n_same}"


def _group(row: Agreement) -> tuple[str, str]:
    return row.cell.kind, row.cell.reference.partition(":")[0]


def lines(file: Path, page: Page, beginnings: tuple[str, ...]) -> Iterator[str]:
    """Lines of a study's page that begin so."""
    records = [json.loads(line) for line in file.read_text("utf-8").splitlines()]
    for text in page(records):
        yield from (line for line in text.splitlines() if line.startswith(beginnings))


if __name__ == "__main__":
    main()
