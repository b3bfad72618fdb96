"""How long do the runs of one cell take, one after the other and side by side?

    python benchmarks/cell.py          # made-up data of Airline's size, 8 runs of ParBaLS EPIG
    python benchmarks/cell.py --runs 16 --workers 1,4,16
    python benchmarks/cell.py --smoke

Programs are compiled before the clock starts, as `parbals bench run` does with the first run of a
cell. The results are compared: side by side every run must choose what it chooses alone.
"""

import argparse
import sys
import tempfile
import time
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))  # worker processes import the loader from here

from parbals_bench.run.folder import ResultsFolder
from parbals_bench.run.grid import read_suite, run_grid
from parbals_bench.run.processes import LocalProcesses, has_gpu
from parbals_run import made_up_data

SUITE = """
[settings]
{settings}
[[grid]]
datasets = ["airline"]
budgets = ["{budget}"]
strategies = ["parbals-epig"]
seeds = {seeds}
"""
SMOKE = "n_candidates = 100\nn_targets = 40\nn_samples = 32\nn_universes = 2"


def load(reference, smoke):
    return made_up_data(reference, smoke)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=8)
    parser.add_argument(
        "--workers", default="1,2,4,8", help="numbers of processes, separated by commas"
    )
    parser.add_argument("--smoke", action="store_true", help="does it run? tiny sizes")
    given = parser.parse_args()
    budget = "20+2x3" if given.smoke else "100+10x20"
    text = SUITE.format(settings=SMOKE if given.smoke else "", budget=budget, seeds=given.runs + 1)
    first, *runs = read_suite(text).runs
    loader = partial(load, smoke=given.smoke)
    print(
        f"{given.runs} runs of {first.strategy}, {budget}, on "
        f"{'a GPU' if has_gpu() else 'CPU cores'}\n"
    )
    print("| processes | all runs | one run | runs a minute |\n| ---: | ---: | ---: | ---: |")
    chosen = []
    with tempfile.TemporaryDirectory() as place:
        _timed([first], loader, 1, Path(place) / "first")
        for n_workers in map(int, given.workers.split(",")):
            folder = Path(place) / str(n_workers)
            seconds = _timed(runs, loader, n_workers, folder)
            records = {record.key: record for record in ResultsFolder(folder).records()}
            alone = sum(record.total_seconds for record in records.values())
            chosen.append({key: record.chosen for key, record in records.items()})
            print(
                f"| {n_workers} | {seconds:.1f} s | {alone / len(runs):.1f} s | "
                f"{60 * len(runs) / seconds:.1f} |",
                flush=True,
            )
    same = sum(items == chosen[0][key] for other in chosen[1:] for key, items in other.items())
    print(
        f"\n{same} of {len(runs) * (len(chosen) - 1)} runs chose the same items as in the first "
        "line."
    )


def _timed(runs, loader, n_workers, folder):
    """Seconds for all runs, the start of the processes and loading included."""
    begun = time.perf_counter()
    failures = run_grid(runs, ResultsFolder(folder), loader, LocalProcesses(n_workers))
    if failures:
        sys.exit(failures[0].reason)
    return time.perf_counter() - begun


if __name__ == "__main__":
    main()
