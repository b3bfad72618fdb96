"""A project of a million items: seconds and peak memory of init, next, tell and status, beside one
ten times smaller.

    python benchmarks/million.py                1,000,000 × 384 features; needs 5 GB of disk; writes
    MILLION.md python benchmarks/million.py --items 20000  smaller; writes nothing

Memory must not grow with the pool: features are memory-mapped, and only the rows in play are read.
"""

import argparse
import csv
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

COMMANDS = ("init", "next", "tell", "next again", "status")


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--items", type=int, default=1_000_000, help="size of the larger pool")
    parser.add_argument("--features", type=int, default=384)
    options = parser.parse_args()
    found = {}
    for n_items in (max(options.items // 10, 100), options.items):
        with tempfile.TemporaryDirectory(prefix="parbals-million-") as folder:
            found[n_items] = measure(Path(folder), n_items, options.features)
    lines = [
        "| command | " + " | ".join(f"{n:,} items" for n in found) + " |",
        "| --- |" + " ---: |" * len(found),
    ]
    for name in COMMANDS:
        cells = (
            f"{seconds:.1f} s, {peak / 1e9:.2f} GB"
            for seconds, peak in (found[n][name] for n in found)
        )
        lines.append(f"| `{name}` | " + " | ".join(cells) + " |")
    print("\n".join(lines))
    if options.items >= 1_000_000:
        text = "# A project of a million items\n\n"
        text += f"{options.features} float32 features; time and peak resident memory.\n"
        text += (
            "Written by `python benchmarks/million.py`; do not edit.\n\n" + "\n".join(lines) + "\n"
        )
        (Path(__file__).parent / "MILLION.md").write_text(text, encoding="utf-8")
    return 0


def measure(folder: Path, n_items: int, n_features: int) -> dict[str, tuple[float, int]]:
    """(seconds, peak bytes) of every command."""
    generator = np.random.default_rng(0)
    weights = generator.standard_normal(n_features)
    data = np.lib.format.open_memmap(folder / "X.npy", "w+", np.float32, (n_items, n_features))
    for start in range(0, n_items, 50_000):
        block = generator.standard_normal((min(50_000, n_items - start), n_features), np.float32)
        data[start : start + len(block)] = block / np.sqrt(n_features)
    data.flush()
    project, batch = str(folder / "project"), str(folder / "batch.csv")
    found = {"init": run("init", project, str(folder / "X.npy"), "--classes", "no,yes")}
    os.unlink(folder / "X.npy")
    found["next"] = run("next", project, "-n", "20", "--out", batch)
    with open(batch, newline="", encoding="utf-8-sig") as file:
        rows = list(csv.DictReader(file))
    with open(batch, "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["id", "label"])
        writer.writerows(
            [r["id"], "yes" if data[int(r["id"]) - 1] @ weights > 0 else "no"] for r in rows
        )
    found["tell"] = run("tell", project, batch)
    found["next again"] = run("next", project, "-n", "20", "--out", batch)
    found["status"] = run("status", project)
    return found


def run(*arguments: str) -> tuple[float, int]:
    """Seconds and peak memory of one command in its own process."""
    code = (
        "import sys\nfrom parbals.cli.main import main\n"
        "try: main(sys.argv[1:])\nexcept SystemExit as end: code = end.code\n"
        # Not ru_maxrss, which a process inherits from the one that started it.
        "peak = [line.split()[1] for line in open('/proc/self/status') if "
        "line.startswith('VmHWM')][0]\nprint('PEAK', 1024 * int(peak))\nsys.exit(code)\n"
    )
    start = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=False
    )
    seconds = time.perf_counter() - start
    if done.returncode != 0:
        raise SystemExit(f"parbals {' '.join(arguments)} failed:\n{done.stderr}")
    print(f"parbals {arguments[0]}: {seconds:.1f} s", file=sys.stderr, flush=True)
    return seconds, int(done.stdout.split("PEAK")[1])


if __name__ == "__main__":
    sys.exit(main())
