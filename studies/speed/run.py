"""How fast is it, beside another commit, and how do time and memory grow?

    python studies speed                                   # this tree: two minutes on two cores
    python studies speed --before REF --threads 1          # every row beside another commit
    python studies speed --before REF --rows growth        # one group of rows
    python studies speed --rows "batch of 500;D = 4,096"   # rows by a part of their names
    python studies speed --list                            # all rows by group
    python studies speed --report                          # the page again, from the record
    python studies speed --report --add FILE               # with the lines of another machine

Every row is measured in a process of its own, in turn with that of the other commit, and is a line
of record.jsonl, which replaces the row's line of the same machine and threads. A row that takes too
long or too much memory is stopped and says so. ``--before`` takes a commit or a folder with its
packages. Writes record.jsonl and TABLE.md.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from lib.folders import ROOT
from lib.isolate import pin_cores
from lib.report import machine
from speed.page import page
from speed.process import ACCELERATED, Limits, run_row
from speed.rows import DEFAULT_GROUPS, GROUPS, QUICK_SIZES, ROWS, Row, wanted_rows
from speed.trees import checked_out, sources

FOLDER = Path(__file__).parent


def main() -> int:
    options = parse()
    if options.list:
        for group, title in GROUPS.items():
            print(f"{group}: {title}")
            print("".join(f"    {row.name}\n" for row in ROWS if row.group == group), end="")
        return 0
    options.out.mkdir(parents=True, exist_ok=True)
    record = options.out / "record.jsonl"
    lines = read(record)
    if options.add:
        for line in read(options.add):
            replace_line(lines, line)
        write_record(record, lines)
    if not options.report:
        for warning in pin_cores(options.threads) if options.threads else ():
            print(warning, file=sys.stderr)
        with tempfile.TemporaryDirectory() as folder:
            measure_rows(options, lines, record, Path(folder))
    text = page(lines)
    (options.out / "TABLE.md").write_text(text, encoding="utf-8")
    print(text)
    return 0


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    default = ";".join(DEFAULT_GROUPS)
    parser.add_argument("--before", metavar="REF", help="a commit to compare with, or its folder")
    parser.add_argument(
        "--rows",
        default=default,
        metavar="A;B",
        help=f"groups or parts of names, by default {default}; groups: {', '.join(GROUPS)}, all",
    )
    parser.add_argument("--threads", type=int, default=0, help="by default all; pins cores")
    parser.add_argument("--limit", type=float, default=300.0, help="seconds a row may take")
    parser.add_argument("--memory", type=float, default=12.0, help="gigabytes a row may take")
    parser.add_argument("--out", type=Path, help="folder of record and page")
    parser.add_argument("--quick", action="store_true", help="tiny sizes; needs --out")
    parser.add_argument("--list", action="store_true", help="list the rows")
    parser.add_argument("--report", action="store_true", help="measure nothing")
    parser.add_argument("--add", type=Path, metavar="FILE", help="take in another record's lines")
    parser.add_argument(
        "--now", metavar="NAME", help="what to call this tree; by default its commit"
    )
    options = parser.parse_args()
    if options.threads < 0 or options.limit <= 0 or options.memory <= 0:
        parser.error("--threads is at least 0, --limit and --memory are more than 0")
    if options.quick and options.out is None:
        parser.error("--quick needs --out, because its times mean nothing")
    options.out = options.out or FOLDER
    try:
        options.rows = wanted_rows(options.rows.split(";"))
    except ValueError as error:
        parser.error(str(error))
    return options


def read(record: Path) -> list[dict[str, Any]]:
    """The lines so far."""
    if not record.exists():
        return []
    return [json.loads(line) for line in record.read_text("utf-8").splitlines()]


def measure_rows(
    options: argparse.Namespace, lines: list[dict[str, Any]], record: Path, folder: Path
) -> None:
    """Measure the rows, and write record and page after each."""
    threads = options.threads or os.cpu_count() or 1
    limits = Limits(options.limit, options.memory, threads)
    facts = machine(threads)
    trees = {}
    if options.before:
        trees["before"] = sources(checked_out(options.before, folder / "before"))
    trees["now"] = sources(ROOT)
    for row in options.rows:
        results = measured(row, trees, limits, options.quick, folder)
        line = {
            "row": row.name,
            "group": row.group,
            "on": setting(row, results, facts),
            "date": facts["date"],
            "processor": "" if row.kind in ACCELERATED else facts["processor"],
            "threads": threads,
            "commits": {"now": options.now or facts["commit"], "before": commit(options.before)},
            **results,
        }
        replace_line(lines, line)
        write_record(record, lines)
        write_whole(options.out / "TABLE.md", page(lines))


def measured(
    row: Row, trees: dict[str, list[Path]], limits: Limits, is_quick: bool, folder: Path
) -> dict[str, Any]:
    """The results of each tree, which take turns."""
    sizes = row.sizes | {"axis": row.axis, "folder": str(folder)}
    if is_quick:
        sizes |= {name: min(sizes[name], n) for name, n in QUICK_SIZES.items() if name in sizes}
    results: dict[str, Any] = {}
    for turn in range(row.rounds):
        names = list(trees) if turn % 2 == 0 else list(reversed(trees))
        for name in names:
            if name == "before" and row.group == "refits":
                continue  # other libraries do not depend on the commit
            print(f"{row.group}: {row.name}, {name} ...", end=" ", file=sys.stderr, flush=True)
            result = run_row(row, trees[name], sizes, limits)
            print(result.get("stopped", "done"), file=sys.stderr, flush=True)
            results[name] = merged(results.get(name), result)
    return results


def merged(earlier: dict[str, Any] | None, result: dict[str, Any]) -> dict[str, Any]:
    """Of two rounds the least seconds and the most memory."""
    if earlier is None:
        return result
    for name, measure in result["measures"].items():
        other = earlier["measures"].get(name, measure)
        for key in ("seconds", "cpu_seconds"):
            if key in measure:
                measure[key] = min(measure[key], other.get(key, measure[key]))
        if "peak_bytes" in measure:
            measure["peak_bytes"] = max(measure["peak_bytes"], other.get("peak_bytes", 0))
    result["own_bytes"] = max(result["own_bytes"], earlier["own_bytes"])
    return result


def setting(row: Row, results: dict[str, Any], facts: dict[str, Any]) -> str:
    """The device, or the number of threads."""
    if row.kind in ACCELERATED:
        for measure in results["now"]["measures"].values():
            if "device" in measure:
                return str(measure["device"])
    n_threads = facts["cores_used"]
    return f"{n_threads} thread{'s' if n_threads > 1 else ''}"


def commit(reference: str | None) -> str | None:
    """The short name of a commit; that of the folder where a folder is given."""
    if reference is None or (Path(reference) / "packages").is_dir():
        return reference and Path(reference).name
    command = ["git", "rev-parse", "--short=8", reference]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True).stdout.strip()


def replace_line(lines: list[dict[str, Any]], line: dict[str, Any]) -> None:
    """Put a row's line in the place of an earlier one of the same machine and threads."""
    key = ("group", "row", "on", "processor")
    for position, entry in enumerate(lines):
        if all(entry[name] == line[name] for name in key):
            lines[position] = line
            return
    lines.append(line)


def write_record(record: Path, lines: list[dict[str, Any]]) -> None:
    write_whole(record, "".join(f"{json.dumps(line)}\n" for line in lines))


def write_whole(path: Path, text: str) -> None:
    """A run that is stopped here leaves the results of before."""
    draft = path.with_suffix(".tmp")
    draft.write_text(text, encoding="utf-8")
    os.replace(draft, path)
