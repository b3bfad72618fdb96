"""A program that runs the tiny suite and can be killed: grid_program.py FOLDER."""

import sys
from pathlib import Path

from parbals.bench.folder import ResultsFolder
from parbals.bench.grid import read_suite, run_grid
from parbals.bench.loading import load_data
from parbals.bench.processes import LocalProcesses


def main():
    folder = ResultsFolder(sys.argv[1])
    suite = read_suite(Path(sys.argv[2]).read_text())
    folder.save_suite(suite.text)
    failures = run_grid(suite.runs, folder, load_data, LocalProcesses(1))
    sys.exit(len(failures))


if __name__ == "__main__":
    main()
