"""What do batches cost? The committed results of batches of 20 less those of EPIG with one label at
a time.

    python benchmarks/one_at_a_time.py
    python benchmarks/one_at_a_time.py my-results

Final test accuracy in points, paired by seed (both start from the same labels): mean ± 95 %
half-width for every dataset, and of the seeds' means over datasets.
"""

import argparse
from pathlib import Path

import numpy as np

from parbals.bench.packed import open_results
from parbals.bench.report.collect import collect
from parbals.bench.report.findings import batch_gaps
from parbals.bench.report.stats import mean_interval

RESULTS = Path(__file__).parents[1] / "docs" / "results" / "records.parbals.xz"


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "results", nargs="?", type=Path, default=RESULTS, help="a results folder or packed file"
    )
    settings = collect(open_results(parser.parse_args().results).records())
    for line, found in batch_gaps(settings).items():
        for setting, gap in found:
            _tell(line.name, setting.name, gap)
        if len({len(gap) for _, gap in found}) == 1:
            _tell(line.name, "all datasets", np.mean([gap for _, gap in found], axis=0))


def _tell(name, dataset, gap):
    found = mean_interval(100.0 * gap)
    print(f"{name:14} {dataset:14} {found.mean:+.2f} ± {found.half_width:.2f}")


if __name__ == "__main__":
    main()
