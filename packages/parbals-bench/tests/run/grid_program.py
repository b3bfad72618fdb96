"""A program that runs the tiny suite and can be killed: grid_program.py FOLDER."""

import sys

from bench_helpers import TINY_SUITE, load_tiny
from parbals_bench.run.folder import ResultsFolder
from parbals_bench.run.grid import read_suite, run_grid
from parbals_bench.run.processes import LocalProcesses

if __name__ == "__main__":
    runs = read_suite(TINY_SUITE).only(strategies=["random", "confidence"], seeds=2)
    sys.exit(len(run_grid(runs, ResultsFolder(sys.argv[1]), load_tiny, LocalProcesses(1))))
