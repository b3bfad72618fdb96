"""Commands of the experiment: its runs and its data, and the demo."""

from parbals_bench.cli.bench import bench
from parbals_bench.cli.data import data
from parbals_bench.cli.demo import demo

__all__ = ["BY_NAME", "COMMANDS"]

bench.add_command(data)
BY_NAME = {"bench": bench, "demo": demo}
COMMANDS = tuple(BY_NAME.values())
