"""The commands of the experiment: its runs, its data, and the demonstration."""

from parbals_bench.cli.bench import bench
from parbals_bench.cli.data import data
from parbals_bench.cli.demo import demo

__all__ = ["COMMANDS"]

COMMANDS = (bench, data, demo)
